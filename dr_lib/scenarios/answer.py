"""What the report on scenarios says first: which factors change the time of an epoch."""

from collections.abc import Callable

import pandas as pd

from dr_lib.numbers import write_number
from dr_lib.report.answer import Answer, Number
from dr_lib.report.style import name_term


def write_p(p: float, lang: str) -> str:
    """Write a p value: p = 0.010, or p < 0.001."""
    if p < 0.001:
        return f"p < {write_number(0.001, lang)}"
    return f"p = {write_number(p, lang, '{:.3f}')}"


def answer_shares(variation: pd.DataFrame, say: Callable[[str], str], lang: str) -> Answer:
    """Answer which factors, alone or together, explain the variation, each only if it can be told
    from none.

    Args:
        variation: a row per `term`: `share` of the variation, `p`, `num_factors`.
        say: translates.
        lang: en or pt.
    """
    terms = variation[variation["num_factors"] > 0].sort_values("share", ascending=False)
    told = terms[terms["p"] < 0.05]
    numbers = []
    for row in told.head(2).itertuples():
        text = write_number(100 * row.share, lang, "{:.0f} %")
        name = name_term(row.term, say).capitalize()
        numbers.append(Number(name, text, "", write_p(row.p, lang)))
    if told.empty:
        sentence = say(
            "No factor has been shown to change the time of an epoch: what they seem to explain "
            "may be chance."
        )
        return Answer(sentence, is_stop=True)
    names = [name_term(term, say) for term in told["term"]]
    sentence = say("What changes the time of an epoch: {}, the strongest first.")
    sentence = sentence.format(", ".join(names))
    return Answer(sentence, numbers)
