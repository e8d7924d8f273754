"""Environments compared, modes with the paper's, and tries for a target: on rows made by hand,
the AUC says whether a speed counts.
"""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.report import training_time
from dr_lib.report.answer import answer_training
from dr_lib.report.select import judge_models, select_runs
from dr_lib.report.training_time import (
    compare_environments,
    compare_places,
)
from dr_lib.statistics.intervals import NOTHING
from tests.report.real_rows import T4X2, train_referable
from tests.report.real_rows import TPU as TPU_V2
from tests.report.timed_rows import CPU, T4, TPU, make_runs

TIMES = {"paper": [100.0, 110, 105], "fast": [50.0, 52, 49], "plain": [20.0, 21, 19]}
AUCS = {"paper": [0.90, 0.91, 0.92], "fast": [0.91, 0.905, 0.92], "plain": [0.80, 0.81, 0.79]}
EVEN = np.linspace(-0.004, 0.004, 5)


def make_modes(times=TIMES, aucs=AUCS, hardware=CPU, **columns):
    """Rows of one machine, by mode."""
    rows = [
        make_runs(times[mode], hardware, mode=mode, metric_auc_test=aucs[mode])
        for mode in times
    ]
    rows = pd.concat(rows, ignore_index=True)
    return rows.assign(steady_epoch_s=rows["train_s"] / 10, **columns)


def compare_modes(runs, **options):
    """The table of these rows, by mode."""
    selection = select_runs(runs, may_differ=["mode"], **options)
    table = training_time.compare_modes(selection)
    return table.set_index("mode") if len(table) else table


def compare_finished(runs, **options):
    """The environments of these rows."""
    selection = select_runs(runs, **options)
    return compare_environments(selection.finished, selection.factors)


def test_a_ratio_says_how_many_times_as_fast():
    """Paper over mode: the means' ratio, near SciPy's Welch interval of the log times,
    exponentiated; the paper's own is one.
    """
    table = compare_modes(make_modes())
    assert list(table.index) == ["paper", "fast", "plain"]
    for mode in ("fast", "plain"):
        logs = np.log(TIMES["paper"]), np.log(TIMES[mode])
        welch = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.97)
        ratio = np.mean(TIMES["paper"]) / np.mean(TIMES[mode])
        expected = [ratio, np.exp(welch.low), np.exp(welch.high)]
        for name in ("times_as_fast", "times_as_fast_by_epoch"):
            columns = [name, f"{name}_low", f"{name}_high"]
            assert table.loc[mode, columns].tolist() == pytest.approx(expected, rel=2e-3)
    assert table.loc["paper", "times_as_fast"] == 1
    assert np.isnan(table.loc["paper", "times_as_fast_low"])


@pytest.mark.parametrize(
    ("auc", "deviation", "verdict"),
    [
        (0.91, 0.003, "counts"),
        (0.95, 0.003, "does not count: higher AUC"),
        (0.87, 0.003, "does not count: lower AUC"),
        (0.893, 0.003, "undecided"),
        (0.91, 0.05, "undecided"),  # the same AUC
    ],
)
def test_a_speed_counts_where_the_auc_is_shown_to_be_the_papers(auc, deviation, verdict):
    """The 90 % interval of SciPy's Welch test within 0.02 of no difference; a better AUC is
    another model, too. So many runs a side would tell: 2 x (deviation / 0.02)^2 x (1.645 + 1.282)^2
    (two one-sided tests, power 80 %, after Chow, Shao and Wang 2008), three at least.
    """
    spread = EVEN * deviation / EVEN.std(ddof=1)
    aucs = {"paper": 0.91 + spread, "fast": auc + spread}
    table = compare_modes(make_modes({"paper": [100.0] * 5, "fast": [50.0] * 5}, aucs))
    assert table["verdict"].tolist() == ["reference", verdict]
    welch = stats.ttest_ind(aucs["fast"], aucs["paper"], equal_var=False)
    found = table.loc["fast", ["auc_difference_low", "auc_difference_high"]]
    assert found.tolist() == pytest.approx([*welch.confidence_interval(0.9)], abs=1e-9)
    needed = max(3, 2 * (deviation / 0.02 * (1.645 + 1.282)) ** 2)
    assert table.loc["fast", "runs_needed"] == pytest.approx(needed, abs=3)


