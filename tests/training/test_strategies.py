"""Several devices train what one does, on virtual devices of the CPU, all plans of a backend in
one process.
"""

import json

import keras
import numpy as np
import pandas as pd
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.training.config import TrainingConfig
from dr_lib.training.fit import predict
from tests.training import simulation

NUMBER = 57
BATCH = 8
EPOCHS = 3
RUNS = {  # the most devices first: a process cannot divide its CPU later
    backend: {
        "several": {"num_devices": number},
        "several-fast": {"num_devices": number, "mode": "fast"},
        "one-fast": {"num_devices": 1, "mode": "fast"},
        "one": {"num_devices": 1},
    }
    for backend, number in (("tensorflow", 2), ("jax", 8))
}
RUNS["jax"]["several-program"] = {"num_devices": 8, "mode": "fast"}  # an epoch as one program
# under MirroredStrategy each normalises its part of a batch, and trains other weights than one
MODELS = {"tensorflow": "small_cnn", "jax": simulation.NORMALISED}
BATCH_NORM = {"tensorflow": "none", "jax": "global"}
WHITENED = "tests.training.test_strategies:build_whitened"
MOMENTUM = 0.5
STRATEGIES = {("tensorflow", 2): "MirroredStrategy", ("jax", 8): "DataParallel"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", RUNS)
def test_every_plan_trains_what_one_device_trains(backend, tmp_path):
    """Losses are those of one device, on JAX with batch normalisation, and the learning rates; no
    photograph is lost.

    57 photographs in batches of 8: steps are counted, the remainder is told, the saved model is the
    one logged.
    """
    pytest.importorskip(backend)
    # replicas draw for themselves
    common = {
        "backend": backend,
        "model": MODELS[backend],
        "epochs": EPOCHS,
        "augmentation": "none",
    }
    runs = {
        name: {
            "config": common | config,
            "number": NUMBER,
            "changes": {"steps_per_execution": 0} if name == "several-program" else {},
        }
        for name, config in RUNS[backend].items()
    }
    simulation.run("train_all", tmp_path, runs=runs)
    one = pd.read_csv(tmp_path / "one" / "history.csv")
    for run, config in RUNS[backend].items():
        result = json.loads((tmp_path / run / "result.json").read_text())
        history = pd.read_csv(tmp_path / run / "history.csv")
        tolerance = 1e-3 if config["num_devices"] == 2 else 1e-5
        for loss in ("loss", "val_loss"):
            difference = (history[loss] - one[loss]).abs() / one[loss]
            assert len(difference) == EPOCHS and difference.max() < tolerance, run
        assert (history["learning_rate"] == one["learning_rate"]).all()
        assert (result["iterations"] / EPOCHS, result["num_images_dropped"]) == divmod(
            NUMBER, BATCH
        )
        assert result["num_replicas"] == config["num_devices"]
        assert result["batch_norm"] == BATCH_NORM[backend]
        assert result["strategy"] == STRATEGIES.get((backend, config["num_devices"]), "none")
        assert result["kept_auc"] == pytest.approx(history["val_auc"].max(), abs=1e-6), run
        assert np.isfinite(history.to_numpy()).all()


def build_whitened(image_size: int, weights: None) -> keras.Model:
    """Batch normalisation of the photographs themselves: no weight changes its statistics."""
    layers = keras.layers
    inputs = keras.Input((image_size, image_size, 3))
    x = layers.BatchNormalization(momentum=MOMENTUM)(inputs)
    x = layers.Conv2D(4, 3, strides=2, activation="relu")(x)
    return keras.Model(inputs, layers.GlobalMaxPooling2D()(x))


@pytest.mark.slow
@pytest.mark.parametrize(("batch_norm", "parts"), [("local", 2), ("global", 1)])
def test_two_replicas_keep_the_mean_of_their_statistics(tmp_path, batch_norm, parts):
    """What is saved is what was validated: each replica's moving averages of its half of a batch,
    or those of the whole, by Ioffe and Szegedy's rule in NumPy, then their mean.
    """
    config = {
        "backend": "tensorflow",
        "model": WHITENED,
        "epochs": 1,
        "augmentation": "none",
        "num_devices": 2,
        "batch_norm": batch_norm,
    }
    number = 30  # 16 in validation: no batch is filled with copies
    simulation.run("train", tmp_path, config=config, number=number)
    splits = simulation.draw_splits(number)
    seed = TrainingConfig(data_dir="", **config).run_seed
    batches = Batches(
        splits["train"].images, splits["train"].referable, BATCH, shuffle_seed=seed
    )
    batches.start_epoch(0)
    mean = np.zeros((parts, 3))
    variance = np.ones((parts, 3))
    for images, _ in map(batches.__getitem__, range(len(batches))):
        each = images.reshape(parts, -1, 3).astype(float)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * each.mean(axis=1)
        variance = MOMENTUM * variance + (1 - MOMENTUM) * each.var(axis=1)
    network = keras.models.load_model(tmp_path / "best.keras")
    _, _, *kept = network.get_layer("base").layers[1].get_weights()
    assert kept[0] == pytest.approx(mean.mean(axis=0), rel=1e-5)
    # Keras rounds the moments of a whole step by 3.1e-4; those of halves differ by 6e-4
    assert kept[1] == pytest.approx(variance.mean(axis=0), rel=4.5e-4)
    assert json.loads((tmp_path / "result.json").read_text())["batch_norm"] == batch_norm

    validation = splits["validation"]
    probability = predict(network, validation.images, BATCH)[:, 0]
    truth = validation.referable
    loss = -np.log(np.where(truth == 1, probability, 1 - probability)).mean()
    history = pd.read_csv(tmp_path / "history.csv")
    assert history["val_loss"].tolist() == pytest.approx([loss], rel=1e-5)
