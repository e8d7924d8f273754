"""What a report of the evaluation still needs, item by item of the reporting guidelines, and the
model card.

Numbers are those of STARD 2015 (Bossuyt et al., BMJ 2015), which STARD-AI (Sounderajah et al.,
Nature Medicine 2025) extends, and of TRIPOD+AI (Collins et al., BMJ 2024); STARD-AI's own items
stand without one. The card has the sections of Mitchell et al. 2019 (Model Cards for Model
Reporting). The words are ours: the guidelines' own say more. Aligned, not certified.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from dr_lib.markdown import escape

SOURCES = {
    "STARD": "STARD 2015 (Bossuyt et al. 2015), as extended by STARD-AI",
    "STARD-AI": "STARD-AI (Sounderajah et al. 2025)",
    "TRIPOD+AI": "TRIPOD+AI (Collins et al. 2024)",
}
STATUSES = ("filled by this run", "author must fill", "not applicable")
NOT_APPLICABLE = "-"


def fill_checklist(facts: Mapping[str, str], lang: str = "en") -> pd.DataFrame:
    """Fill what a run knows, and name what its author has to.

    Args:
        facts: what this run found, by the names in the column `fact` of checklist.csv; empty ones
            are left to the author.
        lang: en or pt, of the topics.

    Returns:
        A row per item: `guideline`, `item` (its number, where it is known), `topic`, `status` of
        STATUSES, `text`.
    """
    items = pd.read_csv(Path(__file__).with_name("checklist.csv"), dtype=str, keep_default_na=False)
    text = items["fact"].map(lambda fact: facts.get(fact, ""))
    status = pd.Series(STATUSES[1], items.index).mask(text != "", STATUSES[0])
    status = status.mask(items["fact"] == NOT_APPLICABLE, STATUSES[2])
    topic = items["topic_pt" if lang == "pt" else "topic"]
    return items[["guideline", "item"]].assign(topic=topic, status=status, text=text)


def write_card(facts: Mapping[str, str], title: str, unknown: str, lang: str = "en") -> str:
    """The model card as Markdown, of the same facts as the checklist.

    Args:
        facts: as of `fill_checklist`, by the names in the column `fact` of model_card.csv.
        title: its first line.
        unknown: what stands where no run can know.
        lang: en or pt.
    """
    path = Path(__file__).with_name("model_card.csv")
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    section, topic = ("section_pt", "topic_pt") if lang == "pt" else ("section", "topic")
    lines = [f"# {escape(title)}"]
    for name, part in table.groupby(section, sort=False):
        told = [(row[topic], facts.get(row["fact"], "")) for _, row in part.iterrows()]
        items = [f"- **{words}**: {escape(text) or f'*{unknown}*'}" for words, text in told]
        lines += [f"## {name}", "\n".join(items)]
    return "\n\n".join(lines) + "\n"
