"""Environments compared, and modes with the paper's: on rows made by hand, the AUC says whether
a speed counts.
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
    compare_machines,
    compare_places,
    summarise_targets,
)
from dr_lib.statistics.intervals import NOTHING
from tests.report.real_rows import T4X2, TPU, train_referable

CPU = {
    "status": "ok",
    "error": "",
    "platform": "local",
    "accelerator": "cpu",
    "num_accelerators": 1,
}
TIMES = {"paper": [100.0, 110, 105], "fast": [50.0, 52, 49], "scaled": [20.0, 21, 19]}
TEN = np.linspace(0.98, 1.02, 10)
AUCS = {"paper": [0.90, 0.91, 0.92], "fast": [0.91, 0.905, 0.92], "scaled": [0.80, 0.81, 0.79]}


def make_runs(times=TIMES, aucs=AUCS, **columns):
    """Rows of one machine, by mode."""
    rows = [
        CPU
        | {
            "run_id": f"{mode}-{k}",
            "mode": mode,
            "train_s": s,
            "steady_epoch_s": s / 10,
            "metric_auc_test": auc,
        }
        for mode in times
        for k, (s, auc) in enumerate(zip(times[mode], aucs[mode], strict=True))
    ]
    return pd.DataFrame(rows).assign(**columns)


def compare_modes(runs, **options):
    """The table of these rows."""
    return training_time.compare_modes(select_runs(runs, may_differ=["mode"], **options))


def test_a_ratio_says_how_many_times_as_fast():
    """Paper over mode: the means' ratio, near SciPy's Welch interval of the log times,
    exponentiated; the paper's own is one.
    """
    table = compare_modes(make_runs()).set_index("mode")
    assert list(table.index) == ["paper", "fast", "scaled"]
    for mode in ("fast", "scaled"):
        paper = np.log(TIMES["paper"])
        ours = np.log(TIMES[mode])
        welch = stats.ttest_ind(paper, ours, equal_var=False).confidence_interval(0.97)
        ratio = np.mean(TIMES["paper"]) / np.mean(TIMES[mode])
        expected = [ratio, np.exp(welch.low), np.exp(welch.high)]
        for name in ("times_as_fast", "times_as_fast_by_epoch"):
            columns = [name, f"{name}_low", f"{name}_high"]
            assert table.loc[mode, columns].tolist() == pytest.approx(expected, rel=2e-3)
    assert table.loc["paper", "times_as_fast"] == 1
    assert np.isnan(table.loc["paper", "times_as_fast_low"])


EVEN = np.linspace(-0.004, 0.004, 5)


@pytest.mark.parametrize(
    ("auc", "verdict"),
    [
        (0.91, "counts"),
        (0.95, "does not count: higher AUC"),
        (0.87, "does not count: lower AUC"),
        (0.893, "undecided"),
    ],
)
def test_a_speed_counts_where_the_auc_is_shown_to_be_the_papers(auc, verdict):
    """The 90 % interval of SciPy's Welch test within 0.02 of no difference; a better AUC is
    another model, too.
    """
    aucs = {"paper": 0.91 + EVEN, "fast": auc + EVEN}
    table = compare_modes(
        make_runs({"paper": [100.0] * 5, "fast": [50.0] * 5}, aucs)
    ).set_index("mode")
    assert table["verdict"].tolist() == ["reference", verdict]
    low, high = stats.ttest_ind(
        aucs["fast"], aucs["paper"], equal_var=False
    ).confidence_interval(0.9)
    found = table.loc["fast", ["auc_difference_low", "auc_difference_high"]]
    assert found.tolist() == pytest.approx([low, high], abs=1e-9)


def test_wide_intervals_show_no_equality_and_say_what_would():
    """The same mean AUC of five runs a side that spread by 0.05: undecided, and some 110 runs a
    side would tell.

    2 x (0.05 / 0.02)^2 x (1.645 + 1.282)^2 = 107 (two one-sided tests, power 80 %, after Chow, Shao
    and Wang 2008).
    """
    aucs = dict.fromkeys(("paper", "fast"), 0.9 + EVEN * 0.05 / EVEN.std(ddof=1))
    fast = (
        compare_modes(make_runs({"paper": [100.0] * 5, "fast": [50.0] * 5}, aucs))
        .set_index("mode")
        .loc["fast"]
    )
    assert fast["verdict"] == "undecided" and fast["runs_needed"] == pytest.approx(107, abs=3)


def test_the_same_auc_without_spread_counts():
    """A difference of nothing lies within any margin."""
    aucs = dict.fromkeys(AUCS, [0.9137] * 3)
    assert compare_modes(make_runs(aucs=aucs))["verdict"].tolist() == [
        "reference",
        "counts",
        "counts",
    ]


@pytest.mark.parametrize("few", ["paper", "fast"])
def test_two_runs_on_either_side_decide_nothing(few):
    """Two paper runs decide on no mode, two fast ones not on fast."""
    times, aucs = (values | {few: values[few][:2]} for values in (TIMES, AUCS))
    table = compare_modes(make_runs(times, aucs)).set_index("mode")
    assert (
        table.loc["fast", ["verdict", "runs_needed"]].tolist() == ["undecided", 3]
        and table.loc[few, "n"] == 2
    )
    assert (table.loc["scaled", "verdict"] == "undecided") == (few == "paper")


def test_a_mark_touches_the_time_not_the_auc():
    """A resumed and an excluded run keep their AUCs; their times do not count. A failed run has
    neither.
    """
    runs = make_runs(resumed=[2] + [0] * 8, disturbed=[False] * 3 + [True] + [False] * 5)
    runs = pd.concat([runs, make_runs(status="failed")], ignore_index=True)
    table = compare_modes(runs, exclude=["disturbed"]).set_index("mode")
    assert table["n"].tolist() == [3, 3, 3] and table["n_timed"].tolist() == [2, 2, 3]
    assert table.loc["fast", "times_as_fast"] == pytest.approx((110 + 105) / (52 + 49))
    assert compare_modes(runs).set_index("mode")["n_timed"].tolist() == [2, 3, 3]


def test_each_machine_is_compared_with_itself():
    """A machine that ran one mode only, or not the paper's, is left out."""
    other = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
    slower = make_runs({k: [3 * s for s in v] for k, v in TIMES.items()}, **other)
    alone = make_runs(**other | {"platform": "colab"})
    table = compare_modes(
        pd.concat([make_runs(), slower, alone[alone["mode"] != "paper"]], ignore_index=True)
    )
    assert table["machine"].tolist() == ["kaggle, 2 x Tesla T4"] * 3 + ["local, CPU"] * 3
    ours, others = table["times_as_fast"][:3], table["times_as_fast"][3:]
    assert ours.tolist() == pytest.approx(others.tolist())


