"""Training: the best epoch is kept, the clock is right, and what a run leaves is complete."""

import time

import keras
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.data.prepared.batches import Batches
from dr_lib.training.checkpoint import read_checkpoint, read_weights
from dr_lib.training.fit import OutOfTimeError, Timing, compile_model, predict, train
from dr_lib.training.models import build_model, save_model
from dr_lib.training.recorder import Recorder, has_stalled
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


def test_keeps_the_epoch_with_the_best_validation_auc(photographs, tmp_path):
    """The model, and the file saved from it, evaluate to the highest AUC in the history."""
    images, labels = photographs
    model = build()
    train_batches = Batches(images[:32], labels[:32], 8, shuffle_seed=1)
    validation = Batches(images[32:], labels[32:], 8)
    train(model, train_batches, validation, Recorder(tmp_path), epochs=6)
    history = pd.read_csv(tmp_path / "history.csv")
    save_model(model, tmp_path / "best.keras")
    saved = keras.models.load_model(tmp_path / "best.keras")
    for kept in (model, saved):
        auc = roc_auc_score(labels[32:], predict(kept, images[32:], 8)[:, 0])
        assert auc == pytest.approx(history["val_auc"].max(), abs=1e-6)
    assert list(history["epoch"]) == list(range(6))
    assert {"loss", "auc", "val_loss", "val_auc", "learning_rate"} <= set(history)


@pytest.mark.parametrize("keep_best", [False, True])
def test_without_validation_the_last_epoch_is_kept_or_the_best_in_training(
    photographs, tmp_path, keep_best
):
    """The paper's 70/30 has no validation split: what is kept is the end of the last epoch, or
    of the best one.
    """
    images, labels = photographs
    model = build()
    batches = Batches(images, labels, 16, shuffle_seed=1)
    train(model, batches, None, Recorder(tmp_path), epochs=3, keep_best=keep_best)
    progress, arrays = read_checkpoint(tmp_path / "checkpoint.npz")
    best = max(range(3), key=lambda epoch: progress["history"][epoch]["auc"])
    is_last = all(
        np.array_equal(*pair) for pair in zip(arrays["best"], arrays["model"], strict=True)
    )
    assert is_last == (not keep_best or best == 2)
    assert_same(arrays["best"], read_weights(model))


class Diverging(Batches):
    """Batches whose targets are no numbers, or far off, from the fourth epoch on."""

    def __init__(self, *data, target: float, since: int = 3):
        """Take the target, and the first epoch that has it, from 0."""
        self.target = target
        self.since = since
        super().__init__(*data, 8, shuffle_seed=1)

    def start_epoch(self, epoch):  # noqa: D102
        super().start_epoch(epoch)
        if epoch >= self.since:
            self.targets = np.full_like(self.targets, self.target)


@pytest.mark.parametrize(
    ("target", "since", "reason", "num_epochs", "with_validation"),
    [
        (np.nan, 3, "the loss is nan in epoch 4", 4, True),
        (np.nan, 0, "the loss is nan in epoch 1", 1, False),
        # no probability comes near
        (100.0, 3, "the loss of epochs 4 to 6 is above ", 6, False),
    ],
)
def test_a_training_that_diverges_ends_at_once(
    photographs, tmp_path, target, since, reason, num_epochs, with_validation
):
    """The best epoch before it is kept, and so is the last checkpoint, from which the same comes
    again.
    """
    images, labels = (array[:16] for array in photographs)
    validation = Batches(images, labels, 8) if with_validation else None
    for _ in range(2):
        model = build(loss="mean_squared_error")
        batches = Diverging(images, labels, target=target, since=since)
        recorder = Recorder(tmp_path)
        train(model, batches, validation, recorder, epochs=50)
        assert recorder.fault.startswith(reason) and len(recorder.history) == num_epochs
    if not since:
        assert not recorder.best_variables
        return
    assert recorder.best_epoch == 3 if not with_validation else recorder.best_epoch > 0
    again = build(loss="mean_squared_error")
    steady = Batches(images, labels, 8, shuffle_seed=1)
    train(again, steady, None, Recorder(tmp_path / "again"), epochs=recorder.best_epoch)
    assert_same(model.get_weights(), again.get_weights())


