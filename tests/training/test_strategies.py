"""Several devices train what one does, on virtual devices of the CPU, each training in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
BATCH, EPOCHS = 8, 4


class Trained(NamedTuple):
    """What a training left."""

    result: dict
    history: pd.DataFrame


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train with these wishes; the same wishes are trained once."""
    known = {}

    def training(number: int, **wishes) -> Trained:
        pytest.importorskip(wishes["backend"])
        key = json.dumps([number, wishes], sort_keys=True)
        if key not in known:
            folder = tmp_path_factory.mktemp("training")
            how = {"network": "normalised", "number": number, "batch_size": BATCH, "epochs": EPOCHS}
            given = json.dumps({"wishes": wishes, **how})
            command = [sys.executable, "-m", "tests.training.rehearsal", "train", folder, given]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
            result = json.loads((folder / "result.json").read_text())
            known[key] = Trained(result, pd.read_csv(folder / "history.csv"))
        return known[key]

    return training


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "wishes", "tolerance"),
    [
        (57, {"backend": "tensorflow", "num_devices": 2}, 1e-3),
        (60, {"backend": "tensorflow", "num_devices": 2, "mode": "fast"}, 1e-3),
        (57, {"backend": "tensorflow", "num_devices": 1, "mode": "fast"}, 1e-5),
        (57, {"backend": "jax", "num_devices": 8}, 1e-5),
        (60, {"backend": "jax", "num_devices": 8, "mode": "fast"}, 1e-5),
        (57, {"backend": "jax", "num_devices": 1, "mode": "fast"}, 1e-5),
    ],
)
def test_every_plan_trains_what_one_device_trains(train, number, wishes, tolerance):
    """Losses with batch normalisation are those of one device; the learning rates are the same."""
    one = train(number, backend=wishes["backend"], num_devices=1)
    several = train(number, **wishes)
    assert several.result["num_replicas"] == wishes["num_devices"]
    for loss in ("loss", "val_loss"):
        difference = (several.history[loss] - one.history[loss]).abs() / one.history[loss]
        assert len(difference) == EPOCHS and difference.max() < tolerance
    assert (several.history["learning_rate"] == one.history["learning_rate"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("number", [57, 60])
@pytest.mark.parametrize(
    "wishes",
    [
        {"backend": "tensorflow", "num_devices": 1},
        {"backend": "tensorflow", "num_devices": 2},
        {"backend": "tensorflow", "num_devices": 2, "mode": "fast", "precision": "mixed_float16"},
        {"backend": "jax", "num_devices": 8},
        {"backend": "jax", "num_devices": 8, "mode": "fast", "precision": "mixed_bfloat16"},
    ],
    ids=lambda wishes: "-".join(str(value) for value in wishes.values()),
)
def test_any_number_of_photographs_under_every_plan(train, number, wishes):
    """57 and 60 photographs pass: steps are counted, the rest is told, the saved model is the one that was logged."""
    result, history = train(number, **wishes)
    assert (result["steps"], result["num_left_out"]) == divmod(number, BATCH)
    assert result["iterations"] == result["steps"] * EPOCHS
    assert result["strategy"] == {("tensorflow", 2): "MirroredStrategy", ("jax", 8): "DataParallel"}.get(
        (wishes["backend"], wishes["num_devices"]), "none"
    )
    tolerance = 1e-6 if "precision" not in wishes else 5e-3  # half precision rounds with the batch's company
    assert result["kept_auc"] == pytest.approx(history["val_auc"].max(), abs=tolerance)
    assert np.isfinite(history.to_numpy()).all()