@pytest.mark.parametrize("few", ["paper", "fast"])
def test_two_runs_on_either_side_decide_nothing(few):
    """Two paper runs decide on no mode, two fast ones not on fast."""
    times, aucs = (values | {few: values[few][:2]} for values in (TIMES, AUCS))
    table = compare_modes(make_modes(times, aucs))
    assert table.loc["fast", ["verdict", "runs_needed"]].tolist() == ["undecided", 3]
    assert table.loc[few, "n"] == 2
    assert (table.loc["plain", "verdict"] == "undecided") == (few == "paper")


def test_a_mark_touches_the_time_not_the_auc():
    """A resumed and an excluded run keep their AUCs; their times do not count. A failed run has
    neither.
    """
    runs = make_modes(resumed=[2] + [0] * 8, disturbed=[False] * 3 + [True] + [False] * 5)
    runs = pd.concat([runs, make_modes(status="failed")], ignore_index=True)
    table = compare_modes(runs, exclude=["disturbed"])
    assert table["n"].tolist() == [3, 3, 3] and table["n_timed"].tolist() == [2, 2, 3]
    assert table.loc["fast", "times_as_fast"] == pytest.approx((110 + 105) / (52 + 49))
    assert compare_modes(runs)["n_timed"].tolist() == [2, 3, 3]


def test_each_machine_and_level_is_compared_with_itself():
    """Fast is twice as fast at batch 8 and as fast at 32: no mean of both. A machine that did not
    run the paper's mode is left out.
    """
    fast = {8: [50.0, 52.5, 55.0], 32: TIMES["paper"]}
    runs = [
        make_modes({**TIMES, "fast": fast[size]}, hardware=hardware, batch_size=size)
        for size in fast
        for hardware in (CPU, T4)
    ]
    alone = make_modes(hardware=TPU, batch_size=8).query("mode != 'paper'")
    table = compare_modes(pd.concat([*runs, alone]), allowed=["batch_size"])
    fast = table.loc["fast"].set_index(["machine", "batch_size"])["times_as_fast"]
    machines = ["kaggle, 2 x Tesla T4", "local, CPU"]
    assert fast.index.tolist() == [(name, size) for name in machines for size in (8, 32)]
    assert fast.tolist() == pytest.approx([2, 1, 2, 1])


@pytest.mark.parametrize(
    "runs", [pd.DataFrame(), make_modes(mode="paper"), make_modes().drop(columns="mode")]
)
def test_one_mode_is_compared_with_nothing(runs):
    """No rows, rows of the paper's mode, and rows that name none."""
    assert compare_modes(runs).empty


def test_rows_without_an_auc_or_a_time_have_none():
    """One epoch has no steady time, and a run without a test split no AUC: no number is made up."""
    runs = make_modes().drop(columns="metric_auc_test").assign(steady_epoch_s=None)
    fast = compare_modes(runs).loc["fast"]
    assert (fast["n"], fast["verdict"]) == (0, "undecided") and fast["times_as_fast"] > 2
    assert fast[["metric_auc_test", "times_as_fast_by_epoch"]].isna().all()
    assert compare_finished(make_runs([100.0], CPU, status="failed")).empty


def test_scores_are_of_patients_of_one_run_and_of_all_runs_of_several():
    """One run repeats nothing: it has the interval of its row. Of three runs one was resumed, whose
    score counts and whose time does not; alone it has no time.
    """
    bounds = {"metric_auc_test_low": 0.8, "metric_auc_test_high": 0.95}
    (row,) = compare_finished(
        make_runs([100.0], CPU, metric_auc_test=0.9, **bounds)
    ).itertuples()
    assert row.metric_auc_test == 0.9 and np.isnan(row.train_s_low)
    assert (row.metric_auc_test_low, row.metric_auc_test_high) == (0.8, 0.95)

    scored = {"metric_auc_test": AUCS["paper"], "resumed": [0, 1, 0]}
    runs = make_runs(TIMES["paper"], CPU, **scored)
    (row,) = compare_finished(runs).itertuples()
    assert (row.n, row.scored, row.train_s) == (2, 3, pytest.approx(102.5))
    assert row.metric_auc_test == pytest.approx(0.91)
    (row,) = compare_finished(runs[1:2]).itertuples()
    assert (row.n, row.scored, row.metric_auc_test) == (0, 1, 0.91) and np.isnan(row.train_s)


