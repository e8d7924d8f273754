"""What a page shows and leaves as files: numbers as they are read, words in two languages,
claims judged first.
"""

import csv
from base64 import b64decode

import pandas as pd
import pytest
from matplotlib.figure import Figure

from dr_lib.errors import DrError
from dr_lib.report import page
from dr_lib.report.select import PLAN, WORK, select_runs
from dr_lib.report.style import read_headers
from dr_lib.report.training_time import compare_environments
from tests.report.real_rows import CPU, both, train_referable


def test_a_table_is_read_in_a_language_and_kept_as_numbers(shown, tmp_path):
    """Bounds stand beside their value, nothing has an exponent; the CSV has every digit, LaTeX
    booktabs.
    """
    table = pd.DataFrame(
        {
            "train_s": [12.345],
            "train_s_low": [11.0],
            "train_s_high": [14.5],
            "cost_usd": [0.00006451],
        }
    )
    table = table.assign(
        num_parameters=3_377_221.0,
        disturbed=True,
        level="0.007-0.484",
        point="high sensitivity",
        p=1.51e-39,
        predict_ms=float("nan"),
    )
    page.Page(tmp_path, "pt").table(table, "times", "Rows that are not timed, with reasons.")
    cells = [
        "tempo de treinamento [s]",
        "12,3 [11,0; 14,5]",
        "0,0000645",
        "3.377.221",
        "yes",
        "0,007-0,484",
        "alta sensibilidade",
        "&lt; 0,001",
    ]
    assert "predição" not in shown[0], "a column that holds nothing is not shown"
    assert all(f">{cell}<" in shown[0] for cell in cells) and shown[1].startswith(
        "**Tabela 1.** Linhas"
    )
    page.Page().table(table, "times", "Rows that are not timed, with reasons.")
    assert all(
        f">{cell}<" in shown[2]
        for cell in ("training time [s]", "12.3 [11.0, 14.5]", "3,377,221", "yes")
    )
    with (tmp_path / "times.csv").open() as file:
        assert next(csv.DictReader(file))["train_s"] == "12.345"
    latex = (tmp_path / "times.tex").read_text()
    assert (
        all(rule in latex for rule in ("\\toprule", "\\midrule", "\\bottomrule"))
        and cells[1] in latex
    )


def test_a_column_without_a_header_is_an_error(shown):
    """Its name is no header; a column that a user made is, where the caller says so."""
    table = pd.DataFrame({"train_s": [1.0], "my_factor": ["a"]})
    with pytest.raises(DrError, match="column my_factor of table times has no header"):
        page.Page().table(table, "times", "Rows that are not timed, with reasons.")
    page.Page().table(
        table, "times", "Rows that are not timed, with reasons.", own=["my_factor"]
    )
    assert ">my_factor<" in shown[0]
    runs = select_runs(train_referable([1.0, 2.0], CPU)).finished
    page.Page().table(
        compare_environments(runs), "environments", "Rows that are not timed, and why."
    )
    assert ">n<" in shown[2] and ">disturbed<" not in shown[2], "none was"


def test_a_likelihood_ratio_without_a_false_alarm_is_infinite(shown, tmp_path):
    """As the page, LaTeX and the CSV say, with the bound that it has."""
    infinite = [float("inf")]
    table = pd.DataFrame(
        {"lr_plus": infinite, "lr_plus_low": [3.4187], "lr_plus_high": infinite}
    )
    page.Page(tmp_path).table(
        table, "accuracy", "Operating points and the data they were chosen on."
    )
    assert (
        ">∞ [3.42, ∞]<" in shown[0] and "∞ [3.42, ∞]" in (tmp_path / "accuracy.tex").read_text()
    )
    assert (tmp_path / "accuracy.csv").read_text().endswith("inf,3.4187,inf\n")


def test_what_a_file_holds_is_no_markup(shown, tmp_path):
    """A model's name in the heading, a finding, the appendix and the name of a file."""
    name = "<b>my_*model*"
    written = "&lt;b&gt;my\\_\\*model\\*"
    paper = page.Page(tmp_path)
    paper.heading("How well does the model refer?", [name])
    paper.findings([name])
    runs = train_referable([1, 2], CPU, seed=20).assign(commit=name, platform=name, model=name)
    paper.appendix(select_runs(runs))
    text = "\n".join(map(str, shown))
    assert f"\n\n{written}." in shown[0] and shown[1] == written
    assert f"model = {written};" in text
    assert f"- commit: {written}" in text and "<b>" not in text
    paper.figure(Figure(), "figure_../1", "Processor use, mean over a run.")
    assert (tmp_path / "figure_.._1.png").is_file()


