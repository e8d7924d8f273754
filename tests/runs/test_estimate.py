"""Estimates: what the rest of a study takes follows from what has run, and says so when nothing
has.
"""

import math
from pathlib import Path

from dr_lib.runs.estimate import describe_rest, list_left
from dr_lib.runs.study import Study, plan_runs

STUDY = Study(
    notebook="n", repetitions=2, factors={"a": ["x", "y"], "b": [1, 2]}, instance="F4s_v2", seed=5
)
PATH = Path("study.yaml")
RUNS = plan_runs(STUDY, "here")


def make_rows(seconds: dict[tuple[str, int], list[float]], status: str = "ok") -> dict[str, dict]:
    """Rows of the first runs of the cells (a, b), with these times of the whole process."""
    rows = {}
    for (a, b), times in seconds.items():
        cell = [run for run in RUNS if (run.parameters["a"], run.parameters["b"]) == (a, b)]
        for run, process_s in zip(cell, times, strict=False):
            rows[run.run_id] = {
                "status": status,
                "wall_s": 1.0,
                "process_s": process_s,
                "steady_epoch_s": process_s,
            }
    return rows


def test_factors_multiply_where_a_scenario_has_not_run():
    """x1 = 10 min, y1 = 20 min, x2 = 30 min: y2 takes 60 min, and the rest twice 60 + 10 + 20 +
    30 min.
    """
    rows = make_rows({("x", 1): [600.0], ("y", 1): [1200.0], ("x", 2): [1800.0]})
    assert describe_rest(STUDY, PATH, RUNS, rows, 0.05).splitlines() == [
        "8 runs: 3 completed, 5 to do",
        "about 180 min, 0.51 USD for the rest",  # at 0.169 USD an hour
    ]


def test_a_scenario_that_has_run_takes_its_own_mean():
    """Once y2 has run in 100 min, its second repetition is expected to take 100 min, whatever
    the factors say.
    """
    times = {
        ("x", 1): [600.0] * 2,
        ("y", 1): [1200.0] * 2,
        ("x", 2): [1800.0] * 2,
        ("y", 2): [6000.0],
    }
    assert "about 100 min" in describe_rest(STUDY, PATH, RUNS, make_rows(times), 0.05)


def test_what_the_machine_cannot_make_takes_no_time():
    """A skipped scenario is counted as such, both its repetitions, and not estimated: 10 + 2 x
    10 min are left.
    """
    rows = make_rows({("x", 1): [600.0] * 2, ("y", 1): [600.0]}) | make_rows(
        {("y", 2): [0.0]}, "skipped"
    )
    words = describe_rest(STUDY, PATH, RUNS, rows, 0.05)
    assert "2 that this machine cannot make" in words and "about 30 min" in words


def test_a_third_of_a_study_is_made_again_at_most():
    """By hand: of 72 disturbed runs 24, those that ended first, each once; then none, and 0
    keeps all.
    """
    study = Study(notebook="n", repetitions=18, factors={"a": ["x", "y"], "b": [1, 2]})
    runs = plan_runs(study, "here")
    rows = {}
    for minute, run in enumerate(reversed(runs)):
        started_at = f"2026-01-01T00:{minute // 60:02d}:{minute % 60:02d}"
        row = {"status": "ok", "disturbed": True, "repeats": 0, "started_at": started_at}
        rows[run.run_id] = row
    assert len(runs) == 72 and list_left(study, runs, rows) == runs[:-25:-1]
    rows[runs[-1].run_id]["repeats"] = 1
    assert list_left(study, runs, rows) == runs[-2:-25:-1]
    for run in runs[-24:]:
        rows[run.run_id]["repeats"] = 1
    assert list_left(study, runs, rows) == []
    keeps = study.model_copy(update={"repeat_disturbed": 0})
    assert list_left(keeps, runs, rows) == []


def test_nothing_is_promised_before_anything_has_run():
    """Without rows there is no time and no money; the command makes the cheapest row that tells."""
    words = describe_rest(STUDY, PATH, RUNS, {}, 0.05)
    assert "min" not in words and "USD" not in words
    assert words.endswith(f"-m dr_lib run study.yaml --only {RUNS[0].scenario}-r00")
    rows = make_rows({(RUNS[0].parameters["a"], RUNS[0].parameters["b"]): [600.0]})
    assert "about 70 min" in describe_rest(STUDY, PATH, RUNS, rows, 0.05)


def test_the_spread_of_repetitions_asks_for_more_of_them():
    """Two runs with logarithms 0.1 apart: a deviation of 0.1 / sqrt(2)."""
    rows = make_rows({("x", 1): [10.0, 10.0 * math.exp(0.1)]})
    assert "vary by 7.1% (1 scenarios)" in describe_rest(STUDY, PATH, RUNS, rows, 0.05)