def test_levels_stand_side_by_side_with_their_ratios():
    """3 s at batch 8 and 6 s at batch 32 on a CPU, a third of both on a GPU: neither mean mixes
    levels, and each ratio changes one thing.
    """
    runs = []
    for accelerator, speed in (("cpu", 1), ("Tesla T4", 3)):
        for batch_size, times in ((8, 1), (32, 2)):
            seconds = np.array([2.9, 3.0, 3.1]) * times / speed
            columns = {"accelerator": accelerator, "batch_size": batch_size}
            runs.append(make_runs(seconds, CPU, study="s", scenario=f"C{times}", **columns))
    table = compare_finished(pd.concat(runs)).set_index(["environment", "batch_size"])
    columns = ["train_s", "train_s_sd", "train_s_ratio", "train_s_level_ratio"]
    for place, expected in {
        ("local, CPU", 32): [6, 0.2, 3, 2],
        ("local, CPU", 8): [3, 0.1, 3, 1],
        ("local, Tesla T4", 32): [2, 0.2 / 3, 1, 2],
    }.items():
        assert table.loc[place, columns].tolist() == pytest.approx(expected)
        low, high = table.loc[place, ["train_s_level_ratio_low", "train_s_level_ratio_high"]]
        assert place[1] == 8 or 1.8 < low < 2 < high < 2.2


def test_a_cold_run_has_a_line_without_a_ratio():
    """Rows of notebook 10 whose first was cold: its time and its AUC stand apart, and n of each
    line counts the runs that its means are of.
    """
    runs = train_referable([39.1, 14.7, 12.6], T4, boot="one", mode="paper")
    runs = runs.assign(cold=[True, False, False], metric_auc_test=[0.9, 0.8, 0.7])
    slow = train_referable([50.0, 54.0], CPU, boot="two", metric_auc_test=0.9, mode="paper")
    table = compare_finished(pd.concat([runs, slow], ignore_index=True))
    assert table["environment"].tolist() == [
        "kaggle, 2 x Tesla T4, cold",
        "local, CPU",
        "kaggle, 2 x Tesla T4",
    ]
    for column, expected in {
        "n": [1, 2, 2],
        "train_s": [39.1, 52, 13.65],
        "train_s_ratio": [np.nan, 52 / 13.65, 1],
        "metric_auc_test": [0.9, 0.9, 0.75],
    }.items():
        assert table[column].tolist() == pytest.approx(expected, nan_ok=True)
    assert "scored" not in table
    alone = select_runs(runs)
    answer = answer_training(alone, compare_environments(alone.finished), pd.DataFrame())
    notes = [number.note for number in answer.numbers]
    assert notes == ["n = 2, sessions: 1", "n = 1, sessions: 1"]


GOOD = [0.930, 0.941, 0.922, 0.935, 0.928]
WIDE = [0.93, 0.90, 0.95, 0.92, 0.91]
CHANCE = [0.50, 0.51, 0.49, 0.52, 0.48]


def make_models(scores, column="metric_auc_test", **columns):
    """A row for each training of one machine, each of a seed."""
    return pd.DataFrame({column: scores}).assign(
        **{"seed": range(20, 20 + len(scores))} | columns
    )


