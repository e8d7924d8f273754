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
        "several-half": {"num_devices": number, "mode": "fast"},
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
HALF = {"tensorflow": "mixed_float16", "jax": "mixed_bfloat16"}
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
            "changes": {
                "several-half": {"precision": HALF[backend]},
                "several-program": {"steps_per_execution": 0},
            }.get(name, {}),
        }
        for name, config in RUNS[backend].items()
    }
    simulation.run("train_all", tmp_path, runs=runs)
    one = pd.read_csv(tmp_path / "one" / "history.csv")
    for run, config in RUNS[backend].items():
        result = json.loads((tmp_path / run / "result.json").read_text())
        history = pd.read_csv(tmp_path / run / "history.csv")
        is_half = run == "several-half"
        tolerance = 0.05 if is_half else 1e-3 if config["num_devices"] == 2 else 1e-5
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
        rounding = 5e-3 if is_half else 1e-6  # half precision rounds with the batch's company
        assert result["kept_auc"] == pytest.approx(history["val_auc"].max(), abs=rounding), run
        assert np.isfinite(history.to_numpy()).all()


def build_whitened(image_size: int, weights: None) -> keras.Model:
    """Batch normalisation of the photographs themselves: no weight changes its statistics."""
    layers = keras.layers
    inputs = keras.Input((image_size, image_size, 3))
    x = layers.BatchNormalization(momentum=MOMENTUM)(inputs)
    x = layers.Conv2D(4, 3, strides=2, activation="relu")(x)
    return keras.Model(inputs, layers.GlobalMaxPooling2D()(x))


@pytest.mark.slow
def test_two_replicas_keep_the_mean_of_their_statistics(tmp_path):
    """What is saved is what was validated: each replica's moving averages of its half of a batch,
    by Ioffe and Szegedy's rule in NumPy, then their mean.
    """
    config = {
        "backend": "tensorflow",
        "model": WHITENED,
        "epochs": 1,
        "augmentation": "none",
        "num_devices": 2,
    }
    number = 30  # 16 in validation: no batch is filled with copies
    simulation.run("train", tmp_path, config=config, number=number)
    splits = simulation.draw_splits(number)
    seed = TrainingConfig(data_dir="", **config).run_seed
    batches = Batches(
        splits["train"].images, splits["train"].referable, BATCH, shuffle_seed=seed
    )
    batches.start_epoch(0)
    mean = np.zeros((2, 3))
    variance = np.ones((2, 3))
    for images, _ in map(batches.__getitem__, range(len(batches))):
        halves = images.reshape(2, -1, 3).astype(float)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * halves.mean(axis=1)
        variance = MOMENTUM * variance + (1 - MOMENTUM) * halves.var(axis=1)
    network = keras.models.load_model(tmp_path / "best.keras")
    _, _, *kept = network.get_layer("base").layers[1].get_weights()
    assert np.ptp(mean, axis=0).min() > 0.01  # the halves differ
    assert kept[0] == pytest.approx(mean.mean(axis=0), rel=1e-5)
    assert kept[1] == pytest.approx(variance.mean(axis=0), rel=1e-4)

    validation = splits["validation"]
    probability = predict(network, validation.images, BATCH)[:, 0]
    truth = validation.referable
    loss = -np.log(np.where(truth == 1, probability, 1 - probability)).mean()
    history = pd.read_csv(tmp_path / "history.csv")
    assert history["val_loss"].tolist() == pytest.approx([loss], rel=1e-5)
    assert json.loads((tmp_path / "result.json").read_text())["batch_norm"] == "local"