@pytest.mark.parametrize(
    "runs", [pd.DataFrame(), make_runs(mode="paper"), make_runs().drop(columns="mode")]
)
def test_one_mode_is_compared_with_nothing(runs):
    """No rows, rows of the paper's mode, and rows that name none."""
    assert compare_modes(runs).empty


def test_rows_without_an_auc_or_a_time_have_none():
    """One epoch has no steady time, and a run without a test split no AUC: no number is made up."""
    runs = make_runs().drop(columns="metric_auc_test").assign(steady_epoch_s=None)
    fast = compare_modes(runs).set_index("mode").loc["fast"]
    assert (fast["n"], fast["verdict"]) == (0, "undecided")
    assert (
        np.isnan(fast["metric_auc_test"])
        and np.isnan(fast["times_as_fast_by_epoch"])
        and fast["times_as_fast"] > 2
    )


def test_environments_are_compared_with_the_fastest():
    """Three runs of 105 s and three of 50.3 s on average in one session: SciPy's Welch interval
    of the log times, exponentiated.
    """
    table = compare_environments(
        select_runs(make_runs(), may_differ=["mode"]).finished
    ).set_index("environment")
    assert list(table.index) == ["local, CPU", "local, CPU, fast", "local, CPU, scaled"]
    assert list(table["n"]) == [3, 3, 3]
    slow = np.log(TIMES["paper"])
    fast = np.log(TIMES["scaled"])
    welch = stats.ttest_ind(slow, fast, equal_var=False).confidence_interval(0.97)
    found = table.loc[
        "local, CPU", ["train_s_ratio", "train_s_ratio_low", "train_s_ratio_high"]
    ]
    assert list(found) == pytest.approx(
        [105 / np.mean(TIMES["scaled"]), np.exp(welch.low), np.exp(welch.high)], rel=2e-3
    )
    assert (
        table.loc["local, CPU", "train_s"] == pytest.approx(105)
        and table.loc["local, CPU", "train_s_sd"] == 5
    )
    failed = select_runs(
        make_runs({"paper": [100.0]}, {"paper": [0.9]}).assign(status="failed")
    )
    assert compare_environments(failed.finished).empty


