"""What predictions cost: a million by the time of one, a month by the machines that the busiest
hour needs.

A machine is billed by the hour, busy or idle, so a month's machines are rented all month.
"""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dr_lib.errors import DrError
from dr_lib.report.groups import Selection, measure, select_runs
from dr_lib.runs.prices import PriceError, find_price
from dr_lib.statistics.intervals import Interval, tabulate

# what tells endpoints apart
KINDS = (
    "group",
    "machine",
    "environment",
    "instance_type",
    "model",
    "format",
    "image_size",
    "threads",
)
# endpoints of one network do the same work
NETWORK = ["model", "image_size"]
TIMES = ("round_trip_ms", "decode_ms", "predict_ms")
PRICED = [  # columns of `price_endpoints` that a reader needs
    "format",
    "environment",
    "instance",
    "n",
    "rate_per_s",
    "num_machines",
    "usd_per_month",
    "reason",
]
HOURS_PER_MONTH = 730.0  # a twelfth of a year
NO_RATE = "holds no rate within its bound"
WIDER = "was loaded with a wider bound"
REFUSED = "was refused by the accuracy gate"
REASONS = (NO_RATE, WIDER, REFUSED)  # why an endpoint is not chosen


def usd_per_million(usd_per_hour: ArrayLike, predict_ms: ArrayLike) -> np.ndarray:
    """Compute the USD per million predictions on a machine that is never idle."""
    return np.asarray(usd_per_hour) * np.asarray(predict_ms) / 3.6  # 1e6 x 1e-3 s / 3600 s


def select_loads(
    runs: pd.DataFrame,
    *_: Path,
    exclude: Collection[str] = (),
    pool: Collection[str] = (),
) -> Selection:
    """Select the rows of notebooks 21 and 22, see `select_runs`.

    `predict_usd_per_million` is added, of predicting alone on a machine that is never idle.
    """
    known = runs.reindex(columns=["usd_per_hour", "predict_ms"]).astype(float)
    usd = usd_per_million(known["usd_per_hour"], known["predict_ms"])
    runs = runs.assign(predict_usd_per_million=usd)
    return select_runs(runs, exclude=exclude, pool=pool)


def summarise_times(timed: pd.DataFrame, instance: str = "") -> pd.DataFrame:
    """Summarise the times of each model in each format on each machine, and price a million.

    Args:
        timed: rows of notebook 22 whose times count, of a `Selection`; each has the means of its
            requests, the first one among them, as in the paper.
        instance: whose price rows without a label have.

    Returns:
        A row for each, with as many of KINDS as there are, `n` runs, of TIMES the mean over them
        with _low and _high, `instance`, `usd_per_hour`, `busy_ms` (decoding and cropping occupy the
        server, too), and `usd_per_million_never_idle`.
    """
    summaries = []
    for key, rows in _group(timed, "predict_ms"):
        times = {name: measure(name, rows) for name in TIMES}
        decode_ms = np.nan_to_num(times["decode_ms"].value)
        busy_ms = times["predict_ms"].value + decode_ms
        price = _find_price(rows.iloc[0].to_dict(), instance)
        usd = float(usd_per_million(price["usd_per_hour"], busy_ms))
        summary = {**key, "n": times["predict_ms"].n, **times, **price, "busy_ms": busy_ms}
        summaries.append({**summary, "usd_per_million_never_idle": usd})
    return tabulate(summaries)


def tabulate_latencies(published: pd.DataFrame) -> pd.DataFrame:
    """Tabulate paper B's latencies and what they cost, one row per `model` and `instance`.

    Args:
        published: the paper's means, of `claims.list_printed`.

    Returns:
        Their `usd_per_hour`, `predict_ms` with its deviation `predict_ms_sd`, `round_trip_ms`, and
        `usd_per_million_never_idle`.
    """
    printed = published.rename(columns={"hardware": "instance"})
    values = printed.pivot_table("value", ["model", "instance"], "column", sort=False)
    deviations = printed.pivot_table("tolerance", ["model", "instance"], "column", sort=False)
    table = values[["predict_ms", "round_trip_ms"]].dropna()
    table["predict_ms_sd"] = deviations["predict_ms"]
    table = table.reset_index()
    table["usd_per_hour"] = [find_price(name).usd_per_hour for name in table["instance"]]
    usd = usd_per_million(table["usd_per_hour"], table["predict_ms"])
    return table.assign(usd_per_million_never_idle=usd)


