"""All five frameworks do the same: each trains in a process of its own environment, and the
results are compared.
"""

import functools
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

pytestmark = pytest.mark.slow


@functools.cache
def train_in(framework: str) -> dict[str, np.ndarray]:
    """What the framework left of all cases."""
    try:
        python = find_python(framework)
    except UnavailableError as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.npz")
        ran = subprocess.run(
            [python, str(SCRIPT), framework, str(out)],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        with np.load(out, allow_pickle=False) as file:
            return dict(file)


@pytest.mark.parametrize("framework", PACKAGES)
def test_frameworks_do_the_same(framework):
    """As TensorFlow, which is held against NumPy: weights and orders to the bit, logits to 1e-4 of
    the largest before two epochs of five steps, whose losses are alike to 1e-3 and fall."""
    of_tensorflow = train_in("tensorflow")
    of_this = train_in(framework)
    for case in CASES:
        for name in ("first", "order"):  # every environment's NumPy draws them
            assert (of_this[f"{case}-{name}"] == of_tensorflow[f"{case}-{name}"]).all(), case
        expected = of_tensorflow[f"{case}-before"]
        before = of_this[f"{case}-before"]
        assert np.abs(before - expected).max() <= 1e-4 * np.abs(expected).max(), case
        losses = of_this[f"{case}-losses"]
        assert losses == pytest.approx(of_tensorflow[f"{case}-losses"], rel=1e-3), case
        assert losses[1] < losses[0], case
        # an evaluation at the end of an epoch sees that epoch's weights, and leaves them alone
        first, last = of_this[f"{case}-evaluated"]
        assert np.abs(first - before).max() > 1e-3, case
        assert np.abs(last - of_this[f"{case}-after"]).max() <= 1e-5, case
    versions = str(of_this[f"{CASES[0]}-versions"])
    assert f"'backend': '{PACKAGES[framework][-1]}'" in versions
