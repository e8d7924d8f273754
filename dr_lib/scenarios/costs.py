"""Compare the formula's cost of paper C's runs with a bill; find the cost of an accuracy."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dr_lib.runs.prices import PriceError, price_seconds

BRL_PER_USD = 973 / 200  # Moura Filho and Sousa: US$200 = R$973; day not given


def fit_overhead(runs: pd.DataFrame, bill_usd: float) -> float:
    """Find the seconds per run that a bill implies besides the measured ones.

    A machine is billed while it starts, waits and keeps its disk. One overhead for all runs makes
    the sum of their costs the bill.

    Args:
        runs: all that the bill is of, from `price_runs`; those without a price are not of it.
        bill_usd: what was paid for all of them.

    Raises:
        PriceError: no run has a price, or the runs cost more than the bill.
    """
    paid = runs[runs["usd_per_hour"] > 0]
    measured_usd = paid["cost_usd"].sum()
    if paid.empty or bill_usd < measured_usd * (1 - 1e-9):
        raise PriceError(
            f"a bill of {bill_usd:.2f} USD, and runs of {measured_usd:.2f} USD by their prices:"
            " check the prices, the currency, and that the bill covers all runs"
        )
    return max(0.0, 3600 * (bill_usd - measured_usd) / paid["usd_per_hour"].sum())


def cost_to_reach(row: Mapping[str, Any], accuracy: float, overhead_s: float = 0.0) -> float:
    """Compute a run's cost in USD up to the epoch that first reached an accuracy.

    It is the cost of the run, less that of the epochs after it.

    Args:
        row: a run with usd_per_hour, train_s, setup_s, epoch_s and epoch_accuracy, which has a
            value for every epoch, or for every so many as `evaluate_every` says.
        accuracy: a share, 0 to 1.
        overhead_s: seconds that each run is billed beside set-up and training.

    Returns:
        NaN where no epoch reached it, or the run has no price.
    """
    accuracies = row.get("epoch_accuracy")
    if not isinstance(accuracies, list):
        return math.nan
    for number, value in enumerate(accuracies, start=1):
        if value is not None and value >= accuracy:
            num_epochs = number * (int(row.get("evaluate_every") or 0) or 1)
            train_s = row["train_s"] - sum(row["epoch_s"][num_epochs:])
            return price_seconds(row["usd_per_hour"], train_s, row["setup_s"], overhead_s)
    return math.nan
