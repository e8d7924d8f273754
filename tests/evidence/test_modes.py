"""Modes held against the paper's, on rows made by hand: the AUC says whether a speed counts."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.evidence.modes import compare_modes
from dr_lib.evidence.report import write_report

CPU = {"status": "ok", "error": "", "platform": "local", "accelerator": "cpu", "num_accelerators": 1}
TIMES = {"paper": [100.0, 110, 105], "fast": [50.0, 52, 49], "scaled": [20.0, 21, 19]}
AUCS = {"paper": [0.90, 0.91, 0.92], "fast": [0.91, 0.905, 0.92], "scaled": [0.80, 0.81, 0.79]}


def make_runs(times=TIMES, aucs=AUCS, **columns):
    """Rows of one machine, by mode."""
    rows = [
        CPU | {"run_id": f"{mode}-{k}", "mode": mode, "train_s": s, "steady_epoch_s": s / 10, "metric_auc_test": auc}
        for mode in times
        for k, (s, auc) in enumerate(zip(times[mode], aucs[mode], strict=True))
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_a_ratio_says_how_many_times_as_fast():
    """Paper over mode: SciPy's Welch interval of the log times, exponentiated; the paper's own is one."""
    table = compare_modes(make_runs()).set_index("mode")
    assert list(table.index) == ["paper", "fast", "scaled"]
    for mode in ("fast", "scaled"):
        paper, ours = np.log(TIMES["paper"]), np.log(TIMES[mode])
        welch = stats.ttest_ind(paper, ours, equal_var=False).confidence_interval()
        expected = np.exp([paper.mean() - ours.mean(), welch.low, welch.high])
        for time in ("train_s", "steady_epoch_s"):
            columns = [f"{time}_ratio", f"{time}_ratio_low", f"{time}_ratio_high"]
            assert table.loc[mode, columns].tolist() == pytest.approx(list(expected))
    assert table.loc["paper", "train_s_ratio"] == 1 and np.isnan(table.loc["paper", "train_s_ratio_low"])


def test_a_speed_counts_inside_the_papers_interval_of_the_mean():
    """Three AUCs of 0.91 with a deviation of 0.01 bound their mean by 4.303 x 0.01 / sqrt(3): 0.885 to 0.935."""
    table = compare_modes(make_runs()).set_index("mode")
    assert table["verdict"].tolist() == ["reference", "counts", "does not count: AUC below A's interval"]
    assert table["metric_auc_test"].tolist() == pytest.approx([0.91, 0.911667, 0.80], abs=1e-5)
    bounds = table.loc["paper", ["metric_auc_test_low", "metric_auc_test_high"]].tolist()
    assert bounds == pytest.approx([0.885, 0.935], abs=0.001)


@pytest.mark.parametrize(
    ("auc", "verdict"),
    [
        (0.95, "does not count: AUC above A's interval"),
        (0.93, "counts"),
        (0.88, "does not count: AUC below A's interval"),
    ],
)
def test_both_sides_of_the_interval_count(auc, verdict):
    """A better AUC is another model too: 0.93 lies inside 0.885 to 0.935, 0.95 and 0.88 outside."""
    table = compare_modes(make_runs(aucs=AUCS | {"fast": [auc] * 3}))
    assert table["verdict"][1] == verdict


def test_the_same_auc_without_spread_counts():
    """An interval of no width holds its own value, whatever the last digit of its logarithm."""
    aucs = dict.fromkeys(AUCS, [0.9137] * 3)
    assert compare_modes(make_runs(aucs=aucs))["verdict"].tolist() == ["reference", "counts", "counts"]


@pytest.mark.parametrize("few", ["paper", "fast"])
def test_two_runs_on_either_side_decide_nothing(few):
    """Two paper runs decide on no mode, two fast ones not on fast."""
    times, aucs = (values | {few: values[few][:2]} for values in (TIMES, AUCS))
    table = compare_modes(make_runs(times, aucs)).set_index("mode")
    assert table.loc["fast", "verdict"] == "undecided: n < 3" and table.loc[few, "n"] == 2
    assert (table.loc["scaled", "verdict"] == "undecided: n < 3") == (few == "paper")


def test_a_flaw_touches_the_time_not_the_auc():
    """A resumed and a disturbed run keep their AUCs; their times enter only when asked. A failed run has neither."""
    runs = make_runs(resumed=[2] + [0] * 8, disturbed=[False] * 3 + [True] + [False] * 5)
    runs = pd.concat([runs, make_runs(status="failed")], ignore_index=True)
    table = compare_modes(runs).set_index("mode")
    assert table["n"].tolist() == [3, 3, 3] and table["n_timed"].tolist() == [2, 2, 3]
    assert table.loc["fast", "train_s_ratio"] == pytest.approx(((110 * 105) / (52 * 49)) ** 0.5)
    kept = compare_modes(runs, keep=["resumed", "disturbed"]).set_index("mode")
    assert kept["n_timed"].tolist() == [3, 3, 3]
    assert kept.loc["fast", "train_s_ratio"] == pytest.approx(((100 * 110 * 105) / (50 * 52 * 49)) ** (1 / 3))


def test_each_machine_is_compared_with_itself():
    """A machine that ran one mode only, or not the paper's, is left out."""
    other = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
    slower = make_runs({k: [3 * s for s in v] for k, v in TIMES.items()}, **other)
    alone = make_runs(**other | {"platform": "colab"})
    table = compare_modes(pd.concat([make_runs(), slower, alone[alone["mode"] != "paper"]], ignore_index=True))
    assert table["machine"].tolist() == ["kaggle, 2 x Tesla T4"] * 3 + ["local, CPU"] * 3
    assert table["train_s_ratio"][:3].tolist() == pytest.approx(table["train_s_ratio"][3:].tolist())