def test_a_figure_is_shown_and_kept_twice(shown, tmp_path):
    """PNG and PDF, and a number of its own."""
    (paper := page.Page(tmp_path)).figure(Figure(), "one", "Processor use, mean over a run.")
    paper.figure(Figure(), "two", "Processor use, mean over a run.")
    assert {path.name for path in tmp_path.iterdir()} == {
        "one.png",
        "one.pdf",
        "two.png",
        "two.pdf",
        "report.sha256",
    }
    assert b64decode(shown[0]["image/png"])[:4] == b"\x89PNG" and shown[3].startswith(
        "**Figure 2.**"
    )


def test_the_title_says_what_was_measured_where(shown):
    """Study, authors, machines, number of runs and days stand below the question; a synthetic
    sample is said.
    """
    runs = both(study="mine", started_at="2026-11-21T10:00", data_kind="synthetic")
    page.Page().title("GPU or TPU: how long does training take?", "A", select_runs(runs))
    assert "> **SYNTHETIC SAMPLE, NOT PHOTOGRAPHS**" in shown[0]
    places = "measured on colab, TPU v2; kaggle, 2 x Tesla T4 (Intel(R) Xeon(R) Processor)"
    assert (
        f"Study mine; compared with Araújo et al.; {places}; 20 runs, 2026-11-21." in shown[0]
    )


def test_each_figure_says_that_its_data_is_synthetic(shown):
    """A picture leaves its page, as a file, and still says so; real photographs are not called
    drawn.
    """
    for kind, title in (
        ("synthetic", "Tempo\namostra sintética, não retinografias"),
        ("photographs", "Tempo"),
    ):
        paper = page.Page(lang="pt")
        figure = Figure()
        paper.title(
            "GPU or TPU: how long does training take?", "A", select_runs(both(data_kind=kind))
        )
        figure.suptitle("Tempo")
        paper.figure(figure, "one", "Processor use, mean over a run.")
        assert figure.get_suptitle() == title
        published = Figure()
        published.suptitle("Tempo")
        paper.figure(
            published,
            "two",
            "Time of a prediction of {} on each machine, in each format.",
            "<b>VGG19",
            is_ours=False,
        )
        assert published.get_suptitle() == "Tempo"
        assert "Tempo de uma predição de &lt;b&gt;VGG19 em cada" in shown[-1]


def test_the_appendix_says_what_is_excluded_and_what_runs_have_in_common(shown):
    """A reason per row that is not timed, parameters once, and what varies by run."""
    runs = train_referable([1, 2], CPU, seed=20).assign(
        commit="c" * 40, resumed=[0, 1], mode=["paper", "fast"]
    )
    page.Page().appendix(select_runs(runs, may_differ=["mode"]))
    text = "\n".join(map(str, shown))
    assert (
        "resumed after a stop" in text
        and "epochs = 200" in text
        and f"- commit: {'c' * 40}" in text
    )
    assert text.index(">paper<") < text.index(">fast<")
    rates = runs.assign(learning_rate=[0.1, 0.02], dropout=0.25, mode="paper")
    page.Page(lang="pt").appendix(select_runs(rates, may_differ=["learning_rate"]))
    text = "\n".join(map(str, shown[-4:]))
    assert ">taxa de aprendizado<" in text and ">0,02<" in text and "dropout = 0,25" in text
    several = runs.assign(commit=["a", "b"], code_sha256="1", mode="paper")
    page.Page().appendix(select_runs(several))
    assert "The commits of the runs differ, their code does not." in shown[-2]
    missing = {*WORK, *PLAN} - {*page.COMMITS} - {*read_headers()}
    assert not missing, "give them headers in dr_lib/report/words.csv"


def test_runs_of_one_name_in_two_studies_are_two(shown):
    """A run is named by its scenario alone where all ran on one machine; one of no study keeps its
    name.
    """
    runs = pd.concat(
        [
            train_referable([1], CPU, study=study, seed=20).assign(
                run_id="C1-r00-local-some-machine"
            )
            for study in "ab"
        ],
        ignore_index=True,
    )
    page.Page().title("GPU or TPU: how long does training take?", "", select_runs(runs))
    page.Page().appendix(select_runs(runs))
    assert "; 2 runs, " in shown[0] and "\n".join(map(str, shown)).count(">C1-r00<") == 2
    page.Page().appendix(select_runs(runs[:1].assign(run_id="bbe44904cd54")))
    assert any(">bbe44904cd54<" in str(text) for text in shown)
