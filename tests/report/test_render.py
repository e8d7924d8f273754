"""Which notebook reports on a study, and what is said where none can; the notebooks' own tests
make whole reports.
"""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from nbconvert.filters import markdown2html

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.numbers import write_number
from dr_lib.report.page import Page
from dr_lib.report.papers import ANALYSES
from dr_lib.report.render import render, write_report
from dr_lib.report.style import open_panels
from dr_lib.runs.row import RowError, read_runs, write_row
from tests.conftest import ABSENT
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.real_rows import copy_row

ROOT = Path(__file__).resolve().parents[2]
RUN = copy_row("22", "savedmodel")
WITH_MNIST = pytest.mark.skipif("mnist" in ABSENT, reason="only one notebook is an analysis")


@pytest.mark.parametrize(
    ("notebooks", "options", "message"),
    [
        pytest.param(
            ["10_train", "40_mnist_cuda"],
            {},
            "11_gpu_vs_tpu and 41_cuda_vs_keras each read some",
            marks=WITH_MNIST,
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
            "11_gpu_vs_tpu has no parameter epoch: it has runs, ",
        ),
        (
            ["10_train"],
            {"exclude": "noise"},
            "^exclude 'noise': choose from resumed",
        ),
        (["10_train"], {"allow": "modes"}, "allow modes: no row has that column, choose"),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(tmp_path, notebooks, options, message):
    """Rows of two analyses, rows that none reads, an unknown notebook or parameter, a notebook
    that stops.
    """
    for number, notebook in enumerate(notebooks):
        write_row(
            tmp_path / "mine",
            RUN | {"notebook": notebook, "run_id": str(number), "study": "mine"},
        )
    with pytest.raises(DrError, match=message) as error:
        write_report([tmp_path / "mine"], tmp_path / "out", ROOT, **options)
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


@WITH_MNIST
def test_folders_of_two_analyses_are_not_one_report(tmp_path):
    """Of which the second's rows would be left out; with --notebook one says so oneself."""
    folders = [tmp_path / "mine", tmp_path / "other"]
    for folder, notebook in zip(folders, ("10_train", "40_mnist_cuda"), strict=True):
        write_row(folder, RUN | {"notebook": notebook, "run_id": "0", "study": folder.name})
    (tmp_path / "mine.yaml").write_text("report: 11_gpu_vs_tpu")
    with pytest.raises(DrError, match="are of 11_gpu_vs_tpu and 41_cuda_vs_keras: report each"):
        write_report(folders, tmp_path / "out", ROOT)


def test_a_notebook_that_stops_gets_its_texts_and_leaves_nothing(tmp_path, monkeypatch):
    """A text that looks like a number stays one, a truth value becomes one; the report of
    yesterday is left alone.
    """
    names = {
        "runs": "",
        "out": "",
        "lang": "",
        "allow": "",
        "exclude": "",
        "thresholds": "",
        "published": True,
        "own": True,
    }
    parameters = nbformat.v4.new_code_cell(
        "\n".join(
            f"{name}: {type(value).__name__} = {value!r}  # meaning"
            for name, value in names.items()
        ),
        metadata={"tags": ["parameters"]},
    )
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
    write_row(tmp_path / "mine", RUN | {"notebook": "my_own", "run_id": "a", "study": "mine"})
    (tmp_path / "mine" / "report.html").write_text("yesterday")
    asked = [
        "report",
        str(tmp_path / "mine"),
        "--notebook",
        "mine",
        "-p",
        "thresholds",
        "0.21",
        "-p",
        "own",
        "no",
    ]
    said = CliRunner().invoke(main, asked)
    assert said.output == "Error: ValueError: ('0.21', False)\n"
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == [
        "report.html",
        "rows",
    ]
    assert (tmp_path / "mine" / "report.html").read_text() == "yesterday"


def test_a_study_without_rows_has_no_report(tmp_path):
    """The message says how to make some."""
    with pytest.raises(RowError, match="run a study"):
        write_report([tmp_path], tmp_path, ROOT)


def test_a_path_that_is_no_folder_of_rows_is_called_what_it_is(tmp_path):
    """The study's file in place of its folder, and a misspelt folder, also beside one that holds
    rows.
    """
    row = RUN | {"notebook": "10_train", "run_id": "a", "study": "mine"}
    write_row(tmp_path / "mine", row)
    (tmp_path / "mine.yaml").write_text("")
    reasons = {
        "mine.yaml": f"is a file: give the folder of its results, {tmp_path / 'mine'}",
        "mnie": "no such folder",
    }
    for name, reason in reasons.items():
        with pytest.raises(RowError, match=reason):
            read_runs(tmp_path / "mine", tmp_path / name)


def test_the_study_file_names_its_analysis(tmp_path, clone):
    """Rows that 11 would read are read by the notebook that the study asks for."""
    write_row(tmp_path / "mine", RUN | {"notebook": "10_train", "run_id": "a", "study": "mine"})
    (tmp_path / "mine.yaml").write_text("notebook: 10_train\nreport: 99_mine\n")
    with pytest.raises(DrError, match="99_mine is not a notebook"):
        write_report([tmp_path / "mine"], tmp_path / "out", clone)


@pytest.mark.slow
def test_a_deposit_is_checked_and_reported_again_by_what_it_holds(tmp_path):
    """Coreutils check the sums, the study file names no folder of this machine, and the rows in the
    deposit give the same report again."""
    row = copy_row("10", study="mine", run_id="a", scenario="C1")
    for number in range(3):
        write_row(tmp_path / "mine", row | {"run_id": f"r{number}", "train_s": 40.0 + number})
    write_row(
        tmp_path / "mine",
        row | {"run_id": "r3", "status": "failed", "error": "ValueError: /srv/Silva_left.jpg"},
    )
    study = "# for Silva\nnotebook: 10_train\nparameters: {data_dir: /srv/silva/prepared}\n"
    (tmp_path / "mine.yaml").write_text(study)
    asked = [
        "report",
        str(tmp_path / "mine"),
        "-p",
        "published",
        "no",
        "--deposit",
        str(out := tmp_path / "deposit"),
    ]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    listed = {line.split("  ")[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    assert listed == {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} - {
        "SHA256SUMS"
    }
    assert {
        "report.html",
        "figure_1.pdf",
        "README.md",
        "CITATION.cff",
        "rows/mine/rows/r2.json",
    } <= listed
    texts = [
        path
        for path in out.rglob("*")
        if path.suffix in (".csv", ".json", ".md", ".tex", ".yaml")
    ]
    assert not [path for path in texts if "silva" in path.read_text().lower()]
    assert "data_dir: prepared" in (out / "rows/mine.yaml").read_text()
    assert (
        "report DEPOSIT/rows/mine --out again -p published no"
        in (out / "README.md").read_text()
    )
    again = write_report([out / "rows" / "mine"], tmp_path / "again", ROOT, published=False)
    assert (text := again.read_text()) == (out / "report.html").read_text()
    assert "<title>How long does training take?</title>" in text
    assert not any(words in text for words in ("Araújo", "he paper", "hatched"))
    assert "already holds files" in CliRunner().invoke(main, asked).output


class Shown(HTMLParser):
    """The pictures of a page, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags = set()
        self.pictures = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.pictures += [dict(attrs)] if tag == "img" else []

    def handle_data(self, data):
        self.text += data


HOSTILE = "<img src=x onerror=alert(1)><b>my_*model* $5 $\\no{"


def check_hostile(page: str, times: int) -> None:
    """All of it is text, so many times at least, and no picture is from elsewhere."""
    shown = Shown(page)
    assert shown.text.count(HOSTILE) >= times and not {"b", "script"} & shown.tags
    assert all(picture["src"].startswith("data:") for picture in shown.pictures)
    assert not any("onerror" in picture for picture in shown.pictures)


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
def test_an_evaluation_shows_what_files_hold_as_it_is(tmp_path):
    """Two models at home and one abroad, by names of theirs, in a file with a comma in its name."""
    home = draw_predictions().assign(reason=HOSTILE, quality=HOSTILE)
    home["camera"] = home["camera"].where(home["camera"] == "A", HOSTILE)
    abroad = draw_abroad().assign(dataset=HOSTILE + "abroad", model=HOSTILE)
    tables = {
        "one, two": home.assign(model=HOSTILE, model_version="v1", dataset=HOSTILE),
        "three": draw_predictions(noise=2.0).assign(model=HOSTILE + "2"),
        "four": abroad,
    }
    paths = [str(write(tmp_path, table, name)) for name, table in tables.items()]
    said = CliRunner().invoke(main, ["evaluate", *paths, "--out", str(out := tmp_path / "out")])
    assert said.exit_code == 0, said.output
    check_hostile((out / "report.html").read_text(encoding="utf-8"), 20)
    check_hostile(markdown2html((out / "MODEL_CARD.md").read_text(encoding="utf-8")), 4)


@pytest.mark.slow
def test_test_rows_alone_with_one_unanswered_are_evaluated(tmp_path):
    """No operating point, and the number that could not be used is nowhere in the tables."""
    table = draw_predictions().assign(reason="")
    table = table[table["split"] == "test"].reset_index(drop=True)
    table.loc[0, [f"probability_{grade}" for grade in range(5)]] = None
    table.loc[0, "reason"] = "too dark"
    path = write(tmp_path, table)
    said = CliRunner().invoke(main, ["evaluate", str(path), "--out", str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    flow = pd.read_csv(tmp_path / "out" / "flow.csv").set_index("stage")
    assert (
        flow.loc["test", "num_images"] == "–" and flow.loc["ungradable", "num_images"] == "< 5"
    )


@pytest.mark.slow
def test_nothing_of_an_earlier_or_a_private_evaluation_stays_behind(tmp_path, small_sample):
    """A private one is written beside the prepared folder; a second one into the same folder leaves
    the user's own files, which a first one does not mix with.
    """
    photographs = Prepared(small_sample).photographs.assign(probability_referable=0.5)
    photographs.loc[::3, "probability_referable"] = 0.7
    photographs["split"] = np.array(["test", "validation"])[photographs.index % 5 // 4]
    photographs["patient_id"] = photographs["image_id"]
    missed = photographs.query("split == 'test' and grade > 1")["image_id"].iloc[0]
    photographs.loc[photographs["image_id"] == missed, "probability_referable"] = 0.1
    columns = ["image_id", "patient_id", "split", "grade", "probability_referable"]
    first = write(tmp_path, photographs[columns], "first")
    out = tmp_path / "out"
    asked = ["evaluate", str(first), "--out", str(out)]

    said = CliRunner().invoke(main, [*asked, "-p", "private", str(small_sample)])
    private = small_sample.with_name(f"{small_sample.name}.private") / "evaluation"
    assert said.exit_code == 0, said.output
    assert f"wrote {private / 'report.html'}" in said.output and not out.exists()
    assert (private / "errors.png").is_file() and (private / "referrals.csv").is_file()
    names = pd.read_csv(private.parent / "names.csv", index_col="image_id")["file"]
    page = (private / "report.html").read_text(encoding="utf-8")
    order = [
        'id="answer"',
        "Missed eyes</h2>",
        f">{names[missed]}<",
        "Patients and photographs</h2>",
    ]
    assert sorted(order, key=page.index) == order

    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    assert (out / "points.csv").is_file() and not (out / "referrals.csv").exists()
    (out / "notes.txt").write_text("mine")
    second = write(tmp_path, photographs.query("split == 'test'")[columns], "second")
    asked[1] = str(second)
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    left = {path.stem for path in out.iterdir()}
    assert not left & {"points", "accuracy", "patients", "errors", "abstention"}
    assert {"notes", "summary", "report", "README"} <= left
    (out / "report.sha256").unlink()
    assert (
        "holds files that no evaluation listed there" in CliRunner().invoke(main, asked).output
    )


@pytest.mark.slow
def test_a_perfect_model_is_not_praised(tmp_path):
    """The first sentence has the bound that so many patients give, and says where they are too few.

    The clip is said, and a second file of the same photographs is no other data set.
    """
    perfect = draw_predictions(30)
    perfect = perfect.drop(columns=[f"probability_{grade}" for grade in range(5)])
    is_referable = perfect["grade"].ge(2).where(perfect["split"] != "train")
    perfect["probability_referable"] = is_referable.astype(float)
    paths = [str(write(tmp_path, perfect, name)) for name in ("one", "two")]
    said = CliRunner().invoke(main, ["evaluate", *paths, "--out", str(out := tmp_path / "out")])
    assert said.exit_code == 0, said.output
    shown = Shown((out / "report.html").read_text(encoding="utf-8")).text.replace("\xa0", " ")
    summary = pd.read_csv(out / "summary.csv").iloc[0]
    low = write_number(summary["auc_low"], form="{:.2f}")
    assert f"1.00 [{low}, 1.00]" in shown and 0.1 < summary["auc_low"] < 0.9
    assert summary["rarer_patients"] >= 10 or shown.count("Too few patients to decide") == 1
    assert "On the data set" not in shown
    assert pd.read_csv(out / "accuracy.csv")["lr_plus"].eq(np.inf).any()
    assert "closer to 0 or 1 than 0.000001 and are clipped there" in shown
    assert np.isnan(summary["average_precision_low"]) and summary["brier_high"] > 0.02
    assert "An AUC near 1 rests on few errors: its interval is deliberately wide" in shown
    assert shown.count("percentile bootstrap of") == 1


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
    assert '<li><span>2</span><a href="#section-2">Limites</a></li>' in page
    assert '<h2 id="section-2"><span>2</span>Limites</h2>' in page
    assert '@top-left { content: "Pergunta"' in page and "width=device-width" in page
    assert "95&nbsp;%" in page, "on one line"
    absent = ("secret", "printed", "in English", "other = 2", "Limits", "<script")
    assert not any(word in page for word in absent)
