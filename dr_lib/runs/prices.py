"""Prices of machines, each with date and source, and the cost of runs at these prices."""

from __future__ import annotations

import datetime
import math
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dr_lib.data.labels.reader import Sheet, read_sheet
from dr_lib.errors import DrError
from dr_lib.files import expand_home

if TYPE_CHECKING:
    import pandas as pd

PRICES = Path(__file__).with_name("prices.csv")
# names a table of the user's own, which goes before this library's
PRICES_VARIABLE = "DR_LIB_PRICES"


class PriceError(DrError):
    """A price, a bill or a paid time is missing or impossible."""


class Price(NamedTuple):
    """What an hour of a machine costs on a date."""

    provider: str
    instance: str
    region: str  # empty where the source does not say
    currency: str  # USD; other money is converted before it enters the table
    usd_per_hour: float
    date: str  # 2026-11-21; empty where the source does not say
    source: str


def read_prices(path: Path | None = None) -> list[Price]:
    """Read a table of prices; without a path, that of DR_LIB_PRICES, and this library's of other
    instances.

    Raises:
        PriceError: there is no such file, or it is no such table; the line that is wrong is named.
    """
    if path is None:
        own = read_own_prices()
        named = {price.instance for price in own}
        return [price for price in read_prices(PRICES) if price.instance not in named] + own
    try:
        sheet = read_sheet(path, words=Price._fields)
    except DrError as error:
        raise PriceError(str(error)) from error
    if sorted(filter(None, sheet.header)) != sorted(Price._fields):
        raise PriceError(f"{path}: the columns must be {', '.join(Price._fields)}")
    prices = []
    for line, cells in sheet.rows.items():
        try:
            prices.append(_read_price(sheet, cells))
        except ValueError as error:
            raise PriceError(f"{path}, line {line}: {error}") from error
    days = Counter((price.instance, price.date) for price in prices)
    for (instance, _), number in days.items():
        if number > 1:
            raise PriceError(
                f"{path}: {instance} is listed twice with the same date: keep one of them"
            )
    return prices


def read_own_prices() -> list[Price]:
    """Read the table that DR_LIB_PRICES names; no prices if it names none."""
    variable = os.environ.get(PRICES_VARIABLE)
    return read_prices(Path(expand_home(variable))) if variable else []


def find_price(instance: str, *, prices: Iterable[Price] | None = None) -> Price:
    """Find what an instance costs today: its latest price up to today.

    Args:
        instance: its name in the table, as its provider writes it.
        prices: a table, by default that of `read_prices`.

    Raises:
        PriceError: the instance has no price by then; those that have one are named.
    """
    today = str(datetime.date.today())
    known = [
        price for price in (read_prices() if prices is None else prices) if price.date <= today
    ]
    found = [price for price in known if price.instance == instance]
    if not found:
        names = ", ".join(sorted({price.instance for price in known})) or "none"
        raise PriceError(
            f"no price for {instance!r} up to {today} (known: {names}): add it to the table named "
            f"by {PRICES_VARIABLE}"
        )
    return max(found, key=lambda price: price.date)


def price_seconds(usd_per_hour: float, *seconds: float) -> float:
    """Compute the total cost of times in USD; NaN if a time or the price is NaN."""
    return usd_per_hour * sum(seconds) / 3600


def price_runs(
    runs: pd.DataFrame, prices: Iterable[Price] | None = None, *, overhead_s: float = 0.0
) -> pd.DataFrame:
    """Add its cost to each run.

    Args:
        runs: one row per run.
        prices: a table, by which every run is priced anew. Without it a run keeps the price that
            its row was written with, and a run that has none is priced by this library's table.
        overhead_s: seconds that each run is billed beside set-up and training, from
            `bill.fit_overhead`.

    Returns:
        The runs with usd_per_hour of a machine, price_as_of, formula_usd of the run (price x
        train_s), cost_usd (with set-up and overhead), cost_per_epoch_usd of one more epoch
        (by steady_epoch_s), cost_per_1000_images_usd of so many more (by images_per_s). NaN where
        the label has no price or a time is missing.
    """
    table = read_prices() if prices is None else list(prices)
    labels = runs.reindex(columns=["priced_as", "price_as_of"])
    numbers = "usd_per_hour train_s setup_s steady_epoch_s images_per_s".split()
    known = runs.reindex(columns=numbers).astype(float)
    if prices is not None:
        known["usd_per_hour"] = math.nan
    rates = {}
    days = {}
    for instance in labels["priced_as"].dropna().unique():
        with suppress(PriceError):
            price = find_price(instance, prices=table)
            rates[instance] = price.usd_per_hour
            days[instance] = price.date
    own = known["usd_per_hour"]
    usd_per_hour = own.fillna(labels["priced_as"].map(rates).astype(float))
    day = labels["price_as_of"].astype(object)
    day = day.mask(own.isna(), labels["priced_as"].map(days)).fillna("")

    images_per_s = known["images_per_s"].where(known["images_per_s"] > 0)
    setup_s = known["setup_s"].fillna(0.0)
    return runs.assign(
        usd_per_hour=usd_per_hour,
        price_as_of=day,
        formula_usd=price_seconds(usd_per_hour, known["train_s"]),
        cost_usd=price_seconds(usd_per_hour, known["train_s"], setup_s, overhead_s),
        cost_per_epoch_usd=price_seconds(usd_per_hour, known["steady_epoch_s"]),
        cost_per_1000_images_usd=price_seconds(usd_per_hour, 1000 / images_per_s),
    )


def _read_price(sheet: Sheet, cells: list[str]) -> Price:
    """Read the price from a line of the table."""
    if len(cells) != len(sheet.header):
        raise ValueError(f"{len(cells)} cells, but the header has {len(sheet.header)}")
    price = Price(
        **{name: cell for name, cell in zip(sheet.header, cells, strict=False) if name}
    )
    if sheet.delimiter == ";":  # between commas 1,234 may be a thousand
        price = price._replace(usd_per_hour=price.usd_per_hour.replace(",", "."))
    if not (price.provider and price.instance and price.source and price.currency == "USD"):
        raise ValueError("give provider, instance and source, and the price in USD")
    if price.date and str(datetime.date.fromisoformat(price.date)) != price.date:
        raise ValueError(f"write the date {price.date} as 2026-11-21")
    with suppress(ValueError):
        usd_per_hour = float(price.usd_per_hour)
        if 0 <= usd_per_hour < math.inf:
            return price._replace(usd_per_hour=usd_per_hour)
    raise ValueError(f"the price must be a number, 0 or more, not {price.usd_per_hour}")
