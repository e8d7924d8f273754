"""Escape text for Markdown and HTML, so that text from a file is never read as markup."""

import re

ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "&#92;"}  # \\( begins a formula
MARKUP = re.compile(
    r"[&<>\\`*~$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # not inside a word, as in small_cnn
    r"|\](?=[(\[:])|:(?=//)"  # no link; an interval keeps its brackets
    r"|^[-+=#]"  # no heading, list or rule
)
NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")  # a list


def escape(text: object) -> str:
    """Escape a text so that Markdown, which may contain HTML, shows it literally, in one line."""
    line = " ".join(str(text).split())
    line = MARKUP.sub(lambda found: ENTITIES.get(found[0], f"\\{found[0]}"), line)
    return NUMBERED.sub(r"\1\\\2", line)
