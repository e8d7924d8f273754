"""Prices of machines, each with date and source, and the cost of runs at these prices."""

from __future__ import annotations

import csv
import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dr_lib.errors import DrError
from dr_lib.files import expand_home

if TYPE_CHECKING:
    import pandas as pd

PRICES = Path(__file__).with_name("prices.csv")
# names a table of the user's own, which goes before this library's
PRICES_VARIABLE = "DR_LIB_PRICES"


class PriceError(DrError):
    """A price, a bill or a paid time is missing or impossible."""


Word = Annotated[str, Field(min_length=1)]


class Price(BaseModel):
    """What an hour of a machine costs on a date."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Word
    instance: Word
    region: str  # empty where the source does not say
    currency: Literal["USD"]  # other money is converted before it enters the table
    usd_per_hour: float = Field(ge=0, allow_inf_nan=False)
    date: str = Field(pattern=r"^(\d{4}-\d\d-\d\d)?$")  # empty where the source does not say
    source: Word

    @field_validator("date")
    @classmethod
    def _check_date(cls, value: str) -> str:
        if value:
            datetime.date.fromisoformat(value)
        return value


def find_price(instance: str) -> Price:
    """Find what an instance costs today: its latest price up to today.

    The table of DR_LIB_PRICES goes before this library's, for the instances that it names.

    Args:
        instance: its name in the table, as its provider writes it.

    Raises:
        PriceError: the instance has no price by then; those that have one are named.
    """
    variable = os.environ.get(PRICES_VARIABLE)
    prices = read_prices(Path(expand_home(variable))) if variable else []
    named = {price.instance for price in prices}
    prices += [price for price in read_prices(PRICES) if price.instance not in named]
    today = str(datetime.date.today())
    known = [price for price in prices if price.date <= today]
    found = [price for price in known if price.instance == instance]
    if not found:
        names = ", ".join(sorted({price.instance for price in known}))
        raise PriceError(
            f"no price for {instance!r} up to {today} (known: {names}): add it to the table named "
            f"by {PRICES_VARIABLE}"
        )
    return max(found, key=lambda price: price.date)


def read_prices(path: Path) -> list[Price]:
    """Read a CSV of prices.

    Raises:
        PriceError: there is no such file, or a line is no price: it is named.
    """
    if not path.is_file():
        raise PriceError(f"no such file: {path}")
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    prices = {}
    for number, row in enumerate(csv.DictReader(lines, restval=""), start=2):
        try:
            price = Price.model_validate(row)
        except ValidationError as error:
            fault = error.errors()[0]
            name = "".join(map(str, fault["loc"]))
            raise PriceError(f"{path}, line {number}: {name}: {fault['msg']}") from None
        key = (price.instance, price.date)
        if key in prices:
            raise PriceError(f"{path}, line {number}: list each instance once a date")
        prices[key] = price
    if not prices:
        raise PriceError(f"{path} has no price")
    return [*prices.values()]


def price_seconds(usd_per_hour: float, *seconds: float) -> float:
    """Compute the total cost of times in USD; NaN if a time or the price is NaN."""
    return usd_per_hour * sum(seconds) / 3600


def price_runs(
    runs: pd.DataFrame, instance: str = "", *, overhead_s: float = 0.0
) -> pd.DataFrame:
    """Add its cost to each run.

    Args:
        runs: one row per run.
        instance: prices every run anew; without it a run keeps the price in its row.
        overhead_s: seconds that each run is billed beside set-up and training.

    Returns:
        The runs with usd_per_hour of a machine, price_as_of, formula_usd of the run (price x
        train_s), and cost_usd (with set-up and overhead). NaN where there is no price or no time.
    """
    import pandas as pd

    if instance:
        price = find_price(instance)
        runs = runs.assign(
            priced_as=instance, usd_per_hour=price.usd_per_hour, price_as_of=price.date
        )
    known = runs.reindex(columns=["usd_per_hour", "train_s", "setup_s"]).astype(float)
    usd_per_hour = known["usd_per_hour"]
    setup_s = known["setup_s"].fillna(0.0)
    return runs.assign(
        usd_per_hour=usd_per_hour,
        price_as_of=runs.get("price_as_of", pd.Series("", runs.index))
        .astype(object)
        .fillna(""),
        formula_usd=price_seconds(usd_per_hour, known["train_s"]),
        cost_usd=price_seconds(usd_per_hour, known["train_s"], setup_s, overhead_s),
    )
