"""Which notebook reports on a study, and what is said where none can; the notebooks' own tests
make whole reports.
"""

from pathlib import Path

import nbformat
import pytest

from dr_lib.errors import DrError
from dr_lib.report.render import render, write_report
from dr_lib.runs.row import write_row
from tests.report.reading import HOSTILE, check_hostile
from tests.report.real_rows import copy_row

ROOT = Path(__file__).resolve().parents[2]
RUN = copy_row("22", "savedmodel")


def write_rows(folder: Path, *notebooks: str) -> Path:
    """A folder with a row of each notebook."""
    for number, notebook in enumerate(notebooks):
        row = RUN | {"notebook": notebook, "run_id": str(number), "study": folder.name}
        write_row(folder, row)
    return folder


@pytest.mark.parametrize(
    ("notebooks", "options", "message"),
    [
        (
            ["10_train", "40_mnist_cuda"],
            {},
            "11_gpu_vs_tpu and 41_cuda_vs_keras each read some",
        ),
        (["my_own"], {}, "none reads those of my_own.: choose one with --notebook"),
        (["10_train"], {"epoch": 1}, "^epoch: unknown, choose from lang, out, runs, "),
        (["10_train"], {"lang": "pt-BR"}, "^lang is 'pt-BR': it should be 'en' or 'pt'"),
        (["10_train"], {"pool": "modes"}, "pool modes: no row has it, choose"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(tmp_path, notebooks, options, message):
    """Rows of two analyses, rows that none reads, an unknown parameter or value, a notebook that
    stops.
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


def test_a_notebook_that_stops_leaves_the_report_of_yesterday(tmp_path):
    """And no file of its own."""
    mine = write_rows(tmp_path / "mine", "10_train")
    (mine / "report.html").write_text("yesterday")
    with pytest.raises(DrError, match="^exclude 'noise': choose from resumed"):
        write_report([mine], mine, ROOT, exclude="noise")
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
    page = write_report([tmp_path / "mine, yours"], tmp_path / "out", ROOT)
    check_hostile(page.read_text(encoding="utf-8"), 9)


def test_a_page_begins_with_its_answer_and_numbers_its_sections():
    """In one language; no code, no printed lines, no untagged cell; headings in both languages."""

    def code(*tags, html="", printed=""):
        shown = nbformat.v4.new_output("display_data", {"text/html": html})
        outputs = [shown, nbformat.v4.new_output("stream", text=printed)]
        return nbformat.v4.new_code_cell("secret", metadata={"tags": tags}, outputs=outputs)

    def text(source, *tags):
        return nbformat.v4.new_markdown_cell(source, metadata={"tags": tags})

    cells = [
        code("title", html="<h1>Pergunta</h1>"),
        code("report", html="<p>shown</p>", printed="printed"),
        text("## Limits · Limites", "heading"),
        text("in English", "en"),
        text("em português", "pt"),
        code(html="untagged"),
        code("answer", html='<section id="answer">sim</section>'),
    ]
    page = render(nbformat.v4.new_notebook(cells=cells), "pt")
    order = ["<h1>", 'id="answer"', "<p>shown", "Limites</h2>", "em português"]
    assert sorted(order, key=page.index) == order and page.count("shown") == 1
    assert '<h2 id="limites">Limites</h2>' in page
    absent = ("secret", "printed", "in English", "untagged", "Limits", "<script")
    assert not any(word in page for word in absent)
