"""Run an analysis notebook, and render it without its code to one HTML file."""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from dr_lib.errors import DrError
from dr_lib.files import LISTING, find_listed, write_listed, write_text
from dr_lib.parameters import join_paths, read_value
from dr_lib.report.papers import ANALYSES
from dr_lib.runs.row import read_runs
from dr_lib.runs.study import find_file, read_keys

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
summary { cursor: pointer }
p, li { overflow-wrap: anywhere }
@media (max-width: 600px) {
  .output_png { overflow-x: auto }
  .output_png .unconfined { max-width: none; width: 600px; height: auto }
}
@media print {
  body { margin: 0; max-width: none }
  .jp-RenderedHTMLCommon, .output_html { overflow: visible }
  table { font-size: 10px }
  th, td { padding-right: 0.5em }
  img, table, tr { break-inside: avoid }
  table:has(tr:nth-child(13)) { break-inside: auto }
  img { max-height: 10.5cm; width: auto }
  h2 { margin-top: 1em }
  h2, .output_png, .output_html { break-after: avoid }
}"""
# without it a phone draws the page 980 px wide
VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">'
# before the upper bound of an interval, and per cent
NO_BREAK = re.compile(r"(?<=[\d∞–][,;]) (?=[-\d.,∞–]+\])|(?<=\d) (?=%)")


def write_report(
    folders: Sequence[Path], out: Path, root: Path, *, notebook: str = "", **parameters: Any
) -> Path:
    """Write `report.html`, figures as PNG and PDF, tables as CSV and LaTeX, all rows as `runs.csv`.

    Args:
        folders: of rows; those of several machines are one table.
        out: folder to write, made if it is missing.
        root: the repository.
        notebook: the analysis, without suffix; by default what the study files beside the folders
            name, else what analyses the rows.
        parameters: of the notebook.

    Returns:
        The path of the HTML file, which needs no other.

    Raises:
        DrError: no notebook analyses these rows, it does not take a parameter, or it stopped.
        RowError: there are no rows.
    """
    rows = read_runs(*folders)
    names = {notebook} if notebook else set(map(_find_analysis, folders))
    if len(names) > 1:
        each = " and ".join(sorted(names))
        raise DrError(f"the folders are of {each}: report each, or choose one with --notebook")
    (name,) = names
    path = root / "notebooks" / f"{name}.ipynb"
    if not path.is_file():
        choices = ", ".join(sorted(set(ANALYSES.values())))
        raise DrError(f"{path.stem} is not a notebook: choose from {choices}")
    runs = join_paths([folder.resolve() for folder in folders])
    page = run_analysis(path, out, root, runs=runs, **parameters)
    write_text(out / "runs.csv", rows.to_csv(index=False))
    return page


def run_analysis(
    path: Path,
    out: Path,
    root: Path,
    **parameters: Any,
) -> Path:
    """Run an analysis notebook and write `report.html` with its figures and tables.

    They replace those of an earlier report. A notebook that stops writes and deletes nothing.

    Args:
        path: of the notebook.
        out: folder to write, made if it is missing.
        root: the repository.
        parameters: of the notebook, see `read_value`.
    """
    import papermill

    from dr_lib.runs.jupyter import execute_notebook

    known = papermill.inspect_notebook(str(path))
    unknown = [name for name in ("out", *parameters) if name not in known]
    if unknown:
        names = ", ".join(unknown)
        raise DrError(f"{path.stem} has no parameter {names}: it has {', '.join(known)}")
    parameters = {
        name: read_value(name, known[name]["inferred_type_name"], value, path.stem)
        for name, value in parameters.items()
    }
    find_listed(out)  # raises before the notebook starts
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with (
            tempfile.TemporaryDirectory(dir=out, prefix=".report-") as temporary,
            tempfile.TemporaryDirectory() as logs,
        ):
            written = Path(temporary).resolve()
            notebook = execute_notebook(
                path,
                None,
                {**parameters, "out": str(written)},
                Path(logs) / "log",
                cwd=root,
                progress_bar=sys.stderr.isatty(),
            )
            lang = parameters.get("lang", "en")
            page = render(notebook, lang, parameters.get("published", True))
            write_listed(written / "report.html", page.encode())
            for file in find_listed(out):
                file.unlink()
            # the list first, so that a kill leaves nothing that is not listed
            for file in sorted(written.iterdir(), key=lambda file: file.name != LISTING):
                file.replace(out / file.name)
    except (papermill.PapermillExecutionError, DrError) as error:
        if is_new:
            out.rmdir()
        if isinstance(error, DrError):
            raise
        is_told = error.ename in ("SystemExit", "DrError")
        raise DrError(error.evalue if is_told else f"{error.ename}: {error.evalue}") from error
    return out / "report.html"


def render(notebook: nbformat.NotebookNode, lang: str, published: bool = True) -> str:
    """Make one page from an executed notebook: cells tagged summary, then report and the language.

    Args:
        notebook: executed; untagged cells are left to those who work in it.
        lang: en or pt, the tag of the text cells to show.
        published: show cells that are tagged `paper`, too.
    """
    import nbconvert

    cells = []
    for tags in ({"summary"}, {"report", lang}):
        for cell in notebook.cells:
            own = set(cell.metadata.get("tags", []))
            if tags & own and (published or "paper" not in own):
                cells.append(cell)
    for cell in cells:
        if cell.cell_type == "code":  # without what it printed
            cell.outputs = [output for output in cell.outputs if output.output_type != "stream"]
    exporter = nbconvert.HTMLExporter(
        template_name="basic",
        exclude_input=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    page = nbformat.v4.new_notebook(cells=cells, metadata=notebook.metadata)
    body, _ = exporter.from_notebook_node(page)
    body = NO_BREAK.sub("&nbsp;", body)
    title = re.search(r"<h1[^>]*>(.*?)<", body)
    head = f"<title>{title[1] if title else 'Report'}</title><style>{STYLE}</style>"
    maker = f'<meta name="generator" content="nbconvert {nbconvert.__version__}">'
    head = f'<meta charset="utf-8">{VIEWPORT}{maker}{head}'
    return f'<!DOCTYPE html>\n<html lang="{lang}"><head>{head}</head>\n<body>{body}</body></html>\n'


def _find_analysis(folder: Path) -> str:
    """Find the analysis named in the study file next to a folder, or else the one for its rows."""
    study = find_file(folder)
    report = read_keys(study).get("report") if study else ""
    if report:
        return report
    notebooks = set(read_runs(folder)["notebook"])
    analyses = sorted({ANALYSES[name] for name in notebooks if name in ANALYSES})
    if len(analyses) == 1:
        return analyses[0]
    reason = f"none reads those of {', '.join(notebooks)}"
    if analyses:
        reason = f"{' and '.join(analyses)} each read some"
    raise DrError(
        f"no single notebook analyses these rows ({reason}): choose one with --notebook"
    )
