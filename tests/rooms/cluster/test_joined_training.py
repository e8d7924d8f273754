"""Several machines, a process each, train what one does; what one of them leaves unfinished,
others finish.
"""

import json
import socket
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.training import simulation

pytestmark = pytest.mark.slow
CONFIG = {
    "backend": "jax",
    "augmentation": "colour",
    "learning_rate": 0.02,
    "epochs": 3,
}


def start(folder: Path, count: int, config: dict, **arguments) -> list:
    """Start so many machines that train."""
    config = CONFIG | config | {"num_machines": count}
    return start_machines(
        "train", folder, count, config=config, number=57, dropout=0.3, **arguments
    )


def start_machines(what: str, folder: Path, count: int, **arguments) -> list:
    """Start so many machines on a free port."""
    pytest.importorskip("jax")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return simulation.start_machines(what, folder, count, port, **arguments)


def wait(processes: list) -> None:
    """Wait for the machines, of which none may fail."""
    for process in processes:
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, out[-3000:]


def finish(folder: Path, processes: list) -> dict:
    """Wait for the machines; the row of machine 0."""
    wait(processes)
    return json.loads((folder / "machine-0" / "result.json").read_text())


def assert_equal(found: Path, expected: Path) -> None:
    """Losses, learning rates, weights, statistics and optimiser are the same."""
    histories = [
        pd.read_csv(folder / "machine-0" / "history.csv") for folder in (found, expected)
    ]
    np.testing.assert_allclose(*histories, rtol=1e-5)
    arrays = [
        simulation.read_arrays(folder / "machine-0" / "checkpoint.npz")
        for folder in (found, expected)
    ]
    assert arrays[0].keys() == arrays[1].keys()
    for name in arrays[0]:
        np.testing.assert_allclose(
            *(kept[name] for kept in arrays), rtol=0, atol=1e-5, err_msg=name
        )


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
    told = [
        found[name]
        for name in ("num_machines", "num_replicas", "strategy", "num_images_dropped")
    ]
    assert told == [4, 4, "DataParallel", 1]
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
    processes = start_machines(
        "train",
        tmp_path,
        2,
        config=CONFIG | {"num_machines": 2},
        number=57,
        dropout=0.3,
        of_machine={"1": {"learning_rate": 0.5}},
    )
    said = [process.communicate(timeout=300)[0] for process in processes]
    assert all(process.returncode for process in processes)
    assert "machine 1 and machine 0 differ in learning_rate: make them equal" in said[1]
    assert not list(tmp_path.rglob("history.csv"))
