"""Mode plain trains what mode paper trains."""

import numpy as np
import pytest

from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Prepared
from dr_lib.training.plain import PlainBatches
from tests.training import simulation
from tests.training.simulation import train_here


def list_rows(batches: PlainBatches, images: np.ndarray) -> list[int]:
    """The rows of the photographs of an epoch, in its order, each known by its pixels."""
    rows = []
    for pictures, _ in batches:
        for picture in pictures.numpy():
            (row,) = np.flatnonzero((images == picture).all(axis=(1, 2, 3)))
            rows.append(row)
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
    rows = list_rows(again, side.images[:])
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
