"""A small house for studies: a notebook that takes no time, in a folder of its own."""

from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]

PARAMETERS = """\
level: str = "a"  # a factor
pause_s: float = 0.0  # how long the run takes [s]
fail_at: int = -1  # the repetition that fails
needs_s: float = 0.0  # the run saves and stops, once, if less time is left to it [s]
seed: int = 0  # of the study
repetition: int = 0  # index of the run
"""
BODY = """\
import time
from pathlib import Path

from dr_lib.studies.run import Run


class OutOfTimeError(RuntimeError):
    pass


run = Run(Path.cwd(), "quick", {"level": level, "repetition": repetition, "seed": seed})
begun = run.study_dir / "begun"
begun.mkdir(parents=True, exist_ok=True)
(begun / f"{run.identity['run_id']}-{time.monotonic_ns()}").touch()
for step in range(5):
    time.sleep(pause_s / 5)
    run.show_progress(step + 1, 5)
if repetition == fail_at:
    raise ValueError("this one fails" + (f" for {level}/labels.csv: not there" if "/" in level else ""))
saved = run.folder / "saved"
if needs_s and run.seconds_left() < needs_s and not saved.exists():
    saved.touch()
    raise OutOfTimeError("the time is up, saved after epoch 2: run it again")
run.finish(resumed=int(saved.exists()), train_s=1.0 + repetition, epoch_s=[0.5, 0.5 + repetition])
"""


@pytest.fixture
def house(tmp_path, monkeypatch) -> Path:
    """A root with `notebooks/quick.ipynb` and an empty `papermill_runs/`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [
        nbformat.v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(BODY),
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "papermill_runs").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "notebooks" / "quick.ipynb")
    return tmp_path