def test_a_single_run_has_the_interval_of_its_patients():
    """One run repeats nothing: the bootstrap over patients that its row holds is all there is."""
    runs = make_runs(
        {"paper": [100.0]}, {"paper": [0.9]}, metric_auc_test_low=0.8, metric_auc_test_high=0.95
    )
    (row,) = compare_environments(select_runs(runs).finished).itertuples()
    assert (row.metric_auc_test, row.metric_auc_test_low, row.metric_auc_test_high) == (
        0.9,
        0.8,
        0.95,
    )
    assert np.isnan(row.train_s_low)


def test_the_scores_of_a_resumed_run_count_and_its_time_does_not():
    """Of three runs two are timed; one alone that was resumed has scores and no time."""
    runs = make_runs({"paper": TIMES["paper"]}, {"paper": AUCS["paper"]}).assign(
        resumed=[0, 1, 0]
    )
    (row,) = compare_environments(select_runs(runs).finished).itertuples()
    assert (row.n, row.timed, row.train_s, row.metric_auc_test) == (
        3,
        2,
        pytest.approx(102.5),
        pytest.approx(0.91),
    )
    (row,) = compare_environments(select_runs(runs[1:2]).finished).itertuples()
    assert (row.n, row.timed, row.metric_auc_test) == (1, 0, 0.91) and np.isnan(row.train_s)


# seconds of an epoch by the number of machines; geometric means 10, 6.25, 4.5
EPOCHS = {1: (8.0, 12.5), 2: (5.0, 7.8125), 4: (4.05, 5.0)}


@pytest.fixture
def scaled() -> pd.DataFrame:
    """Runs on one, two and four machines of 3.6 USD an hour each."""
    work = {"framework": "keras_jax", "dataset": "mnist", "image_size": 32, "network": 1}
    lines = [
        work
        | {"accelerator": "cpu", "num_machines": machines, "steady_epoch_s": seconds}
        | {"usd_per_hour": 3.6, "session": "one boot"}
        for machines, times in EPOCHS.items()
        for seconds in times
    ]
    return pd.DataFrame(lines)


def test_speedup_and_efficiency_are_those_of_the_means(scaled):
    """By hand: 10.25 s over 6.41 s, over two machines. Prices are of all machines; the weak scaling
    of older rows is other work.
    """
    weak = scaled.assign(scaling="weak", steady_epoch_s=1.0)
    both = pd.concat([scaled.assign(scaling="strong"), weak])
    for runs in (scaled, both):
        table = compare_machines(runs).query("not rehearsed").set_index("num_machines")
        assert table["speedup"].round(4).to_dict() == {1: 1.0, 2: 1.6, 4: 2.2652}
        assert table["efficiency"].round(4).tolist() == [1.0, 0.8, 0.5663]
        assert (table["n"] == 2).all()
        two = table.loc[2]
        assert two["speedup_low"] < 1.6 < two["speedup_high"]
        assert two["cost_per_epoch_usd"] == pytest.approx(2 * 6.4 * 0.001, rel=0.1)
        assert table.loc[1, "speedup_low"] == table.loc[1, "speedup_high"] == 1.0


