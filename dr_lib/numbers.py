"""Format numbers: few digits, bounds in brackets, decimal commas in Portuguese."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

ROUNDING = 1e-9  # of a sum of floats: what is nearer to 1 is 1
COMMAS = str.maketrans(".,", ",.")


def write_number(value: float, lang: str = "en", form: str = "") -> str:
    """Format a number with the language's decimal sign; a missing one is a dash.

    By default three digits without an exponent, 0.0000645, and whole and large numbers to the unit,
    3,377,221. What is below 1 is not rounded to 1: 0.9996.
    """
    if not np.isfinite(value):
        return "–"
    if form:
        text = form.format(value)
    elif float(value).is_integer() or abs(value) >= 1000:
        text = f"{value:,.0f}"
    else:
        text = np.format_float_positional(value, precision=3, fractional=False, trim="-")
        if text == "1" and abs(1 - value) > ROUNDING:
            digits = int(np.ceil(-np.log10(abs(1 - value)))) + 1
            text = np.format_float_positional(value, precision=digits, trim="-")
    return text.translate(COMMAS) if lang == "pt" else text


def write_decimals(text: str, lang: str) -> str:
    """Give a text that holds only numbers, such as 0.01-0.48, the language's decimal sign."""
    return text.replace(".", ",") if lang == "pt" and not any(map(str.isalpha, text)) else text


def write_interval(
    value: float, low: float, high: float, lang: str = "en", form: str = ""
) -> str:
    """A value and its bounds with the same decimals, 5.37 [5.24, 5.50]; without bounds the value
    alone.

    The decimals give the distance to the nearer bound two digits (GUM, 7.2.6). Shares have three
    decimals, 0.850 [0.800, 1.000], where these tell the bounds apart. A bound that bounds nothing,
    as two runs have them, is infinity or 0: a million times the value, or a thousandth. A
    likelihood ratio without a false alarm is infinite: ∞ [3.42, ∞].
    """
    if not (np.isfinite(low) or np.isfinite(high)) or low == high:
        return write_number(value, lang, form)
    is_bound = not 0 < low < value / 1000 or not np.isfinite(value)
    if high > 1e6 * max(abs(value), 1):
        high = np.inf
    form = form or _choose_form(value, low if is_bound else 0, high)
    text = "∞" if value == np.inf else write_number(value, lang, form)
    lower = write_number(low, lang, form) if is_bound else "0"
    upper = "∞" if high == np.inf else write_number(high, lang, form)
    comma = "; " if lang == "pt" else ", "
    return f"{text} [{lower}{comma}{upper}]"


def _choose_form(value: float, low: float, high: float) -> str:
    if not np.isfinite(value):
        return ""
    distances = [abs(value - bound) for bound in (low, high) if np.isfinite(bound)]
    is_share = -1 <= low <= value <= high <= 1 and high - low > 0.002
    if is_share and (round(value, 9) in (0, 1) or 0.001 <= abs(value) <= 0.9995):
        return "{:.3f}"
    nearer = min(filter(None, distances), default=1.0)
    decimals = 1 + math.floor(math.log10(9.95 / nearer))
    return f"{{:,.{max(0, decimals)}f}}"


def write_span(row: Mapping | pd.Series, column: str, lang: str = "en") -> str:
    """Format a value of a row with its bounds, the columns `column`_low and `column`_high."""
    bounds = [row.get(f"{column}_{end}", np.nan) for end in ("low", "high")]
    return write_interval(row[column], *bounds, lang)
