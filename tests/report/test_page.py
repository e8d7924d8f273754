"""What a page shows and leaves as files: numbers as they are read, words in two languages."""

import re

import pandas as pd
import pytest

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.report import page, style
from dr_lib.report.answer import answer_training
from dr_lib.report.groups import compare_groups, select_runs, tabulate_groups
from tests.report.reading import find_english
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
    page.Page().table(table, "times", NOTE)
    page.Page(tmp_path, "pt").table(table, "times", NOTE)
    portuguese = ("tempo de treinamento [s]", "12,3 <i>[11,0; 14,5]</i>", "0,0000645")
    portuguese += ("3.377.221", "alta sensibilidade", "&lt; 0,001")
    english = ("training time [s]", "12.3 <i>[11.0, 14.5]</i>", "3,377,221")
    for text, cells in zip(shown, (english, portuguese), strict=True):
        assert all(f">{cell}<" in text for cell in cells)
    assert pd.read_csv(tmp_path / "times.csv").loc[0].to_dict() == values
    latex = (tmp_path / "times.tex").read_text()
    for words in ("\\toprule", "\\caption{Linhas", "\\label{tab:times}", "12,3 [11,0; 14,5]"):
        assert words in latex


@pytest.mark.parametrize("columns", [{"my_factor": ["a"]}, {}])
def test_a_column_without_a_header_is_an_error(columns):
    """Its name is no header; also where these rows have nothing of it."""
    table = pd.DataFrame({"train_s": [1.0], **columns})
    with pytest.raises(DrError, match="column my_factor of table times has no header"):
        page.Page().table(table, "times", NOTE, columns=["train_s", "my_factor"])


def test_a_figure_is_part_of_the_page_and_three_files(shown, tmp_path):
    """Its text is text, of the page's type; the files are PNG, SVG, and a PDF of TrueType fonts."""
    figure, (ax,) = style.open_panels(1, width=style.HALF, heights=2)
    ax.text(0.5, 0.5, "some <words>")
    page.Page(tmp_path).figure(figure, "one", CAPTION)
    files = {"one.pdf", "one.png", "one.svg", "report.sha256"}
    assert {path.name for path in tmp_path.iterdir()} == files
    assert ">some &lt;words&gt;</text>" in shown[0] and '<figure class="half">' in shown[0]
    pdf = (tmp_path / "one.pdf").read_bytes()
    assert b"/Type0" in pdf and b"/Type3" not in pdf and b"FontFile2" in pdf


def test_title_and_pictures_say_that_a_sample_is_synthetic(shown):
    """A picture leaves its page, as a file, and still says so, unless a paper printed its data."""
    for kind, notice in {
        "synthetic": "amostra sintética, não retinografias",
        "photographs": "",
    }.items():
        runs = both(mode="paper", study="mine", started_at="2026-11-21T10:00", data_kind=kind)
        runs = runs.assign(cpu=None)
        paper = page.Page(lang="pt")
        paper.title(QUESTION, PAPERS["A"], select_runs(runs))
        assert (f"<mark>{notice}</mark>" in shown[-1]) == bool(notice)
        assert "()" not in shown[-1]  # a row may know no processor
        for is_ours in (True, False):
            figure, _ = style.open_panels(1)
            paper.figure(figure, "one", CAPTION, is_ours=is_ours)
            assert figure.get_supxlabel() == notice * is_ours


def test_a_page_is_portuguese_to_its_last_cell(shown):
    """Of groups that differ in work, stack and hardware: answer, tables and appendix."""
    runs = both(batch_size=8, mode="paper", started_at="2026-11-21T10:00")
    others = [
        runs.assign(batch_size=32, learning_rate=0.25),
        runs.assign(mode="fast", jit=True, cpu="EPYC"),
    ]
    runs = pd.concat([runs, *others], ignore_index=True)
    selection = select_runs(runs, lang="pt", may_differ=["batch_size", "learning_rate"])
    table = tabulate_groups(selection, ["train_s"])
    ratios = compare_groups(selection, "train_s")
    ours = page.Page(lang="pt")
    ours.title(QUESTION, PAPERS["A"], selection)
    ours.answer(answer_training(selection, table, ratios, "pt"))
    ours.table(table, "groups", NOTE)
    ours.table(ratios, "ratios", NOTE)
    ours.appendix(selection)
    text = " ".join(map(str, shown))
    assert not find_english(text)
    for words in (
        "Kaggle, 2 x Tesla T4, EPYC, modo rápido, lote 8",
        "modo (rápido, do artigo); compilado por XLA (não, sim); hardware",
        "lote (32, 8); taxa de aprendizado (0,001, 0,25)",
    ):
        assert f">{words}<" in text
    assert "Os dois diferem em: " in text
    assert not re.search("batch|paper|fast|mode ", " ".join(table["group"]))