def test_unlike_machines_are_not_compared(scaled):
    """Another processor is no speed-up; rehearsed and real machines are both compared with one."""
    runs = scaled.assign(cpu=["Xeon" if k == 1 else "EPYC" for k in scaled["num_machines"]])
    assert set(compare_machines(runs)["num_machines"]) == {
        2,
        4,
    }  # of the EPYC, among themselves
    many = scaled[scaled["num_machines"] > 1].assign(rehearsed=True)
    table = compare_machines(pd.concat([scaled, many]))
    assert table.groupby("rehearsed").size().to_dict() == {False: 3, True: 3}


def test_where_all_trained_on_as_many_machines_there_is_no_table(scaled):
    """Rows of one number of machines, or of other notebooks, which have none."""
    assert compare_machines(scaled[scaled["num_machines"] == 2]).empty
    assert compare_machines(scaled.drop(columns="num_machines")).empty


def test_levels_stand_side_by_side_with_their_ratios():
    """3 s at batch 8 and 6 s at batch 32 on a CPU, a third of both on a GPU: neither mean mixes
    levels, and each ratio changes one thing. The interval is SciPy's Welch of the log times.
    """
    seconds = np.array([2.9, 3.0, 3.1])
    rows = []
    for accelerator, speed in (("cpu", 1), ("Tesla T4", 3)):
        for batch_size, times in ((8, 1), (32, 2)):
            rows += [
                CPU
                | {"run_id": f"r{len(rows)}", "train_s": s * times / speed, "study": "s"}
                | {"accelerator": accelerator, "batch_size": batch_size}
                | {"scenario": f"C{times}", "steady_epoch_s": 1.0}
                for s in seconds
            ]
    selection = select_runs(pd.DataFrame(rows))
    table = compare_environments(selection.finished, selection.factors)
    table = table.set_index(["environment", "batch_size"])
    assert table.loc[("local, CPU", 32), "train_s"] == pytest.approx(6)
    ratios = table[["train_s_ratio", "train_s_level_ratio"]]
    assert ratios.loc[("local, CPU", 32)].tolist() == pytest.approx([3, 2])
    assert ratios.loc[("local, CPU", 8)].tolist() == pytest.approx([3, 1])
    assert ratios.loc[("local, Tesla T4", 32)].tolist() == pytest.approx([1, 2])
    logs = np.log(2 * seconds), np.log(seconds)
    welch = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.97)
    bounds = table.loc[
        ("local, CPU", 32), ["train_s_level_ratio_low", "train_s_level_ratio_high"]
    ]
    assert bounds.tolist() == pytest.approx([np.exp(welch.low), np.exp(welch.high)], rel=2e-3)


def test_modes_are_compared_at_each_level():
    """Fast is twice as fast at batch 8 and as fast at 32: two lines, and no mean of both."""
    runs = [
        make_runs(
            {"paper": [100.0, 101, 102], "fast": [100.0 / k, 101 / k, 102 / k]},
            {name: AUCS[name] for name in ("paper", "fast")},
            batch_size=batch_size,
        )
        for batch_size, k in ((8, 2), (32, 1))
    ]
    selection = select_runs(pd.concat(runs), may_differ=["mode"], allowed=["batch_size"])
    table = training_time.compare_modes(selection).set_index(["batch_size", "mode"])
    speeds = table["times_as_fast"]
    assert [speeds[8, "fast"], speeds[32, "fast"]] == pytest.approx([2, 1])


