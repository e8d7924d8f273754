"""What the report on costs says first: a month's price, on which machine, with what wait."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from dr_lib.numbers import write_number, write_span
from dr_lib.report.answer import Answer, Number
from dr_lib.report.style import choose_words, name
from dr_lib.serving.endpoint import NETWORK, find_candidates, list_doubts
from dr_lib.serving.figures import describe_labels


def answer_price(
    priced: pd.DataFrame, limits: Sequence[str], rests: str, lang: str = "en"
) -> Answer:
    """Answer what a month of so many photographs a day costs, and how sure that is.

    Args:
        priced: of `price_endpoints`.
        limits: of the rows' times.
        rests: what they rest on.
        lang: en or pt.
    """
    say = choose_words(lang)
    numbers = []
    doubts = []
    chosen = []
    by_price = priced.sort_values("usd_per_month", kind="stable")
    for network, rows in by_price.groupby(NETWORK, sort=False):
        candidates = find_candidates(rows)
        if candidates.empty:
            continue
        row = candidates.iloc[0]
        if not numbers:  # the sentence is about the first
            doubts = list_doubts(candidates)
        chosen.append(row.name)
        usd, _, bounds = write_span(row, "usd_per_month", lang).partition(" [")
        usd = f"{usd} USD"
        if not np.isfinite(row["usd_per_month_high"]):
            least = row["usd_per_month_low"]
            least = row["usd_per_month"] if np.isnan(least) else least
            usd = say("at least {} USD").format(write_number(least, lang))
            bounds = ""
        rate = write_span(row, "rate_per_s", lang)
        words = say(
            "a month, machines at the price of {1}: {0}; one held {2} requests a second, n = {3}"
        )
        note = words.format(
            write_number(row["num_machines"], lang), row["instance"], rate, row["n"]
        )
        heading = f"{name(network[0])}, {write_number(network[1])} px, {row['format']}"
        numbers.append(Number(heading, usd, bounds and f"[{bounds}", note))
    if not numbers:
        return Answer(say("No endpoint can be chosen from these rows."), limits=limits)
    words = say("{} photographs a day cost {} a month with {}, 99 % answered within {} ms.")
    first = priced.iloc[0]
    sentence = words.format(
        write_number(first["requests_per_day"], lang),
        numbers[0].text,
        numbers[0].heading,
        write_number(first["p99_ms"], lang),
    )
    limits = [*describe_labels(by_price.loc[chosen], say), *limits]
    if doubts:
        words = say("Which endpoint is the cheapest is not known: {}.")
        limits = [words.format("; ".join(map(say, doubts))), *limits]
    return Answer(sentence, numbers[:2], limits=limits, rests=rests)
