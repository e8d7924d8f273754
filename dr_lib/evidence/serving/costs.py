"""What predictions cost: by the hour, by the million, by how busy the machine is, and where the
cheaper one changes.

A machine answers one request at a time and is billed by the hour, busy or idle. Machines are added
whole, and share the requests without loss: at r requests a second of latency L, ceil(r L) of them.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dr_lib.evidence.claims import list_printed
from dr_lib.runs.prices import PriceError, find_price

PAPER_RATE_PER_S = 0.2  # paper B asks once in 5 s
MAX_MACHINES = 10_000  # a fleet in which a break-even is looked for


class Offer(NamedTuple):
    """A machine at its price and speed."""

    instance: str
    usd_per_hour: float
    predict_ms: float  # of one prediction, at work on nothing else


class BreakEven(NamedTuple):
    """Where the machine whose hour is cheaper stops being the cheaper one per prediction."""

    cheaper: str  # the instance whose hour is cheaper
    other: str
    # just above this rate its fleet costs more than the other's, for the first time
    first_per_s: float
    always_per_s: float  # above this rate it always does; infinite where it is cheaper when busy


def usd_per_million(usd_per_hour: ArrayLike, predict_ms: ArrayLike) -> np.ndarray:
    """What a million predictions cost in USD on a machine that is never idle: price per second x
    time of one.
    """
    return np.asarray(usd_per_hour) * np.asarray(predict_ms) / 3.6  # 1e6 x 1e-3 s / 3600 s


def usd_per_million_at_rate(
    usd_per_hour: ArrayLike, rate_per_s: ArrayLike, predict_ms: ArrayLike
) -> np.ndarray:
    """What a million predictions cost in USD at a rate, above 0, on as many machines as it
    needs, busy or idle.
    """
    return (
        np.asarray(usd_per_hour) * find_num_machines(rate_per_s, predict_ms) / 3.6e-3 / rate_per_s
    )


def find_num_machines(rate_per_s: ArrayLike, predict_ms: ArrayLike) -> np.ndarray:
    """The machines that a rate needs, each fully used: rate x time, rounded up; one at least, for
    it is billed.

    Real fleets need more, because requests come in bursts and response times grow before a machine
    is fully used.
    """
    busy = np.asarray(rate_per_s) * np.asarray(predict_ms) / 1e3  # Little's law
    return np.maximum(1, np.ceil(np.round(busy, 9)))  # 3 x 1/3 s is one machine, not two


def break_even(a: Offer, b: Offer) -> BreakEven:
    """Find the rates at which the machine whose hour is cheaper stops being cheaper per prediction.

    While both need one machine, the cheaper hour is the cheaper prediction. Its fleet grows at k /
    L requests a second, k = 1, 2, ..., and from there on costs (k + 1) hours of it; the other one's
    then costs floor(k L' / L) + 1 hours, so that the first k for which that is less gives the first
    break-even. Between steps the order may change back. It stays changed for good only if the busy
    prediction, price x latency, is dearer too: beyond the last of the two fleets' steps after which
    the cheaper hour still was no dearer.

    Raises:
        PriceError: a price or latency is not positive.
    """
    if min(a.usd_per_hour, b.usd_per_hour, a.predict_ms, b.predict_ms) <= 0:
        raise PriceError("what costs nothing, or takes no time, breaks even with nothing")
    cheap, dear = sorted((a, b), key=lambda offer: (offer.usd_per_hour, offer.predict_ms))
    steps = np.arange(MAX_MACHINES)
    rates = np.unique(
        np.concatenate([1e3 * steps / cheap.predict_ms, 1e3 * steps / dear.predict_ms])
    )
    # where both fleets are known
    rates = rates[rates <= 1e3 * MAX_MACHINES / max(cheap.predict_ms, dear.predict_ms)]
    cost, other = (
        offer.usd_per_hour * (np.floor(np.round(rates * offer.predict_ms / 1e3, 9)) + 1)
        for offer in (cheap, dear)
    )
    is_dearer = cost > other + 1e-12  # just above each rate
    first = rates[is_dearer.argmax()] if is_dearer.any() else math.inf
    is_dearer_busy = cheap.usd_per_hour * cheap.predict_ms > dear.usd_per_hour * dear.predict_ms
    always = (
        rates[len(rates) - is_dearer[::-1].argmin()]
        if is_dearer_busy and is_dearer[-1]
        else math.inf
    )
    return BreakEven(cheap.instance, dear.instance, float(first), float(always))


def cost_table(latencies: pd.DataFrame) -> pd.DataFrame:
    """Price each model on each machine.

    Args:
        latencies: a row per model and machine, with `instance`, `predict_ms` and whatever else
            tells rows apart; `usd_per_hour` where a row has its own price; the others have that of
            `find_price`.

    Returns:
        The rows with `usd_per_hour`, `usd_per_million` on a machine that is never idle, and
        `computed_rate_per_s` of one such machine.

    Raises:
        PriceError: an instance has no price.
    """
    own = (
        latencies["usd_per_hour"]
        if "usd_per_hour" in latencies
        else pd.Series(math.nan, latencies.index)
    )
    found = [
        find_price(row).usd_per_hour if math.isnan(price) else price
        for row, price in zip(latencies["instance"], own, strict=True)
    ]
    decode_ms = latencies["decode_ms"].fillna(0.0) if "decode_ms" in latencies else 0.0
    busy_ms = latencies["predict_ms"] + decode_ms  # decoding and cropping occupy the server, too
    return latencies.assign(
        usd_per_hour=found,
        busy_ms=busy_ms,
        usd_per_million=usd_per_million(found, busy_ms),
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
        times[times["column"] == name].set_index(keys) for name in ("predict_ms", "round_trip_ms")
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
    """Hold the parameters and the SavedModel of each network against the paper's table 1.

    Returns:
        A row per `model`: `num_parameters` and `savedmodel_mib` of ours at `image_size`, where the
        runs have them, and the paper's with `_published` behind the name, where they are asked for.
    """
    columns = ["num_parameters", "savedmodel_mib"]
    ours = runs.reindex(columns=["model", "image_size", *columns]).dropna(subset=columns)
    ours = ours.groupby(["model", "image_size"])[columns].first()
    if not published:
        return ours.reset_index()
    printed = list_printed("B").query("column in @columns")
    table = printed.pivot(index="model", columns="column", values="value")[columns].add_suffix(
        "_published"
    )
    if len(ours):
        table = ours.reset_index("image_size").join(table, how="outer")
    return table.reset_index()


def find_break_evens(costs: pd.DataFrame) -> pd.DataFrame:
    """For each model of a `cost_table`: where the cheapest hour stops being the cheapest
    prediction, by machine.

    Returns:
        A row per pair of machines: `model` and the fields of `BreakEven`.
    """
    lines = []
    for model, rows in costs.groupby("model", sort=False):
        offers = [Offer(row.instance, row.usd_per_hour, row.busy_ms) for row in rows.itertuples()]
        cheap = min(offers, key=lambda offer: offer.usd_per_hour)
        lines += [
            {"model": model} | break_even(cheap, offer)._asdict()
            for offer in offers
            if offer != cheap
        ]
    return pd.DataFrame(lines)


def correct_saving(latencies: pd.DataFrame, cheap: str, dear: str) -> pd.DataFrame:
    """Hold what the instance whose hour is cheaper saves an hour against what it saves a
    prediction.

    Returns:
        A row per model that was timed on both: `saving_per_hour` and `saving_per_prediction` in per
        cent; below 0 it is dearer.
    """
    costs = cost_table(latencies).set_index("model")
    sides = [costs[costs["instance"] == instance] for instance in (cheap, dear)]
    names = {"usd_per_hour": "saving_per_hour", "usd_per_million": "saving_per_prediction"}
    saved = {saving: 100 - 100 * sides[0][name] / sides[1][name] for name, saving in names.items()}
    return pd.DataFrame(saved).dropna().rename_axis("model").reset_index()
