"""What predictions cost by the hour's price, beside what paper B printed.

A machine answers one request at a time and is billed by the hour, busy or idle.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dr_lib.evidence.claims import list_printed
from dr_lib.runs.prices import find_price

SIZES = ["num_parameters", "savedmodel_mib"]


def usd_per_million(usd_per_hour: ArrayLike, predict_ms: ArrayLike) -> np.ndarray:
    """What a million predictions cost in USD on a machine that is never idle."""
    return np.asarray(usd_per_hour) * np.asarray(predict_ms) / 3.6  # 1e6 x 1e-3 s / 3600 s


def cost_table(latencies: pd.DataFrame) -> pd.DataFrame:
    """Price each model on each machine.

    Args:
        latencies: a row per model and machine, with `instance`, `predict_ms` and whatever else
            tells rows apart; `usd_per_hour` where a row has its own price; the others have that of
            `find_price`.

    Returns:
        The rows with `usd_per_hour`, `busy_ms` (decoding and cropping occupy the server, too),
        `usd_per_million` on a machine that is never idle, and `computed_rate_per_s` of one such
        machine.

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
        usd_per_million=usd_per_million(usd_per_hour, busy_ms),
        computed_rate_per_s=1e3 / busy_ms,
    )


def read_paper_latencies() -> pd.DataFrame:
    """Read what paper B published, a row per `model` and `instance`.

    Returns:
        Their `usd_per_hour`, `predict_ms` with its deviation `predict_ms_sd`, and `round_trip_ms`.
    """
    printed = list_printed("B").assign(instance=lambda rows: rows["hardware"])
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


def compare_sizes(runs: pd.DataFrame, *, published: bool = True) -> pd.DataFrame:
    """Compare the parameters and the SavedModel of each network with the paper's table 1.

    Returns:
        A row per `model`: `num_parameters` and `savedmodel_mib` of ours at `image_size`, where the
        runs have them, and the paper's with `_published` behind the name, where they are asked for.
    """
    ours = runs.reindex(columns=["model", "image_size", *SIZES]).dropna(subset=SIZES)
    ours = ours.groupby(["model", "image_size"])[SIZES].first()
    if not published:
        return ours.reset_index()
    printed = list_printed("B").query("column in @SIZES")
    table = printed.pivot(index="model", columns="column", values="value")[SIZES]
    table = table.add_suffix("_published")
    if len(ours):
        table = ours.reset_index("image_size").join(table, how="outer")
    return table.reset_index()


def correct_saving(latencies: pd.DataFrame, cheap: str, dear: str) -> pd.DataFrame:
    """Compare what the instance with the cheaper hour saves an hour and a prediction.

    Returns:
        A row per model that was timed on both: `saving_per_hour` and `saving_per_prediction` in per
        cent; below 0 it is dearer.
    """
    costs = cost_table(latencies).set_index("model")
    ours = costs[costs["instance"] == cheap]
    theirs = costs[costs["instance"] == dear]
    saved = {
        "saving_per_hour": 100 - 100 * ours["usd_per_hour"] / theirs["usd_per_hour"],
        "saving_per_prediction": 100
        - 100 * ours["usd_per_million"] / theirs["usd_per_million"],
    }
    return pd.DataFrame(saved).dropna().rename_axis("model").reset_index()
