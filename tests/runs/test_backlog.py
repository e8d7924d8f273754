"""The backlog: what is left of a study, and what that takes, follow from what has run."""

import time
from pathlib import Path

from dr_lib.runs.backlog import Backlog
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
    return open_backlog(rows, *about).describe(Path("study.yaml"))


def make_rows(status: str = "ok", **seconds: list[float]) -> dict[str, dict]:
    """Rows of the first runs of the cells x1, y1, x2 and y2, with these times of the whole
    process.
    """
    rows = {}
    for cell, times in seconds.items():
        runs = [run for run in RUNS if "{a}{b}".format(**run.parameters) == cell]
        for run, process_s in zip(runs, times, strict=False):
            times_s = {"wall_s": 1.0, "process_s": process_s, "steady_epoch_s": process_s}
            rows[run.run_id] = {"status": status, "seed": len(rows), **times_s}
    return rows


def test_a_scenario_that_has_not_run_takes_the_median_of_all():
    """x1 = 10 min, y1 = 20 min, x2 = 30 min: y2 takes 20 min, and the rest twice 20 + 10 + 20 +
    30 min.
    """
    rows = make_rows(x1=[600.0], y1=[1200.0], x2=[1800.0])
    assert describe(rows).splitlines() == [
        "8 runs: 3 completed, 5 to do",
        # at 0.169 USD an hour
        "about 100 min, 0.28 USD for the rest; 1 scenarios have not run and are taken to last as"
        " long as the others",
    ]


def test_a_scenario_that_has_run_takes_its_own_median():
    """Once y2 has run in 100 min, its second repetition is expected to take 100 min, whatever
    the factors say.
    """
    rows = make_rows(x1=[600.0] * 2, y1=[1200.0] * 2, x2=[1800.0] * 2, y2=[6000.0])
    assert "about 100 min" in describe(rows)


def test_a_resumed_run_counts_all_its_epochs():
    """Its last process took 10 min for a fifth of the epochs: 50 min, and as long for the other
    seven.
    """
    rows = make_rows(x1=[600.0])
    (row,) = rows.values()
    row.update(resumed=1, epochs_done=10, epoch_s=[1.0, 1.0])
    assert "about 350 min" in describe(rows)


def test_what_the_machine_cannot_make_takes_no_time():
    """A skipped scenario is counted as such, both its repetitions, and not estimated: 10 + 2 x
    10 min are left.
    """
    rows = make_rows(x1=[600.0] * 2, y1=[600.0])
    words = describe(rows | make_rows("skipped", y2=[0.0]))
    assert "2 not possible on this machine" in words and "about 30 min" in words


def test_nothing_is_promised_before_anything_has_run():
    """Without rows there is no time and no money; the command makes the cheapest row that tells."""
    words = describe({})
    assert "min" not in words and "USD" not in words
    assert words.endswith(f"run study.yaml --only {RUNS[0].scenario}-r00")
    assert "about 70 min" in describe(make_rows(x1=[600.0]))


def test_the_rest_is_priced_by_the_instance():
    """An hour on F4s_v2 costs 0.169 USD; a study without an instance says no price."""
    rows = make_rows(x1=[3600.0] * 2, y1=[3600.0] * 2, x2=[3600.0] * 2)
    assert "about 120 min, 0.34 USD" in describe(rows)
    free = STUDY.model_copy(update={"instance": ""})
    assert "about 120 min for the rest" in describe(rows, free)


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
        assert backlog.find_next().refusal == words * is_refused


def test_a_session_has_so_many_repetitions():
    """After a warm one of each scenario in this boot of the machine the next ones wait for
    another; a cold one does not count.
    """
    study = STUDY.model_copy(update={"session_repetitions": 1})
    rows = make_rows(x1=[600.0], y1=[600.0], x2=[600.0])
    for run in RUNS:
        if run.run_id in rows:
            rows[run.run_id].update(boot="first", scenario=run.scenario)
    elsewhere = open_backlog(rows, study, boot="second")
    assert elsewhere.find_next().run == elsewhere.list_left()[0]
    backlog = open_backlog(rows, study, boot="first")
    run = backlog.find_next().run
    assert run.parameters["a"] == "y"
    rows[run.run_id] = {"status": "ok", "boot": "first", "wall_s": 1.0}
    rows[run.run_id]["scenario"] = run.scenario
    refusal = "this session has completed its 1 warm repetitions: restart the machine"
    assert backlog.find_next().refusal.startswith(refusal)
    rows[run.run_id]["cold"] = True
    offer = backlog.find_next()
    assert offer.run.scenario == run.scenario and not offer.refusal
    words = "warm runs of a scenario in a session: 1, after its first training, which is cold"
    assert words in backlog.describe(Path("s.yaml"))