@pytest.mark.parametrize("runs", [pd.DataFrame(), make_runs(mode="paper"), make_runs().drop(columns="mode")])
def test_one_mode_is_compared_with_nothing(runs):
    """No rows, rows of the paper's mode, and rows that name none."""
    assert compare_modes(runs).empty


def test_rows_without_an_auc_or_a_time_have_none():
    """One epoch has no steady time, and a run without a test split no AUC: no number is made up."""
    runs = make_runs().drop(columns="metric_auc_test").assign(steady_epoch_s=None)
    fast = compare_modes(runs).set_index("mode").loc["fast"]
    assert (fast["n"], fast["verdict"]) == (0, "undecided: n < 3")
    assert np.isnan(fast["metric_auc_test"]) and np.isnan(fast["steady_epoch_s_ratio"]) and fast["train_s_ratio"] > 2


@pytest.mark.parametrize(
    ("lang", "heading", "verdict"),
    [
        ("en", "## Modes", "does not count: AUC below A's interval"),
        ("pt", "## Modos", "não conta: AUC abaixo do intervalo de A"),
    ],
)
def test_the_report_has_a_section_where_there_are_modes(tmp_path, lang, heading, verdict):
    """Value and interval stand in one cell; with one mode there is no such section."""
    write_report(make_runs(), tmp_path / "report.md", lang=lang, allow=["mode"])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    section = text.split(heading)[1].split("## ")[0]
    (paper, fast, scaled) = [line.split(" | ") for line in section.splitlines() if line.startswith("| local")]
    assert paper[:3] == ["| local, CPU", "paper", "3"] and paper[5] == "1"
    assert fast[5].startswith("2.085 [")  # (100 x 110 x 105 / (50 x 52 x 49)) ** (1 / 3)
    assert scaled[-1] == f"{verdict} |" and "nan" not in section
    write_report(make_runs(mode="paper"), tmp_path / "report.md", lang=lang)
    assert heading not in (tmp_path / "report.md").read_text(encoding="utf-8")
