"""Prices of machines, each with its day and source, and what runs cost at them.

Notebooks of foreign kernels price their rows too: this file needs Python 3.9 alone.
"""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

PRICES = Path(__file__).with_name("prices.csv")
OLD_DAYS = 365
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

    def age_days(self, on: datetime.date | None = None) -> float:
        """Days from the price's day to `on`, by default today; infinite without a day."""
        day = datetime.date.fromisoformat(self.date) if self.date else None
        return ((on or datetime.date.today()) - day).days if day else math.inf

    def is_old(self, on: datetime.date | None = None) -> bool:
        """Whether the price is more than a year old, or of an unknown day."""
        return self.age_days(on) > OLD_DAYS

    def describe(self, on: datetime.date | None = None) -> str:
        """The price in one line: 0.169 USD/h on 2024-05-01 (old)."""
        day = f" on {self.date}" if self.date else ", day unknown"
        return f"{self.usd_per_hour:g} USD/h{day}{' (old)' * self.is_old(on)}"


class ExchangeRate(NamedTuple):
    """What a dollar was worth, as of a day."""

    currency: str
    per_usd: float
    date: str  # empty where the source does not say
    source: str

    def convert(self, usd: float) -> float:
        """Dollars in this currency."""
        return usd * self.per_usd

    def to_usd(self, amount: float) -> float:
        """This currency in dollars."""
        return amount / self.per_usd


BRL = ExchangeRate("BRL", 973 / 200, "", "Moura Filho and Sousa: US$200 = R$973; day not given")


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


def run_cost(price: Price, train_s: float, setup_s: float, overhead_s: float = 0.0) -> float:
    """What a run costs in USD: price x (training + set-up + overhead).

    Args:
        price: of the machine.
        train_s: seconds of training.
        setup_s: seconds before it.
        overhead_s: seconds that are billed beside both, from `fit_overhead`.

    Raises:
        PriceError: a time is negative or infinite.
    """
    return _price_seconds(price.usd_per_hour, train_s, setup_s, overhead_s)


