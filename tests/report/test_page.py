"""What a page shows and leaves as files: numbers as they are read, words in two languages,
claims judged first.
"""

import csv

import pandas as pd
import pytest

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.report import page, style
from dr_lib.report.groups import select_runs
from tests.report.real_rows import both

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
        "point": "high sensitivity",
        "p": 1.51e-39,
    }
    table = pd.DataFrame([values])
    page.Page(tmp_path, "pt").table(table, "times", NOTE)
    for cell in (
        "tempo de treinamento [s]",
        "12,3 <i>[11,0; 14,5]</i>",
        "0,0000645",
        "3.377.221",
        "alta sensibilidade",
        "&lt; 0,001",
    ):
        assert f">{cell}<" in shown[0]
    page.Page().table(table, "times", NOTE)
    for cell in ("training time [s]", "12.3 <i>[11.0, 14.5]</i>", "3,377,221"):
        assert f">{cell}<" in shown[1]
    (kept,) = csv.DictReader((tmp_path / "times.csv").read_text().splitlines())
    assert kept["train_s"] == "12.345"
    latex = (tmp_path / "times.tex").read_text()
    for words in ("\\toprule", "\\caption{Linhas", "\\label{tab:times}", "12,3 [11,0; 14,5]"):
        assert words in latex


def test_a_share_of_few_patients_is_a_count(shown, tmp_path):
    """Without a percentage or bounds, in both languages and in LaTeX; the CSV keeps the share."""
    table = pd.DataFrame({"sensitivity": [5 / 7, 0.75]}).assign(
        sensitivity_low=[0.36, 0.6],
        sensitivity_high=[0.92, 0.85],
        sensitivity_counted=[7, float("nan")],
    )
    for lang, word in (("en", "of"), ("pt", "de")):
        page.Page(tmp_path, lang).table(table, "one", "The worst errors on the test split.")
        assert f">5 {word} 7<" in shown[-1]
        assert "0.36" not in shown[-1] and "0,36" not in shown[-1]
        assert f"5 {word} 7" in (tmp_path / "one.tex").read_text()
    assert ">0,750 <i>[0,600; 0,850]</i><" in shown[-1]
    kept = pd.read_csv(tmp_path / "one.csv")
    assert kept["sensitivity_low"].tolist() == [0.36, 0.6]


def test_a_column_without_a_header_is_an_error():
    """Its name is no header."""
    table = pd.DataFrame({"train_s": [1.0], "my_factor": ["a"]})
    with pytest.raises(DrError, match="column my_factor of table times has no header"):
        page.Page().table(table, "times", NOTE)


def test_a_figure_is_part_of_the_page_and_three_files(shown, tmp_path):
    """Its text is text of the page's type; the files are PNG, SVG, and a PDF of TrueType fonts."""
    paper = page.Page(tmp_path)
    for name, width in (("one", style.HALF), ("two", style.COLUMN)):
        figure, (ax,) = style.open_panels(1, width=width, heights=2)
        ax.text(0.5, 0.5, "some <words>", fontweight="bold")
        paper.figure(figure, name, CAPTION)
    files = {f"{name}.{suffix}" for name in ("one", "two") for suffix in ("pdf", "png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == {*files, "report.sha256"}
    assert ">some &lt;words&gt;</text>" in shown[0] and "font-weight: 700" in shown[0]
    pdf = (tmp_path / "one.pdf").read_bytes()
    assert b"/Type0" in pdf and b"/Type3" not in pdf and b"FontFile2" in pdf


def test_title_and_pictures_say_that_a_sample_is_synthetic(shown):
    """A picture leaves its page, as a file, and still says so, unless a paper printed its data."""
    for kind, notice in {
        "synthetic": "amostra sintética, não retinografias",
        "photographs": "",
    }.items():
        runs = both(mode="paper", study="mine", started_at="2026-11-21T10:00", data_kind=kind)
        paper = page.Page(lang="pt")
        paper.title(QUESTION, PAPERS["A"], select_runs(runs))
        assert (f"<mark>{notice}</mark>" in shown[-1]) == bool(notice)
        figure, _ = style.open_panels(1)
        paper.figure(figure, "one", CAPTION)
        assert figure.get_supxlabel() == notice
        published, _ = style.open_panels(1)
        paper.figure(published, "two", CAPTION, is_ours=False)
        assert published.get_supxlabel() == ""
