"""Cost of predictions by the hourly price, compared with paper B.

A machine answers one request at a time and is billed by the hour, busy or idle.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dr_lib.runs.prices import find_price


def usd_per_million(usd_per_hour: ArrayLike, predict_ms: ArrayLike) -> np.ndarray:
    """Compute the USD per million predictions on a machine that is never idle."""
    return np.asarray(usd_per_hour) * np.asarray(predict_ms) / 3.6  # 1e6 x 1e-3 s / 3600 s


def cost_table(latencies: pd.DataFrame) -> pd.DataFrame:
    """Price each model on each machine.

    Args:
        latencies: a row per model and machine, with `instance`, `predict_ms` and whatever else
            tells rows apart; `usd_per_hour` where a row has its own price; the others have that of
            `find_price`.

    Returns:
        The rows with `usd_per_hour`, `busy_ms` (decoding and cropping occupy the server, too),
        `usd_per_million_never_idle` on a machine that is never idle, and `computed_rate_per_s` of
        one such machine.

    Raises:
        PriceError: an instance has no price.
    """
    rows = latencies.assign(**latencies.reindex(columns=["usd_per_hour", "decode_ms"]))
    usd_per_hour = [
        find_price(row.instance).usd_per_hour
        if np.isnan(row.usd_per_hour)
        else row.usd_per_hour
        for row in rows.itertuples()
    ]
    busy_ms = rows["predict_ms"] + rows["decode_ms"].fillna(0.0)
    return latencies.assign(
        usd_per_hour=usd_per_hour,
        busy_ms=busy_ms,
        usd_per_million_never_idle=usd_per_million(usd_per_hour, busy_ms),
        computed_rate_per_s=1e3 / busy_ms,
    )


def tabulate_latencies(published: pd.DataFrame) -> pd.DataFrame:
    """Tabulate paper B's latencies, one row per `model` and `instance`.

    Args:
        published: the paper's means, of `claims.list_printed`.

    Returns:
        Their `usd_per_hour`, `predict_ms` with its deviation `predict_ms_sd`, and `round_trip_ms`.
    """
    printed = published.rename(columns={"hardware": "instance"})
    times = printed[printed["column"].isin(["predict_ms", "round_trip_ms"])]
    keys = ["model", "instance"]
    predict, call = (
        times[times["column"] == name].set_index(keys)
        for name in ("predict_ms", "round_trip_ms")
    )
    prices = printed[printed["column"] == "usd_per_hour"].set_index("instance")["value"]
    table = pd.DataFrame(
        {
            "predict_ms": predict["value"],
            "predict_ms_sd": predict["tolerance"],
            "round_trip_ms": call["value"],
        }
    )
    table = table.reindex(predict.index).reset_index()
    table.insert(2, "usd_per_hour", table["instance"].map(prices))
    return table
