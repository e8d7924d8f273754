"""Draw and word a served model: times (figures 1 and 2 of paper B), a month's price.

`lang` is en, or pt with decimal commas.
"""

from collections import defaultdict
from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from dr_lib.numbers import write_number, write_span
from dr_lib.report.answer import Answer, Number
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import OURS, THEIRS, choose_words, name
from dr_lib.serving.costs import NETWORK, find_candidates, tabulate_latencies
from dr_lib.statistics.intervals import Interval
from dr_lib.statistics.times import WITHIN


def plot_predict_time(
    times: pd.DataFrame, model: str, lang: str = "en", *, published: pd.DataFrame | None = None
) -> Figure:
    """Draw a model's prediction time on each machine in each format, and below it paper B's.

    For VGG19 this is the paper's figure 1, for MobileNet its figure 2.

    Args:
        times: of `price_endpoints`; without any the paper stands alone.
        model: vgg19, mobilenet, or one that the paper did not have, which then stands alone.
        lang: en or pt.
        published: the paper's means, of `claims.list_printed`, for a panel of its own.
    """
    say = choose_words(lang)
    panels = defaultdict(list)
    if published is not None:
        theirs = tabulate_latencies(published).query("model == @model")
        authors = say(published["authors"].iloc[0])
        for row in theirs.itertuples():
            ms = row.predict_ms
            interval = Interval(ms, ms - row.predict_ms_sd, ms + row.predict_ms_sd, 1)
            mean = Mean(f"{row.instance}\n{authors}", interval, THEIRS)
            panels[f"{name(model)}, 224 px"].append(mean)  # the paper's size
    ours = times[times["model"] == model] if len(times) else times
    for row in ours.itertuples():
        interval = Interval(row.predict_ms, row.predict_ms_low, row.predict_ms_high, row.n)
        label = f"{row.environment}\n{row.format}, n = {row.n}"
        mean = Mean(label, interval, OURS)
        panels[f"{name(model)}, {row.image_size:g} px"].append(mean)
    return plot_means(panels, lang, unit="ms")


def describe_choice(priced: pd.DataFrame, lang: str = "en") -> list[str]:
    """Name the cheapest of `price_endpoints` in a sentence per network, or say why none is."""
    say = choose_words(lang)
    sentences = []
    for network, rows in priced.groupby(NETWORK, sort=False):
        candidates = find_candidates(rows)
        endpoint = say("{} on {}, at the price of {}")
        names = [
            endpoint.format(row.format, row.environment, row.instance)
            for row in candidates.itertuples()
        ]
        words = [f" {say('or')} ".join(names)]
        if candidates.empty:
            sentence = "No endpoint of {} can be chosen: {}."
            words = ["; ".join(map(say, dict.fromkeys(rows["reason"])))]
        elif candidates["disturbed"].any():
            sentence = "No cheapest endpoint of {} is named: a load test was disturbed."
        elif len(names) > 1:
            sentence = "The prices of {} are not told apart: {}."
        else:
            sentence = "The cheapest endpoint of {} is {}: {} USD a month."
            words.append(_write_month(candidates.iloc[0], lang))
        network = f"{name(network[0])}, {write_number(network[1], lang)} px"
        sentences.append(say(sentence).format(network, *words))
    return sentences


def answer_price(
    priced: pd.DataFrame, limits: Sequence[str], rests: str, lang: str = "en"
) -> Answer:
    """Answer which endpoint of the first network is the cheapest, and what a month of it costs;
    no number where none is named.

    Args:
        priced: of `price_endpoints`.
        limits: of the rows' times.
        rests: what they rest on.
        lang: en or pt.
    """
    say = choose_words(lang)
    sentence, *more = describe_choice(priced, lang)
    _, rows = next(iter(priced.groupby(NETWORK, sort=False)))
    candidates = find_candidates(rows)
    numbers = []
    if len(candidates) == 1 and not candidates["disturbed"].any():
        row = candidates.iloc[0]
        usd, _, bounds = _write_month(row, lang).partition(" ")
        heading = f"{name(row['model'])}, {row['format']}, {row['instance']}"
        numbers.append(Number(heading, f"{usd} USD", bounds, say("a month")))
    return Answer(sentence, numbers, more=more, limits=limits, rests=rests)


def _write_month(row: pd.Series, lang: str) -> str:
    """Write a month's price with its bounds, and that they are of one session if they are."""
    text = write_span(row, "usd_per_month", lang)
    if row.get("usd_per_month_scope") != WITHIN:
        return text
    return f"{text} ({choose_words(lang)(WITHIN)})"
