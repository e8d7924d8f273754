"""Find the cheapest endpoint for a number of requests per day.

The busiest hour takes a share of the day's requests, and within it they come at random, as in the
load tests. The machines that this hour needs are rented all month, busy or idle.
"""

import math
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
from dr_lib.report.select import measure, name_deployments, select_runs
from dr_lib.runs.prices import (
    PRICES_VARIABLE,
    Price,
    PriceError,
    find_price,
    read_own_prices,
    read_prices,
)
from dr_lib.serving.export.gate import describe_gate
from dr_lib.serving.request_log import KINDS, OPEN_LOOP, read_requests
from dr_lib.statistics.intervals import Interval, tabulate

HOURS_PER_MONTH = 730.0  # a twelfth of a year
# endpoints of one network do the same work; the gate compares no two networks
NETWORK = ["model", "image_size"]
LOWEST = ["gate_auc_difference_low", "gate_kappa_difference_low"]
NO_RATE = "holds no rate within the bound"
UNKNOWN = "accuracy not known"
LOSES = "may lose more accuracy"
OTHER_PROCESSOR = "measured on another kind of processor"
REASONS = (NO_RATE, UNKNOWN, LOSES, OTHER_PROCESSOR)  # why an endpoint is not taken
ARM = re.compile(r"(ml\.)?[a-z]+\d+g[a-z]*\.")  # AWS names its Graviton instances so
OVERLAP = "their intervals overlap"
ALONE = "one deployment has no interval"
DISTURBED = "a load test was disturbed"
SHORT = "a rate was tried for less than 10 s"
DOUBTS = (OVERLAP, ALONE, DISTURBED, SHORT)  # why the cheapest is not known
TABLE = [  # the first eight are shown on a page
    "format",
    "environment",
    "instance",
    "n",
    "rate_per_s",
    "usd_per_month",
    "reason",
    "num_machines",
    "usd_per_million_as_used",
    "threads",
    "gate_auc_difference",
    "gate_kappa_difference",
]


def find_rates(runs: pd.DataFrame, *folders: Path, p99_ms: float) -> pd.DataFrame:
    """Find the rate that each load test sustained, from all its requests.

    Args:
        runs: one row per run, from `read_runs`.
        folders: those that were given to it.
        p99_ms: bound of the 99th percentile of the response time; every request has to be answered,
            too.

    Returns:
        The runs that were loaded, with `missed_per_s`, the smallest rate missed, infinite where
        none was, and `held_per_s`, the largest rate below it, 0 where none was held.
    """
    requests = read_requests(runs, *folders, load=OPEN_LOOP)
    if "rate_per_s" not in requests or requests["rate_per_s"].isna().all():
        raise DrError("no load test below the folders: run notebook 22 first")
    run = ["study", "run_id"]
    tried = requests.groupby([*run, "rate_per_s"]).agg(
        p99_ms=("response_ms", lambda ms: np.quantile(ms, 0.99, method="inverted_cdf")),
        is_answered=("status", lambda status: (status == "ok").all()),
    )
    is_held = tried["is_answered"] & (tried["p99_ms"] <= p99_ms)
    rates = tried.index.get_level_values("rate_per_s").to_series(index=tried.index)
    missed = rates.mask(is_held, math.inf).groupby(run).transform("min")
    tested = pd.DataFrame(
        {"held_per_s": rates.where(rates < missed, 0.0), "missed_per_s": missed}
    )
    return runs.merge(tested.groupby(run).max().reset_index(), on=run)


