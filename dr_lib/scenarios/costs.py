"""Compare the formula's cost of paper C's runs with a bill; find the cost of an accuracy."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.report.select import Selection
from dr_lib.runs.prices import PriceError, price_runs, price_seconds

BRL_PER_USD = 973 / 200  # Moura Filho and Sousa: US$200 = R$973; day not given


def fit_overhead(
    run_s: Sequence[float], usd_per_hour: Sequence[float], bill_usd: float
) -> float:
    """Find the seconds per run that a bill implies besides the measured ones.

    A machine is billed while it starts, waits and keeps its disk. One overhead for all runs makes
    the sum of price x (measured + overhead) the bill.

    Args:
        run_s: measured seconds of each run, training and set-up together.
        usd_per_hour: price of each run.
        bill_usd: what was paid for all of them.
    """
    run_s = np.asarray(run_s, float)
    usd_per_hour = np.asarray(usd_per_hour, float)
    amounts = np.array([*run_s, *usd_per_hour, bill_usd])
    if not (np.isfinite(amounts).all() and (amounts >= 0).all() and usd_per_hour.sum() > 0):
        raise PriceError(
            "seconds, prices and the bill must be finite and not negative, with one price "
            "above zero"
        )
    measured_usd = price_seconds(usd_per_hour, run_s).sum()
    if bill_usd < measured_usd and not math.isclose(bill_usd, measured_usd):
        raise PriceError(
            f"a bill of {bill_usd:.2f} USD is less than the {measured_usd:.2f} USD that the"
            " measured seconds cost: check the prices, the currency, and that the bill covers all"
            " runs"
        )
    return max(0.0, 3600 * (bill_usd - measured_usd) / usd_per_hour.sum())


def add_bills(selection: Selection, bills_usd: Sequence[float]) -> pd.DataFrame:
    """Add bills to the timed runs.

    Args:
        selection: runs; a bill is for those that are not timed, too.
        bills_usd: one for all runs, or several, each for as many of them: of studies that were
            repeated.

    Returns:
        The timed runs, on each one of the bills: `study_bill_usd`, as of five runs of every
        scenario, which the paper's was of, and `formula_share_of_bill`.

    Raises:
        PriceError: no run has finished or has a price, or they cost more by their prices.
    """
    if selection.finished.empty:
        raise PriceError(
            "a bill needs finished runs of notebook 30: there are none below the folders"
        )
    paid = price_runs(selection.finished).query("usd_per_hour > 0")
    fit_overhead(paid["train_s"] + paid["setup_s"], paid["usd_per_hour"], sum(bills_usd))
    timed = selection.timed
    bill_usd = np.resize(bills_usd, len(timed))
    runs_of_a_bill = len(paid) / len(bills_usd)
    return timed.assign(
        study_bill_usd=bill_usd * 5 * paid["scenario"].nunique() / runs_of_a_bill,
        formula_share_of_bill=paid["formula_usd"].mean() * runs_of_a_bill / bill_usd,
    )


def cost_to_reach(row: Mapping[str, Any], accuracy: float) -> float:
    """Compute a run's cost in USD up to the epoch that first reached an accuracy.

    Args:
        row: a run with usd_per_hour, setup_s, epoch_s and epoch_accuracy, which has a value for
            every epoch, or for every so many as `evaluate_every` says. The time of the looks at the
            accuracy is not counted.
        accuracy: a share, 0 to 1.

    Returns:
        NaN where no epoch reached it, or the run has no price.
    """
    if not 0 <= accuracy <= 1:
        raise PriceError(
            f"an accuracy must be between 0 and 1, not {accuracy}: give 0.95 for 95 %"
        )
    accuracies = row.get("epoch_accuracy")
    if not isinstance(accuracies, list) or row.get("usd_per_hour") is None:
        return math.nan
    for number, value in enumerate(accuracies, start=1):
        if value is not None and value >= accuracy:
            every = row.get("evaluate_every") or 0
            num_epochs = number * (int(every) if every > 0 else 1)
            return price_seconds(
                row["usd_per_hour"], row["setup_s"], *row["epoch_s"][:num_epochs]
            )
    return math.nan
