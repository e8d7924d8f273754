"""A training that is killed at any moment ends as if it had not been."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def rehearse(what: str, folder: Path, **given) -> None:
    """Run the script in a process of its own."""
    command = [sys.executable, "-m", "tests.training.rehearsal", what, folder, json.dumps(given)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Weights, statistics, random state and optimiser of a checkpoint, and its best weights."""
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "meta"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wishes", "epochs", "kills", "window_s"),
    [
        ({"backend": "tensorflow"}, 25, 20, (0.5, 5.0)),
        ({"backend": "jax", "mode": "fast"}, 200, 4, (5.0, 10.0)),  # it compiles for 5 s
    ],
    ids=["tensorflow", "jax"],
)
def test_killed_at_random_moments(tmp_path, wishes, epochs, kills, window_s):
    """Dropout, colours, shuffling, learning rate, optimiser: history and final state are equal to the bit."""
    pytest.importorskip(wishes["backend"])
    asked = {"wishes": wishes, "network": "small_cnn", "number": 57, "batch_size": 8, "epochs": epochs}
    rehearse("train", tmp_path / "straight", **asked)
    rehearse("kill", tmp_path / "killed", arguments=asked, kills=kills, window_s=window_s, seed=1)
    counted = json.loads((tmp_path / "killed" / "kills.json").read_text())
    assert counted["kills"] >= kills and counted["inside"] >= 3
    straight, resumed = tmp_path / "straight", 0
    expected = read_arrays(straight / "checkpoint.npz")
    assert len({line.split(",")[2] for line in (straight / "history.csv").read_text().splitlines()}) > 2  # rates fell
    for folder in sorted((tmp_path / "killed").glob("training-*")):
        assert (folder / "history.csv").read_bytes() == (straight / "history.csv").read_bytes()
        found = read_arrays(folder / "checkpoint.npz")
        assert found.keys() == expected.keys() and all((found[name] == expected[name]).all() for name in expected)
        resumed += json.loads((folder / "result.json").read_text())["resumed"]
    assert resumed >= 1
