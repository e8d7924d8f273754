"""Kernels that die, do not start, or are not those that a notebook means."""

import sys
from pathlib import Path

import nbformat
import pytest

from dr_lib.errors import DrError
from dr_lib.runs.jupyter import execute_notebook
from tests.runs.conftest import ROOT

FLAG = "F1125 19:06:47.79 32617 flags.cc:234] Unknown flag in XLA_FLAGS: --x"


def execute(folder: Path, code: str = "") -> str:
    """Execute one cell; return what it printed."""
    cells = [nbformat.v4.new_code_cell(code)]
    kernel = {"name": "mine", "display_name": "Mine", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "in.ipynb")
    done = execute_notebook(folder / "in.ipynb", None, {}, folder / "log", progress_bar=False)
    return "".join(output.text for output in done.cells[0].outputs)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (f"os.write(2, b'{FLAG}\\nbye\\n'); os._exit(1)", rf"died \(exit status 1\): {FLAG}"),
        ("os.kill(os.getpid(), 9)", r"died \(SIGKILL\): it was killed or out of memory"),
    ],
)
def test_a_dead_kernel_says_why(tmp_path, monkeypatch, code, words):
    """A library's last line, or the signal by name."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(DrError, match=f"the kernel {words}"):
        execute(tmp_path, f"import os\n{code}")


def test_python3_is_this_interpreter(tmp_path, monkeypatch):
    """Whatever kernel of that name somebody has installed, and whatever the notebook names; output
    of a process goes to the log.
    """
    kernel = tmp_path / "kernels" / "python3" / "kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text('{"argv": ["/bin/false"], "display_name": "3", "language": "python"}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    code = "import os, sys\nprint(sys.executable)\n_ = os.write(2, b'noise')"
    printed = execute(tmp_path, code)
    assert printed.startswith(sys.executable) and b"noise" in (tmp_path / "log").read_bytes()


def test_a_kernel_that_does_not_start_says_why(tmp_path, monkeypatch):
    """As one of a broken environment."""
    command = {"argv": ["/bin/sh", "-c", "echo No module >&2; exit 1"]}
    monkeypatch.setattr("ipykernel.kernelspec.get_kernel_dict", lambda: command)
    with pytest.raises(DrError, match="the kernel died .exit status 1.: No module"):
        execute(tmp_path)
