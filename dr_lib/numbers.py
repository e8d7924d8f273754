"""Format numbers: few digits, bounds in brackets, decimal commas in Portuguese."""

import math
from collections.abc import Iterable, Mapping
from datetime import date

import numpy as np
import pandas as pd

ROUNDING = 1e-9  # of a sum of floats: what is nearer to 0 or 1 is that
COMMAS = str.maketrans(".,", ",.")


def write_number(value: float, lang: str = "en", form: str = "") -> str:
    """Format a number with the language's decimal sign; a missing one is a dash.

    By default three digits without an exponent, 0.0000645, and whole and large numbers to the unit,
    3,377,221. What is below 1 is not rounded to 1: 0.9996.
    """
    if not np.isfinite(value):
        return "–"
    is_rounding = abs(value) < ROUNDING
    if form:
        text = form.format(value)
    elif is_rounding or float(value).is_integer() or abs(value) >= 1000:
        text = f"{value:z,.0f}"
    else:
        text = np.format_float_positional(value, precision=3, fractional=False, trim="-")
        if text == "1" and abs(1 - value) > ROUNDING:
            digits = int(np.ceil(-np.log10(abs(1 - value)))) + 1
            text = np.format_float_positional(value, precision=digits, trim="-")
    return text.translate(COMMAS) if lang == "pt" else text


def write_probability(value: float, lang: str = "en", decimals: int | None = None) -> str:
    """Format a probability, or a threshold of it, so that 0 and 1 are these alone.

    With decimals, < 0.001 and > 0.999 beyond the last; without, three digits, and 1.89e-13 of what
    is tiny.
    """
    if decimals is None:
        return write_number(value, lang, "{:.3g}" if 0 < value < ROUNDING else "")
    form = f"{{:z,.{decimals}f}}"
    end = round(value, decimals)
    if end in (0, 1) and abs(value - end) > ROUNDING:
        beyond = write_number(abs(end - 10**-decimals), lang, form)
        return f"> {beyond}" if end else f"< {beyond}"
    return write_number(value, lang, form)


def write_day(moment: str, lang: str) -> str:
    """Write the day of an ISO moment: 25 Nov 2026, or 25/11/2026."""
    day = date.fromisoformat(moment[:10])
    return f"{day:%d/%m/%Y}" if lang == "pt" else f"{day.day} {day:%b %Y}"


def write_days(moments: Iterable[str], lang: str) -> str:
    """Write the first and the last day of some moments; nothing of none."""
    days = [write_day(moment, lang) for moment in sorted(moments)]
    return " – ".join(dict.fromkeys([days[0], days[-1]])) if days else ""


def write_decimals(text: str, lang: str) -> str:
    """Give a text that holds only numbers, such as 0.01-0.48, the language's decimal sign."""
    return text.replace(".", ",") if lang == "pt" and not any(map(str.isalpha, text)) else text


def write_interval(value: float, low: float, high: float, lang: str = "en") -> str:
    """A value and its bounds with the same decimals, 5.37 [5.24, 5.50]; the value alone where it
    has no bounds, or the bounds differ by rounding alone.

    The decimals give half of the interval's width two digits (GUM, 7.2.6), and a value far below
    half of the width two of its own. Shares whose interval is wider than 0.01 have three, 0.850
    [0.800, 1.000]. A value that is not 0 or 1, but would be rounded to it, is written as beyond the
    last decimal: > 0.999 [0.900, 1.000].
    """
    has_bounds = np.isfinite(low) or np.isfinite(high)
    is_rounding = high - low < ROUNDING * max(1, abs(value))
    if not has_bounds or not np.isfinite(value) or is_rounding:
        return write_number(value, lang)
    decimals = _count_decimals(value, low, high)
    form = f"{{:z,.{decimals}f}}"
    if high <= 1 if value > 0.5 else low >= 0:
        text = write_probability(value, lang, decimals)
    else:
        text = write_number(value, lang, form)
    lower = write_number(low, lang, form)
    upper = "∞" if high == np.inf else write_number(high, lang, form)
    comma = "; " if lang == "pt" else ", "
    return f"{text} [{lower}{comma}{upper}]"


def _count_decimals(value: float, low: float, high: float) -> int:
    ends = [end for end in (low, value, high) if np.isfinite(end)]
    width = max(ends) - min(ends)
    if -1 <= low and high <= 1 and width > 0.01:
        return 3
    # a ratio's upper half is wide, and its lower bound counts
    unit = min(width / 2, value) if 0 < low <= value else width / 2
    if not unit:  # a bound that is the value, without another
        return 3
    return max(0, 1 + math.floor(math.log10(9.95 / unit)))


def write_span(row: Mapping | pd.Series, column: str, lang: str = "en") -> str:
    """Format a value of a row with its bounds, the columns `column`_low and `column`_high."""
    ends = [row.get(f"{column}{end}") for end in ("", "_low", "_high")]
    return write_interval(*(np.nan if end is None else end for end in ends), lang)
