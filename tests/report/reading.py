"""Read a figure back: the words and lines that stand in it, from rows that are timed however
unlike they are.
"""

import html
import re

import pandas as pd

from dr_lib.report.select import PLAN, WORK, select_runs


def timed_runs(rows) -> pd.DataFrame:
    """The rows whose times count."""
    return select_runs(pd.DataFrame(rows), may_differ=[*WORK, *PLAN]).timed


def words(figure) -> str:
    """Everything written in the figure."""
    axes = [
        t.get_text()
        for ax in figure.axes
        for t in [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]
    ]
    axes += [label for ax in figure.axes for label in (ax.get_xlabel(), ax.get_ylabel())]
    titles = [ax.get_title(loc=loc) for ax in figure.axes for loc in ("left", "right")]
    legends = [ax.get_legend() for ax in figure.axes if ax.get_legend()] + figure.legends
    listed = [t.get_text() for legend in legends for t in legend.get_texts()]
    return "\n".join(
        [
            figure.get_suptitle(),
            figure.get_supxlabel(),
            figure.get_supylabel(),
            *titles,
            *axes,
            *listed,
        ]
    )


def is_whole(figure) -> bool:
    """Whether all that is drawn lies inside the picture."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox()  # in inches
    return (
        min(box.x0, box.y0) >= 0
        and box.x1 <= figure.get_figwidth()
        and box.y1 <= figure.get_figheight()
    )


def find_english(page: str) -> list[str]:
    """Find the texts of a Portuguese page that hold two words which only English has."""
    body = re.sub(r"(?s)<style>.*?</style>", "", page)
    texts = [html.unescape(text) for text in re.findall(r">([^<]+)<", body)]
    english = r"\b(the|of|and|with|is|are|not|by|each|from|which|without|their|its|than)\b"
    return [text for text in texts if len(re.findall(english, text)) > 1]
