"""What a report shows of the papers' claims: what was judged first."""

import pandas as pd

from dr_lib.claims.verdicts import VERDICTS
from dr_lib.numbers import COMMAS
from dr_lib.report.page import Page, write_table
from dr_lib.report.style import read_headers

WORDINGS = {
    "paraphrase": "{}, paraphrased",
    "derived": "{}, derived",
    "reading": "our reading of {}",
}
# of a claim where a verdict was reached
SHOWN = ["id", "claim", "published", "ours", "n", "verdict"]


def show_claims(page: Page, judged: pd.DataFrame) -> None:
    """Show how claims are judged and those that were, then all of them, folded.

    Args:
        page: of the report.
        judged: from `judge_claims`.
    """
    say = page.say
    page.section("The paper's claims")
    words = say("Each claim, what the paper published, and what our rows say.")
    every = [*SHOWN[:2], "place", *SHOWN[2:]]
    if page.lang == "en":  # reasons name columns and values of rows
        every.append("reason")
    table = page.keep(_tabulate(page, judged), "claims", words, columns=every)
    headers = read_headers()
    is_judged = judged["verdict"].isin(VERDICTS[:3]).to_numpy()
    shown = table[is_judged].reindex(columns=[say(headers[column]) for column in SHOWN])
    if len(shown):
        page.note(
            "A claim holds only if the whole 95 % interval satisfies it, and does not hold "
            "only if the whole interval violates it. A claim about every case is judged case "
            "by case; to refute it, the 95 % apply to all intervals together. Rows from "
            "hardware, data or work other than the paper's are listed but not compared."
        )
        page.html(write_table(shown, words))
    else:
        page.note("No claim can be judged.")
    counts = judged["verdict"].value_counts()
    counted = [f"{say(verdict)} {number}" for verdict, number in counts.items()]
    summary = say("All {} claims: {}").format(len(judged), ", ".join(counted))
    page.html(f"<details><summary>{summary}</summary>{write_table(table)}</details>")


def _tabulate(page: Page, judged: pd.DataFrame) -> pd.DataFrame:
    """Write claims in the page's language, with their place and whether the words are the paper's
    own.
    """
    is_portuguese = page.lang == "pt"
    places = []
    for row in judged.itertuples():
        place = row.reads or page.say(row.place)
        wording = "reading" if row.reads else row.wording
        if wording in WORDINGS:
            place = page.say(WORDINGS[wording]).format(place)
        places.append(place)
    table = judged.assign(
        claim=judged["words_pt" if is_portuguese else "words"],
        place=places,
        published=judged["published"].str.translate(COMMAS if is_portuguese else {}),
        verdict=judged["verdict"].map(page.say),
    )
    return table.drop(columns=["wording", "reads", "words", "words_pt"])