def test_a_cold_run_has_a_line_without_a_ratio():
    """Its time stands apart; its AUC is as good as any, so three count on the line of the warm."""
    gpu = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
    runs = make_runs({"paper": [39.1, 14.7, 12.6]}, {"paper": [0.9, 0.8, 0.7]})
    runs = runs.assign(cold=[True, False, False])
    slow = make_runs({"paper": [50.0, 54.0]}, {"paper": [0.9, 0.9]})
    table = compare_environments(select_runs(pd.concat([runs.assign(**gpu), slow])).finished)
    assert table["environment"].tolist() == [
        "kaggle, 2 x Tesla T4, cold",
        "local, CPU",
        "kaggle, 2 x Tesla T4",
    ]
    assert table["n"].tolist() == [1, 2, 3] and table["timed"].tolist() == [1, 2, 2]
    assert table["train_s"].tolist() == pytest.approx([39.1, 52, 13.65])
    assert table["train_s_ratio"].tolist() == pytest.approx(
        [np.nan, 52 / 13.65, 1], nan_ok=True
    )
    assert table["metric_auc_test"].tolist() == pytest.approx([np.nan, 0.9, 0.8], nan_ok=True)
    alone = select_runs(runs.assign(started_at="2026-11-24", **gpu))
    answer = answer_training(alone, compare_environments(alone.finished), pd.DataFrame())
    notes = [number.note for number in answer.numbers]
    assert notes == ["n = 2, sessions: 1", "n = 1, sessions: 1"]


GOOD = [0.930, 0.941, 0.922, 0.935, 0.928]


def make_models(scores, column="metric_auc_test", first_seed=20, **columns):
    """A row for each training of one machine."""
    seeds = range(first_seed, first_seed + len(scores))
    return pd.DataFrame({"seed": seeds, column: scores}).assign(**columns)


@pytest.mark.parametrize(
    ("scores", "verdict", "words"),
    [
        (GOOD, "equal", "test AUC differs by 0.000 [0.000, 0.000], 90 %, n = 5"),
        ([0.50, 0.51, 0.49, 0.52, 0.48], "not comparable", "test AUC differs by -0.431 "),
        ([0.965, 0.98, 0.96, 0.97, 0.965], "not comparable", "test AUC differs by 0.037 "),
        (GOOD[:2], "undecided", "n = 2: n near 3 might show whether the models are equal"),
        # by hand: half of Welch's interval is 0.02049, the margin 0.0108 away: 5 x (2049 / 1080)^2
        ([0.93, 0.90, 0.95, 0.92, 0.91], "undecided", "n = 5: n near 19 might show"),
        ([0.50], "undecided", "n = 1: n near 3"),
        ([np.nan] * 5, "not comparable", "test AUC not measured"),
    ],
)
def test_times_of_equal_models_alone_are_compared(scores, verdict, words):
    """Whichever side is better: another model is another work."""
    found = judge_models(make_models(scores), make_models(GOOD))
    assert found.verdict == verdict and words in found.words


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (GOOD, ""),
        ([0.93, 0.90, 0.95, 0.92, 0.91], "of models not shown to be equal"),
        ([0.50, 0.51, 0.49, 0.52, 0.48], "of unlike models"),
    ],
)
def test_a_ratio_of_machines_says_that_their_models_differ(scores, words):
    """In every table that divides the times of two machines."""
    sides = []
    for accelerator, auc in (("Tesla T4", GOOD), ("TPU v5e", scores)):
        rows = make_tries([1.0] * 5, accelerator).assign(metric_auc_test=auc)
        rows["boot"] += rows["seed"].astype(str)
        sides.append(rows)
    finished = select_runs(pd.concat(sides, ignore_index=True)).finished
    scope = compare_environments(finished)["train_s_ratio_scope"].dropna().iloc[0]
    assert scope.endswith(words) and ("models" in scope) == bool(words)


