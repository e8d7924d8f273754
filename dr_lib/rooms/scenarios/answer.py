"""What the report on scenarios says first: which factors change the time of an epoch."""

from collections.abc import Callable

import pandas as pd

from dr_lib.numbers import write_number, write_probability
from dr_lib.report.answer import Answer, Number
from dr_lib.report.style import name_term


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
        p = write_probability(row.p, lang, 3)
        text = write_number(100 * row.share, lang, "{:.0f} %")
        note = f"p {p}" if p.startswith("<") else f"p = {p}"
        numbers.append(Number(name_term(row.term, say).capitalize(), text, "", note))
    if told.empty:
        sentence = say(
            "No factor has been shown to change the time of an epoch: what they seem to explain "
            "may be chance."
        )
        return Answer(sentence, is_stop=True)
    names = [name_term(term, say) for term in told["term"]]
    sentence = say("What changes the time of an epoch: {}, the strongest first.")
    sentence = sentence.format(", ".join(names))
    more = []
    involved = {factor for term in told["term"] for factor in term.split(" x ")}
    others = [factor for factor in terms.loc[terms["num_factors"] == 1, "term"]]
    others = [factor for factor in others if factor not in involved]
    if others:
        words = say("Not shown to change it: {}.")
        more.append(words.format(", ".join(name_term(term, say) for term in others)))
    return Answer(sentence, numbers, more)
