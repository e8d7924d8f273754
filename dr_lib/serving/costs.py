"""What predictions cost: a million by the time of one, a month by the machines that the busiest
hour needs.

A machine is billed by the hour, busy or idle, so a month's machines are rented all month.
"""

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dr_lib.errors import DrError
from dr_lib.report.groups import measure
from dr_lib.runs.prices import find_price
from dr_lib.statistics.intervals import NOTHING, Measured, tabulate
from dr_lib.statistics.times import FEW_SESSIONS, WITHIN

# what is said of an endpoint; these and its price tell endpoints apart, pooled or not
FACTS = ["group", "environment", "model", "format", "image_size"]
KINDS = (*FACTS, "instance_type", "priced_as")
# endpoints of one network do the same work
NETWORK = ["model", "image_size"]
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


def add_usd_per_million(timed: pd.DataFrame) -> pd.DataFrame:
    """Add `predict_usd_per_million`, of predicting alone on a machine that is never idle."""
    known = timed.reindex(columns=["usd_per_hour", "predict_ms"]).astype(float)
    usd = usd_per_million(known["usd_per_hour"], known["predict_ms"])
    return timed.assign(predict_usd_per_million=usd)


def tabulate_latencies(published: pd.DataFrame) -> pd.DataFrame:
    """Tabulate paper B's latencies and what they cost, one row per `model` and `instance`.

    Args:
        published: the paper's means, of `claims.list_printed`.

    Returns:
        Their `predict_ms` with its deviation `predict_ms_sd`, `usd_per_hour`, and
        `usd_per_million_never_idle`.
    """
    rows = published[published["column"] == "predict_ms"]
    usd_per_hour = [find_price(name).usd_per_hour for name in rows["hardware"]]
    return pd.DataFrame(
        {
            "model": rows["model"],
            "instance": rows["hardware"],
            "predict_ms": rows["value"],
            "predict_ms_sd": rows["tolerance"],
            "usd_per_hour": usd_per_hour,
            "usd_per_million_never_idle": usd_per_million(usd_per_hour, rows["value"]),
        }
    )


def price_endpoints(
    timed: pd.DataFrame,
    *,
    requests_per_day: float,
    p99_ms: float,
    busiest_hour: float = 0.125,
    instance: str = "",
) -> pd.DataFrame:
    """Price each measured endpoint by the time of a prediction and for so many requests per day,
    the cheapest of a network first.

    Args:
        timed: rows of notebook 22, of a `Selection`.
        requests_per_day: answered by the month's mean.
        p99_ms: bound of 99 % of the responses; a load test that allowed more says nothing.
        busiest_hour: share of a day's requests; 1/8 where a clinic is open for eight hours.
        instance: whose price rows without a label, or a machine that has one, get.

    Returns:
        A row per endpoint: FACTS, `instance` (the label of its price), `usd_per_hour`, `n` runs,
        the mean of `predict_ms` over them, `busy_ms` (decoding and cropping occupy the server,
        too), `usd_per_million_never_idle`, `rate_per_s` that one machine held, `num_machines`,
        `usd_per_month`, all with _low and _high, and _scope if it is less than any session;
        `reason` (empty, or one of REASONS) and `disturbed`. Where a network has several sessions,
        bounds take three of each endpoint.

    Raises:
        DrError: a number is not valid, or no run was loaded.
        PriceError: a machine has no price.
    """
    if not (requests_per_day > 0 and 1 / 24 <= busiest_hour <= 1):
        raise DrError(
            "requests_per_day must be above 0, and busiest_hour a share of the day from 1/24 to 1"
        )
    if "max_rate_per_s" not in timed:
        raise DrError("no load test below the folders: run notebook 22 first")
    peak_per_s = requests_per_day * busiest_hour / 3600
    kinds = [name for name in KINDS if name in timed]
    loaded = timed.dropna(subset=["max_rate_per_s"])
    sessions = loaded.groupby(NETWORK)["session"].transform("nunique")
    loaded = loaded.assign(num_sessions=sessions)
    endpoints = []
    for _, rows in loaded.groupby(kinds, dropna=False, sort=False):
        first = rows.iloc[0]
        labels = [first.get("priced_as"), first.get("instance_type"), instance]
        label = next((name for name in labels if name and pd.notna(name)), "")
        usd_per_hour = find_price(label).usd_per_hour
        predict_ms = measure("predict_ms", rows)
        busy_ms = np.nansum([predict_ms.value, measure("decode_ms", rows).value])
        reason = _find_reason(rows, p99_ms)
        rate = Measured(*NOTHING)._replace(n=len(rows))
        if reason != NO_RATE:
            rate = measure("max_rate_per_s", rows)
        if rate.scope == WITHIN and rows["num_sessions"].iloc[0] > 1:
            # what is compared may be another machine's
            rate = rate._replace(low=math.nan, high=math.nan, scope=FEW_SESSIONS)
        # a larger rate needs fewer machines; one is billed at least
        rates = np.array([rate.value, rate.high, rate.low])
        machines = np.maximum(1, np.ceil((peak_per_s / rates).round(9)))
        usd_per_month = machines * usd_per_hour * HOURS_PER_MONTH
        about = (rate.n, rate.scope)
        endpoints.append(
            {
                **first[FACTS],
                "instance": label,
                "usd_per_hour": usd_per_hour,
                "n": rate.n,
                "predict_ms": predict_ms,
                "busy_ms": busy_ms,
                "usd_per_million_never_idle": float(usd_per_million(usd_per_hour, busy_ms)),
                "rate_per_s": rate,
                "num_machines": Measured(*machines, *about),
                "usd_per_month": Measured(*usd_per_month, *about),
                "reason": reason,
                "disturbed": bool(rows["disturbed"].any()),
            }
        )
    priced = tabulate(endpoints)
    # those with a reason last
    return priced.sort_values([*NETWORK, "reason", "usd_per_month"], ignore_index=True)


def find_candidates(rows: pd.DataFrame) -> pd.DataFrame:
    """Find the endpoints of one network, of `price_endpoints`, that may be the cheapest: where no
    interval tells them apart, or a load test was disturbed, all of them.
    """
    rows = rows[rows["reason"] == ""]
    if rows["disturbed"].any():
        return rows
    highest = rows["usd_per_month_high"].fillna(math.inf).min()
    return rows[~(rows["usd_per_month_low"] > highest)]


def _find_reason(rows: pd.DataFrame, p99_ms: float) -> str:
    """Explain why an endpoint cannot be chosen; empty if it can."""
    if not (rows["max_rate_per_s"] > 0).all():
        return NO_RATE
    if (rows["bound_ms"] > p99_ms).any():
        return WIDER
    if rows.reindex(columns=["gate_passes"]).eq(False).any(axis=None):
        return REFUSED
    return ""