def test_trainings_of_too_few_seeds_are_counted_and_said():
    """Trainings of one seed are one, and show nothing; of unknown seeds each counts."""
    found = judge_models(make_models(GOOD).assign(seed=20), make_models(GOOD))
    assert found.verdict == "undecided" and "n = 1" in found.words
    found = judge_models(make_models(GOOD).assign(seed=None), make_models(GOOD))
    assert "n = 5, seeds unknown" in found.words
    found = judge_models(make_models([*GOOD[:4], None]), make_models(GOOD))
    assert found.verdict == "undecided" and found.words.endswith("1 runs have none")
    found = judge_models(make_models(GOOD).assign(seed=[20, 20, 21, 22, 22]), make_models(GOOD))
    assert found.words.endswith("n = 3")


def test_frameworks_are_compared_by_accuracy_and_served_models_by_their_file():
    """Trainings of paper C have no AUC; what is served is not trained again."""
    sides = [make_models(GOOD, "metric_accuracy_test", framework="mxnet") for _ in range(2)]
    assert judge_models(*sides).words.startswith("test accuracy differs by 0.000")
    without = sides[1].drop(columns="metric_accuracy_test")
    assert judge_models(sides[0], without).words == "test accuracy not measured"

    served = pd.DataFrame({"predict_ms": [9.0, 8.0], "model_version": ["abc", "abc"]})
    assert judge_models(served, served).verdict == "equal"
    for other, name in (("def", "def"), (None, "unknown")):
        found = judge_models(served, served.assign(model_version=other))
        assert found == ("not comparable", f"other exported files: abc against {name}", NOTHING)
    for versions in ([None, None], ["abc", None]):
        unknown = served.assign(model_version=versions)
        assert judge_models(unknown, unknown).verdict == "not comparable"


def make_tries(seconds, accelerator="Tesla T4", target=0.9, **columns):
    """A row for each training with a target, of one machine and study."""
    rows = [
        CPU
        | {
            "run_id": f"{accelerator}-{k}",
            "study": "s",
            "scenario": "C1",
            "accelerator": accelerator,
            "boot": accelerator,
            "seed": 20 + k,
            "retries": 0,
            "train_s": 100.0 + k,
            "target_auc": target,
            "target_reached": bool(np.isfinite(s)),
            "seconds_to_target": s,
        }
        for k, s in enumerate(seconds)
    ]
    return pd.DataFrame(rows).assign(**columns)


def read_target(runs):
    """The only row of the table."""
    table = summarise_targets(select_runs(runs))
    assert len(table) == 1
    bounds = ["seconds_to_target", "seconds_to_target_low", "seconds_to_target_high"]
    row = table.iloc[0]
    return row["started"], row.get("reached"), *row[bounds], row.get("seconds_to_target_scope")


def test_every_try_for_a_target_counts():
    """Six that reached it have bounds; what failed, missed it, was resumed or tried again is at
    infinity, and no try is dropped.
    """
    seconds = [10.0, 20, 30, 40, 50, 60]
    assert read_target(make_tries(seconds)) == (6, 6, 35, 10, 60, None)
    few = "no interval: fewer than six"
    assert read_target(make_tries(seconds[:5]))[:3] == (5, 5, 30)
    assert read_target(make_tries(seconds[:5]))[5] == few
    runs = make_tries([*seconds[:3], np.nan, np.nan, np.nan])
    assert read_target(runs) == (6, 3, np.inf, 10, np.inf, "not reached by half")

    runs = make_tries(seconds)
    runs.loc[5, ["status", "accelerator"]] = "failed", None
    assert read_target(runs) == (6, 5, 35, 10, np.inf, None)  # of the same boot
    runs.loc[5, ["accelerator", "boot"]] = "Tesla T4", "another"
    assert read_target(runs)[:2] == (6, 5)
    runs = make_tries(seconds)
    runs.loc[5, "seconds_to_target"] = np.nan
    assert read_target(runs.assign(resumed=[0] * 5 + [1])) == (6, 6, 35, 10, np.inf, None)
    runs = make_tries([*seconds, 70.0])
    runs.loc[0, "retries"] = 2  # by the ranks 2 and 8 of nine
    assert read_target(runs) == (9, 7, 50, 20, np.inf, None)
    cold = make_tries([*seconds, 70.0]).assign(cold=[True] + [False] * 6)
    table = summarise_targets(select_runs(cold)).set_index("environment")
    assert table["seconds_to_target"].to_dict() == {
        "local, Tesla T4": 45,
        "local, Tesla T4, cold": 10,
    }
    assert read_target(runs.assign(seed=20))[3:5] == pytest.approx([np.nan] * 2, nan_ok=True)
    assert read_target(runs.assign(planned=9))[5].startswith("preliminary")
    assert read_target(runs.assign(looks=2))[5] == "repetitions were added after a look"