@pytest.mark.parametrize(
    ("models", "verdict", "words"),
    [
        (make_models(GOOD), "equal", "AUC differs by 0.000 [0.000, 0.000], 90 %, n = 5"),
        (make_models(CHANCE), "not comparable", "test AUC differs by -0.431 "),
        (make_models([0.965, 0.98, 0.96, 0.97, 0.965]), "not comparable", " by 0.037 "),
        (make_models(GOOD[:2]), "undecided", "n = 2: n near 3 might show whether"),
        # by hand: half of Welch's interval is 0.02049, the margin 0.0108 away: 5 x (2049 / 1080)^2
        (make_models(WIDE), "undecided", "n = 5: n near 19 might show"),
        (make_models(CHANCE[:1]), "undecided", "n = 1: n near 3"),
        (make_models([np.nan] * 5), "not comparable", "test AUC not measured"),
        # trainings of one seed are one; of unknown seeds each counts
        (make_models(GOOD, seed=20), "undecided", "n = 1"),
        (make_models(GOOD, seed=[20, 20, 21, 22, 22]), "equal", "n = 3"),
        (make_models(GOOD, seed=None), "equal", "n = 5, seeds unknown"),
        (make_models([*GOOD[:4], None]), "undecided", "1 runs have none"),
    ],
)
def test_times_of_equal_models_alone_are_compared(models, verdict, words):
    """Whichever side is better: another model is another work."""
    found = judge_models(models, make_models(GOOD))
    assert found.verdict == verdict and words in found.words


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (GOOD, ""),
        (WIDE, "of models not shown to be equal"),
        (CHANCE, "of unlike models"),
    ],
)
def test_a_ratio_of_machines_says_that_their_models_differ(scores, words):
    """In every table that divides the times of two machines."""
    boots = {"boot": list("abcde"), "seed": range(20, 25)}
    runs = [
        make_runs(100 + EVEN, hardware, metric_auc_test=auc, **boots)
        for hardware, auc in ((T4, GOOD), (TPU, scores))
    ]
    scope = compare_finished(pd.concat(runs))["train_s_ratio_scope"].dropna().iloc[0]
    assert scope.endswith(words) and ("models" in scope) == bool(words)


def test_frameworks_are_compared_by_accuracy_and_served_models_by_their_file():
    """Trainings of paper C have no AUC; what is served is not trained again."""
    side = make_models(GOOD, "metric_accuracy_test", framework="mxnet")
    assert judge_models(side, side).words.startswith("test accuracy differs by 0.000")
    without = side.drop(columns="metric_accuracy_test")
    assert judge_models(side, without).words == "test accuracy not measured"

    served = pd.DataFrame({"predict_ms": [9.0, 8.0], "model_version": ["abc", "abc"]})
    assert judge_models(served, served).verdict == "equal"
    for other, name in (("def", "def"), (None, "unknown")):
        found = judge_models(served, served.assign(model_version=other))
        assert found == ("not comparable", f"other exported files: abc against {name}", NOTHING)
    for versions in ([None, None], ["abc", None]):
        unknown = served.assign(model_version=versions)
        assert judge_models(unknown, unknown).verdict == "not comparable"


def test_a_ratio_of_machines_is_of_stack_or_hardware():
    """Three arms, 3000, 2400 and 1800 s, and a TPU at equal float32: which ratio is of what."""
    ten = np.linspace(0.98, 1.02, 10)
    jax = {"backend": "jax", "jit": True, "scenario": "C2"}
    arms = [
        train_referable(3000 * ten, T4X2, scenario="C1"),
        train_referable(2400 * ten, T4X2, **jax),
        train_referable(1800 * ten, TPU_V2, matmul_precision="bfloat16", **jax),
    ]
    rows = pd.concat(arms, ignore_index=True).assign(study="gpu_vs_tpu")
    rows["run_id"] = rows["run_id"] + rows.index.astype(str)

    def split(rows):
        selection = select_runs(rows)
        table = compare_places(selection.timed, selection.factors)
        return {round(row.times_as_long, 2): row for row in table.itertuples()}

    found = split(rows)
    by_default = "of the hardware, at each device's default arithmetic"
    assert {ratio: row.ratio_of for ratio, row in found.items()} == {
        1.25: "of the stack",
        1.67: "of stack and hardware",
        1.33: by_default,
    }
    assert found[1.25].unlike == "backend (jax, tensorflow), jit (False, True)"
    assert found[1.67].times_as_long_low < 1.67 < found[1.67].times_as_long_high
    equal = split(rows.assign(matmul_precision="float32"))
    assert equal[1.33].ratio_of == "of the hardware, at equal float32"
    unknown = split(rows.drop(columns=["matmul_precision", "conv_precision"]))
    assert unknown[1.33].ratio_of == "of stack and hardware"
    assert unknown[1.25].ratio_of == "of the stack"
    scopes = compare_environments(select_runs(rows).finished, ["backend"])
    assert by_default in set(scopes["train_s_ratio_scope"].dropna())
