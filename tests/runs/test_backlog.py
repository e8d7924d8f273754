"""The backlog: what is left of a study, and what that takes, follow from what has run."""

import math
import time
from pathlib import Path

import pytest
from scipy import stats

from dr_lib.runs.backlog import Backlog, count_sessions, measure_spread
from dr_lib.runs.study import Study, plan_runs

STUDY = Study(
    notebook="n",
    repetitions=2,
    factors={"a": ["x", "y"], "b": [1, 2]},
    instance="F4s_v2",
    seed=5,
)
RUNS = plan_runs(STUDY, "here")


def open_backlog(rows: dict[str, dict], study: Study = STUDY, runs=RUNS, **how) -> Backlog:
    """The backlog of a study with these rows."""
    return Backlog(study, Path("study"), runs, how.pop("planned", runs), rows, **how)


def describe(rows: dict[str, dict], *about) -> str:
    """What is said of the rest of the study."""
    return open_backlog(rows, *about).describe("run study.yaml --only")


def make_rows(status: str = "ok", **seconds: list[float]) -> dict[str, dict]:
    """Rows of the first runs of the cells x1, y1, x2 and y2, with these times of the whole
    process.
    """
    rows = {}
    for cell, times in seconds.items():
        runs = [run for run in RUNS if "{a}{b}".format(**run.parameters) == cell]
        for run, process_s in zip(runs, times, strict=False):
            rows[run.run_id] = {"status": status, "wall_s": 1.0, "process_s": process_s}
    return rows


def test_a_scenario_that_has_not_run_takes_the_median_of_all():
    """x1 = 10 min, y1 = 20 min, x2 = 30 min: y2 takes 20 min, and the rest twice 20 + 10 + 20 +
    30 min, at 0.169 USD an hour. Once y2 has run in 100 min, it takes its own; a study without an
    instance has no price.
    """
    rows = make_rows(x1=[600.0], y1=[1200.0], x2=[1800.0])
    assert describe(rows).splitlines()[:2] == [
        "8 runs: 3 completed, 5 to do",
        "about 100 min, 0.28 USD for the rest",
    ]
    rows = make_rows(x1=[600.0] * 2, y1=[1200.0] * 2, x2=[1800.0] * 2, y2=[6000.0])
    free = STUDY.model_copy(update={"instance": ""})
    assert "about 100 min for the rest" in describe(rows, free)


def test_a_run_that_does_not_fit_is_not_begun():
    """A scenario of two hours is not begun with one hour left, however short the others were; with
    three hours it is, and so is one of which no time is known.
    """
    rows = make_rows(x1=[7200.0], y1=[6.0], x2=[6.0], y2=[6.0])
    (long,) = [run for run in RUNS if run.name == "C1-r01"]
    for hours, known, is_refused in ((1, rows, True), (3, rows, False), (1, {}, False)):
        stop_at = time.monotonic() + 3600 * hours
        backlog = open_backlog(known, STUDY, [long], planned=RUNS, stop_at=stop_at)
        words = "max_hours leaves no time for another run"
        assert backlog.find_next() == ((None, words) if is_refused else (long, ""))


def test_a_session_has_so_many_repetitions():
    """After a warm one in this boot of the machine the next one waits for another; a cold one does
    not count.
    """
    study = STUDY.model_copy(update={"session_repetitions": 1})
    first, second = [run for run in RUNS if run.scenario == "C1"]
    row = {"status": "ok", "boot": "first", "scenario": "C1", "wall_s": 1.0}
    rows = {first.run_id: row}

    def find_next(boot: str) -> tuple:
        return open_backlog(rows, study, [second], planned=RUNS, boot=boot).find_next()

    assert find_next("second") == (second, "")
    refusal = "this session has completed its 1 warm repetitions: restart the machine for more"
    assert find_next("first") == (None, refusal)
    row["cold"] = True
    assert find_next("first") == (second, "")


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_as_many_sessions_as_an_interval_of_five_points_needs(spread):
    """For 36 % less time: 0.64 of it, with an upper bound of 0.69. The least number whose interval
    by Student's t, at the expected spread, is as narrow.
    """
    half_width = math.log(0.69 / 0.64)

    def measure(n: int) -> float:
        return stats.t.ppf(0.975, 2 * n - 2) * spread * math.sqrt(2 / n)

    expected = next(n for n in range(3, 200) if measure(n) <= half_width)
    assert count_sessions(spread) == expected


def test_the_spread_of_sessions_is_that_of_their_medians():
    """Two sessions a scenario, whose warm runs have the medians 100 and 110, and 200 and 220 s: by
    hand ln(1.1) / sqrt(2) in both.
    """
    times = {("C1", "a"): [90, 100, 130], ("C1", "b"): [110], ("C2", "a"): [200]}
    times["C2", "b"] = [205, 220, 280]
    rows = [
        {"status": "ok", "scenario": scenario, "boot": boot, "train_s": train_s}
        for (scenario, boot), seconds in times.items()
        for train_s in seconds
    ]
    rows.append(rows[0] | {"train_s": 900, "cold": True})
    assert measure_spread(rows) == pytest.approx(math.log(1.1) / math.sqrt(2))
    assert math.isnan(measure_spread(rows[:3]))
