"""Show a text as it is where Markdown or HTML is read: what comes from a file is never markup."""

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
    """Write a text so that Markdown, which may hold HTML, shows it as it is, in one line."""
    line = " ".join(str(text).split())
    line = MARKUP.sub(lambda found: ENTITIES.get(found[0], f"\\{found[0]}"), line)
    return NUMBERED.sub(r"\1\\\2", line)
