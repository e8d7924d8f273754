"""What the rest of a study takes, in hours and money, and how many repetitions a wanted precision needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dr_lib.runs.prices import find_price
from dr_lib.runs.row import read_process_s
from dr_lib.statistics.effects import pool_spread, repetitions_for_precision

if TYPE_CHECKING:  # a cloud runtime without papermill estimates too
    from dr_lib.runs.study import PlannedRun, Study


class Estimate(NamedTuple):
    """What is left of a study; NaN where nothing has run yet, or no price is known."""

    num_runs: int
    num_made: int
    num_impossible: int  # runs that this machine cannot make, as far as is known
    hours_left: float
    usd_left: float
    cv: float  # coefficient of variation between repetitions of one scenario
    num_repeated: int  # scenarios made twice or more, on which `cv` rests


def estimate_rest(study: Study, runs: list[PlannedRun], rows: dict[str, dict[str, Any]]) -> Estimate:
    """Estimate from the runs made so far what the others take.

    A scenario that has run takes its geometric mean again. For one that has not, each factor multiplies: a least
    squares fit of the logarithms on the levels of the factors, which is exact where there are no interactions.

    Args:
        study: from `load_study`; its instance gives the price.
        runs: from `plan_runs`.
        rows: the rows that the runs have left, by run.
    """
    made = [run for run in runs if rows.get(run.run_id, {}).get("status") == "ok"]
    unavailable = {run.scenario for run in runs if rows.get(run.run_id, {}).get("status") == "skipped"}
    left = [run for run in runs if run not in made and run.scenario not in unavailable]
    seconds = [read_process_s(rows[run.run_id]) for run in made]
    epochs = sorted((run.scenario, _read_epoch_s(rows[run.run_id])) for run in made)
    cv, num_repeated = pool_spread([epoch_s for _, epoch_s in group] for _, group in itertools.groupby(epochs, _first))
    hours_left = sum(_predict(study, made, seconds, left)) / 3600 if made or not left else math.nan
    usd_left = hours_left * find_price(study.instance).usd_per_hour if study.instance else math.nan
    num_impossible = len(runs) - len(made) - len(left)
    return Estimate(len(runs), len(made), num_impossible, hours_left, usd_left, cv, num_repeated)


def describe_estimate(estimate: Estimate, precision: float) -> str:
    """Say it in sentences; `precision` is the wanted half width of a 95 % interval, relative to the mean."""
    num_left = estimate.num_runs - estimate.num_made - estimate.num_impossible
    said = [f"{estimate.num_runs} runs: {estimate.num_made} made, {num_left} to make"]
    said += [f"{estimate.num_impossible} that this machine cannot make"] * bool(estimate.num_impossible)
    if math.isnan(estimate.hours_left):
        said.append("time and money: make a few runs first, for they are estimated from these")
    elif num_left:
        money = "" if math.isnan(estimate.usd_left) else f", {estimate.usd_left:.2f} USD"
        said.append(f"about {60 * estimate.hours_left:.0f} min{money} for the rest")
    if estimate.num_repeated:
        needed = repetitions_for_precision(estimate.cv, precision)
        said.append(
            f"repetitions vary by {estimate.cv:.1%} ({estimate.num_repeated} scenarios): a mean within "
            f"{precision:.0%} needs {needed} of each"
        )
    return "\n".join(said)


def _predict(
    study: Study, made: list[PlannedRun], seconds: list[float], wanted: Iterable[PlannedRun]
) -> Iterable[float]:
    levels = [(name, value) for name, values in study.factors.items() for value in values]

    def describe(run: PlannedRun) -> list[float]:
        return [float(run.parameters[name] == value) for name, value in levels]

    logs = np.log(seconds)
    mean = logs.mean() if made else math.nan
    design = np.array([describe(run) for run in made]).reshape(len(made), len(levels))
    fitted = np.linalg.lstsq(design, logs - mean, rcond=None)[0]  # a level that has not run counts as an average one
    known = {
        scenario: np.mean([log for _, log in group])
        for scenario, group in itertools.groupby(sorted(zip((r.scenario for r in made), logs, strict=True)), _first)
    }
    return [math.exp(known.get(run.scenario, mean + np.dot(describe(run), fitted))) for run in wanted]


def _first(pair: tuple[str, float]) -> str:
    return pair[0]


def _read_epoch_s(row: dict[str, Any]) -> float:
    return row.get("steady_epoch_s") or row.get("train_s") or row["wall_s"]
