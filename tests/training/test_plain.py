"""Mode plain trains what mode paper trains, and says where it does not."""

import json
import shutil
from functools import partial

import numpy as np
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.records import ShardError
from dr_lib.training import callbacks
from dr_lib.training.plain import PlainBatches
from tests.training import simulation
from tests.training.simulation import train_here


def list_rows(batches: PlainBatches, images: np.ndarray, tolerance: int) -> list[int]:
    """The rows of the photographs of an epoch, in its order, each known by its pixels."""
    rows = []
    for pictures, targets in batches:
        for picture, target in zip(pictures.numpy(), targets.numpy(), strict=True):
            off = np.abs(images.astype(int) - picture).max(axis=(1, 2, 3))
            assert off.min() <= tolerance
            rows.append((int(off.argmin()), target))
    return rows


def test_its_weights_are_those_of_mode_paper(small_sample, tmp_path, monkeypatch):
    """From the same batches, in four steps, with batch normalisation: to 1e-6."""
    how = {
        "data_dir": small_sample,
        "model": simulation.NORMALISED,
        "task": "grades",
        "batch_size": 4,
        "image_size": 299,
        "augmentation": "none",
    }
    plain = train_here(tmp_path / "plain", mode="plain", **how)

    side = Prepared(small_sample).load("train", 299, stream=True)
    again = PlainBatches(side, side.grade, 4, seed=20).feed()
    rows = [row for row, _ in list_rows(again, side.images[:], 0)]
    monkeypatch.setattr(
        Batches,
        "start_epoch",
        lambda self, epoch: setattr(
            self, "_order", rows if self.shuffle_seed else np.arange(len(self.inputs))
        ),
    )
    paper = train_here(tmp_path / "paper", mode="paper", **how)

    assert sorted(rows) == list(range(16)) and rows != sorted(rows)
    weights = [trained.network.get_weights() for trained in (plain, paper)]
    for one, other in zip(*weights, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert plain.history[0]["loss"] == pytest.approx(paper.history[0]["loss"], abs=1e-6)
    for trained, source in ((plain, "stream"), (paper, "memory")):
        assert (trained.row["batch_norm"], trained.row["input"]) == ("global", source)


def test_every_photograph_comes_once_an_epoch_with_its_label(small_sample):
    """Of its side of the split alone, in another order each time, at most one level off where
    it is shrunk.
    """
    side = Prepared(small_sample).load("validation", 96, stream=True)
    number = len(side.grade) // 2 * 2
    batches = PlainBatches(side, side.referable, 2, seed=1).feed()
    epochs = [list_rows(batches, side.images[:], 1) for _ in range(2)]
    for epoch in epochs:
        assert len({row for row, _ in epoch}) == len(epoch) == number
        assert all(target == side.referable[row] for row, target in epoch)
    assert epochs[0] != epochs[1]


def test_what_it_cannot_read_is_one_sentence(small_sample, tmp_path, monkeypatch):
    """A shard that disappears is named."""
    folder = shutil.copytree(small_sample, tmp_path / "records")
    shards = list(folder.glob("*.tfrecord"))
    unlink = partial(
        callbacks.Checkpoint,
        report=lambda *done: [shard.unlink(missing_ok=True) for shard in shards],
    )
    monkeypatch.setattr(callbacks, "Checkpoint", unlink)
    with pytest.raises(ShardError, match=r"^crops-0+\.tfrecord: can no longer be read"):
        train_here(tmp_path / "out", data_dir=folder, mode="plain", epochs=3)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "expected"), [("tensorflow", "local"), ("jax", "global")])
def test_the_row_says_how_several_devices_normalise(small_sample, tmp_path, backend, expected):
    """As in other modes, which are in test_strategies.py."""
    pytest.importorskip(backend)
    config = {
        "data_dir": str(small_sample),
        "backend": backend,
        "mode": "plain",
        "model": simulation.NORMALISED,
        "epochs": 2,
        "num_devices": 2,
    }
    simulation.run("train", tmp_path, config=config, number=48)
    row = json.loads((tmp_path / "result.json").read_text())
    assert (row["batch_norm"], row["num_replicas"]) == (expected, 2)
    assert row["images_per_s"] > 0 and row["metric_auc_test"] > 0
