"""Estimates: what the rest of a study takes follows from what has run, and says so when nothing has."""

import math

import pytest

from dr_lib.runs.estimate import describe_estimate, estimate_rest
from dr_lib.runs.study import Study, plan_runs

STUDY = Study(notebook="n", repetitions=2, factors={"a": ["x", "y"], "b": [1, 2]}, instance="F4s_v2", seed=5)
RUNS = plan_runs(STUDY, "here")


def make_rows(seconds: dict[tuple[str, int], list[float]], status: str = "ok") -> dict[str, dict]:
    """Rows of the first runs of the cells (a, b), with these times of the whole process."""
    rows = {}
    for (a, b), times in seconds.items():
        cell = [run for run in RUNS if (run.parameters["a"], run.parameters["b"]) == (a, b)]
        for run, process_s in zip(cell, times, strict=False):
            rows[run.run_id] = {"status": status, "wall_s": 1.0, "process_s": process_s, "steady_epoch_s": process_s}
    return rows


def test_factors_multiply_where_a_scenario_has_not_run():
    """x1 = 10 s, y1 = 20 s, x2 = 30 s: y2 takes 60 s, and the rest twice 60 + 10 + 20 + 30 s."""
    estimate = estimate_rest(STUDY, RUNS, make_rows({("x", 1): [10.0], ("y", 1): [20.0], ("x", 2): [30.0]}))
    assert (estimate.num_runs, estimate.num_completed, estimate.num_unavailable) == (8, 3, 0)
    assert estimate.hours_left == pytest.approx((2 * 60 + 10 + 20 + 30) / 3600)
    assert estimate.usd_left == pytest.approx(0.169 * 180 / 3600)


def test_a_scenario_that_has_run_takes_its_own_mean():
    """Once y2 has run in 100 s, its second repetition is expected to take 100 s, whatever the factors say."""
    times = {("x", 1): [10.0, 10.0], ("y", 1): [20.0, 20.0], ("x", 2): [30.0, 30.0], ("y", 2): [100.0]}
    assert estimate_rest(STUDY, RUNS, make_rows(times)).hours_left == pytest.approx(100 / 3600)


def test_what_the_machine_cannot_make_takes_no_time():
    """A skipped scenario is counted as such, both its repetitions, and not estimated."""
    rows = make_rows({("x", 1): [10.0, 10.0], ("y", 1): [10.0]}) | make_rows({("y", 2): [0.0]}, "skipped")
    estimate = estimate_rest(STUDY, RUNS, rows)
    assert estimate.num_unavailable == 2 and estimate.hours_left == pytest.approx((10 + 2 * 10) / 3600)


def test_nothing_is_promised_before_anything_has_run():
    """Without rows there is no time and no money, and the sentence says what to do."""
    estimate = estimate_rest(STUDY, RUNS, {})
    assert math.isnan(estimate.hours_left) and math.isnan(estimate.usd_left)
    assert "complete a few runs first" in describe_estimate(estimate, 0.05)


def test_the_spread_of_repetitions_asks_for_more_of_them():
    """Two runs with logarithms 0.1 apart: a deviation of 0.0707."""
    estimate = estimate_rest(STUDY, RUNS, make_rows({("x", 1): [10.0, 10.0 * math.exp(0.1)]}))
    assert estimate.cv == pytest.approx(0.1 / math.sqrt(2)) and "vary by 7.1%" in describe_estimate(estimate, 0.05)