def list_endpoints(
    runs: pd.DataFrame,
    *folders: Path,
    p99_ms: float,
    instance: str = "",
    instances: Sequence[str] = (),
    exclude: Collection[str] = (),
    may_differ: Collection[str] = (),
) -> pd.DataFrame:
    """List the measured endpoints: each network and format on each machine, with rate and hourly
    price.

    The table's price of a row's label goes before the one in the row.

    Args:
        runs, folders, p99_ms: as for `find_rates`.
        instance: whose price machines have that name none and are in no table.
        instances: at whose prices each endpoint is listed, instead of its own label's.
        exclude, may_differ: see `select_runs`.

    Returns:
        A row per endpoint: as many of KINDS as there are, `instance` (the label of its price),
        `is_measured` (it is the machine that was measured), `usd_per_hour`, `n` deployments,
        `disturbed`, `load_seconds` of the shortest try of a rate, `rate_per_s` as their mean with
        its 95 % interval (0 where one of them held none), `p99_ms`, and what the gate said of the
        worst model, where all were exported through the gate.

    Raises:
        DrError: no run was loaded, or no endpoint held a rate.
        PriceError: a machine has no price, or a table of the user's own has none that is used.
    """
    rates = find_rates(runs, *folders, p99_ms=p99_ms)
    tests = select_runs(rates, within=KINDS, exclude=exclude, may_differ=may_differ).timed
    if tests.empty:
        raise DrError("every load test is excluded: see status and marks of the rows")
    prices = read_prices()
    if instances:
        tests = tests.drop(columns=["priced_as", "usd_per_hour"], errors="ignore")
        tests = tests.merge(pd.DataFrame({"priced_as": instances}), how="cross")
        found = [find_price(name, prices=prices) for name in tests["priced_as"]]
    else:
        found = [_find_price(row, instance, prices) for row in tests.to_dict("records")]
    found = pd.DataFrame(found, tests.index)
    labels = {*found["instance"]}
    own = {price.instance for price in read_own_prices()}
    if own and own.isdisjoint(labels):
        raise PriceError(
            f"the table of {PRICES_VARIABLE} prices {', '.join(sorted(own))} alone, and these"
            f" endpoints have the labels {', '.join(sorted(labels))}: add their prices, or unset"
            f" {PRICES_VARIABLE}"
        )
    tests = tests.assign(
        instance=found["instance"],
        usd_per_hour=found["usd_per_hour"],
        priced_on=found["date"],
        deployment_name=name_deployments(tests),
    )
    keys = ["instance", *(name for name in KINDS if name in tests)]
    endpoints = []
    for key, rows in tests.groupby(keys, sort=False, dropna=False):
        rate = _bound_rate(rows)
        endpoints.append(
            {
                **dict(zip(keys, key, strict=True)),
                "usd_per_hour": rows.sort_values("priced_on")["usd_per_hour"].iloc[-1],
                "n": rate.n,
                "rate_per_s": rate,
                "p99_ms": p99_ms,
                "is_measured": key[0] in (rows.iloc[0].get("instance_type"), "local"),
                "is_other_processor": _is_other_processor(key[0], rows.iloc[0]),
                "disturbed": bool(rows["disturbed"].any()),
                "load_seconds": rows.get("load_seconds", pd.Series(dtype=float)).min(),
                **_find_worst_gate(rows),
            }
        )
    table = tabulate(endpoints)
    if not table["rate_per_s"].any():
        raise DrError(f"no endpoint sustained a rate with 99 % within {p99_ms:g} ms")
    return table


def _bound_rate(rows: pd.DataFrame) -> Interval:
    """Bound the mean rate that deployments can do: each lies between the rates held and missed."""
    columns = ["held_per_s", "missed_per_s"]
    rates = rows.groupby(["deployment_name", "session"])[columns].mean().reset_index()
    if not (rates["held_per_s"] > 0).all():
        return Interval(0.0, math.nan, math.nan, len(rates))
    held = Interval(*measure("held_per_s", rates)[:4])
    if len(rates) == 1:
        return held
    missed = rates["missed_per_s"].max()
    if np.isfinite(missed):
        missed = np.nanmax([missed, held.high, measure("missed_per_s", rates).high])
    low = rates["held_per_s"].min() if math.isnan(held.low) else held.low
    return held._replace(low=low, high=float(missed))


def price_endpoints(
    endpoints: pd.DataFrame,
    *,
    requests_per_day: float,
    busiest_hour: float = 0.125,
    accuracy_within: float | None = None,
) -> pd.DataFrame:
    """Price each endpoint for a number of requests per day, the cheapest of a network first.

    Of two that cost the same, the one that may lose less AUC comes first, then the one that holds
    more.

    Args:
        endpoints: of `list_endpoints`.
        requests_per_day: answered by the month's mean.
        busiest_hour: the largest share of a day's requests that one hour takes, 1/24 where they
            come evenly, 1/8 where a clinic is open for eight hours.
        accuracy_within: margin of AUC and kappa: only formats that the gate let through, and whose
            lower bounds lie above -margin, are taken.

    Returns:
        The endpoints with `requests_per_day`, `reason` (empty, or one of REASONS), `num_machines`,
        `usd_per_month` and `usd_per_million_as_used`, with the bounds that those of the rate give.

    Raises:
        DrError: a number is not valid, or no endpoint is left.
    """
    if not (requests_per_day > 0 and 1 / 24 <= busiest_hour <= 1):
        raise DrError(
            "requests_per_day must be above 0, and busiest_hour a share of the day from 1/24 to 1"
        )
    reason = pd.Series("", endpoints.index)
    if accuracy_within is not None:
        low = endpoints[LOWEST].min(axis=1, skipna=False)
        loses = (low <= -accuracy_within) | (endpoints["gate_passes"] < 1)
        reason = reason.mask(loses, LOSES).mask(low.isna(), UNKNOWN)
    if len(reason) and (reason != "").all():
        raise DrError(
            f"no endpoint is known to lose less than {accuracy_within:g} of AUC and kappa: "
            "serve folders that export judged with enough graded photographs, or leave out "
            "--accuracy-within"
        )
    holds = endpoints["rate_per_s"] > 0
    reason = reason.mask(endpoints["is_other_processor"], OTHER_PROCESSOR).mask(~holds, NO_RATE)

    peak_per_s = requests_per_day * busiest_hour / 3600
    requests_per_month = requests_per_day * HOURS_PER_MONTH / 24
    priced = endpoints.assign(requests_per_day=requests_per_day, reason=reason)
    # a larger rate needs fewer machines
    for bound, rate_bound in (("", ""), ("_low", "_high"), ("_high", "_low")):
        rate_per_s = endpoints[f"rate_per_s{rate_bound}"].where(holds)
        # 3 x 1/3 s is one machine, not two; one is billed at least
        num_machines = np.ceil((peak_per_s / rate_per_s).round(9)).clip(lower=1)
        usd = num_machines * endpoints["usd_per_hour"] * HOURS_PER_MONTH
        priced[f"num_machines{bound}"] = num_machines
        priced[f"usd_per_month{bound}"] = usd
        priced[f"usd_per_million_as_used{bound}"] = 1e6 * usd / requests_per_month
    priced["is_refused"] = reason != ""
    keys = [*NETWORK, "is_refused", "usd_per_month", LOWEST[0], "rate_per_s"]
    priced = priced.sort_values(keys, ascending=[True] * 4 + [False] * 2, ignore_index=True)
    return priced.drop(columns="is_refused")


