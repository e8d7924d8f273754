"""All five frameworks do the same: each trains in a process of its own environment, and the
results are compared.
"""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios.environments import find_python
from dr_lib.scenarios.frameworks.program import PACKAGES

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path(__file__).with_name("one_framework.py")
CASES = ["1-mnist-64", "2-cifar10-32"]
LEFT = ("first", "order", "before", "losses", "evaluated", "after")

pytestmark = pytest.mark.slow


@functools.cache
def train_in(framework: str) -> dict[str, np.ndarray]:
    """What the framework left of all cases."""
    try:
        python = find_python(framework)
    except UnavailableError as error:
        pytest.skip(str(error))
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KERAS_")
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.npz")
        command = [python, str(SCRIPT), framework, str(out)]
        environment |= {"PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        with np.load(out, allow_pickle=False) as file:
            return dict(file)


@pytest.mark.parametrize("framework", PACKAGES)
def test_frameworks_do_the_same(framework):
    """As TensorFlow, which is held against NumPy: weights and orders to the bit, logits to 1e-4 of
    the largest before two epochs of five steps, whose losses are alike to 1e-3 and fall."""
    for case in CASES:
        expected, found = (
            {name: train_in(f)[f"{case}-{name}"] for name in LEFT}
            for f in ("tensorflow", framework)
        )
        for name in ("first", "order"):  # every environment's NumPy draws them
            assert (found[name] == expected[name]).all(), case
        before = expected["before"]
        assert np.abs(found["before"] - before).max() <= 1e-4 * np.abs(before).max(), case
        losses = found["losses"][:, 1]
        assert losses == pytest.approx(expected["losses"][:, 1], rel=1e-3), case
        assert losses[1] < losses[0], case
        # an evaluation at the end of an epoch sees that epoch's weights, and leaves them alone
        first, last = found["evaluated"]
        assert np.abs(first - found["before"]).max() > 1e-3, case
        assert np.abs(last - found["after"]).max() <= 1e-5, case
    versions = json.loads(str(train_in(framework)[f"{CASES[0]}-versions"]))
    assert versions["backend"] == PACKAGES[framework][-1]
    assert versions[versions["backend"]]
