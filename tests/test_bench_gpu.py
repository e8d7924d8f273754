"""What a GPU is asked, asked of this CPU in small."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_a_machine_that_is_taken_away_leaves_its_figures(tmp_path):
    """Killed between two figures, the next start measures the others alone."""
    pytest.importorskip("jax")
    out = tmp_path / "gpu.csv"
    command = [sys.executable, "tools/bench_gpu.py", "--dry", "--mnist", "synthetic"]
    command += ["--out", str(out)]
    process = subprocess.Popen([*command, "cuda", "--inside"], cwd=ROOT, start_new_session=True)
    while not out.exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = out.read_text()
    subprocess.run([*command, "cuda", "batches"], cwd=ROOT, check=True)
    assert out.read_text().startswith(first)
    table = pd.read_csv(out)
    assert not table.duplicated(["step", "what", "quantity"]).any()
    measured = table.drop_duplicates(["step", "what"])["step"].value_counts()
    assert measured.to_dict() == {"cuda": 3, "batches": 4}
    assert (table["value"] > 0).all()