def list_doubts(candidates: pd.DataFrame) -> list[str]:
    """List why the first of the endpoints that may be the cheapest is not known to be it.

    Args:
        candidates: rows of `price_endpoints` of one network, from `find_candidates`.
    """
    doubts = []
    has_bounds = candidates["usd_per_month_high"].notna().all()
    prices = candidates.drop_duplicates(["usd_per_month", "usd_per_month_high"])
    if len(candidates) > 1 and not has_bounds:
        doubts.append(ALONE)
    elif len(prices) > 1:
        doubts.append(OVERLAP)
    if candidates["disturbed"].any():
        doubts.append(DISTURBED)
    if (candidates["load_seconds"] < 10).any():  # holds a rate by chance
        doubts.append(SHORT)
    return doubts


def find_candidates(rows: pd.DataFrame) -> pd.DataFrame:
    """Find the endpoints of one network that may be the cheapest: where no interval tells them
    apart, all of them.
    """
    rows = rows[rows["reason"] == ""]
    highest = rows["usd_per_month_high"].fillna(math.inf).min()
    return rows[~(rows["usd_per_month_low"] > highest)]


def tabulate_endpoints(priced: pd.DataFrame) -> pd.DataFrame:
    """Select the columns of `price_endpoints` that a reader needs, with bounds if there are any."""
    names = [*(name for name in NETWORK if priced[name].nunique() > 1), *TABLE]
    names = [f"{name}{bound}" for name in names for bound in ("", "_low", "_high")]
    table = priced[[name for name in names if name in priced]]
    return table.map(lambda cell: math.nan if cell == "" else cell).dropna(axis=1, how="all")


def _find_worst_gate(rows: pd.DataFrame) -> dict[str, float]:
    """Find the accuracy gate's result for the model that may lose most; NaN if one has none."""
    names = [*describe_gate({})]
    gates = rows.reindex(columns=names).astype(float)
    gates["low"] = gates[LOWEST].min(axis=1, skipna=False)
    worst = gates.sort_values(["gate_passes", "low"], na_position="first").iloc[0]
    return worst[names].to_dict()


def _is_other_processor(instance: str, row: pd.Series) -> bool:
    """Whether a label is of an ARM processor and the machine measured of x86, or the reverse."""
    cpu = row.get("cpu")
    if not isinstance(cpu, str) or instance in (row.get("instance_type"), "local"):
        return False
    is_x86 = bool(re.search("Intel|AMD|Xeon|EPYC", cpu))
    return is_x86 == bool(ARM.match(instance))


def _find_price(row: dict[str, Any], instance: str, prices: list[Price]) -> Price:
    """Find the price of the row's label in table or row, else of its machine, else the default."""
    names = {price.instance for price in prices}
    label = row.get("priced_as")
    usd_per_hour = row.get("usd_per_hour")
    if label and label not in names and pd.notna(usd_per_hour):  # 0 is a price
        day = row.get("price_as_of") or ""
        return Price("", label, "", "USD", usd_per_hour, day, "its row")
    for name in (label, row.get("instance_type"), instance):
        if name in names:
            return find_price(name, prices=prices)
    raise PriceError(
        f"run {row['run_id']} used a machine without a price: name one for the run "
        f"(--instance) or the report (report -p instance NAME): {', '.join(sorted(names))}"
    )
