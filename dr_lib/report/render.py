"""Run an analysis notebook, and render it without its code to one HTML file."""

import re
import sys
import tempfile
from collections.abc import Sequence
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
STYLE = """
* { box-sizing: border-box }
body { margin: 0; color: #1b1f24; background: #fff }
body { font: 17px/1.55 system-ui, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif }
svg text { font-family: inherit }
.page { display: grid; grid-template-columns: 210px minmax(0, 700px); column-gap: 56px }
.page { max-width: 1040px; margin: 0 auto; padding: 40px 28px }
nav { position: sticky; top: 40px; align-self: start; font-size: 14px; line-height: 1.4 }
nav ol { list-style: none; margin: 0; padding: 0 } nav li { margin: 0 0 9px; display: flex }
nav span { flex: 0 0 26px } nav a, nav span, .rests, figcaption, caption { color: #5b6572 }
nav a { text-decoration: none } nav li:first-child a { color: #1b1f24; font-weight: 600 }
header p { margin: 0; color: #5b6572; font-size: 14px; overflow-wrap: anywhere }
mark { background: #fff8e6; color: #8a5a00; font-weight: 600 }
h1 { font-size: 30px; line-height: 1.2; margin: 2px 0 22px; font-weight: 650 }
#answer { border-top: 3px solid; padding-top: 18px }
.say { font-size: 22px; line-height: 1.42; margin: 0 0 20px }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 24px 30px; margin: 0 0 18px }
.two h3 { font-size: 15px; margin: 0 0 6px }
.two p { margin: 4px 0; font-size: 15px; color: #5b6572 }
.big { font-size: 38px; line-height: 1.1; font-weight: 650 }
.big small { font-size: 19px; font-weight: 400; color: #5b6572 }
.limit { border-left: 4px solid #d9a21b; background: #fff8e6; padding: 12px 16px; margin: 0 0 18px }
.limit { font-size: 15px } .limit strong { color: #8a5a00 }
.stop { border-color: #b3261e; background: #fdf0ef } .stop strong { color: #b3261e }
.rests, figcaption, caption { font-size: 14px } .rests { margin: 0 }
h2 { font-size: 21px; margin: 44px 0 10px; font-weight: 650 }
h2 span { color: #5b6572; font-weight: 400; margin-right: 10px }
figure { margin: 20px 0 } figure svg, .people { display: block; width: 100%; height: auto }
figure.half { display: inline-block; width: 48%; margin-right: 1%; vertical-align: top }
figcaption { margin-top: 6px } figcaption strong, caption strong { color: #1b1f24 }
.scroll { overflow-x: auto; margin: 20px 0 }
table { border-collapse: collapse; font-size: 14px; line-height: 1.4; width: 100% }
table { font-variant-numeric: tabular-nums } caption { text-align: left; padding: 0 0 6px }
th, td { text-align: left; vertical-align: top; padding: 6px 0 6px 10px }
th { border-bottom: 1.5px solid; vertical-align: bottom } td { border-bottom: 1px solid #d0d7de }
th:first-child, td:first-child { padding-left: 0 } .n { text-align: right }
td i { display: block; font-style: normal; color: #5b6572; font-size: 12px; white-space: nowrap }
p, li { overflow-wrap: anywhere } summary { cursor: pointer }
.photographs { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)) }
.photographs { gap: 16px } .photographs figure { margin: 0 } .photographs img { width: 100% }
@media screen and (max-width: 760px) {
  .page { display: block; padding: 20px 18px } nav { display: none } h1 { font-size: 25px }
  .say { font-size: 19px } .two { grid-template-columns: 1fr }
  figure.half { width: 100% }
  .scroll { background: linear-gradient(90deg, #fff 80%, #e4e8ec) }
  .scroll td, .scroll th { min-width: 5.5em }
  caption { position: sticky; left: 0; max-width: calc(100vw - 36px) }
}
@media print {
  @page { size: A4; margin: 20mm 18mm 18mm }
  @page { @top-left { content: "TITLE"; font: 9pt sans-serif; color: #5b6572 } }
  @page { @bottom-right { content: counter(page) " / " counter(pages); font: 9pt sans-serif } }
  body { font-size: 10.5pt } .page { display: block; max-width: none; padding: 0 }
  nav { display: none } .say { font-size: 14pt } h1 { font-size: 19pt } h2 { font-size: 13pt }
  h2, summary { break-after: avoid } figure, tr, .limit, .two > div { break-inside: avoid }
  table { font-size: 8.5pt } td i { font-size: 8pt } .scroll { overflow: visible }
  /* a table wider than the page would shrink all of it */
  details td:last-child { overflow-wrap: anywhere } td.n { white-space: nowrap }
  th, td { padding-left: 8px } details::details-content { content-visibility: visible }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact }
}"""


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
    """Make one page from an executed notebook: its title, its answer, then numbered sections.

    Args:
        notebook: executed; cells tagged title, answer, report and the language are shown, and one
            tagged heading in the language's half; others are left to those who work in it.
        lang: en or pt, the tag of the text cells to show.
        published: show cells that are tagged `paper`, too.
    """
    parts = []
    for tags in ({"title"}, {"answer"}, {"heading", "report", lang}):
        for cell in notebook.cells:
            own = set(cell.metadata.get("tags", []))
            if not tags & own or ("paper" in own and not published):
                continue
            if cell.cell_type == "markdown":
                text = cell.source
                if "heading" in own:
                    halves = text.removeprefix("## ").split(" · ")
                    text = f"## {halves[lang == 'pt']}"
                parts.append(_write_markdown(text))
            else:
                parts += map(_write_output, cell.outputs)
    # before the upper bound of an interval, and per cent
    no_break = r"(?<=[\d∞–][,;]) (?=[-\d.,∞–]+\])|(?<=\d) (?=%)"
    body = re.sub(no_break, "&nbsp;", "\n".join(parts))

    headings = ["Resposta" if lang == "pt" else "Answer"]

    def number(heading: re.Match) -> str:
        headings.append(heading[1])
        place = len(headings)
        return f'<h2 id="section-{place}"><span>{place}</span>{heading[1]}</h2>'

    body = re.sub(r"<h2[^>]*>(.*?)</h2>", number, body)
    items = []
    for place, words in enumerate(headings, 1):
        anchor = "answer" if place == 1 else f"section-{place}"
        items.append(f'<li><span>{place}</span><a href="#{anchor}">{words}</a></li>')
    contents = f"<nav><ol>{''.join(items)}</ol></nav>"
    return write_page(f"{contents}<main>{body}</main>", lang)


def write_page(body: str, lang: str) -> str:
    """Write a page that needs no other file, in the style of reports; its h1 is its title."""
    found = re.search(r"<h1[^>]*>(.*?)<", body)
    title = found[1] if found else "Report"
    style = STYLE.replace("TITLE", title)
    # without a viewport a phone draws the page 980 px wide
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style>"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="{lang}"><head>{head}</head>\n'
        f'<body><div class="page">{body}</div></body></html>\n'
    )


def _write_markdown(text: str) -> str:
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return MarkdownWithMath(renderer=renderer).render(text)


def _write_output(output: nbformat.NotebookNode) -> str:
    """Write what a cell displayed, without what it printed."""
    data = output.get("data", {})
    if "text/html" in data:
        return data["text/html"]
    return _write_markdown(data["text/markdown"]) if "text/markdown" in data else ""


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
