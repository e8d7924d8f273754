"""Several devices train what one does, on virtual devices of the CPU, all plans of a backend in
one process.
"""

import json

import numpy as np
import pandas as pd
import pytest

from tests.training import simulation

NUMBER = 57
BATCH = 8
EPOCHS = 3
RUNS = {  # the most devices first: a process cannot divide its CPU later
    backend: {
        "several": {"num_devices": number},
        "several-fast": {"num_devices": number, "mode": "fast"},
        "several-half": {"num_devices": number, "mode": "fast"},
        "one-fast": {"num_devices": 1, "mode": "fast"},
        "one": {"num_devices": 1},
    }
    for backend, number in (("tensorflow", 2), ("jax", 8))
}
HALF = {"tensorflow": "mixed_float16", "jax": "mixed_bfloat16"}
STRATEGIES = {("tensorflow", 2): "MirroredStrategy", ("jax", 8): "DataParallel"}


@pytest.mark.slow
@pytest.mark.parametrize("backend", RUNS)
def test_every_plan_trains_what_one_device_trains(backend, tmp_path):
    """Losses with batch normalisation are those of one device, and the learning rates; no
    photograph is lost.

    57 photographs in batches of 8: steps are counted, the remainder is told, the saved model is the
    one logged.
    """
    pytest.importorskip(backend)
    # replicas draw for themselves
    common = {
        "backend": backend,
        "model": simulation.NORMALISED,
        "epochs": EPOCHS,
        "augmentation": "none",
    }
    runs = {
        name: {
            "config": common | config,
            "number": NUMBER,
            "changes": {"precision": HALF[backend]} if name == "several-half" else {},
        }
        for name, config in RUNS[backend].items()
    }
    simulation.run("train_all", tmp_path, runs=runs)
    one = pd.read_csv(tmp_path / "one" / "history.csv")
    for run, config in RUNS[backend].items():
        result = json.loads((tmp_path / run / "result.json").read_text())
        history = pd.read_csv(tmp_path / run / "history.csv")
        is_half = run == "several-half"
        tolerance = 0.05 if is_half else 1e-3 if config["num_devices"] == 2 else 1e-5
        for loss in ("loss", "val_loss"):
            difference = (history[loss] - one[loss]).abs() / one[loss]
            assert len(difference) == EPOCHS and difference.max() < tolerance, run
        assert (history["learning_rate"] == one["learning_rate"]).all()
        assert (result["iterations"] / EPOCHS, result["num_images_dropped"]) == divmod(
            NUMBER, BATCH
        )
        assert result["num_replicas"] == config["num_devices"]
        assert result["batch_norm"] == "synchronised"
        assert result["strategy"] == STRATEGIES.get((backend, config["num_devices"]), "none")
        rounding = 5e-3 if is_half else 1e-6  # half precision rounds with the batch's company
        assert result["kept_auc"] == pytest.approx(history["val_auc"].max(), abs=rounding), run
        assert np.isfinite(history.to_numpy()).all()
