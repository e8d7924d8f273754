"""Training: the best epoch is kept, the clock is right, and what a run leaves is complete."""

import time

import keras
import numpy as np
import pandas as pd
import pytest

from dr_lib.data.batches import Batches
from dr_lib.training.fit import Timing, compile_model, train
from dr_lib.training.models import build_model


@pytest.fixture(scope="module")
def photographs() -> tuple[np.ndarray, np.ndarray]:
    """48 noisy pictures whose upper half is brighter where the label is 1."""
    rng = np.random.default_rng(0)
    labels = (np.arange(48) % 2).astype(np.float32)
    images = rng.integers(60, 180, (48, 32, 32, 3))
    images[:, :16] += (labels * 40).astype(int)[:, None, None, None]
    return images.astype(np.uint8), labels


def build():
    """The small network at its smallest, compiled."""
    keras.utils.set_random_seed(3)
    model = build_model("small_cnn", 32, seed=3)
    compile_model(model, optimizer="adam", learning_rate=0.003)
    return model


def test_keeps_the_epoch_with_the_best_validation_auc(photographs, tmp_path):
    """The model, and the file, evaluate to the highest AUC in the history; the learning rate is logged."""
    images, labels = photographs
    model, validation = build(), Batches(images[32:], labels[32:], 8)
    train(model, Batches(images[:32], labels[:32], 8, shuffle_seed=1), validation, tmp_path, epochs=6)
    history = pd.read_csv(tmp_path / "history.csv")
    saved = keras.models.load_model(tmp_path / "best.keras")
    for kept in (model, saved):
        assert kept.evaluate(validation, verbose=0)[1] == pytest.approx(history["val_auc"].max(), abs=1e-6)
    assert len(history) == 6 and {"loss", "auc", "val_loss", "val_auc", "learning_rate"} <= set(history)


def test_without_validation_the_last_epoch_is_kept(photographs, tmp_path):
    """The paper's 70/30 has no validation split: best.keras is the model as it ended."""
    images, labels = photographs
    model = build()
    train(model, Batches(images, labels, 16, shuffle_seed=1), None, tmp_path, epochs=2)
    saved = keras.models.load_model(tmp_path / "best.keras")
    assert all((a == b).all() for a, b in zip(saved.get_weights(), model.get_weights(), strict=True))


def test_the_same_seed_trains_the_same_model(photographs, tmp_path):
    """Two trainings with one seed end with the same weights, to the bit."""
    images, labels = photographs
    ends = []
    for name in ("a", "b"):
        model = build()
        train(model, Batches(images, labels, 16, shuffle_seed=1), None, tmp_path / name, epochs=2)
        ends.append(model.get_weights())
    assert all((a == b).all() for a, b in zip(*ends, strict=True))


def test_times_add_up(photographs, tmp_path):
    """The first step is part of the first epoch, the epochs are train_s but for its end, and it is not done early."""
    images, labels = photographs
    told = []
    outside = time.monotonic()
    batches = Batches(images, labels, 8)
    timing = train(build(), batches, batches, tmp_path, epochs=3, report=lambda *done: told.append(done))
    outside = time.monotonic() - outside
    assert told == [(1, 3), (2, 3), (3, 3)] and len(timing.epoch_s) == 3
    assert 0 < timing.first_step_s < timing.epoch_s[0]
    assert sum(timing.epoch_s) <= timing.train_s <= outside
    assert timing.train_s - sum(timing.epoch_s) < 0.5
    assert 0 < timing.cpu_s


def test_the_steady_epoch_leaves_the_first_out():
    """Median of 2, 4 and 3 s; after one epoch there is none."""
    assert Timing(19.0, 8.0, [10.0, 2.0, 4.0, 3.0], 20.0).steady_epoch_s == 3.0
    assert np.isnan(Timing(10.0, 8.0, [10.0], 20.0).steady_epoch_s)


def test_tensorboard_logs_on_request(photographs, tmp_path):
    """Logs appear when asked for, and only then."""
    images, labels = photographs
    batches = Batches(images[:16], labels[:16], 16)
    train(build(), batches, None, tmp_path / "with", epochs=1, tensorboard=True)
    train(build(), batches, None, tmp_path / "without", epochs=1)
    assert list((tmp_path / "with" / "tensorboard").rglob("events*"))
    assert not (tmp_path / "without" / "tensorboard").exists()


def test_an_unknown_optimizer_is_refused():
    """A misspelt optimiser names those there are."""
    with pytest.raises(ValueError, match="rmsprop, adam"):
        compile_model(build_model("small_cnn", 32), optimizer="sgdm")


@pytest.mark.slow
def test_inception_v3_trains_a_few_steps(tmp_path):
    """The paper's network at the paper's size and batch takes two steps and changes all its trainable weights."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 255, (16, 299, 299, 3), dtype=np.uint8), np.arange(16) % 2
    model = build_model("inception_v3", 299, augmentation="colour")
    compile_model(model, optimizer="rmsprop")
    before = [w.numpy() for w in model.trainable_variables]
    timing = train(model, Batches(images, labels.astype(np.float32), 8, shuffle_seed=1), None, tmp_path, epochs=1)
    changed = [np.abs(w.numpy() - b).max() > 0 for w, b in zip(model.trainable_variables, before, strict=True)]
    assert all(changed) and timing.first_step_s < timing.train_s
