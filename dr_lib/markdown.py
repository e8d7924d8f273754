"""Escape text for Markdown and HTML, so that text from a file is never read as markup."""

import re

MARKUP = re.compile(
    r"[&<>\\`*~$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # not inside a word, as in small_cnn
    r"|\](?=[(\[:])|:(?=//)"  # no link; an interval keeps its brackets
    r"|^[-+=#]"  # no heading, list or rule
)


def escape(text: object) -> str:
    """Escape a text so that Markdown, which may contain HTML, shows it literally, in one line."""
    line = " ".join(str(text).split())
    entities = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "&#92;"}  # \\( begins a formula
    line = MARKUP.sub(lambda found: entities.get(found[0], f"\\{found[0]}"), line)
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", line)  # a list
