"""Rows become groups named by what differs: which of them count, their means and ratios."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.report.groups import (
    COLD,
    COPY,
    MARKS,
    NO_TIME,
    compare_groups,
    measure,
    select_runs,
    tabulate_groups,
)
from dr_lib.statistics.times import FEW_RUNS, FEW_SESSIONS, WITHIN
from tests.report.real_rows import CPU, T4X2, copy_row

TIMES = [10.0, 11.0, 12.0]


def run(seconds=TIMES, hardware=CPU, **columns):
    """Runs of one boot of a machine, in the order of their repetition."""
    rows = []
    for number, train_s in enumerate(seconds):
        row = copy_row("10", train_s=float(train_s), repetition=number, seed=number, **hardware)
        rows.append(row | {"run_id": str(number), "boot": hardware["platform"]})
    return pd.DataFrame(rows).assign(**columns)


def select(*tables, **options):
    """The selection of some rows."""
    return select_runs(pd.concat(tables, ignore_index=True), **options)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["CPU"]),
        ({"mode": "fast"}, ["CPU, mode fast", "CPU, mode paper"]),
        ({"batch_size": 32}, ["CPU, batch 32", "CPU, batch 8"]),
        ({"code_sha256": "f" * 64}, ["CPU, code 1", "CPU, code 2"]),
        ({"driver": "570"}, ["CPU", "CPU, driver 570"]),
        ({"cpu": "EPYC", "num_cpus": 2}, ["CPU, EPYC", "CPU, Xeon"]),
        ({"commit": "other", "seed": 9, "memory_gib": 12.71}, ["CPU"]),
    ],
)
def test_a_group_is_named_by_what_differs(changes, names):
    """Work, stack and hardware each tell groups apart, and nothing else does; nothing is refused.
    What is pooled tells none.
    """
    about = {"mode": "paper", "batch_size": 8, "driver": None, "cpu": "Xeon"}
    one = run(**about, memory_gib=12.68, code_sha256="0" * 64)
    rows = [one, one.assign(**changes)]
    assert sorted(set(select(*rows).finished["group"])) == names
    assert select(*rows, pool=list(changes)).finished["group"].nunique() == 1


def test_everything_that_is_not_timed_has_its_reason():
    """Failed rows have their error; a copy, whatever it is called, counts once; disturbed ones
    count unless they are excluded; cold ones where no warm one is.
    """
    rows = run(range(10, 18), run_id=list("abcdefgh"))
    rows.loc[0, ["status", "error"]] = ["failed", "no space left"]
    rows.loc[1, "train_s"] = 0.0
    letters = rows["run_id"]
    rows["resumed"] = (letters == "c").astype(int)
    rows["disturbed"] = letters == "d"
    rows["cold"] = letters.isin([*"abce"])
    copy = rows.loc[[5]].assign(run_id="copy", study="renamed")
    found = select(rows, copy)
    reasons = dict(found.excluded.itertuples(index=False))
    assert reasons == {
        "a": "no space left",
        "b": NO_TIME,
        "c": MARKS["resumed"],
        "e": COLD,
        "copy": COPY,
    }
    assert list(found.timed["run_id"]) == ["d", "f", "g", "h"]
    assert "d" in set(select(rows, exclude=["disturbed"]).excluded["run_id"])
    assert len(select(rows.assign(cold=True)).timed) == 5


def test_a_session_is_a_boot_of_a_machine_or_a_deployment_elsewhere():
    """Two boots of one laptop are two; rows that know none are of one session a machine."""
    remote = {"endpoint": "remote", "run_id": "C1-r00"}
    served = [copy_row("22", "savedmodel", **remote, study=name) for name in "xy"]
    for rows in (
        run(boot=["a", "a", "b"]),
        pd.concat([run(boot=None), run(hardware=T4X2, boot=None)]),
        pd.DataFrame(served).assign(setup_s=[1.0, 2.0]),
    ):
        assert select(rows).timed["session"].nunique() == 2


def test_n_is_of_what_a_mean_is_of():
    """Of four runs one was resumed, whose score counts and whose time does not; one run has the
    interval of its patients.
    """
    rows = run([10, 20, 40, 99], resumed=[0, 0, 0, 1], metric_auc_test=[0.7, 0.8, 0.8, 0.9])
    one = run([5.0], T4X2, metric_auc_test=0.6)
    one = one.assign(metric_auc_test_low=0.5, metric_auc_test_high=0.7)
    table = tabulate_groups(select(rows, one), ["train_s", "steady_epoch_s"])
    assert list(table["n"]) == [3, 1]
    assert table["train_s"].tolist() == pytest.approx([20, 5])  # of logarithms
    assert table["train_s_scope"].tolist() == [WITHIN, FEW_RUNS]
    scores = table[["metric_auc_test", "metric_auc_test_low", "metric_auc_test_high"]]
    bounds = stats.ttest_1samp([0.7, 0.8, 0.8, 0.9], 0).confidence_interval()
    assert scores.to_numpy().ravel() == pytest.approx([0.8, *bounds, 0.6, 0.5, 0.7])


def test_groups_of_equal_work_are_compared_and_what_differs_is_named():
    """Twice as long on the CPU; mode and hardware differ. Another network has no ratio, but where
    a study varies it.
    """
    rows = [run([20, 22, 24], mode="paper"), run(mode="fast")]
    (line,) = compare_groups(select(*rows), "train_s").to_dict("records")
    assert line["times_as_long"] == pytest.approx(2)
    assert np.isnan(line["times_as_long_low"])  # 2, 2 and 2: a clock that rounds
    rows[1] = run(hardware=T4X2, mode="fast")
    (line,) = compare_groups(select(*rows), "train_s").to_dict("records")
    assert line["differs_in"] == "mode (fast, paper); hardware"
    assert line["times_as_long_scope"] == FEW_SESSIONS
    # the mean of two is longer and the median shorter; no repetition is of both
    rows = [run([10, 10.1, 30], mode="paper"), run([11, 11.2, 11.4], mode="fast")]
    (line,) = compare_groups(select(*rows), "train_s").to_dict("records")
    assert (line["slower"], line["n"]) == ("CPU, mode paper", 3)
    assert line["times_as_long"] == pytest.approx(stats.gmean([10, 10.1, 30] / rows[1].train_s))
    rows = [run([20, 22, 24], mode="paper"), run(mode="fast", repetition=[3, 4, 5])]
    (line,) = compare_groups(select(*rows), "train_s").to_dict("records")
    assert (line["times_as_long"], line["n"]) == (pytest.approx(2), 1)
    assert line["times_as_long_scope"] == FEW_SESSIONS
    rows = [run([20, 22, 24], mode="paper"), run(hardware=T4X2, mode="fast")]
    other = run([5, 6, 7], model="vgg19", mode="paper")
    assert len(compare_groups(select(*rows, other), "train_s")) == 1
    study = [
        each.assign(study="mine", scenario=name, model=name)
        for name, each in (("a", run()), ("b", run([5, 6, 7])))
    ]
    assert len(compare_groups(select(*study), "train_s")) == 1


def test_cells_count_equally_and_only_whole_repetitions():
    """Twice as long in one cell, eight times in the other: four times. A repetition that lacks a
    cell counts nowhere.
    """
    cells = [
        run([10, 11, 13, 14], network=1),
        run([100, 110, 120], network=2),
        run([20, 22, 26.1, 28], network=1, framework="b"),
        run([800, 881, 960], network=2, framework="b"),
    ]
    timed = select(*cells).timed
    is_b = timed["framework"] == "b"
    found = measure("train_s", timed[is_b], timed[~is_b], cells=["network"])
    each = np.log([[2, 2, 26.1 / 13], [8, 881 / 110, 8]]).mean(axis=0)
    bounds = stats.ttest_1samp(each, 0).confidence_interval()
    assert found[:3] == pytest.approx(np.exp([each.mean(), *bounds]))
    assert found.n == 3