COUNT = """
import json, sys
import keras, tensorflow as tf
from dr_lib import hardware
from dr_lib.training.config import TrainingConfig
from dr_lib.training.contact import list_collectives
from dr_lib.training.train_once import load_sides, set_up
from tests.training import simulation

config = TrainingConfig(**json.loads(sys.argv[1]))
device = hardware.distribute(hardware.activate(config.plan(hardware.probe(), 16)))
strategy = device.distribution
setup = set_up(config, device, load_sides(config, device.plan, simulation.draw_splits(16)))
batch = setup.train_batches[0]
with strategy.scope():
    base = simulation.build_normalised(config.image_size, None)
    plain = keras.Sequential([base, keras.layers.Dense(1, activation="sigmoid")])
    plain.compile("adam", "binary_crossentropy")
    plain.optimizer.build(plain.trainable_variables)  # else a step is traced twice
    print(json.dumps([list_collectives(model, batch) for model in (setup.fed.model, plain)]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["paper", "fast"])
def test_a_step_of_two_replicas_exchanges_what_keras_exchanges(mode):
    """As many collective operations as in a network that Keras alone compiles, and none of them in
    batch normalisation.
    """
    config = simulation.HERE | {
        "data_dir": "",
        "model": simulation.NORMALISED,
        "num_devices": 2,
        "mode": mode,
    }
    ours, plain = json.loads(
        simulation.run_code(COUNT, "tensorflow", json.dumps(config)).splitlines()[-1]
    )
    assert len(ours) == len(plain) > 0
    assert not [name for name in ours if "norm" in name or "moments" in name]


@pytest.mark.slow
def test_batch_normalisation_over_a_whole_step_exchanges_its_moments():
    """Three collective operations and more a layer, where Keras's default has none."""
    config = simulation.HERE | {
        "data_dir": "",
        "model": simulation.NORMALISED,
        "num_devices": 2,
        "batch_norm": "global",
    }
    ours, plain = json.loads(
        simulation.run_code(COUNT, "tensorflow", json.dumps(config)).splitlines()[-1]
    )
    assert len(ours) >= len(plain) + 2 * 3


PROGRAM = """
import json, re, sys
from dataclasses import replace
import keras
from dr_lib import hardware
from dr_lib.training.config import TrainingConfig
from dr_lib.training.resident import Epoch
from dr_lib.training.train_once import load_sides, set_up
from tests.training import simulation

config = TrainingConfig(**json.loads(sys.argv[1]))
plan = replace(config.plan(hardware.probe(), 57), steps_per_execution=0)
device = hardware.distribute(hardware.activate(plan))
setup = set_up(config, device, load_sides(config, plan, simulation.draw_splits(57)))
import jax

model = setup.fed.model
model._symbolic_build(data_batch=setup.train_batches[0])
layout = keras.distribution.distribution().get_data_layout
epoch = Epoch(setup.train_batches)[0]
epoch = tuple(jax.device_put(part, layout(part.shape).backend_layout) for part in epoch)
kinds = ("trainable_variables", "non_trainable_variables", "optimizer_variables")
state = model._get_jax_state(**dict.fromkeys([*kinds, "metrics_variables"], True))
text = jax.jit(model.train_step).lower(state, epoch).compile().as_text()
convolved = re.findall(r"= f32\\[(\\d+),\\d+,\\d+,\\d+\\]\\S* convolution\\(", text)
sums = re.findall(r"all-reduce(?:-start)?\\(", text)
print(json.dumps([convolved, len(sums), " while(" in text]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 8])
def test_in_an_epoch_as_one_program_each_device_computes_its_part_of_a_step(number):
    """Seven steps of eight photographs: convolutions are of eight divided by the devices, and the
    gradients of all are summed.
    """
    pytest.importorskip("jax")
    config = simulation.HERE | {
        "data_dir": "",
        "backend": "jax",
        "model": simulation.NORMALISED,
        "num_devices": number,
        "mode": "fast",
    }
    printed = simulation.run_code(PROGRAM, "jax", json.dumps(config)).splitlines()[-1]
    convolved, num_sums, has_loop = json.loads(printed)
    assert has_loop and num_sums > 0
    assert convolved and {BATCH // number} >= set(map(int, convolved)) - {3, 8, 16}
