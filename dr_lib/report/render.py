"""Run an analysis notebook, and export it without its code to one HTML file."""

import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat

from dr_lib.errors import DrError
from dr_lib.files import LISTING, find_listed, join_paths, write_listed, write_text
from dr_lib.parameters import find_model
from dr_lib.runs.row import read_runs

ANALYSES = {  # a notebook that makes rows: the notebook that reads them
    "10_train": "11_gpu_vs_tpu",
    "21_export_quantize": "23_serving_cost",
    "22_serve_and_load": "23_serving_cost",
    "30_train_scenario": "31_factor_effects",
    "40_mnist_cuda": "41_cuda_vs_keras",
}
TEMPLATE = Path(__file__).with_name("report.html.j2")


def write_report(
    folders: Sequence[Path], out: Path, root: Path, *, notebook: str = "", **parameters: Any
) -> Path:
    """Write `report.html`, figures as PNG, PDF and SVG, tables as CSV and LaTeX, and `runs.csv`.

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
        parameters: of the notebook; a text may say a number, as a command line does.
    """
    import papermill

    from dr_lib.runs.jupyter import execute_notebook
    from dr_lib.runs.study import read_defaults

    model = find_model(path.stem)
    values = {**model.read_texts(parameters), "out": str(out)}
    checked = model(**{**read_defaults(path), **values})
    parameters = {name: getattr(checked, name) for name in parameters}
    find_listed(out)  # raises before the notebook starts
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=out, prefix=".report-") as temporary:
            written = Path(temporary).resolve() / "page"
            notebook = execute_notebook(
                path,
                None,
                {**parameters, "out": str(written)},
                Path(temporary, "log"),
                cwd=root,
                progress_bar=bool(sys.stderr and sys.stderr.isatty()),
            )
            page = render(notebook, checked.lang, getattr(checked, "published", True))
            write_listed(written / "report.html", page.encode())
            for file in find_listed(out):
                file.unlink()
            # the list first, so that a kill leaves nothing that is not listed
            for file in sorted(written.iterdir(), key=lambda file: file.name != LISTING):
                file.replace(out / file.name)
    except papermill.PapermillExecutionError as error:
        is_told = error.ename in ("SystemExit", "DrError")
        raise DrError(error.evalue if is_told else f"{error.ename}: {error.evalue}") from error
    finally:
        with suppress(OSError):  # it is not empty
            out.rmdir()
    return out / "report.html"


def render(
    notebook: nbformat.NotebookNode,
    lang: str,
    published: bool = True,
    contents: bool = True,
) -> str:
    """Make one page from an executed notebook: its title, its answer, then numbered sections.

    Args:
        notebook: executed; cells tagged title, answer, report and the language are shown, and one
            tagged heading in the language's half; others are left to those who work in it.
        lang: en or pt, the tag of the text cells to show.
        published: show cells that are tagged `paper`, too.
        contents: list the sections beside the text.
    """
    from nbconvert import TemplateExporter

    shown = [each for cell in notebook.cells for each in cell.get("outputs", [])]
    found = re.search(r"<h1[^>]*>(.*?)<", "".join(map(str, shown)))
    resources = {
        "lang": lang,
        "published": published,
        "contents": contents,
        "title": found[1] if found else "Report",
    }
    exporter = TemplateExporter(template_file=str(TEMPLATE))
    page, _ = exporter.from_notebook_node(notebook, resources=resources)
    # before the upper bound of an interval, and per cent
    no_break = r"(?<=[\d∞–][,;]) (?=[-\d.,∞–]+\])|(?<=\d) (?=%)"
    return re.sub(no_break, "&nbsp;", page)


def write_page(body: str, lang: str) -> str:
    """Write a page that needs no other file, in the style of reports; its h1 is its title."""
    output = nbformat.v4.new_output("display_data", {"text/html": body})
    cell = nbformat.v4.new_code_cell(metadata={"tags": ["title"]}, outputs=[output])
    return render(nbformat.v4.new_notebook(cells=[cell]), lang, contents=False)


def _find_analysis(folder: Path) -> str:
    """Find the analysis named in the study file next to a folder, or else the one for its rows."""
    # papermill, which Colab lacks, comes with it; notebooks write pages without
    from dr_lib.runs.study import find_file, read_keys

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
