"""Run an analysis notebook on the rows of a study, and render it without its code to one HTML
file.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
import yaml

from dr_lib.evidence.papers import ANALYSES
from dr_lib.files import write_json, write_text
from dr_lib.parameters import check_digits
from dr_lib.runs.row import read_runs

STYLE = """body { font: 16px/1.5 Georgia, serif; color: #1a1a1a }
body { max-width: 60em; margin: 2em auto; padding: 0 1em }
h1, h2, summary { font-family: Helvetica, Arial, sans-serif } h2 { margin-top: 2em }
img { max-width: 100% }
table { border-collapse: collapse; font: 13px/1.4 Helvetica, Arial, sans-serif; margin: 1em 0 }
.jp-RenderedHTMLCommon, .output_html { overflow-x: auto }
thead th { border-top: 2px solid; border-bottom: 1px solid; text-align: left }
tbody tr:last-child td { border-bottom: 2px solid }
th, td { padding: 0.2em 0.8em 0.2em 0; vertical-align: top; text-align: left }
blockquote { border-left: 4px solid #d55e00; margin: 1em 0; padding-left: 1em }
summary { cursor: pointer }"""


LISTING = ".report.json"  # in a report's folder: SHA-256 of each file that it wrote, by its name


class ReportError(ValueError):
    """A report cannot be made; the message says why."""


def write_report(
    folders: Sequence[Path], out: Path, root: Path, *, notebook: str = "", **parameters: Any
) -> Path:
    """Write `report.html`, each figure as PNG and PDF, each table as CSV and LaTeX, and all rows as
    `runs.csv`.

    Args:
        folders: of rows; those of several machines are one table.
        out: folder to write, made if it is missing.
        root: the repository.
        notebook: the analysis, without suffix; by default what the study file of the first folder
            names, else what analyses the rows.
        parameters: of the notebook.

    Returns:
        The path of the HTML file, which needs no other.

    Raises:
        ReportError: no notebook analyses these rows, it does not take a parameter, or it stopped.
        RowError: there are no rows.
    """
    rows = read_runs(*folders)
    path = (
        root
        / "notebooks"
        / f"{notebook or _find_analysis(folders[0], set(rows['notebook']))}.ipynb"
    )
    if not path.is_file():
        raise ReportError(
            f"{path.stem} is no notebook: choose from {', '.join(sorted(set(ANALYSES.values())))}"
        )
    runs = ",".join(str(folder.resolve()) for folder in folders)
    with tempfile.TemporaryDirectory() as temporary:
        table = Path(temporary, "runs.csv")
        rows.to_csv(table, index=False)
        return run_analysis(path, out, root, beside=[table], runs=runs, **parameters)


def run_analysis(
    path: Path,
    out: Path,
    root: Path,
    *,
    beside: Sequence[Path] = (),
    **parameters: Any,
) -> Path:
    """Run an analysis notebook and write `report.html` with its figures and tables; see
    `write_report`.

    A notebook that stops writes nothing. What an earlier report wrote here and this one does not
    is deleted, unless somebody changed it or this report is of it.

    Args:
        path: of the notebook.
        out: folder to write, made if it is missing.
        root: the repository.
        beside: files that are copied into the folder as a part of the report.
        parameters: of the notebook; a text for one that is no text is read as YAML.
    """
    import papermill

    known = papermill.inspect_notebook(str(path))
    unknown = [name for name in ("out", *parameters) if name not in known]
    if unknown:
        raise ReportError(
            f"{path.stem} has no parameter {', '.join(unknown)}: it has {', '.join(known)}"
        )
    for name, value in parameters.items():
        if isinstance(value, str) and known[name]["inferred_type_name"] != "str":
            check_digits(value)
            parameters[name] = yaml.safe_load(value)
    # of the kernel
    quiet = {"progress_bar": False, "log_output": False, "extra_arguments": ["--log-level=ERROR"]}
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=out, prefix=".report-") as temporary:
            written = Path(temporary).resolve()
            executed = str(written / "report.ipynb")
            settings = {**parameters, "out": str(written)}
            notebook = papermill.execute_notebook(str(path), executed, settings, cwd=root, **quiet)
            shown = render(
                notebook, str(parameters.get("lang", "en")), parameters.get("published", True)
            )
            write_text(written / "report.html", shown)
            Path(executed).unlink()
            for file in beside:
                shutil.copy(file, written)
            sums = {file.name: _digest(file) for file in written.iterdir()}
            for file in written.iterdir():
                file.replace(out / file.name)
        _delete_earlier(out, sums, list(map(str, parameters.values())))
        write_json(out / LISTING, sums)
    except papermill.PapermillExecutionError as error:
        if is_new:
            out.rmdir()
        raise ReportError(
            f"{error.ename}: {error.evalue}" if error.ename != "SystemExit" else error.evalue
        ) from error
    return out / "report.html"


def render(notebook: nbformat.NotebookNode, lang: str, published: bool = True) -> str:
    """Make one page of an executed notebook: cells tagged `summary` first, then `report` and the
    language, no code.

    Args:
        notebook: executed; untagged cells are left to those who work in it.
        lang: en or pt, the tag of the text cells to show.
        published: show cells that are tagged `paper`, too.
    """
    import nbconvert

    tagged = [(cell, set(cell.metadata.get("tags", []))) for cell in notebook.cells]
    tagged = [(cell, tags) for cell, tags in tagged if published or "paper" not in tags]
    cells = [
        cell for wanted in ({"summary"}, {"report", lang}) for cell, tags in tagged if wanted & tags
    ]
    for cell in cells:
        shown = [output for output in cell.get("outputs", []) if output.output_type != "stream"]
        cell.update({"outputs": shown} if cell.cell_type == "code" else {})
    page = nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)
    exporter = nbconvert.HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    body, _ = exporter.from_notebook_node(page)
    title = re.search(r"<h1[^>]*>(.*?)<", body)
    head = f"<title>{title[1] if title else 'Report'}</title><style>{STYLE}</style>"
    head = (
        '<meta charset="utf-8"><meta name="generator" content="nbconvert'
        f' {nbconvert.__version__}">{head}'
    )
    return f'<!DOCTYPE html>\n<html lang="{lang}"><head>{head}</head>\n<body>{body}</body></html>\n'


def _delete_earlier(out: Path, sums: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Delete what the report before wrote and nobody changed, if the new one, `sums`, lacks it."""
    try:
        earlier = json.loads((out / LISTING).read_bytes())
    except (OSError, ValueError):
        return
    for name in set(earlier) - set(sums):
        file = out / Path(name).name
        is_input = any(str(file.resolve()) in text for text in inputs)
        if file.is_file() and not is_input and _digest(file) == earlier[name]:
            file.unlink()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _find_analysis(folder: Path, notebooks: set[str]) -> str:
    study = folder.with_suffix(".yaml")
    request: Mapping[str, Any] = (
        yaml.safe_load(study.read_text(encoding="utf-8")) if study.is_file() else {}
    )
    if request.get("report"):
        return request["report"]
    found = sorted({ANALYSES[name] for name in notebooks if name in ANALYSES})
    if len(found) != 1:
        names = (
            f"{' and '.join(found)} read some each"
            if found
            else f"none reads those of {', '.join(notebooks)}"
        )
        raise ReportError(f"which notebook analyses these rows? {names}: give --notebook")
    return found[0]
