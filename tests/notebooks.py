"""Notebooks run headless, and what they leave and show."""

import json
import re
import sys
from pathlib import Path

import nbformat
import papermill
from jupyter_client import BlockingKernelClient, KernelManager

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
        forget(client, clone)
        client.stop_channels()
    notebook = clone / "notebooks" / f"{name}.ipynb"
    return papermill.execute_notebook(
        notebook, out, parameters, cwd=clone, progress_bar=False, **how
    )


def forget(client: BlockingKernelClient, folder: Path) -> None:
    """Let a kernel that stays forget names and cells, and work in a folder."""
    client.execute_interactive(
        f"%reset_selective -f ^[^_]\n%reset -f in\nimport os; os.chdir({str(folder)!r})"
    )


def papermill_command(name: str, **parameters) -> list[str]:
    """The same at the command line, in the clone."""
    command = f"-m papermill --no-progress-bar notebooks/{name}.ipynb out.ipynb".split()
    for parameter, value in parameters.items():
        command += ["-p", parameter, str(value)]
    return [sys.executable, *command]


def read_rows(clone: Path) -> list[dict]:
    """The rows that runs outside a study have left."""
    return [
        json.loads(path.read_text()) for path in clone.glob("papermill_runs/adhoc/rows/*.json")
    ]


def list_outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs of all cells."""
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def texts(notebook: nbformat.NotebookNode) -> str:
    """All that the cells printed or displayed as text."""
    found = []
    for output in list_outputs(notebook):
        data = output.get("data", {})
        found.append(str(output.get("text", "")))
        found += [json.dumps(data.get(f"text/{kind}", "")) for kind in ("markdown", "plain")]
        found.append("".join(data.get("text/html", "")))
    return "\n".join(found)


def displayed(notebook: nbformat.NotebookNode) -> str:
    """All that the cells displayed, as a report shows it; nothing of what they printed."""
    data = [output["data"] for output in list_outputs(notebook) if "data" in output]
    return json.dumps(data, ensure_ascii=False)


def report(clone: Path, study: str, **parameters) -> str:
    """What the report of a study shows, which needs no other file and has no code in it."""
    folder = clone / "papermill_runs" / study
    text = write_report([folder], folder, clone, **parameters).read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "import " not in re.sub('data:[^"]*', "", text)
    return text


def num_pictures(notebook: nbformat.NotebookNode) -> int:
    """How many pictures the cells display."""
    shown = [output.get("data", {}) for output in list_outputs(notebook)]
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
