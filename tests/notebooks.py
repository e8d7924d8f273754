"""Notebooks run headless, and what they leave and show."""

import json
import re
import sys
from pathlib import Path

import nbformat
import papermill
from jupyter_client import KernelManager

from dr_lib.report.render import write_report


def execute(
    clone: Path, name: str, kernel: str | KernelManager = "python3", **parameters
) -> nbformat.NotebookNode:
    """Run a notebook with papermill in the clone, in a kernel of its own or in one that stays;
    return it executed.
    """
    (out := clone / "out" / f"{name}.ipynb").parent.mkdir(exist_ok=True)
    how = {"kernel_name": kernel}
    if isinstance(kernel, KernelManager):
        how = {"kernel_name": "python3", "km": kernel}
        (client := kernel.client()).start_channels()
        client.wait_for_ready(timeout=60)  # what is sent before is answered to nobody
        client.execute_interactive(
            f"%reset_selective -f ^[^_]\nimport os; os.chdir({str(clone)!r})"
        )
        client.stop_channels()
    notebook = clone / "notebooks" / f"{name}.ipynb"
    return papermill.execute_notebook(
        notebook, out, parameters, cwd=clone, progress_bar=False, **how
    )


def papermill_command(name: str, **parameters) -> list[str]:
    """The same at the command line, in the clone."""
    options = [
        text
        for parameter, value in parameters.items()
        for text in ("-p", parameter, str(value))
    ]
    return [
        sys.executable,
        "-m",
        "papermill",
        "--no-progress-bar",
        f"notebooks/{name}.ipynb",
        "out.ipynb",
        *options,
    ]


def read_rows(clone: Path) -> list[dict]:
    """The rows that runs outside a study have left."""
    return [
        json.loads(path.read_text()) for path in clone.glob("papermill_runs/adhoc/rows/*.json")
    ]


def texts(notebook: nbformat.NotebookNode) -> str:
    """All that the cells printed or displayed as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [
        str(output.get("text", ""))
        + json.dumps(output.get("data", {}).get("text/markdown", ""))
        for output in outputs
    ]
    tables = [json.dumps(output.get("data", {}).get("text/plain", "")) for output in outputs]
    pages = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    return "\n".join(data + tables + pages)


def displayed(notebook: nbformat.NotebookNode) -> str:
    """All that the cells displayed, as a report shows it; nothing of what they printed."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [output["data"] for output in outputs if "data" in output]
    return json.dumps(data, ensure_ascii=False)


def report(clone: Path, study: str, **parameters) -> str:
    """What the report of a study shows, which needs no other file and has no code in it."""
    folder = clone / "papermill_runs" / study
    text = write_report([folder], folder, clone, **parameters).read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text) and "import " not in re.sub(
        'data:[^"]*', "", text
    )
    return text


def num_pictures(notebook: nbformat.NotebookNode) -> int:
    """How many pictures the cells display."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.get("data", {}) for output in outputs]
    pages = "".join("".join(data.get("text/html", "")) for data in shown)
    return sum("image/png" in data for data in shown) + pages.count("<figure")


def show_without_paper(
    clone: Path, kernel: KernelManager, name: str, study: str, **parameters
) -> str:
    """What an analysis notebook shows of a study, with its tables; it names no paper, and calls
    images for timing no sample.
    """
    choice = {"runs": f"papermill_runs/{study}", "published": False, "out": "shown"}
    text = displayed(execute(clone, name, kernel, **choice, **parameters))
    text += "".join(path.read_text() for path in (clone / "shown").glob("*.csv"))
    papers = "Araújo|Camargo|Moura|Felice|[pP]ublished|[tT]he paper|mode = paper"
    assert not re.findall(papers, text)
    assert "SYNTHETIC SAMPLE" not in text
    return text
