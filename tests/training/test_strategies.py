"""Several devices train what one does, on virtual devices of the CPU, all plans of a backend in one process."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.training import simulation

NUMBER, BATCH, EPOCHS = 57, 8, 3
RUNS = {  # the most devices first: a process cannot divide its CPU later
    backend: {
        "several": {"num_devices": number},
        "several-fast": {"num_devices": number, "mode": "fast"},
        "several-half": {"num_devices": number, "mode": "fast", "precision": precision},
        "one-fast": {"num_devices": 1, "mode": "fast"},
        "one": {"num_devices": 1},
    }
    for backend, number, precision in (("tensorflow", 2, "mixed_float16"), ("jax", 8, "mixed_bfloat16"))
}
STRATEGIES = {("tensorflow", 2): "MirroredStrategy", ("jax", 8): "DataParallel"}


@pytest.fixture(scope="module", params=RUNS)
def backend(request, tmp_path_factory) -> tuple[str, Path]:
    """A backend's name, and the folder of its trainings."""
    pytest.importorskip(request.param)
    folder, common = tmp_path_factory.mktemp(request.param), {"backend": request.param, "epochs": EPOCHS}
    common["augmentation"] = "none"  # replicas draw for themselves
    runs = {
        name: {"config": common | config, "number": NUMBER, "normalised": True}
        for name, config in RUNS[request.param].items()
    }
    simulation.run("train_all", folder, runs=runs)
    return request.param, folder


@pytest.mark.slow
def test_every_plan_trains_what_one_device_trains(backend):
    """Losses with batch normalisation are those of one device; the learning rates are the same."""
    name, folder = backend
    for run, config in RUNS[name].items():
        one, found = (pd.read_csv(folder / which / "history.csv") for which in ("one", run))
        tolerance = 0.05 if "precision" in config else 1e-3 if config["num_devices"] == 2 else 1e-5
        for loss in ("loss", "val_loss"):
            difference = (found[loss] - one[loss]).abs() / one[loss]
            assert len(difference) == EPOCHS and difference.max() < tolerance, run
        assert (found["learning_rate"] == one["learning_rate"]).all()


@pytest.mark.slow
def test_no_photograph_is_lost_under_any_plan(backend):
    """57 photographs in batches of 8: steps are counted, the remainder is told, the saved model is the one logged."""
    name, folder = backend
    for run, config in RUNS[name].items():
        result = json.loads((folder / run / "result.json").read_text())
        history = pd.read_csv(folder / run / "history.csv")
        assert (result["iterations"] / EPOCHS, result["num_images_dropped"]) == divmod(NUMBER, BATCH)
        assert result["num_replicas"] == config["num_devices"]
        assert result["strategy"] == STRATEGIES.get((name, config["num_devices"]), "none")
        tolerance = 1e-6 if "precision" not in config else 5e-3  # half precision rounds with the batch's company
        assert result["kept_auc"] == pytest.approx(history["val_auc"].max(), abs=tolerance), run
        assert np.isfinite(history.to_numpy()).all()
