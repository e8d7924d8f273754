"""Training: the best epoch is kept, the clock is right, and what a run leaves is complete."""

import time

import keras
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.data.prepared.batches import Batches
from dr_lib.errors import DrError
from dr_lib.training.callbacks import Checkpoint, OutOfTimeError, Scores
from dr_lib.training.checkpoint import read_checkpoint, read_weights
from dr_lib.training.fit import compile_model, make_schedule, predict, train
from dr_lib.training.models import build_model, save_model
from tests.training.simulation import assert_same, draw, run_code


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
    assert list(history["epoch"]) == list(range(6))
    assert {"loss", "auc", "val_loss", "val_auc", "learning_rate"} <= set(history)


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


class LateCheckpoint(Checkpoint):
    """One that takes its time to save, and behind which fit still works."""

    def on_train_end(self, logs=None):
        time.sleep(0.5)

    def _save(self):
        time.sleep(0.1)
        super()._save()


def test_times_add_up(photographs, tmp_path, monkeypatch):
    """The first step is part of the first epoch; the epochs are train_s, which ends with the last,
    not with fit.

    Validation, 3 batches of at least 0.1 s here, is part of an epoch and not of its training
    steps. Each part of train_s has what was made slow in it.
    """
    images, labels = (array[:24] for array in photographs)
    score = Scores._score
    monkeypatch.setattr(Scores, "_score", lambda self: time.sleep(0.1) or score(self))
    done = []
    report = lambda *epochs: done.append(epochs)  # noqa: E731
    checkpoint = LateCheckpoint(tmp_path, monitor="val_auc", report=report)
    outside = time.monotonic()
    batches = Sleepy(images, labels, 8, shuffle_seed=1)
    times = train(build(), batches, Sleepy(images, labels, 8), checkpoint, epochs=3)
    outside = time.monotonic() - outside
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert len(times["epoch_s"]) == len(times["training_s"]) == 3
    assert 0 < times["first_step_s"] < times["training_s"][0]
    validation_s = np.subtract(times["epoch_s"], times["training_s"])
    assert min(times["training_s"]) > 0 and min(validation_s) >= 0.3
    assert sum(times["epoch_s"]) == pytest.approx(times["train_s"])
    assert times["train_s"] <= outside - 0.5
    assert times["resumed"] == 0
    assert times["steady_epoch_s"] == np.median(times["epoch_s"][1:])
    assert times["images_per_s"] == 24 / np.median(times["training_s"][1:])
    names = ("compile_s", "input_s", "steps_s", "validation_s", "rest_s")
    parts = {name: times[name] for name in names}
    assert min(parts.values()) > 0
    assert sum(parts.values()) == pytest.approx(times["train_s"], rel=0.02)
    assert parts["compile_s"] < times["first_step_s"] + validation_s[0]
    # 8 batches behind the first, less the steps meanwhile
    assert 0.15 < parts["input_s"] < 8 * 0.2 and parts["steps_s"] < times["train_s"] / 2
    # scores in training, and a checkpoint or two
    assert parts["rest_s"] > 3 * 0.1 + 0.1


COUNT = """
import sys, tempfile, threading
from pathlib import Path
from keras.src import backend
from dr_lib.data.prepared.batches import Batches
from dr_lib.training.fit import train
from dr_lib.training.callbacks import Checkpoint
from tests.training.simulation import draw
from tests.training.test_fit import build

fetch, fetched = backend.convert_to_numpy, []

def count(value):
    if threading.current_thread() is threading.main_thread():
        fetched.append(value)
    return fetch(value)

backend.convert_to_numpy = count
for number in (16, 64):
    fetched.clear()
    checkpoint = Checkpoint(Path(tempfile.mkdtemp()), monitor="auc")
    train(build(), Batches(*draw(number), 4, shuffle_seed=1), None, checkpoint, epochs=2)
    print(len(fetched))
"""


@pytest.mark.slow
def test_no_step_waits_for_the_host_on_jax():
    """Training fetches as many values from the device in epochs of 4 steps as of 16: some an
    epoch, none a step.
    """
    few, many = map(int, run_code(COUNT, "jax").split())
    assert 0 < few == many


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
    done = []
    on_cpu = {"accelerator": "cpu", "commit": "a"}
    second = keep(parts, session=on_cpu, report=lambda *epochs: done.append(epochs))
    times = train(model, *batches, second, epochs=4)
    assert done == [(3, 4), (4, 4)] and times["resumed"] == 1 and len(times["epoch_s"]) == 2
    assert second.join_sessions() == {"accelerator": "Tesla T4 + cpu", "commit": "a"}
    assert times["first_step_s"] < times["epoch_s"][0]
    assert sum(times["epoch_s"]) <= times["train_s"] and times["epochs_done"] == 4
    assert_same(model.get_weights(), whole.get_weights())
    histories = [(tmp_path / name / "history.csv").read_text() for name in ("whole", "parts")]
    assert histories[0] == histories[1]


def test_a_finished_training_is_not_made_again(photographs, tmp_path):
    """Killed after its last epoch, it returns at once with its weights. Without a checkpoint a
    network that has been trained is refused: it would begin where it ended.
    """
    batches = Batches(*photographs, 8, shuffle_seed=1)
    models = [build(), build()]
    for model in models:
        again = train(model, batches, None, keep(tmp_path, "auc"), epochs=2)
    assert again["epoch_s"] == [] and again["resumed"] == 1
    assert_same(*(model.get_weights() for model in models))
    with pytest.raises(DrError, match="trained already: start the run again"):
        train(models[0], batches, None, keep(tmp_path / "other", "auc"), epochs=2)


def test_a_training_that_stalls_is_finished(photographs, tmp_path):
    """At a learning rate of next to nothing no AUC rises by 0.01: the first epoch and three more.
    Killed after that it returns at once.
    """
    data = (Batches(*photographs, 16, shuffle_seed=1), Batches(*photographs, 16))

    def build_slow():
        model = build()
        model.optimizer.learning_rate = 1e-12
        return model

    for resumed in (0, 1):
        stalling = keep(tmp_path / "stalls", optimizer="rmsprop_voets", patience=3)
        times = train(build_slow(), *data, stalling, epochs=9)
        assert (times["epochs_done"], times["resumed"]) == (4, resumed)
        assert len(times["epoch_s"]) == (0 if resumed else 4)


def test_what_callbacks_have_counted_goes_on(photographs, tmp_path):
    """Killed between two epochs, the rate is halved in the epoch in which it would have been, and
    training stops where it would have.
    """
    data = (Batches(*photographs, 16, shuffle_seed=1), Batches(*photographs, 16))
    histories = []
    for stops in ([], [2, 4]):
        folder = tmp_path / str(len(stops))
        for end in [*stops, None]:
            model = build()
            model.optimizer.learning_rate = 1e-12
            left = iter([1e6] * (end - 1) + [0.0]) if end else None
            checkpoint = keep(
                folder, patience=7, seconds_left=left and (lambda left=left: next(left, 0.0))
            )
            try:
                train(model, *data, checkpoint, epochs=20)
            except OutOfTimeError:
                continue
        histories.append(checkpoint.history)
    assert len(histories[0]) == 8 and histories[0] == histories[1]
    assert len({line["learning_rate"] for line in histories[0]}) == 2


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
