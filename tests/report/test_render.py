"""Which notebook reports on a study, and what is said where none can; the notebooks' own tests
make whole reports.
"""

import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.parameters import NOTEBOOKS
from dr_lib.report.page import Page
from dr_lib.report.parameters import Analysis
from dr_lib.report.render import ANALYSES, TEMPLATE, render, write_report
from dr_lib.report.style import open_panels
from dr_lib.runs.row import write_row
from tests.report.reading import HOSTILE, check_hostile
from tests.report.real_rows import copy_row

ROOT = Path(__file__).resolve().parents[2]
RUN = copy_row("22", "savedmodel")


class Mine(Analysis):
    """The parameters of somebody's analysis."""

    thresholds: str
    own: bool


def write_rows(folder: Path, *notebooks: str) -> Path:
    """A folder with a row of each notebook."""
    for number, notebook in enumerate(notebooks):
        row = RUN | {"notebook": notebook, "run_id": str(number), "study": folder.name}
        write_row(folder, row)
    return folder


@pytest.mark.parametrize(
    ("notebooks", "options", "message"),
    [
        pytest.param(
            ["10_train", "40_mnist_cuda"],
            {},
            "11_gpu_vs_tpu and 41_cuda_vs_keras each read some",
        ),
        (["my_own"], {}, "none reads those of my_own.: choose one with --notebook"),
        (
            ["10_train"],
            {"notebook": "99"},
            "99 is not a notebook: choose from 11_gpu_vs_tpu",
        ),
        (
            ["10_train"],
            {"epoch": 1},
            "^epoch: unknown, choose from lang, out, runs, ",
        ),
        (["10_train"], {"exclude": "noise"}, "^exclude 'noise': choose from resumed"),
        (["10_train"], {"pool": "modes"}, "pool modes: no row has it, choose"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(tmp_path, notebooks, options, message):
    """Rows of two analyses, rows that none reads, an unknown notebook or parameter, a notebook
    that stops.
    """
    mine = write_rows(tmp_path / "mine", *notebooks)
    with pytest.raises(DrError, match=message) as error:
        write_report([mine], tmp_path / "out", ROOT, **options)
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_folders_are_of_the_analysis_that_their_study_names(tmp_path):
    """Folders of two analyses are not one report, of which the second's rows would be left out; a
    study's file in place of its folder is called what it is, and so is a misspelt folder.
    """
    mine = write_rows(tmp_path / "mine", "10_train")
    other = write_rows(tmp_path / "other", "10_train")
    study = tmp_path / "mine.yaml"
    study.write_text("notebook: 10_train\nreport: 99_mine\n")
    for folders, message in {
        (mine,): "99_mine is not a notebook",
        (mine, other): "are of 11_gpu_vs_tpu and 99_mine: report each",
        (mine, study): "no such folder",
        (mine, tmp_path / "mnie"): "mnie: no such folder",
    }.items():
        with pytest.raises(DrError, match=message):
            write_report(folders, tmp_path / "out", ROOT)


def test_a_notebook_that_stops_gets_its_texts_and_leaves_nothing(tmp_path, monkeypatch):
    """A text that looks like a number stays one, a truth value becomes one; the report of
    yesterday is left alone.
    """
    monkeypatch.setitem(NOTEBOOKS, "mine", "tests.report.test_render:Mine")
    texts = ["runs", "out", "lang", "pool", "only", "exclude", "thresholds"]
    lines = [f"{name}: str = ''  # meaning" for name in texts]
    lines += [f"{name}: bool = True  # meaning" for name in ("published", "own")]
    tags = {"tags": ["parameters"]}
    parameters = nbformat.v4.new_code_cell("\n".join(lines), metadata=tags)
    stop = nbformat.v4.new_code_cell(
        "open(f'{out}/figure.png', 'w').close()\nraise ValueError(thresholds, own)"
    )
    kernel = {"kernelspec": {"name": "python3", "display_name": "", "language": "python"}}
    (tmp_path / "notebooks").mkdir()
    nbformat.write(
        nbformat.v4.new_notebook(cells=[parameters, stop], metadata=kernel),
        tmp_path / "notebooks/mine.ipynb",
    )
    monkeypatch.setattr("dr_lib.__main__.ROOT", tmp_path)
    mine = write_rows(tmp_path / "mine", "my_own")
    (mine / "report.html").write_text("yesterday")
    asked = ["report", str(mine), "--notebook", "mine", "-p", "thresholds", "0.21"]
    said = CliRunner().invoke(main, [*asked, "-p", "own", "False"])
    assert said.output == "Error: ValueError: ('0.21', False)\n"
    assert sorted(path.name for path in mine.iterdir()) == ["report.html", "rows"]
    assert (mine / "report.html").read_text() == "yesterday"


@pytest.mark.slow
def test_a_report_of_rows_shows_what_they_hold_as_it_is(tmp_path):
    """Study, machine, network and commit: in heading, figures, tables, claims and appendix; of a
    folder with a comma in its name.
    """
    named = dict.fromkeys(("platform", "cpu", "model", "commit", "keras", "precision"), HOSTILE)
    for number in range(3):
        row = copy_row("10", run_id=f"r{number}", train_s=40.0 + number, study=HOSTILE, **named)
        write_row(tmp_path / "mine, yours", row)
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o2775)  # of a group
    page = write_report([tmp_path / "mine, yours"], out, ROOT)
    check_hostile(page.read_text(encoding="utf-8"), 9)
    assert out.stat().st_mode & 0o7777 == 0o2775


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="Chromium prints")
@pytest.mark.parametrize(("num_figures", "num_rows", "num_sheets"), [(4, 0, 2), (1, 45, 2)])
def test_paper_is_filled(shown, tmp_path, num_figures, num_rows, num_sheets):
    """Two figures of a column's width share a sheet of A4 with their captions; a table that is
    longer than a sheet begins below a figure.
    """
    paper = Page()
    for _ in range(num_figures):
        figure, _ = open_panels(1)
        paper.figure(figure, "one", "ROC curve with its 95 % band, pointwise, over patients.")
    paper.table(
        pd.DataFrame({"n": range(num_rows)}), "two", "The worst errors on the test split."
    )
    outputs = [nbformat.v4.new_output("display_data", {"text/html": html}) for html in shown]
    cell = nbformat.v4.new_code_cell("", metadata={"tags": ["report"]}, outputs=outputs)
    (tmp_path / "report.html").write_text(render(nbformat.v4.new_notebook(cells=[cell]), "en"))
    options = "--headless --no-sandbox --disable-gpu --no-first-run --no-pdf-header-footer"
    options += " --disable-background-networking --disable-sync"
    command = ["chromium", *options.split(), f"--user-data-dir={tmp_path}/browser"]
    command += [f"--print-to-pdf={tmp_path}/report.pdf", (tmp_path / "report.html").as_uri()]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    pdf = (tmp_path / "report.pdf").read_bytes()
    assert len(re.findall(rb"/Type ?/Page\b", pdf)) == num_sheets


@pytest.mark.parametrize("name", sorted(set(ANALYSES.values())))
@pytest.mark.parametrize(("lang", "words"), [("en", "paper"), ("pt", "artigo")])
def test_a_report_without_the_paper_does_not_speak_of_it(name, lang, words):
    """Neither the heading of its claims nor what limits a comparison with it is shown."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    assert words in render(notebook, lang) and words not in render(
        notebook, lang, published=False
    )


def test_a_page_begins_with_its_answer_and_numbers_its_sections():
    """In one language; no code, no printed lines, no untagged cell; headings in both languages."""
    code = nbformat.v4.new_code_cell
    outputs = [
        nbformat.v4.new_output("display_data", {"text/html": html})
        for html in ("<h1>Pergunta</h1>", "<p>shown</p>", '<section id="answer">sim</section>')
    ]
    printed = nbformat.v4.new_output("stream", text="printed")

    def tag(name: str) -> dict:
        return {"tags": [name]}

    text = nbformat.v4.new_markdown_cell
    cells = [
        code("one", metadata=tag("title"), outputs=outputs[:1]),
        code("secret", metadata=tag("report"), outputs=[outputs[1], printed]),
        text("## Limits · Limites", metadata=tag("heading")),
        text("in English", metadata=tag("en")),
        text("em português, 95 %", metadata=tag("pt")),
        code("other = 2", outputs=outputs[:1]),
        code("third = 3", metadata=tag("answer"), outputs=outputs[2:]),
    ]
    page = render(nbformat.v4.new_notebook(cells=cells), "pt")
    order = ["<h1>", 'id="answer"', "<p>shown", "Limites</h2>", "em português"]
    assert sorted(order, key=page.index) == order and page.count("shown") == 1
    assert '<li><a href="#limites">Limites</a></li>' in page
    assert '<h2 id="limites">Limites</h2>' in page
    assert len(TEMPLATE.read_text().splitlines()) <= 300
    assert '@top-left { content: "Pergunta"' in page and "width=device-width" in page
    assert "95&nbsp;%" in page, "on one line"
    absent = ("secret", "printed", "in English", "other = 2", "Limits", "<script")
    assert not any(word in page for word in absent)
