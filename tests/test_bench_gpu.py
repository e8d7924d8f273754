"""What a GPU is asked, asked of this CPU in small."""

import os
import signal
import subprocess
import sys

import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.processes import wait_until


@pytest.mark.slow
def test_a_machine_that_is_taken_away_leaves_its_figures(tmp_path):
    """Killed between two figures, the next start measures the others alone: of the study, the
    one run that a machine before it did not make.
    """
    pytest.importorskip("jax")
    out = tmp_path / "gpu.csv"
    command = [sys.executable, "-m", "tools.bench_gpu", "--dry", "--mnist", "synthetic"]
    command += ["--out", str(out)]
    process = subprocess.Popen([*command, "cuda", "--inside"], cwd=ROOT, start_new_session=True)
    wait_until(lambda: out.exists() or process.poll() is not None, 300)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    earlier = pd.read_csv(out).head(1).assign(step="batches")
    earlier = earlier.assign(what="mode fast, batch 8, repetition 0")
    earlier.to_csv(out, mode="a", header=False, index=False)
    first = out.read_text()
    subprocess.run([*command, "cuda", "batches"], cwd=ROOT, check=True)
    assert out.read_text().startswith(first)
    table = pd.read_csv(out)
    assert not table.duplicated(["step", "what", "quantity"]).any()
    measured = table.drop_duplicates(["step", "what"])["step"].value_counts()
    assert measured.to_dict() == {"cuda": 2, "batches": 2}
    assert (table["value"] > 0).all()
