"""The cheapest endpoint for so many requests a day: machines from the rates that load tests held,
money from prices.

The busiest hour takes a share of the day's requests, and within it they come at random, as in the
load tests. The machines that this hour needs are rented all month, busy or idle.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.evidence.energy import measure_energy
from dr_lib.evidence.scenarios import BRL_PER_USD
from dr_lib.evidence.select import name_deployments, select_runs
from dr_lib.evidence.serving.costs import BreakEven, Offer, break_even, find_num_machines
from dr_lib.evidence.serving.request_log import KINDS, OPEN_LOOP, read_requests
from dr_lib.hardware.cloud import AZURE
from dr_lib.runs.prices import Price, PriceError, find_price, read_prices
from dr_lib.statistics.intervals import mean_interval

BUSIEST_HOUR = 0.125  # of a day's requests, as where a clinic is open for eight hours
HOURS_PER_MONTH = 730.0  # a twelfth of a year
# endpoints of one network do the same work; the gate compares no two networks
NETWORK = ["model", "image_size"]
GATED = ["gate_passes"]  # of the gate's row in the manifest
GATED += [
    f"gate_{score}_difference{bound}"
    for score in ("auc", "kappa")
    for bound in ("", "_low", "_high")
]
NO_RATE = "holds no rate within the bound"
UNKNOWN = "accuracy not known"
LOSES = "may lose more accuracy"
UNANSWERED = "leaves requests unanswered at the least rate"
REASONS = (NO_RATE, UNANSWERED, UNKNOWN, LOSES)  # why an endpoint is not taken


class EndpointError(ValueError):
    """No endpoint can be chosen; the message says why."""


def find_rates(runs: pd.DataFrame, *folders: Path, p99_ms: float) -> pd.DataFrame:
    """Say what rate each load test held, by all its requests: the largest one tried below the
    smallest one missed.

    Args:
        runs: one row per run, from `read_runs`.
        folders: those that were given to it.
        p99_ms: bound of the 99th percentile of the response time; every request has to be answered,
            too.

    Returns:
        The runs that were loaded, with `held_per_s` (0: none), `held_requests` of them sent at that
        rate, `is_limited` (whether a larger rate was missed), `missed_per_s` (infinite: none), and
        `least_p99_ms` of the rates at which every request was answered.
    """
    requests = read_requests(runs, *folders, load=OPEN_LOOP)
    if "rate_per_s" not in requests or requests["rate_per_s"].isna().all():
        raise EndpointError(
            "no load test below the folders: serve a model and load it with notebook 22"
        )
    lines = []
    for key, rows in requests.dropna(subset=["rate_per_s"]).groupby(["study", "run_id"]):
        tried = rows.groupby("rate_per_s").agg(
            p99=("response_ms", lambda times: np.quantile(times, 0.99, method="inverted_cdf")),
            n=("status", "size"),
            answered=("status", lambda status: (status == "ok").all()),
        )
        is_held = tried["answered"] & (tried["p99"] <= p99_ms)
        missed = min(tried.index[~is_held], default=math.inf)
        held = max((rate for rate in tried.index[is_held] if rate < missed), default=0.0)
        found = {
            "held_per_s": held,
            "held_requests": tried["n"].get(held, 0),
            "is_limited": missed < math.inf,
        }
        found |= {"missed_per_s": missed, "least_p99_ms": tried.loc[tried["answered"], "p99"].min()}
        lines.append(dict(zip(("study", "run_id"), key, strict=True)) | found)
    return runs.merge(pd.DataFrame(lines), on=["study", "run_id"])


def list_endpoints(
    runs: pd.DataFrame,
    *folders: Path,
    p99_ms: float,
    instance: str = "",
    **choice: Any,
) -> pd.DataFrame:
    """List what was measured: each network and format on each machine, with its rate and the price
    of an hour.

    The table's price of a row's label goes before the one in the row.

    Args:
        runs, folders, p99_ms: as for `find_rates`.
        instance: whose price machines have that name none and are in no table.
        choice: `exclude` and `may_differ` of `select_runs`.

    Returns:
        A row per endpoint: as many of KINDS as there are, `instance`, `price_is_assumed` (the
        instance is a label, not the machine as detected), `usd_per_hour`, `price_is_old`, `n`
        deployments, `rate_per_s` as their mean with its 95 % interval (0 where one of them held
        none), `missed_per_s`, `held_requests` and `load_seconds` of the one that had least,
        `is_limited`, `p99_ms`, `least_p99_ms` of those that held least, GATED of the worst model
        where all were exported through the gate, `joules_per_prediction`, and `measured`, how
        or why not.

    Raises:
        EndpointError: no run was loaded, or no endpoint held a rate.
        PriceError: a machine has no price.
        UnlikeRunsError: runs of one kind did different work.
    """
    tested = select_runs(find_rates(runs, *folders, p99_ms=p99_ms), within=KINDS, **choice).timed
    if tested.empty:
        raise EndpointError("every load test is excluded: the rows' status and marks say why")
    prices = read_prices()
    found = [_find_price(row, instance, prices) for row in tested.to_dict("records")]
    tested = measure_energy(tested).assign(instance=[price.instance for price, _ in found])
    tested["price"], tested["price_is_assumed"] = zip(*found, strict=True)
    tested["_deployment"] = name_deployments(tested)
    keys = ["instance", *(name for name in KINDS if name in tested)]
    lines = []
    for key, rows in tested.groupby(keys, sort=False, dropna=False):
        rates = rows.groupby("_deployment")["held_per_s"].mean()
        rate, low, high, n = (
            mean_interval(rates) if (rates > 0).all() else (0.0, np.nan, np.nan, len(rates))
        )
        price = max(rows["price"], key=lambda price: price.date)
        line = dict(zip(keys, key, strict=True)) | {"n": n, "rate_per_s": rate}
        line |= {
            "rate_per_s_low": low,
            "rate_per_s_high": high,
            "held_requests": int(rows["held_requests"].min()),
        }
        line |= {
            "load_seconds": rows["load_seconds"].min(),
            "missed_per_s": rows["missed_per_s"].mean(),
        }
        slowest = rows[rows["held_per_s"] == rows["held_per_s"].min()]
        line |= {
            "is_limited": bool(rows["is_limited"].all()),
            "least_p99_ms": slowest["least_p99_ms"].min(),
        }
        line |= {"usd_per_hour": price.usd_per_hour, "price_is_old": price.is_old()}
        line |= {"price_is_assumed": bool(rows["price_is_assumed"].any())} | _find_worst_gate(rows)
        line |= {"joules_per_prediction": rows["joules_per_prediction"].mean()}
        lines.append(line | {"measured": rows["measured"].iloc[0]})
    endpoints = pd.DataFrame(lines).assign(p99_ms=p99_ms)
    if not endpoints["rate_per_s"].any():
        why = "requests went unanswered"
        if endpoints["least_p99_ms"].min() > p99_ms:
            fastest = endpoints.loc[endpoints["least_p99_ms"].idxmin()]
            why = (
                f"the least 99th percentile measured is {fastest['least_p99_ms']:.0f} ms, of"
                f" {fastest['format']} on "
            )
            why += fastest["instance"]
        raise EndpointError(f"no endpoint held a rate with 99 % within {p99_ms:g} ms: {why}")
    return endpoints


def price_endpoints(
    endpoints: pd.DataFrame,
    *,
    requests_per_day: float,
    busiest_hour: float = BUSIEST_HOUR,
    accuracy_within: float | None = None,
    brl_per_usd: float = BRL_PER_USD,
) -> pd.DataFrame:
    """Price what each endpoint needs for so many requests a day, the cheapest of each network
    first.

    Of two that cost the same, the one that may lose less AUC comes first, then the one that holds
    more.

    Args:
        endpoints: of `list_endpoints`.
        requests_per_day: answered by the month's mean.
        busiest_hour: the largest share of a day's requests that one hour takes, 1/24 where they
            come evenly.
        accuracy_within: margin of AUC and kappa: only formats that the gate let through, and whose
            lower bounds lie above -margin, are taken.
        brl_per_usd: reais to a dollar.

    Returns:
        The endpoints with what was asked, `reason` (empty, or one of REASONS), `num_machines`,
        `idle_percent`, the unused share of the rate that they hold, and `usd_per_month`,
        `brl_per_month`, `usd_per_million_rented` and `brl_per_million_rented`, with the bounds that
        those of the rate give.

    Raises:
        EndpointError: a number is none, or no endpoint is left.
    """
    if not (requests_per_day > 0 and 1 / 24 <= busiest_hour <= 1 and brl_per_usd > 0):
        raise EndpointError(
            "requests_per_day has to be above 0, busiest_hour a share from 1/24 to 1, as of a day"
        )
    reason = pd.Series("", endpoints.index)
    if accuracy_within is not None:
        low = endpoints[["gate_auc_difference_low", "gate_kappa_difference_low"]].min(
            axis=1, skipna=False
        )
        loses = (low <= -accuracy_within) | (endpoints["gate_passes"] < 1)
        reason = reason.mask(loses, LOSES).mask(low.isna(), UNKNOWN)
    holds = endpoints["rate_per_s"] > 0
    reason = reason.mask(~holds, NO_RATE).mask(
        ~holds & ~(endpoints["least_p99_ms"] > endpoints["p99_ms"]), UNANSWERED
    )
    if (reason != "").all():
        raise EndpointError(
            f"no endpoint is known to lose less than {accuracy_within:g} of AUC and kappa: serve"
            " the folders that export wrote with enough graded photographs, or give no"
            " --accuracy-within"
        )
    peak_per_s = requests_per_day * busiest_hour / 3600
    per_month = requests_per_day * HOURS_PER_MONTH / 24
    priced = endpoints.assign(
        reason=reason, requests_per_day=requests_per_day, busiest_hour=busiest_hour
    )
    priced["brl_per_usd"] = brl_per_usd
    # a larger rate needs fewer machines
    for bound, other in (("", ""), ("_low", "_high"), ("_high", "_low")):
        rate = endpoints[f"rate_per_s{other}"].where(holds)
        machines = find_num_machines(peak_per_s, 1e3 / rate)
        found = {"num_machines": machines}
        usd = machines * endpoints["usd_per_hour"] * HOURS_PER_MONTH
        for currency, money in {"usd": usd, "brl": usd * brl_per_usd}.items():
            found |= {
                f"{currency}_per_month": money,
                f"{currency}_per_million_rented": 1e6 * money / per_month,
            }
        priced = priced.assign(**{f"{name}{bound}": values for name, values in found.items()})
    busy = requests_per_day / 86_400 / (priced["num_machines"] * endpoints["rate_per_s"])
    order = ["is_refused", "usd_per_month", "gate_auc_difference_low", "rate_per_s"]
    priced = priced.assign(idle_percent=100 - 100 * busy, is_refused=reason != "")
    priced = priced.sort_values(order, ascending=[True, True, False, False], kind="stable")
    return priced.drop(columns="is_refused").sort_values(NETWORK, kind="stable", ignore_index=True)


def find_varied(priced: pd.DataFrame) -> list[str]:
    """Say which of environment and threads tell endpoints of one network on one instance apart."""
    groups = priced.groupby([*NETWORK, "instance"])
    return [
        name
        for name in ("environment", "threads")
        if name in priced and (groups[name].nunique() > 1).any()
    ]


def compare_fleets(first: pd.Series, second: pd.Series) -> BreakEven | None:
    """Find the rates at which the choice between two priced endpoints changes; None where one of
    them is free.
    """
    if min(first["usd_per_hour"], second["usd_per_hour"]) <= 0:
        return None
    return break_even(
        *(Offer(row.name, row["usd_per_hour"], 1e3 / row["rate_per_s"]) for row in (first, second))
    )


def _find_worst_gate(rows: pd.DataFrame) -> dict[str, float]:
    """GATED of the model that may lose most; NaN where one has none."""
    gates = rows.reindex(columns=GATED).astype(float)
    gates["low"] = gates[["gate_auc_difference_low", "gate_kappa_difference_low"]].min(
        axis=1, skipna=False
    )
    return gates.sort_values(["gate_passes", "low"], na_position="first").iloc[0][GATED].to_dict()


def _find_price(row: dict[str, Any], instance: str, prices: list[Price]) -> tuple[Price, bool]:
    """The price of the row's label in the table or the row, else of its machine, else the given.

    Behind it, whether it is assumed: it is, unless the row detected that very machine.
    """
    known = {price.instance for price in prices}
    asked = row.get("priced_as")
    usd_per_hour = row.get("usd_per_hour")
    machine = row.get("instance_type")
    if asked and asked not in known and pd.notna(usd_per_hour):  # 0 is a price
        own = Price("", asked, "", "USD", usd_per_hour, row.get("price_as_of") or "", "its row")
        return own, asked.removeprefix(AZURE) != machine
    for label in (asked, machine, instance):
        if label and label in known:
            return find_price(label, prices=prices), label.removeprefix(AZURE) != machine
    names = ", ".join(sorted(known))
    raise PriceError(
        f"run {row['run_id']} is of a machine without a price: give --instance, one of {names}"
    )