def price_endpoints(
    timed: pd.DataFrame,
    *,
    requests_per_day: float,
    p99_ms: float,
    busiest_hour: float = 0.125,
    instance: str = "",
) -> pd.DataFrame:
    """Price each measured endpoint for a number of requests per day, the cheapest of a network
    first.

    Args:
        timed: rows of notebook 22, of a `Selection`.
        requests_per_day: answered by the month's mean.
        p99_ms: 99 % of the responses must take at most this long; a load test that allowed more
            says nothing.
        busiest_hour: the largest share of a day's requests that one hour takes, 1/24 where they
            come evenly, 1/8 where a clinic is open for eight hours.
        instance: whose price rows without a label have.

    Returns:
        A row per endpoint: as many of KINDS as there are, `instance` (the label of its price),
        `usd_per_hour`, `n` runs, `rate_per_s` that one machine held as their mean with its
        interval, `reason` (empty, or one of REASONS), `disturbed`, and `num_machines`,
        `usd_per_month` and `usd_per_million_as_used` with the bounds that those of the rate give.

    Raises:
        DrError: a number is not valid, or no run was loaded.
        PriceError: a machine has no price.
    """
    if not (requests_per_day > 0 and 1 / 24 <= busiest_hour <= 1):
        raise DrError(
            "requests_per_day must be above 0, and busiest_hour a share of the day from 1/24 to 1"
        )
    peak_per_s = requests_per_day * busiest_hour / 3600
    requests_per_month = requests_per_day * HOURS_PER_MONTH / 24
    endpoints = []
    for key, rows in _group(timed, "max_rate_per_s"):
        price = _find_price(rows.iloc[0].to_dict(), instance)
        reason = _find_reason(rows, p99_ms)
        rate = Interval(0.0, math.nan, math.nan, len(rows))
        if reason != NO_RATE:
            rate = Interval(*measure("max_rate_per_s", rows)[:4])
        # a larger rate needs fewer machines; one is billed at least
        rates = np.array([rate.value or math.nan, rate.high, rate.low])
        machines = np.maximum(1, np.ceil((peak_per_s / rates).round(9)))
        usd = machines * price["usd_per_hour"] * HOURS_PER_MONTH
        endpoints.append(
            {
                **key,
                **price,
                "n": rate.n,
                "rate_per_s": rate,
                "num_machines": Interval(*machines, rate.n),
                "usd_per_month": Interval(*usd, rate.n),
                "usd_per_million_as_used": Interval(*(1e6 * usd / requests_per_month), rate.n),
                "disturbed": bool(rows["disturbed"].any()),
                "reason": reason,
            }
        )
    if not endpoints:
        raise DrError("no load test below the folders: run notebook 22 first")
    priced = tabulate(endpoints).assign(is_out=lambda table: table["reason"] != "")
    priced = priced.sort_values([*NETWORK, "is_out", "usd_per_month"], ignore_index=True)
    return priced.drop(columns="is_out")


def find_candidates(rows: pd.DataFrame) -> pd.DataFrame:
    """Find the endpoints of one network, of `price_endpoints`, that may be the cheapest: where no
    interval tells them apart, all of them.
    """
    rows = rows[rows["reason"] == ""]
    highest = rows["usd_per_month_high"].fillna(math.inf).min()
    return rows[~(rows["usd_per_month_low"] > highest)]


def _group(timed: pd.DataFrame, column: str):
    """Group the rows that have a value by KINDS and label: yield the kind, and its rows."""
    if column not in timed:
        return
    kinds = [name for name in KINDS if name in timed]
    labels = [name for name in ("priced_as",) if name in timed]
    known = timed.dropna(subset=[column])
    for _, rows in known.groupby([*kinds, *labels], dropna=False, sort=False):
        yield rows[kinds].iloc[0].to_dict(), rows


def _find_reason(rows: pd.DataFrame, p99_ms: float) -> str:
    """Explain why an endpoint cannot be chosen; empty if it can."""
    if not (rows["max_rate_per_s"] > 0).all():
        return NO_RATE
    if (rows["bound_ms"] > p99_ms).any():
        return WIDER
    if rows.reindex(columns=["gate_passes"]).eq(False).any(axis=None):
        return REFUSED
    return ""


def _find_price(row: dict[str, Any], instance: str) -> dict[str, Any]:
    """Find the price of the row's label, else of its machine, else of the default."""
    named = (row.get("priced_as"), row.get("instance_type"), instance)
    label = next((name for name in named if name and pd.notna(name)), "")
    try:
        usd_per_hour = find_price(label).usd_per_hour
    except PriceError:
        usd_per_hour = row.get("usd_per_hour", math.nan)
        if pd.isna(usd_per_hour):
            raise
    return {"instance": label, "usd_per_hour": usd_per_hour}
