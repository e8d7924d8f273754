"""Prices of machines, each with its day and source, and what runs cost at them.

Notebooks of foreign kernels price their rows too: this file needs Python 3.9 alone.
"""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

PRICES = Path(__file__).with_name("prices.csv")
OLD_DAYS = 365
PRICED = ("usd_per_hour", "price_as_of", "price_is_old", "cost_usd", "cost_per_epoch_usd", "cost_per_1000_images_usd")
NAN = math.nan


class PriceError(ValueError):
    """A price, a bill or a time to be paid is not there, or cannot be what it says it is."""


class Price(NamedTuple):
    """What an hour of a machine costs, as of a day."""

    provider: str
    instance: str
    region: str  # empty where the source does not say
    currency: str  # USD; other money is converted before it enters the table
    usd_per_hour: float
    date: str  # 2026-11-21; empty where the source does not say
    source: str

    def is_old(self, on: datetime.date | None = None) -> bool:
        """Whether on that day, by default today, the price is more than a year old, or of an unknown day."""
        day = datetime.date.fromisoformat(self.date) if self.date else datetime.date.min
        return ((on or datetime.date.today()) - day).days > OLD_DAYS


def read_prices(path: Path = PRICES) -> list[Price]:
    """Read a table of prices.

    Raises:
        PriceError: the file is no such table; the line that is wrong is named.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != Price._fields:
                raise PriceError(f"{path}: the columns have to be {', '.join(Price._fields)}")
            prices = [_read_price(row, f"{path}, line {reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PriceError(f"{path} is no table of prices: {error}") from error
    days = [(price.instance, price.date) for price in prices]
    twice = sorted({instance for instance, day in days if days.count((instance, day)) > 1})
    if twice:
        raise PriceError(f"{path}: {', '.join(twice)} stands twice with one date: keep one of them")
    return prices


def find_price(instance: str, *, prices: Iterable[Price] | None = None, on: datetime.date | None = None) -> Price:
    """Find what an instance costs on a day: its youngest price that is not of a later day.

    Args:
        instance: its name in the table, as its provider writes it.
        prices: a table, by default this library's.
        on: the day, by default today.

    Raises:
        PriceError: the instance has no price by then; those that have one are named.
    """
    day = str(on or datetime.date.today())
    by_then = [price for price in (read_prices() if prices is None else prices) if price.date <= day]
    found = [price for price in by_then if price.instance == instance]
    if not found:
        known = ", ".join(sorted({price.instance for price in by_then})) or "none"
        raise PriceError(f"no price of {instance!r} on {day}; known are {known}: take one, or add it to {PRICES.name}")
    return max(found, key=lambda price: price.date)


def price_seconds(usd_per_hour: float, *seconds: float) -> float:
    """What times cost together in USD; NaN where one of them or the price is.

    Raises:
        PriceError: a time is negative or infinite.
    """
    if any(value < 0 or math.isinf(value) for value in seconds):
        raise PriceError(f"{min(seconds)} to {max(seconds)} s cannot be paid: a time is finite and not negative")
    return usd_per_hour * math.fsum(seconds) / 3600


def price_runs(
    runs: pd.DataFrame,
    prices: Iterable[Price] | None = None,
    *,
    overhead_s: float = 0.0,
    on: datetime.date | None = None,
) -> pd.DataFrame:
    """Add to each run what it cost.

    Args:
        runs: one row per run.
        prices: a table, by which every run is priced anew. Without it a run keeps the price that its row was written
            with, and a run that has none is priced by this library's table.
        overhead_s: seconds that each run is billed beside set-up and training, from `bill.fit_overhead`.
        on: the day on which prices are looked up and are old or not, by default today.

    Returns:
        The runs with usd_per_hour, price_as_of, price_is_old (false where there is no price), cost_usd of the run,
        cost_per_epoch_usd of one more epoch (price x steady_epoch_s) and cost_per_1000_images_usd of so many more
        images (at images_per_s). NaN where the instance has no price or a time is missing.

    Raises:
        PriceError: a time is negative or infinite.
    """
    table = read_prices() if prices is None else list(prices)
    rows = []
    for row in runs.to_dict("records"):
        price = _find_price_of(row, table, prices is None, on)
        usd_per_hour, images_per_s = price.usd_per_hour if price else NAN, _read_number(row, "images_per_s") or NAN
        train_s, setup_s = _read_number(row, "train_s"), _read_number(row, "setup_s", 0.0)
        rows.append(
            {
                "usd_per_hour": usd_per_hour,
                "price_as_of": price.date if price else "",
                "price_is_old": bool(price and price.is_old(on)),
                "cost_usd": price_seconds(usd_per_hour, train_s, setup_s, overhead_s),
                "cost_per_epoch_usd": price_seconds(usd_per_hour, _read_number(row, "steady_epoch_s")),
                "cost_per_1000_images_usd": price_seconds(usd_per_hour, 1000 / images_per_s),
            }
        )
    return runs.assign(**{name: [row[name] for row in rows] for name in PRICED})


def _read_price(row: dict[str, str], where: str) -> Price:
    if None in row or None in row.values():
        raise PriceError(f"{where}: it has not as many columns as the header")
    missing = [name for name in ("provider", "instance", "source") if not row[name].strip()]
    if missing:
        raise PriceError(f"{where}: {', '.join(missing)} missing")
    if row["currency"] != "USD":
        raise PriceError(f"{where}: the currency is {row['currency']!r}: convert the price to USD")
    try:
        usd_per_hour = float(row["usd_per_hour"])
        is_day = not row["date"] or str(datetime.date.fromisoformat(row["date"])) == row["date"]
    except ValueError as error:
        raise PriceError(f"{where}: {error}") from error
    if not is_day or not 0 <= usd_per_hour < math.inf:
        raise PriceError(f"{where}: the price has to be a number from 0 on, the date one like 2026-11-21, or empty")
    return Price(**{**row, "usd_per_hour": usd_per_hour})


def _find_price_of(row: dict[str, Any], table: list[Price], keep: bool, on: datetime.date | None) -> Price | None:
    instance, day = (row.get(name) if isinstance(row.get(name), str) else "" for name in ("instance", "price_as_of"))
    own = _read_number(row, "usd_per_hour")
    if keep and not math.isnan(own):
        return Price("", instance, "", "USD", own, day, "the run's row")
    try:
        return find_price(instance, prices=table, on=on)
    except PriceError:
        return None


def _read_number(row: Mapping[str, Any], name: str, default: float = NAN) -> float:
    value = row.get(name)
    return default if value is None or math.isnan(value) else float(value)
