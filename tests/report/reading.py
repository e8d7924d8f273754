"""Read a figure back: the words and lines that stand in it."""

import html
import re

import pandas as pd
from bs4 import BeautifulSoup
from matplotlib.text import Text

from dr_lib.report.groups import select_runs


def timed_runs(rows) -> pd.DataFrame:
    """The rows whose times count."""
    return select_runs(pd.DataFrame(rows)).timed


def words(figure) -> str:
    """Everything written in the figure."""
    figure.draw_without_rendering()
    return "\n".join(text.get_text() for text in figure.findobj(Text))


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


HOSTILE = "<img src=x onerror=alert(1)><b>my_*model* $5 $\\no{"


def check_hostile(page: str, times: int) -> None:
    """All of it is text, so many times at least, and no picture is from elsewhere."""
    shown = BeautifulSoup(page, "html.parser")
    assert shown.get_text().count(HOSTILE) >= times
    assert not shown.find_all(["b", "script"]) + shown.find_all(onerror=True)
    assert all(picture["src"].startswith("data:") for picture in shown.find_all("img"))
