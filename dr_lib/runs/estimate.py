"""What runs of a study take, in time and money: for the bar, for the limits, and for whoever
plans.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dr_lib.command import write_command
from dr_lib.runs.prices import find_price, price_seconds
from dr_lib.runs.row import count_paid, read_process_s

if TYPE_CHECKING:  # a cloud runtime without papermill estimates too
    from pathlib import Path

    from dr_lib.runs.study import PlannedRun, Study


def predict_run_s(
    study: Study,
    runs: Iterable[PlannedRun],
    rows: dict[str, dict[str, Any]],
    wanted: Sequence[PlannedRun],
) -> list[float]:
    """Predict from the rows that runs left, by run, how many seconds each of the wanted ones takes;
    NaN without rows.

    A scenario that has run takes its geometric mean again. For one that has not, each factor
    multiplies: a least squares fit of the logarithms on the levels of the factors, which is exact
    where there are no interactions.
    """
    completed = _list_completed(runs, rows)
    if not completed:
        return [math.nan] * len(wanted)
    levels = [(name, value) for name, values in study.factors.items() for value in values]

    def describe(run: PlannedRun) -> list[float]:
        return [float(run.parameters[name] == value) for name, value in levels]

    logs = np.log([_read_whole_s(rows[run.run_id]) for run in completed])
    mean = logs.mean()
    design = np.array([describe(run) for run in completed])
    # a level that has not run counts as an average one
    fitted = np.linalg.lstsq(design, logs - mean, rcond=None)[0]
    by_scenario = _group(completed, logs)
    return [
        math.exp(np.mean(by_scenario.get(run.scenario) or mean + np.dot(describe(run), fitted)))
        for run in wanted
    ]


def _read_whole_s(row: dict[str, Any]) -> float:
    """Seconds of a run in all its processes, where it went on from a checkpoint."""
    return read_process_s(row) + (row.get("spent_s") or 0.0 if row.get("resumed") else 0.0)


def afford_s(study: Study, spent_s: float) -> float:
    """How many more machine seconds `max_usd` buys after so many; infinite without it."""
    if not study.max_usd:
        return math.inf
    usd_per_hour = find_price(study.instance).usd_per_hour
    return 3600 * study.max_usd / usd_per_hour - spent_s if usd_per_hour else math.inf


def find_limit(
    study: Study, spent_s: float, next_s: float, stop_at: float, num_machines: int = 1
) -> str:
    """Why no further run may begin; empty if one may.

    Args:
        study: with its max_usd and the instance whose price it has.
        spent_s: machine seconds that all runs took so far, and that those under way will.
        next_s: seconds that the next one takes; NaN, where nothing is known yet, holds nobody back.
        stop_at: on the monotonic clock, when the session has to have ended.
        num_machines: that the next one is paid for.
    """
    next_s = 0.0 if math.isnan(next_s) else next_s
    if time.monotonic() + next_s > stop_at:
        return "max_hours hold no further run"
    if afford_s(study, spent_s) <= num_machines * next_s:
        spent_usd = price_seconds(find_price(study.instance).usd_per_hour, spent_s)
        return f"max_usd: {spent_usd:.2f} of {study.max_usd:.2f} USD are spent"
    return ""


def list_left(
    study: Study, runs: Iterable[PlannedRun], rows: dict[str, dict[str, Any]]
) -> list[PlannedRun]:
    """The runs to be made: those that are not completed in their order, then the disturbed that
    are made again.
    """
    completed = _list_completed(runs, rows)
    left = [run for run in runs if run not in completed]
    return left + list_repeats(study, runs, rows)


def list_repeats(
    study: Study,
    runs: Iterable[PlannedRun],
    rows: dict[str, dict[str, Any]],
) -> list[PlannedRun]:
    """The disturbed runs that are to be made again: a third of the study, first come, first
    served.
    """
    num_repeats = {name: row.get("repeats") or 0 for name, row in rows.items()}
    disturbed = list_disturbed(runs, rows)
    left = [run for run in disturbed if num_repeats[run.run_id] < study.repeat_disturbed]
    left.sort(key=lambda run: rows[run.run_id]["started_at"])
    return left[: max(0, study.max_repeats - sum(num_repeats.values()))]


def list_disturbed(runs: Iterable[PlannedRun], rows: dict[str, dict[str, Any]]) -> list[PlannedRun]:
    """The completed runs that shared the machine with other work."""
    return [run for run in _list_completed(runs, rows) if rows[run.run_id].get("disturbed")]


def describe_rest(
    study: Study,
    path: Path,
    runs: list[PlannedRun],
    rows: dict[str, dict[str, Any]],
    precision: float,
) -> str:
    """Say what the runs left take, priced by the study's instance, and how many repetitions a
    precision needs.

    `path` is the study's file, named in the command that makes a first run; `precision` is the half
    width of a 95 % interval, relative to the mean.
    """
    from dr_lib.runs.study import name_run

    # SciPy: a second to import
    from dr_lib.statistics.effects import pool_spread, repetitions_for_precision

    completed = _list_completed(runs, rows)
    unavailable = {
        run.scenario for run in runs if rows.get(run.run_id, {}).get("status") == "skipped"
    }
    left = [run for run in list_left(study, runs, rows) if run.scenario not in unavailable]
    lines = [f"{len(runs)} runs: {len(completed)} completed, {len(left)} to do"]
    if unavailable:
        skipped = [run for run in runs if run.scenario in unavailable and run not in completed]
        lines.append(f"{len(skipped)} that this machine cannot make")
    each_s = predict_run_s(study, runs, rows, left)
    left_s = sum(each_s)
    if math.isnan(left_s):
        only = name_run(left[0].scenario, left[0].repetition)
        command = write_command("run", path, "--only", only)
        lines.append(f"time and money are estimated from runs; to make one: {command}")
    elif left:
        paid_s = sum(
            count_paid(run.parameters) * run_s for run, run_s in zip(left, each_s, strict=True)
        )
        usd = (
            price_seconds(find_price(study.instance).usd_per_hour, paid_s)
            if study.instance
            else math.nan
        )
        lines.append(
            f"about {left_s / 60:.0f} min{f', {usd:.2f} USD' if study.instance else ''} for the"
            " rest"
        )
    ended = [rows[run.run_id] for run in completed]
    epoch_s = [row.get("steady_epoch_s") or row.get("train_s") or row["wall_s"] for row in ended]
    cv, num_repeated = pool_spread(_group(completed, epoch_s).values())
    if cv > 0:
        needed = repetitions_for_precision(cv, precision)
        varied = f"repetitions vary by {cv:.1%} ({num_repeated} scenarios)"
        lines.append(f"{varied}: a mean within {precision:.0%} needs {needed} of each")
    return "\n".join(lines)


def _list_completed(
    runs: Iterable[PlannedRun], rows: dict[str, dict[str, Any]]
) -> list[PlannedRun]:
    return [run for run in runs if rows.get(run.run_id, {}).get("status") == "ok"]


def _group(runs: Iterable[PlannedRun], values: Iterable[float]) -> dict[str, list[float]]:
    """Values of the runs by scenario."""
    groups = {}
    for run, value in zip(runs, values, strict=True):
        groups.setdefault(run.scenario, []).append(value)
    return groups
