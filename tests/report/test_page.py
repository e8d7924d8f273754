"""What a page shows and leaves as files: numbers as they are read, words in two languages,
claims judged first.
"""

import csv

import pandas as pd
import pytest

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.report import page, style
from dr_lib.report.answer import Answer, Number
from dr_lib.report.groups import select_runs, tabulate_groups
from dr_lib.report.means import plot_means
from tests.report.real_rows import CPU, both, train_referable

CAPTION = "Memory use: bar, mean of a scenario; points, means of its runs."
QUESTION = "GPU or TPU: how long does training take?"


NOTE = "Rows that are not timed, with reasons."


def test_a_table_is_read_in_a_language_and_kept_as_numbers(shown, tmp_path):
    """Bounds stand beside their value, nothing has an exponent; the CSV has every digit, LaTeX
    booktabs.
    """
    values = {
        "train_s": 12.345,
        "train_s_low": 11.0,
        "train_s_high": 14.5,
        "cost_usd": 0.00006451,
        "num_parameters": 3_377_221.0,
        "disturbed": True,
        "level": "0.007-0.484",
        "point": "high sensitivity",
        "p": 1.51e-39,
        "predict_ms": float("nan"),
    }
    table = pd.DataFrame([values])
    page.Page(tmp_path, "pt").table(table, "times", NOTE)
    for cell in (
        "tempo de treinamento [s]",
        "12,3 <i>[11,0; 14,5]</i>",
        "0,0000645",
        "3.377.221",
        "sim",
        "0,007-0,484",
        "alta sensibilidade",
        "&lt; 0,001",
    ):
        assert f">{cell}<" in shown[0]
    assert "predição" not in shown[0], "a column that holds nothing is not shown"
    assert "<strong>Tabela 1.</strong> Linhas" in shown[0]
    page.Page().table(table, "times", NOTE)
    for cell in ("training time [s]", "12.3 <i>[11.0, 14.5]</i>", "3,377,221", "yes"):
        assert f">{cell}<" in shown[1]
    (kept,) = csv.DictReader((tmp_path / "times.csv").read_text().splitlines())
    assert kept["train_s"] == "12.345"
    latex = (tmp_path / "times.tex").read_text()
    for words in (
        "\\toprule",
        "\\midrule",
        "\\bottomrule",
        "\\caption{Linhas",
        "\\label{tab:times}",
    ):
        assert words in latex
    assert "12,3 [11,0; 14,5]" in latex


def test_a_share_of_few_patients_is_a_count(shown, tmp_path):
    """Without a percentage or bounds, in both languages and in LaTeX; the CSV keeps the share."""
    few = [5 / 7, 0.75]
    table = pd.DataFrame({"sensitivity": few, "validation_specificity": few[::-1]})
    table = table.assign(
        sensitivity_low=[0.36, 0.6],
        sensitivity_high=[0.92, 0.85],
        sensitivity_counted=[7, float("nan")],
        validation_specificity_counted=[8, 0],
    )
    for lang, word in (("en", "of"), ("pt", "de")):
        page.Page(tmp_path, lang).table(table, "one", "The worst errors on the test split.")
        assert f">5 {word} 7<" in shown[-1] and f">6 {word} 8<" in shown[-1]
        assert "0.36" not in shown[-1] and "0,36" not in shown[-1]
        assert shown[-1].count("</th>") == 2
        assert f"5 {word} 7" in (tmp_path / "one.tex").read_text()
    assert ">0,750 <i>[0,600; 0,850]</i><" in shown[-1]
    kept = pd.read_csv(tmp_path / "one.csv")
    assert kept["sensitivity"].tolist() == pytest.approx(few)
    assert kept["sensitivity_low"].tolist() == [0.36, 0.6]


def test_a_column_without_a_header_is_an_error(shown):
    """Its name is no header."""
    table = pd.DataFrame({"train_s": [1.0], "my_factor": ["a"]})
    with pytest.raises(DrError, match="column my_factor of table times has no header"):
        page.Page().table(table, "times", NOTE)
    table = tabulate_groups(select_runs(train_referable([1.0, 2.0], CPU)), ["train_s"])
    page.Page().table(table, "groups", NOTE)
    assert ">n</th>" in shown[0] and ">disturbed<" not in shown[0], "none was"


