"""Training: the best epoch is kept, the clock is right, and what a run leaves is complete."""

import time

import keras
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.data.prepared.batches import Batches
from dr_lib.errors import DrError
from dr_lib.training.callbacks import Checkpoint, OutOfTimeError
from dr_lib.training.checkpoint import read_checkpoint, read_weights
from dr_lib.training.fit import compile_model, make_schedule, predict, train
from dr_lib.training.models import build_model, save_model
from tests.training.simulation import assert_same, draw


@pytest.fixture(scope="module")
def photographs() -> tuple[np.ndarray, np.ndarray]:
    """48 noisy pictures whose upper half is brighter where the label is 1."""
    return draw(48)


def build(**how):
    """The small network at its smallest, compiled."""
    keras.utils.set_random_seed(3)
    model = build_model("small_cnn", 32, seed=3)
    compile_model(model, optimizer="adam", learning_rate=0.003, **how)
    return model


def keep(folder, monitor="val_auc", *, optimizer="adam", patience=0, **how) -> Checkpoint:
    """The checkpoint of a training, with the schedule of its optimizer."""
    schedule = make_schedule(optimizer, patience, monitor == "val_auc")
    return Checkpoint(folder, *schedule, monitor=monitor, **how)


def test_keeps_the_epoch_with_the_best_validation_auc(photographs, tmp_path):
    """The model, and the file saved from it, evaluate to the highest AUC in the history."""
    images, labels = photographs
    model = build()
    train_batches = Batches(images[:32], labels[:32], 8, shuffle_seed=1)
    validation = Batches(images[32:], labels[32:], 8)
    train(model, train_batches, validation, keep(tmp_path), epochs=6)
    history = pd.read_csv(tmp_path / "history.csv")
    save_model(model, tmp_path / "best.keras")
    saved = keras.models.load_model(tmp_path / "best.keras")
    for kept in (model, saved):
        auc = roc_auc_score(labels[32:], predict(kept, images[32:], 8)[:, 0])
        assert auc == pytest.approx(history["val_auc"].max(), abs=1e-6)


def test_without_validation_the_best_epoch_in_training_is_kept(photographs, tmp_path):
    """The paper's 70/30 has no validation split."""
    images, labels = photographs
    model = build()
    batches = Batches(images, labels, 16, shuffle_seed=1)
    train(model, batches, None, keep(tmp_path, "auc"), epochs=3)
    progress, arrays = read_checkpoint(tmp_path / "checkpoint.npz")
    aucs = [line["auc"] for line in progress["history"]]
    assert progress["best_epoch"] == 1 + int(np.argmax(aucs))
    assert_same(arrays["best"], read_weights(model))


class Sleepy(Batches):
    """Batches that take their time."""

    def _take(self, rows):
        time.sleep(0.1)
        return super()._take(rows)


def test_times_add_up(photographs, tmp_path):
    """The first step is part of the first epoch; the epochs are train_s. Validation, 3 batches of
    at least 0.1 s here, is part of an epoch and not of its training steps.
    """
    images, labels = (array[:24] for array in photographs)
    batches = Sleepy(images, labels, 8, shuffle_seed=1)
    times = train(build(), batches, Sleepy(images, labels, 8), keep(tmp_path), epochs=3)
    assert 0 < times["first_step_s"] < times["training_s"][0]
    validation_s = np.subtract(times["epoch_s"], times["training_s"])
    assert len(validation_s) == 3 and min(validation_s) >= 0.3
    assert sum(times["epoch_s"]) == pytest.approx(times["train_s"])
    assert times["steady_epoch_s"] == np.median(times["epoch_s"][1:])
    assert times["images_per_s"] == 24 / np.median(times["training_s"][1:])
    names = ("compile_s", "input_s", "steps_s", "validation_s", "rest_s")
    parts = [times[name] for name in names]
    assert min(parts) > 0 and sum(parts) == pytest.approx(times["train_s"], rel=0.02)


