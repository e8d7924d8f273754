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


def test_four_machines_train_what_one_does(tmp_path):
    """Batch normalisation, dropout, colours, remainders of batches: one network, one checkpoint,
    one history.
    """
    one = tmp_path / "1"
    four = tmp_path / "4"
    expected, found = (
        finish(folder, start(folder, int(folder.name), {"model": simulation.NORMALISED}))
        for folder in (one, four)
    )
    assert [file.parent.name for file in four.rglob("checkpoint.npz")] == ["machine-0"]
    assert_equal(four, one)
    about = {"num_machines": 4, "num_replicas": 4, "strategy": "DataParallel"}
    assert (about | {"num_images_dropped": 1}).items() <= found.items()
    for name in ("metric_auc_test", "kept_auc"):
        assert found[name] == pytest.approx(expected[name], abs=1e-5)


def test_a_dead_machine_ends_the_others_and_fewer_go_on(tmp_path):
    """With one sentence; one machine then finishes what two began, as if it had never been
    otherwise.
    """
    # two machines add in another order, and a fast training makes much of the last bit
    config = {"epochs": 12, "learning_rate": 0.0003}
    straight = tmp_path / "straight"
    broken = tmp_path / "broken"
    processes = start(broken, 2, config)
    history = broken / "machine-0" / "history.csv"
    while not (history.exists() and len(history.read_text().splitlines()) > 3):
        assert processes[0].poll() is None, processes[0].communicate()[0][-3000:]
        time.sleep(0.05)
    processes[1].kill()
    out, _ = processes[0].communicate(timeout=120)
    assert processes[0].returncode != 0
    assert (
        "one of 2 machines ended or cannot be reached; start the training again to resume "
        "from its last" in out
    )
    assert not (broken / "machine-0" / "result.json").exists()
    resumed = finish(broken, start(broken, 1, config))
    finish(straight, start(straight, 1, config))
    assert resumed["resumed"] == 1 and resumed["num_machines"] == 1
    assert_equal(broken, straight)


def test_machines_with_other_parameters_are_refused(tmp_path):
    """The one that differs from machine 0 says in what, before anything trains."""
    processes = start(tmp_path, 2, {}, of_machine={"1": {"learning_rate": 0.5}})
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode for process in processes)
    assert "machine 1 and machine 0 differ in learning_rate: make them equal" in said[1]
    assert not list(tmp_path.rglob("history.csv"))
