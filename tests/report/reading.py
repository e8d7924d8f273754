"""Read a figure back: the words and lines that stand in it."""

import html
import re
from html.parser import HTMLParser

import pandas as pd
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


class Shown(HTMLParser):
    """The pictures of a page, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags = set()
        self.pictures = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.pictures += [dict(attrs)] if tag == "img" else []

    def handle_data(self, data):
        self.text += data


HOSTILE = "<img src=x onerror=alert(1)><b>my_*model* $5 $\\no{"


def check_hostile(page: str, times: int) -> None:
    """All of it is text, so many times at least, and no picture is from elsewhere."""
    shown = Shown(page)
    assert shown.text.count(HOSTILE) >= times and not {"b", "script"} & shown.tags
    assert all(picture["src"].startswith("data:") for picture in shown.pictures)
    assert not any("onerror" in picture for picture in shown.pictures)