class Sleepy(Batches):
    """Batches that take their time."""

    def _take(self, rows):
        time.sleep(0.1)
        return super()._take(rows)


class LateRecorder(Recorder):
    """One that takes its time to save, and to read weights, and behind which fit still works."""

    def on_train_end(self, logs=None):
        time.sleep(0.5)

    def _save(self, now):
        time.sleep(0.1)
        super()._save(now)

    def _score(self):
        time.sleep(0.1)
        return super()._score()


def test_times_add_up(photographs, tmp_path):
    """The first step is part of the first epoch; the epochs are train_s, which ends with the last,
    not with fit.

    Validation, 3 batches of at least 0.1 s here, is part of an epoch and not of its training
    steps. Each part of train_s has what was made slow in it.
    """
    images, labels = (array[:24] for array in photographs)
    done = []
    recorder = LateRecorder(tmp_path, report=lambda *epochs: done.append(epochs))
    outside = time.monotonic()
    batches = Sleepy(images, labels, 8, shuffle_seed=1)
    timing = train(build(), batches, Sleepy(images, labels, 8), recorder, epochs=3)
    outside = time.monotonic() - outside
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert len(timing.epoch_s) == len(timing.training_s) == 3
    assert 0 < timing.first_step_s < timing.training_s[0]
    validation_s = np.subtract(timing.epoch_s, timing.training_s)
    assert min(timing.training_s) > 0 and min(validation_s) >= 0.3
    assert sum(timing.epoch_s) == pytest.approx(timing.train_s)
    assert timing.train_s <= outside - 0.5
    assert 0 < timing.cpu_s and timing.resumed == 0
    parts = timing.parts
    assert min(parts.values()) > 0
    assert sum(parts.values()) == pytest.approx(timing.train_s, rel=0.02)
    assert parts["compile_s"] < timing.first_step_s + validation_s[0]
    # 8 batches behind the first, less the steps meanwhile
    assert 0.15 < parts["input_s"] < 8 * 0.2 and parts["steps_s"] < timing.train_s / 2
    assert parts["checkpoint_s"] > 0.1 * 2 and parts["callbacks_s"] > 0.1 * 3


def test_the_steady_epoch_leaves_the_first_out():
    """Median of 2, 4 and 3 s, of them 1, 3 and 2 s of training; after one epoch there is none."""
    timing = Timing(19.0, 8.0, [10.0, 2.0, 4.0, 3.0], [9.0, 1.0, 3.0, 2.0], 20.0, {}, 4, 0)
    assert (timing.steady_epoch_s, timing.steady_training_s) == (3.0, 2.0)
    assert np.isnan(Timing(10.0, 8.0, [10.0], [9.0], 20.0, {}, 1, 0).steady_epoch_s)


AUCS = [0.5, 0.8, 0.7, 0.9]


