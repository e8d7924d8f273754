"""What the rest of a study takes, in hours and money, and how many repetitions a wanted precision needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dr_lib.runs.prices import find_price
from dr_lib.runs.row import read_process_s

if TYPE_CHECKING:  # a cloud runtime without papermill estimates too
    from dr_lib.runs.study import PlannedRun, Study


class Estimate(NamedTuple):
    """What is left of a study; NaN where nothing has run yet, or no price is known."""

    num_runs: int
    num_completed: int
    num_unavailable: int  # runs that this machine cannot make, as far as is known
    hours_left: float
    usd_left: float
    cv: float  # coefficient of variation between repetitions of one scenario
    num_repeated: int  # scenarios completed twice or more, on which `cv` rests


def predict_run_s(
    study: Study, runs: Iterable[PlannedRun], rows: dict[str, dict[str, Any]], wanted: Sequence[PlannedRun]
) -> list[float]:
    """Predict from the completed runs how many seconds each of the wanted ones takes; NaN before any is completed.

    A scenario that has run takes its geometric mean again. For one that has not, each factor multiplies: a least
    squares fit of the logarithms on the levels of the factors, which is exact where there are no interactions.

    Args:
        study: from `load_study`.
        runs: from `plan_runs`.
        rows: the rows that the runs have left, by run.
        wanted: those of the runs to predict.
    """
    completed = [run for run in runs if _is_completed(run, rows)]
    if not completed:
        return [math.nan] * len(wanted)
    levels = [(name, value) for name, values in study.factors.items() for value in values]

    def describe(run: PlannedRun) -> list[float]:
        return [float(run.parameters[name] == value) for name, value in levels]

    logs = np.log([read_process_s(rows[run.run_id]) for run in completed])
    mean, design = logs.mean(), np.array([describe(run) for run in completed])
    fitted = np.linalg.lstsq(design, logs - mean, rcond=None)[0]  # a level that has not run counts as an average one
    by_scenario = _group(completed, logs)
    return [math.exp(np.mean(by_scenario.get(run.scenario) or mean + np.dot(describe(run), fitted))) for run in wanted]


def estimate_rest(study: Study, runs: list[PlannedRun], rows: dict[str, dict[str, Any]]) -> Estimate:
    """Estimate from the completed runs what the others take, priced by the study's instance."""
    completed = [run for run in runs if _is_completed(run, rows)]
    unavailable = {run.scenario for run in runs if rows.get(run.run_id, {}).get("status") == "skipped"}
    left = [run for run in runs if run not in completed and run.scenario not in unavailable]
    epoch_s = _group(completed, [_read_epoch_s(rows[run.run_id]) for run in completed])
    hours_left = sum(predict_run_s(study, runs, rows, left)) / 3600
    usd_left = hours_left * find_price(study.instance).usd_per_hour if study.instance else math.nan
    num_unavailable = len(runs) - len(completed) - len(left)
    from dr_lib.statistics.effects import pool_spread  # SciPy, which takes a second to import

    return Estimate(len(runs), len(completed), num_unavailable, hours_left, usd_left, *pool_spread(epoch_s.values()))


def describe_estimate(estimate: Estimate, precision: float) -> str:
    """Say it in sentences; `precision` is the wanted half width of a 95 % interval, relative to the mean."""
    num_left = estimate.num_runs - estimate.num_completed - estimate.num_unavailable
    lines = [f"{estimate.num_runs} runs: {estimate.num_completed} completed, {num_left} to do"]
    lines += [f"{estimate.num_unavailable} that this machine cannot make"] * bool(estimate.num_unavailable)
    if math.isnan(estimate.hours_left):
        lines.append("time and money: complete a few runs first, for they are estimated from these")
    elif num_left:
        money = "" if math.isnan(estimate.usd_left) else f", {estimate.usd_left:.2f} USD"
        lines.append(f"about {60 * estimate.hours_left:.0f} min{money} for the rest")
    if estimate.num_repeated:
        from dr_lib.statistics.effects import repetitions_for_precision  # SciPy, which takes a second to import

        needed = repetitions_for_precision(estimate.cv, precision)
        lines.append(
            f"repetitions vary by {estimate.cv:.1%} ({estimate.num_repeated} scenarios): a mean within "
            f"{precision:.0%} needs {needed} of each"
        )
    return "\n".join(lines)


def _is_completed(run: PlannedRun, rows: dict[str, dict[str, Any]]) -> bool:
    return rows.get(run.run_id, {}).get("status") == "ok"


def _group(runs: Iterable[PlannedRun], values: Iterable[float]) -> dict[str, list[float]]:
    """Values of the runs by scenario."""
    groups = {}
    for run, value in zip(runs, values, strict=True):
        groups.setdefault(run.scenario, []).append(value)
    return groups


def _read_epoch_s(row: dict[str, Any]) -> float:
    return row.get("steady_epoch_s") or row.get("train_s") or row["wall_s"]