def test_stops_in_time_and_goes_on(photographs, tmp_path):
    """Where the next epoch does not fit, the training is saved and says so; started again it ends
    as one in a piece.

    Its times are then those of the second process; what took part in the first is named all the
    same.
    """
    images, labels = photographs
    batches = (
        Batches(images[:32], labels[:32], 8, shuffle_seed=1),
        Batches(images[32:], labels[32:], 8),
    )
    whole = build()
    train(whole, *batches, keep(tmp_path / "whole"), epochs=4)
    parts = tmp_path / "parts"
    answers = iter([1e6, 0.0])
    on_t4 = {"accelerator": "Tesla T4", "commit": "a"}
    first = keep(parts, session=on_t4, seconds_left=lambda: next(answers))
    with pytest.raises(OutOfTimeError, match="saved after epoch 2 of 4"):
        train(build(), *batches, first, epochs=4)
    model = build()
    second = keep(parts, session={"accelerator": "cpu", "commit": "a"})
    times = train(model, *batches, second, epochs=4)
    assert (times["resumed"], len(times["epoch_s"]), times["epochs_done"]) == (1, 2, 4)
    assert second.join_sessions() == {"accelerator": "Tesla T4 + cpu", "commit": "a"}
    assert_same(model.get_weights(), whole.get_weights())
    histories = [(tmp_path / name / "history.csv").read_text() for name in ("whole", "parts")]
    assert histories[0] == histories[1]


def test_a_network_that_has_been_trained_is_refused(photographs, tmp_path):
    """Without a checkpoint it would begin where it ended."""
    batches = Batches(*photographs, 8, shuffle_seed=1)
    model = build()
    train(model, batches, None, keep(tmp_path, "auc"), epochs=1)
    with pytest.raises(DrError, match="trained already: start the run again"):
        train(model, batches, None, keep(tmp_path / "other", "auc"), epochs=2)


def test_a_training_that_stalls_is_finished(photographs, tmp_path):
    """At a learning rate of next to nothing no AUC rises by 0.01: the first epoch and three more,
    also if it was stopped after the second. After that it returns at once.
    """
    data = (Batches(*photographs, 16, shuffle_seed=1), Batches(*photographs, 16))
    answers = iter([1e6, 0.0])

    def make(**how) -> dict:
        model = build()
        model.optimizer.learning_rate = 1e-12
        stalling = keep(tmp_path, optimizer="rmsprop_voets", patience=3, **how)
        return train(model, *data, stalling, epochs=9)

    with pytest.raises(OutOfTimeError):
        make(seconds_left=lambda: next(answers))
    for left in (2, 0):
        times = make()
        assert (times["epochs_done"], len(times["epoch_s"])) == (4, left)


def test_rmsprop_is_that_of_tensorflow_1():
    """Its mean square begins at 1, ours at 0; both add epsilon inside the root. With a rho of 4e-5
    two steps forget where it began.
    """
    import tensorflow as tf

    gradients = np.random.default_rng(0).normal(size=(4, 50)) * np.logspace(-7, 0, 50)
    theirs = tf.Variable(np.zeros(50, np.float32))
    optimizer = tf.compat.v1.train.RMSPropOptimizer(1e-3, decay=4e-5)  # epsilon 1e-10
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(50, use_bias=False)])
    compile_model(model, optimizer="rmsprop_voets")
    (ours,) = model.trainable_variables
    ours.assign(np.zeros((1, 50)))
    places = [np.zeros((2, 50))]
    for gradient in gradients.astype(np.float32):
        optimizer.apply_gradients([(tf.constant(gradient), theirs)])
        model.optimizer.apply([gradient[None]])
        places.append(np.array([theirs.numpy(), ours.numpy()[0]]))
    steps = np.diff(places, axis=0)
    assert np.abs(steps[0, 0] / steps[0, 1]).min() < 0.1
    assert steps[2:, 0] == pytest.approx(steps[2:, 1], rel=0.01, abs=1e-7)