def fit_overhead(run_s: Sequence[float], usd_per_hour: Sequence[float], bill_usd: float) -> float:
    """Find the seconds a run that a bill asks for beside the measured ones.

    A machine is billed while it starts, waits and keeps its disk. One overhead for all runs makes the sum of
    price x (measured + overhead) the bill.

    Args:
        run_s: measured seconds of each run, training and set-up together.
        usd_per_hour: price of each run.
        bill_usd: what was paid for all of them.

    Raises:
        PriceError: there are no runs to pay for, the lists differ in length, a number is no amount, or the bill is
            smaller than the measured seconds cost.
    """
    if len(run_s) != len(usd_per_hour):
        raise PriceError(f"{len(run_s)} runs and {len(usd_per_hour)} prices: give each run its price")
    if not all(math.isfinite(value) and value >= 0 for value in (*run_s, *usd_per_hour, bill_usd)):
        raise PriceError("seconds, prices and the bill have to be finite and not negative")
    if not sum(usd_per_hour) > 0:
        raise PriceError("no run has a price above zero: there is nothing to fit the bill to")
    measured_usd = sum(_price_seconds(price, seconds) for price, seconds in zip(usd_per_hour, run_s))
    if bill_usd < measured_usd and not math.isclose(bill_usd, measured_usd):
        raise PriceError(
            f"a bill of {bill_usd:.2f} USD is less than the {measured_usd:.2f} USD that the measured seconds cost: "
            "check the prices, the currency, and that the bill covers all runs"
        )
    return max(0.0, 3600 * (bill_usd - measured_usd) / sum(usd_per_hour))


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
        overhead_s: seconds that each run is billed beside set-up and training, from `fit_overhead`.
        on: the day on which prices are looked up and are old or not, by default today.

    Returns:
        The runs with usd_per_hour, price_as_of, price_is_old (false where there is no price), cost_usd of the run,
        cost_per_epoch_usd of one more epoch (price x steady_epoch_s) and cost_per_1000_images_usd of so many more
        images (at images_per_s). NaN where the instance has no price or a time is missing.

    Raises:
        PriceError: a time is negative or infinite.
    """
    table = read_prices() if prices is None else list(prices)
    rows = [_price_run(row, table, prices is None, overhead_s, on) for row in runs.to_dict("records")]
    names = ("usd_per_hour", "price_as_of", "price_is_old", "cost_usd", "cost_per_epoch_usd")
    return runs.assign(**{name: [row[name] for row in rows] for name in (*names, "cost_per_1000_images_usd")})


def cost_to_reach(row: Mapping[str, Any], accuracy: float) -> float:
    """What a run had cost in USD when an epoch first reached an accuracy; NaN if none did, or it has no price.

    Args:
        row: a run with usd_per_hour, setup_s, epoch_s and epoch_accuracy, which has a value for every epoch, or for
            every so many as `evaluate_every` says. The time of the looks at the accuracy is not counted.
        accuracy: a share, 0 to 1.

    Raises:
        PriceError: the accuracy is no share, or the row has more accuracies than epochs.
    """
    if not 0 <= accuracy <= 1:
        raise PriceError(f"an accuracy lies between 0 and 1, {accuracy} does not: give 0.95 for 95 %")
    epoch_s, reached = (_read_list(row.get(name)) for name in ("epoch_s", "epoch_accuracy"))
    every = int(_read_number(row, "evaluate_every", 1.0)) or 1
    if len(reached) * every > len(epoch_s):
        raise PriceError(f"{len(reached)} accuracies, one in {every} epochs, do not fit {len(epoch_s)} epochs")
    epoch = next(
        (every * (look + 1) for look, value in enumerate(reached) if value is not None and value >= accuracy), None
    )
    if epoch is None:
        return NAN
    setup_s = _read_number(row, "setup_s", 0.0)
    return _price_seconds(_read_number(row, "usd_per_hour"), setup_s, *epoch_s[:epoch])


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


def _price_run(
    row: dict[str, Any], table: list[Price], keep: bool, overhead_s: float, on: datetime.date | None
) -> dict[str, Any]:
    price = _find_price_of(row, table, keep, on)
    usd_per_hour = price.usd_per_hour if price else NAN
    images_per_s = _read_number(row, "images_per_s") or NAN
    train_s, setup_s = _read_number(row, "train_s"), _read_number(row, "setup_s", 0.0)
    return {
        "usd_per_hour": usd_per_hour,
        "price_as_of": price.date if price else "",
        "price_is_old": bool(price and price.is_old(on)),
        "cost_usd": _price_seconds(usd_per_hour, train_s, setup_s, overhead_s),
        "cost_per_epoch_usd": _price_seconds(usd_per_hour, _read_number(row, "steady_epoch_s")),
        "cost_per_1000_images_usd": _price_seconds(usd_per_hour, 1000 / images_per_s),
    }


def _find_price_of(row: dict[str, Any], table: list[Price], keep: bool, on: datetime.date | None) -> Price | None:
    instance, own = _read_text(row, "instance"), _read_number(row, "usd_per_hour")
    if keep and not math.isnan(own):
        return Price("", instance, "", "USD", own, _read_text(row, "price_as_of"), "the run's row")
    try:
        return find_price(instance, prices=table, on=on)
    except PriceError:
        return None


def _price_seconds(usd_per_hour: float, *seconds: float) -> float:
    if any(value < 0 or math.isinf(value) for value in seconds):
        raise PriceError(f"{min(seconds)} to {max(seconds)} s cannot be paid: a time is finite and not negative")
    return usd_per_hour * math.fsum(seconds) / 3600


def _read_number(row: Mapping[str, Any], name: str, default: float = NAN) -> float:
    value = row.get(name)
    return default if value is None or math.isnan(value) else float(value)


def _read_text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _read_list(value: Any) -> list[float]:
    return list(value) if isinstance(value, (list, tuple)) else []
