"""A training on streamed photographs is the training on those in memory, to the bit."""

import shutil
from functools import partial

import keras
import pytest

from dr_lib.data.prepared.records import ShardError
from dr_lib.training import callbacks
from dr_lib.training.callbacks import OutOfTimeError
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import BEST
from tests.training.simulation import assert_same, train_here


@pytest.fixture(autouse=True)
def mirrored(monkeypatch):
    """Predictions are averaged with those of the mirror images."""
    monkeypatch.setattr(TrainingConfig, "test_time_augmentation", True)


def test_streamed_and_in_memory_are_one_training(small_sample, tmp_path, monkeypatch):
    """History, weights and predictions are equal, after a stop between two epochs too; the row
    says which.
    """
    where = {"data_dir": small_sample, "epochs": 2}
    memory = train_here(tmp_path / "memory", source="memory", **where)
    with monkeypatch.context() as patch, pytest.raises(OutOfTimeError):
        hurried = partial(callbacks.Checkpoint, seconds_left=lambda: 0.0)
        patch.setattr(callbacks, "Checkpoint", hurried)
        train_here(tmp_path / "stream", source="stream", **where)
    stream = train_here(tmp_path / "stream", source="stream", **where)
    assert stream.row["resumed"] == 1 and stream.history == memory.history
    assert (memory.row["input"], stream.row["input"]) == ("memory", "stream")
    assert_same(list(stream.probabilities.values()), list(memory.probabilities.values()))
    saved = [keras.models.load_model(tmp_path / name / BEST) for name in ("memory", "stream")]
    assert_same(*(model.get_weights() for model in saved))
    assert stream.scores == memory.scores


@pytest.mark.parametrize("mode", ["plain", "paper"])
def test_a_shard_that_is_gone_stops_the_training(small_sample, tmp_path, monkeypatch, mode):
    """The error is one sentence about the shard, whatever the backend makes of it."""
    folder = shutil.copytree(small_sample, tmp_path / "records")
    shards = list(folder.glob("*.tfrecord"))
    unlink = partial(
        callbacks.Checkpoint,
        report=lambda *done: [shard.unlink(missing_ok=True) for shard in shards],
    )
    monkeypatch.setattr(callbacks, "Checkpoint", unlink)
    with pytest.raises(ShardError, match="can no longer be read") as caught:
        train_here(tmp_path / "out", data_dir=folder, source="stream", mode=mode, epochs=3)
    assert len(str(caught.value)) < 200
