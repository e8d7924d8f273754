"""Several machines, a process each, train what one does; what one of them leaves unfinished,
others finish.
"""

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.processes import find_port
from tests.training import simulation

pytestmark = pytest.mark.slow
CONFIG = {
    "backend": "jax",
    "augmentation": "colour",
    "learning_rate": 0.02,
    "epochs": 3,
}


def start(folder: Path, count: int, config: dict, **arguments) -> list:
    """Start so many machines that train, on a free port."""
    pytest.importorskip("jax")
    about = {"config": CONFIG | config | {"num_machines": count}, "number": 57, "dropout": 0.3}
    return simulation.start_machines("train", folder, count, find_port(), **about, **arguments)


def finish(folder: Path, processes: list) -> dict:
    """Wait for the machines, of which none may fail; the row of machine 0."""
    for process in processes:
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, out[-3000:]
    return json.loads((folder / "machine-0" / "result.json").read_text())


def assert_equal(found: Path, expected: Path) -> None:
    """Losses, learning rates, weights, statistics and optimiser are the same."""
    folders = [folder / "machine-0" for folder in (found, expected)]
    histories = [pd.read_csv(folder / "history.csv") for folder in folders]
    np.testing.assert_allclose(*histories, rtol=1e-5)
    ours, theirs = (simulation.read_arrays(folder / "checkpoint.npz") for folder in folders)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        np.testing.assert_allclose(array, theirs[name], rtol=0, atol=1e-5, err_msg=name)


def test_two_machines_finish_what_four_began_as_one_would(tmp_path):
    """A machine that is killed ends the others with one sentence. Batch normalisation, dropout,
    colours, remainders of batches: fewer then go on, to the network, checkpoint and history of one
    machine that was never stopped.
    """
    # several machines add in another order, and a fast training makes much of the last bit
    config = {"model": simulation.NORMALISED, "epochs": 8, "learning_rate": 0.0003}
    straight = tmp_path / "straight"
    broken = tmp_path / "broken"
    processes = start(broken, 4, config)
    history = broken / "machine-0" / "history.csv"
    while not (history.exists() and len(history.read_text().splitlines()) > 3):
        assert processes[0].poll() is None, processes[0].communicate()[0][-3000:]
        time.sleep(0.05)
    processes[1].kill()
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert all(process.returncode for process in processes)
    assert (
        "one of 4 machines ended or cannot be reached; start the training again to resume "
        "from its last" in said[0]
    )
    assert not (broken / "machine-0" / "result.json").exists()
    resumed = finish(broken, start(broken, 2, config))
    expected = finish(straight, start(straight, 1, config))
    assert [file.parent.name for file in broken.rglob("checkpoint.npz")] == ["machine-0"]
    assert_equal(broken, straight)
    about = {"resumed": 1, "num_machines": 2, "num_replicas": 2, "strategy": "DataParallel"}
    assert (about | {"num_images_dropped": 1}).items() <= resumed.items()
    for name in ("metric_auc_test", "kept_auc"):
        assert resumed[name] == pytest.approx(expected[name], abs=1e-5)


def test_machines_with_other_parameters_are_refused(tmp_path):
    """The one that differs from machine 0 says in what, before anything trains."""
    processes = start(tmp_path, 2, {}, of_machine={"1": {"learning_rate": 0.5}})
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode for process in processes)
    assert "machine 1 and machine 0 differ in learning_rate: make them equal" in said[1]
    assert not list(tmp_path.rglob("history.csv"))