def test_what_a_file_holds_is_no_markup(shown, tmp_path):
    """A model's name in the heading, a finding, the appendix and the name of a file."""
    name = "<b>my_*model*"
    written = "&lt;b&gt;my\\_\\*model\\*"
    paper = page.Page(tmp_path)
    paper.heading("Does the model find the patients who need a doctor?", [name])
    paper.findings([name])
    runs = train_referable([1, 2], CPU, seed=20).assign(commit=name, platform=name, model=name)
    paper.appendix(select_runs(runs))
    text = "\n".join(map(str, shown))
    assert "<p>&lt;b&gt;my_*model*</p>" in shown[0] and shown[1] == written
    assert f"model = {written};" in text and f"- commit: {written}" in text
    answer = Answer(name, [Number(name, "1")], [name], [name], name)
    figure, _ = style.open_panels(1)
    paper.answer(answer, figure, "figure_../1", CAPTION)
    assert shown[-1].count("&lt;b&gt;my_*model*") == 5 and "<b>" not in text + shown[-1]
    assert (tmp_path / "figure_.._1.png").is_file()


def test_a_figure_is_part_of_the_page_and_three_files(shown, tmp_path):
    """Its text is text of the page's type; the files are PNG, SVG, and a PDF of TrueType fonts."""
    paper = page.Page(tmp_path)
    for name, width in (("one", style.HALF), ("two", style.COLUMN)):
        figure, (ax,) = style.open_panels(1, width=width, heights=2)
        ax.text(0.5, 0.5, "some <words>", fontweight="bold")
        paper.figure(figure, name, CAPTION)
    paper.figure(plot_means({"nothing": []}), "nothing", CAPTION)
    files = {f"{name}.{suffix}" for name in ("one", "two") for suffix in ("pdf", "png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == {*files, "report.sha256"}
    assert 'class="half"' in shown[0] and 'class="wide"' in shown[1]
    assert ">some &lt;words&gt;</text>" in shown[0] and "font-weight: 700" in shown[0]
    assert "DejaVu" not in shown[0] and "<strong>Figure 2.</strong>" in shown[1]
    pdf = (tmp_path / "one.pdf").read_bytes()
    assert b"/Type0" in pdf and b"/Type3" not in pdf and b"FontFile2" in pdf


def test_many_marks_are_a_picture_in_the_figure(shown):
    """2,001 points, but not the words beside them."""
    for number, is_picture in ((1900, False), (2001, True)):
        figure, (ax,) = style.open_panels(1, heights=2)
        ax.scatter(range(number), range(number))
        page.Page().figure(figure, "one", CAPTION)
        assert ("<image" in shown[-1]) == is_picture and "<text" in shown[-1]


def test_the_title_says_what_was_measured_where_and_that_a_sample_is_synthetic(shown):
    """Study, authors, machines, number of runs and days stand below the question. A picture leaves
    its page, as a file, and still says that its data is synthetic, unless a paper printed them.
    """
    for kind, notice in (
        ("synthetic", "amostra sintética, não retinografias"),
        ("photographs", ""),
    ):
        runs = both(mode="paper", study="mine", started_at="2026-11-21T10:00", data_kind=kind)
        for lang in ("en", "pt"):
            paper = page.Page(lang=lang)
            paper.title(QUESTION, PAPERS["A"], select_runs(runs))
        assert (f"<mark>{notice}</mark>" in shown[-1]) == bool(notice)
        figure, _ = style.open_panels(1)
        paper.figure(figure, "one", CAPTION)
        assert figure.get_supxlabel() == notice
        published, _ = style.open_panels(1)
        words = "Time of a prediction of {} on each machine, in each format."
        paper.figure(published, "two", words, "<b>VGG19", is_ours=False)
        assert published.get_supxlabel() == ""
        assert "Tempo de uma predição de &lt;b&gt;VGG19 em cada" in shown[-1]
    places = "measured on Colab, TPU v2; Kaggle, 2 x Tesla T4 (Intel(R) Xeon(R) Processor)"
    facts = f"Study mine · compared with Araújo et al. · {places} · runs: 20 · 21 Nov 2026"
    assert f"<header><p>{facts}</p><h1>GPU or TPU" in shown[0]


def test_the_appendix_says_what_is_excluded_and_what_runs_have_in_common(shown):
    """A reason per row that is not timed, and parameters once."""
    about = {"commit": "c" * 40, "mode": ["paper", "fast"], "resumed": [0, 1]}
    runs = train_referable([1, 2], CPU, seed=20).assign(**about)
    page.Page().appendix(select_runs(runs))
    text = "\n".join(map(str, shown))
    for words in ("resumed after a stop", "epochs = 200", f"- commit: {'c' * 40}"):
        assert words in text
    page.Page(lang="pt").appendix(select_runs(runs.assign(data_share=0.25)))
    assert "data_share = 0,25" in "\n".join(map(str, shown[-4:]))
