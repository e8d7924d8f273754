"""Several devices train what one does, on virtual devices of the CPU, all plans of a backend in one process."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.training import simulation

BATCH, EPOCHS = 8, 4
RUNS = {  # the most devices first: a process cannot divide its CPU later
    "tensorflow": {
        "two": ({"num_devices": 2}, 57),
        "two-fast": ({"num_devices": 2, "mode": "fast"}, 60),
        "two-half": ({"num_devices": 2, "mode": "fast", "precision": "mixed_float16"}, 57),
        "one-fast": ({"num_devices": 1, "mode": "fast"}, 57),
        "one-57": ({"num_devices": 1}, 57),
        "one-60": ({"num_devices": 1}, 60),
    },
    "jax": {
        "eight": ({"num_devices": 8}, 57),
        "eight-fast": ({"num_devices": 8, "mode": "fast"}, 60),
        "eight-half": ({"num_devices": 8, "mode": "fast", "precision": "mixed_bfloat16"}, 57),
        "one-fast": ({"num_devices": 1, "mode": "fast"}, 57),
        "one-57": ({"num_devices": 1}, 57),
        "one-60": ({"num_devices": 1}, 60),
    },
}
STRATEGIES = {("tensorflow", 2): "MirroredStrategy", ("jax", 8): "DataParallel"}


@pytest.fixture(scope="module", params=RUNS)
def backend(request, tmp_path_factory) -> tuple[str, Path]:
    """A backend's name, and the folder of its trainings."""
    pytest.importorskip(request.param)
    folder, common = tmp_path_factory.mktemp(request.param), {"backend": request.param, "epochs": EPOCHS}
    common["augmentation"] = "none"  # replicas draw for themselves
    runs = {
        name: {"config": common | config, "number": number, "normalised": True}
        for name, (config, number) in RUNS[request.param].items()
    }
    simulation.run("train_all", folder, runs=runs)
    return request.param, folder


@pytest.mark.slow
def test_every_plan_trains_what_one_device_trains(backend):
    """Losses with batch normalisation are those of one device; the learning rates are the same."""
    name, folder = backend
    for run, (config, number) in RUNS[name].items():
        one, found = (pd.read_csv(folder / which / "history.csv") for which in (f"one-{number}", run))
        tolerance = 0.05 if "precision" in config else 1e-3 if config["num_devices"] == 2 else 1e-5
        for loss in ("loss", "val_loss"):
            difference = (found[loss] - one[loss]).abs() / one[loss]
            assert len(difference) == EPOCHS and difference.max() < tolerance, run
        assert (found["learning_rate"] == one["learning_rate"]).all()


@pytest.mark.slow
def test_any_number_of_photographs_under_every_plan(backend):
    """57 and 60 photographs pass: steps are counted, the remainder is told, the saved model is the one logged."""
    name, folder = backend
    for run, (config, number) in RUNS[name].items():
        result = json.loads((folder / run / "result.json").read_text())
        history = pd.read_csv(folder / run / "history.csv")
        assert (result["iterations"] / EPOCHS, result["num_images_dropped"]) == divmod(number, BATCH)
        assert result["num_replicas"] == config["num_devices"]
        assert result["strategy"] == STRATEGIES.get((name, config["num_devices"]), "none")
        tolerance = 1e-6 if "precision" not in config else 5e-3  # half precision rounds with the batch's company
        assert result["kept_auc"] == pytest.approx(history["val_auc"].max(), abs=tolerance), run
        assert np.isfinite(history.to_numpy()).all()