COUNT = """
import sys, tempfile, threading
from pathlib import Path
from keras.src import backend
from dr_lib.data.prepared.batches import Batches
from dr_lib.training.fit import train
from dr_lib.training.recorder import Recorder
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
    recorder = Recorder(Path(tempfile.mkdtemp()))
    train(build(), Batches(*draw(number), 4, shuffle_seed=1), None, recorder, epochs=2)
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
    train(whole, *batches, Recorder(tmp_path / "whole"), epochs=4)
    parts = tmp_path / "parts"
    answers = iter([1e6, 0.0])
    on_t4 = {"accelerator": "Tesla T4", "commit": "a"}
    first = Recorder(parts, session=on_t4, seconds_left=lambda: next(answers))
    with pytest.raises(OutOfTimeError, match="saved after epoch 2 of 4"):
        train(build(), *batches, first, epochs=4)
    model = build()
    done = []
    on_cpu = {"accelerator": "cpu", "commit": "a"}
    second = Recorder(parts, session=on_cpu, report=lambda *epochs: done.append(epochs))
    timing = train(model, *batches, second, epochs=4)
    assert done == [(3, 4), (4, 4)] and timing.resumed == 1 and len(timing.epoch_s) == 2
    assert second.join_sessions() == {"accelerator": "Tesla T4 + cpu", "commit": "a"}
    assert timing.first_step_s < timing.epoch_s[0] and sum(timing.epoch_s) <= timing.train_s
    assert sum(timing.parts.values()) == pytest.approx(timing.train_s, rel=0.02)
    assert_same(model.get_weights(), whole.get_weights())
    histories = [(tmp_path / name / "history.csv").read_text() for name in ("whole", "parts")]
    assert histories[0] == histories[1]


def test_a_finished_training_is_not_made_again(photographs, tmp_path):
    """Killed after its last epoch, it returns at once with its weights."""
    batches = Batches(*photographs, 8, shuffle_seed=1)
    models = [build(), build()]
    for model in models:
        again = train(model, batches, None, Recorder(tmp_path), epochs=2)
    assert again.epoch_s == [] and again.resumed == 1
    assert_same(*(model.get_weights() for model in models))


@pytest.mark.parametrize("seed", range(8))
def test_early_stopping_counts_as_keras_does(seed):
    """Of AUCs at random in steps of 0.01 the same epoch is the last."""
    rng = np.random.default_rng(seed)
    aucs = rng.integers(50, 70, 30) / 100
    patience = int(rng.integers(1, 6))
    theirs = keras.callbacks.EarlyStopping(
        "auc", min_delta=0.015, patience=patience, mode="max"
    )
    theirs.set_model(keras.Sequential())
    theirs.on_train_begin()
    theirs.model.stop_training = False
    for epoch, auc in enumerate(aucs):
        theirs.on_epoch_end(epoch, {"auc": auc})
        assert has_stalled(aucs[: epoch + 1], patience, 0.015) == theirs.model.stop_training
        if theirs.model.stop_training:
            break
    assert not has_stalled(aucs, 0, 0.0)


def test_a_training_that_stalls_is_finished(photographs, tmp_path):
    """At a learning rate of next to nothing no AUC rises: the first epoch and three more. Killed
    after that it returns at once. The rate is halved behind the fifth such epoch, or never.
    """
    data = (Batches(*photographs, 16, shuffle_seed=1), Batches(*photographs, 16))
    how = {"epochs": 9, "patience": 3, "min_delta": 0.01}
    model = build()
    model.optimizer.learning_rate = 1e-12
    timing = train(model, *data, Recorder(tmp_path / "stalls"), **how)
    assert timing.epochs_done == len(timing.epoch_s) == 4
    again = train(build(), *data, Recorder(tmp_path / "stalls"), **how)
    assert (again.epochs_done, again.epoch_s) == (4, [])
    for halves in (True, False):
        whole = Recorder(tmp_path / f"whole {halves}")
        train(model, *data, whole, epochs=8, halve_on_plateau=halves)
        rates = pd.DataFrame(whole.history)["learning_rate"]
        assert len(rates) == 8 and rates.nunique() == 1 + halves


def test_rmsprop_is_that_of_tensorflow_1():
    """Its mean square begins at 1, ours at 0; both add epsilon inside the root. With a rho of 4e-5
    two steps forget where it began.
    """
    import tensorflow as tf

    gradients = np.random.default_rng(0).normal(size=(4, 50)) * np.logspace(-7, 0, 50)
    theirs = tf.Variable(np.zeros(50, np.float32))
    optimizer = tf.compat.v1.train.RMSPropOptimizer(1e-3, decay=4e-5)  # epsilon 1e-10
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(50, use_bias=False)])
    compile_model(model, rho=4e-5, epsilon=1e-10)
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