def test_a_target_without_a_validation_split_is_not_measured():
    """Nothing was reached or missed there; machines and targets have rows of their own."""
    runs = make_tries([np.nan] * 6, target_reached=None)
    assert read_target(runs)[5] == "not measured: no validation split"
    runs = pd.concat([make_tries([1.0] * 6), make_tries([2.0] * 6, "TPU v5e")])
    runs = pd.concat([runs, make_tries([3.0], "cpu", target=0.0)], ignore_index=True)
    table = summarise_targets(select_runs(runs)).set_index("environment")
    assert table["seconds_to_target"].to_dict() == {"local, TPU v5e": 2, "local, Tesla T4": 1}
    lost = make_tries([4.0], "TPU v4", status="failed", scenario="C2")
    table = summarise_targets(select_runs(pd.concat([runs, lost], ignore_index=True)))
    lost = table.set_index("environment").loc["machine not known"]
    assert (lost["started"], lost["reached"]) == (1, 0)
    assert summarise_targets(select_runs(make_runs(mode="paper"))).empty


def test_a_ratio_of_machines_is_of_stack_or_hardware():
    """Three arms, 3000, 2400 and 1800 s, and a TPU at equal float32: which ratio is of what."""
    jax = {"backend": "jax", "jit": True, "scenario": "C2"}
    arms = [
        train_referable(3000 * TEN, T4X2, scenario="C1"),
        train_referable(2400 * TEN, T4X2, **jax),
        train_referable(1800 * TEN, TPU, matmul_precision="bfloat16", **jax),
    ]
    rows = pd.concat(arms, ignore_index=True).assign(study="gpu_vs_tpu")
    rows["run_id"] = rows["run_id"] + rows.index.astype(str)

    def split(rows):
        selection = select_runs(rows)
        table = compare_places(selection.timed, selection.factors)
        return {round(row.times_as_long, 2): row for row in table.itertuples()}

    found = split(rows)
    assert {ratio: row.ratio_of for ratio, row in found.items()} == {
        1.25: "of the stack",
        1.67: "of stack and hardware",
        1.33: "of the hardware, at each device's default arithmetic",
    }
    assert found[1.25].unlike == "backend (jax, tensorflow), jit (False, True)"
    assert found[1.67].times_as_long_low < 1.67 < found[1.67].times_as_long_high
    equal = split(rows.assign(matmul_precision="float32"))
    assert equal[1.33].ratio_of == "of the hardware, at equal float32"
    unknown = split(rows.drop(columns=["matmul_precision", "conv_precision"]))
    assert unknown[1.33].ratio_of == "of stack and hardware"
    assert unknown[1.25].ratio_of == "of the stack"
    environments = compare_environments(select_runs(rows).finished, ["backend"])
    assert "of the hardware, at each device's default arithmetic" in set(
        environments["train_s_ratio_scope"].dropna()
    )
