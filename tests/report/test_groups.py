"""Rows become groups named by what differs: which of them count, their means and ratios."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.errors import DrError
from dr_lib.report.groups import (
    COLD,
    COPY,
    MARKS,
    NO_TIME,
    compare_groups,
    list_pooled,
    measure,
    select_runs,
    tabulate_groups,
)
from tests.report.real_rows import copy_row
from tests.report.timed_rows import CPU, T4, TPU, make_runs

TIMES = [10.0, 11.0, 12.0]


def run(seconds=TIMES, hardware=CPU, **columns):
    """Runs of one boot of a machine, in the order of their repetition."""
    seconds = list(seconds)
    about = {"boot": f"{hardware['platform']} 1", "repetition": range(len(seconds))}
    about["seed"] = range(len(seconds))
    return make_runs(seconds, hardware, **{**about, **columns})


def select(*tables, **options):
    """The selection of some rows."""
    return select_runs(pd.concat(tables, ignore_index=True), **options)


def list_groups(*tables, **options):
    """The names of the groups."""
    return sorted(set(select(*tables, **options).finished["group"]))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["CPU"]),
        ({"mode": "fast"}, ["CPU, fast", "CPU, paper"]),
        ({"batch_size": 32}, ["CPU, batch size 32", "CPU, batch size 8"]),
        ({"model": "vgg19"}, ["CPU, VGG19", "CPU, small_cnn"]),
        (
            {"code_sha256": "ab" * 32},
            ["CPU, code 1", "CPU, code 2"],
        ),
        ({"keras": "3.14.0"}, ["CPU, keras 3.13.1", "CPU, keras 3.14.0"]),
        ({"jit": True}, ["CPU, jit False", "CPU, jit True"]),
        ({"cpu": "Xeon"}, ["CPU, EPYC x 2", "CPU, Xeon x 2"]),
        ({"driver": "570"}, ["CPU, driver 570", "CPU, driver –"]),
        ({"commit": "other", "seed": 9, "memory_gib": 12.71}, ["CPU"]),
    ],
)
def test_a_group_is_named_by_what_differs(changes, names):
    """Work, stack and hardware each tell groups apart, and nothing else does; nothing is refused.
    What is pooled tells none.
    """
    about = {"mode": "paper", "batch_size": 8, "code_sha256": "cd" * 32, "keras": "3.13.1"}
    about |= {"jit": False, "cpu": "EPYC", "num_cpus": 2, "memory_gib": 12.68, "driver": None}
    one = run(**about)
    assert list_groups(one, one.assign(**changes)) == names
    assert len(list_groups(one, one.assign(**changes), pool=list(changes))) == 1


def test_machines_are_named_and_a_mode_stands_beside_each():
    """Platform and devices; a name of one machine says no mode where all ran the same."""
    found = list_groups(run(hardware=T4), run(hardware=TPU), run())
    assert found == ["CPU", "Colab, TPU v5 lite", "Kaggle, 2 x Tesla T4"]
    found = list_groups(run(hardware=T4, mode="fast"), run(mode="paper"))
    assert found == ["CPU, paper", "Kaggle, 2 x Tesla T4, fast"]


def test_a_column_that_no_row_has_is_refused():
    """`modes` for `mode` would pool nothing, in silence."""
    assert list_pooled("mode, driver", run(mode="fast", driver="1")) == ["mode", "driver"]
    with pytest.raises(DrError, match="pool modes: no row has it, choose from .*mode"):
        list_pooled("modes", run(mode="fast"))


def test_everything_that_is_not_timed_has_its_reason():
    """Failed rows have their error; a copy, whatever it is called, counts once; disturbed ones
    count unless they are excluded; cold ones where no warm one is.
    """
    rows = run(range(10, 18), run_id=list("abcdefgh"), started_at="2026-11-28T10:00:00")
    rows = rows.astype({"error": object, "status": object})
    rows.loc[0, ["status", "error"]] = ["failed", "no space left"]
    rows.loc[1, "train_s"] = 0.0
    rows["resumed"] = [0, 0, 1, 0, 0, 0, 0, 0]
    rows["disturbed"] = [False, False, False, True, False, False, False, False]
    rows["cold"] = [True, True, True, False, True, False, False, False]
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
    with pytest.raises(DrError, match="exclude 'slow': choose from resumed, disturbed"):
        select(rows, exclude=["slow"])


def test_a_session_is_a_boot_of_a_machine_or_a_deployment_elsewhere():
    """Two boots of one laptop are two; rows that know none are of one session a machine."""
    rows = run(boot=["a", "a", "b"])
    assert select(rows).timed["session"].nunique() == 2
    assert (
        select(rows.assign(boot=None), run(hardware=T4, boot=None)).timed["session"].nunique()
        == 2
    )
    served = pd.DataFrame(
        [copy_row("22", "savedmodel", endpoint="remote", run_id=name) for name in ("x", "y")]
    ).assign(setup_s=[1.0, 2.0])
    assert select(served).timed["session"].nunique() == 2


def test_n_is_of_what_a_mean_is_of():
    """Of four runs one was resumed, whose score counts and whose time does not; one run has the
    interval of its patients.
    """
    rows = run([10, 20, 40, 99], resumed=[0, 0, 0, 1], metric_auc_test=[0.7, 0.8, 0.8, 0.9])
    one = run([5.0], T4, metric_auc_test=0.6, metric_auc_test_low=0.5, metric_auc_test_high=0.7)
    one = one.assign(metric_kappa_test=0.4, metric_kappa_test_low=None)
    table = tabulate_groups(select(rows, one), ["train_s", "steady_epoch_s"])
    assert list(table["group"]) == ["CPU", "Kaggle, 2 x Tesla T4"]
    assert list(table["n"]) == [3, 1]
    assert table["train_s"].tolist() == pytest.approx([20, 5])  # of logarithms
    assert table["train_s_scope"].tolist() == [
        "within this session",
        "no interval: fewer than three runs",
    ]
    scores = table[["metric_auc_test", "metric_auc_test_low", "metric_auc_test_high"]]
    bounds = stats.ttest_1samp([0.7, 0.8, 0.8, 0.9], 0).confidence_interval()
    assert scores.to_numpy().ravel() == pytest.approx([0.8, *bounds, 0.6, 0.5, 0.7])


def test_groups_of_equal_work_are_compared_and_what_differs_is_named():
    """Twice as long on the CPU; mode and hardware differ. Another network has no ratio, but where
    a study varies it.
    """
    rows = [run([20, 22, 24], mode="paper"), run([10, 11, 12], mode="fast")]
    (line,) = compare_groups(select(*rows), "train_s").to_dict("records")
    assert [line["slower"], line["faster"]] == ["CPU, paper", "CPU, fast"]
    assert line["times_as_long"] == pytest.approx(2)
    assert line["differs_in"] == "mode (fast, paper)"
    assert np.isnan(line["times_as_long_low"])  # 2, 2 and 2: a clock that rounds
    rows[1] = run([10, 11, 12], T4, mode="fast")
    (line,) = compare_groups(select(*rows), "train_s").to_dict("records")
    assert line["differs_in"] == "mode (fast, paper); hardware"
    assert line["times_as_long_scope"] == "no interval: fewer than three sessions"
    other = run([5, 6, 7], model="vgg19", mode="paper")
    assert len(compare_groups(select(*rows, other), "train_s")) == 1
    study = [
        each.assign(study="mine", scenario=name, model=name)
        for name, each in (("a", run()), ("b", run([5, 6, 7])))
    ]
    found = select(*study)
    assert found.factors == ["model"]
    assert len(compare_groups(found, "train_s")) == 1


def test_models_are_compared_by_seed():
    """SciPy's 90 % interval of the paired differences; without common seeds, Welch's."""
    aucs = np.array([[0.9, 0.93, 0.91], [0.89, 0.91, 0.91]])
    a = run(metric_auc_test=aucs[0])
    b = run([5, 6, 7.5], T4, metric_auc_test=aucs[1])
    names = ["score_difference", "score_difference_low", "score_difference_high"]
    line = compare_groups(select(a, b), "train_s")[names].to_numpy().ravel()
    paired = stats.ttest_rel(*aucs).confidence_interval(0.9)
    assert line == pytest.approx([0.01, *paired])
    b["seed"] += 10
    line = compare_groups(select(a, b), "train_s")[names].to_numpy().ravel()
    welch = stats.ttest_ind(*aucs, equal_var=False).confidence_interval(0.9)
    assert line == pytest.approx([0.01, *welch])


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
