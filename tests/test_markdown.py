"""Texts of files, shown as they are by what reads Markdown."""

import re
from html import unescape

import pytest
from markdown_it import MarkdownIt
from nbconvert.filters import markdown2html

from dr_lib.markdown import escape

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>x</script>",
    "a & b &lt; c &#60;",
    "my_*model* _a_ __init__ ~~x~~ `y`",
    "[x](javascript:alert(1)) ![x](https://example.org/c.png) https://example.org",
    "[x][y] [x] [^1] [a [b]](c)",
    "[x]: https://example.org",
    "# head",
    "> quote",
    "- item",
    "12. one",
    "===",
    "a | b\n--|--\n1 | 2",
    "$x$ and \\(y\\) \\*z\\*",
    "two\n\n    blocks",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("place", ["{}", "**{}** is", "x {} y", "- {}"])
def test_a_text_is_shown_as_it_is(text, place):
    """By nbconvert, which renders reports, and as CommonMark with tables, which GitHub shows."""
    source = place.format(escape(text))
    expected = re.sub(r"\*\*|^- ", "", place).format(" ".join(text.split()))
    of_github = MarkdownIt("gfm-like", {"linkify": False}).render(source)
    for html in (markdown2html(source), of_github):
        inside = re.sub(r"</?(p|strong|ul|li)>", "", html)
        assert "<" not in inside and unescape(inside).strip() == expected


def test_plain_names_stay_as_they_are():
    """A file of Markdown can be read as it is, too."""
    for name in (
        "inception_v3_299",
        "2 x Tesla T4 (Intel(R) Xeon(R) CPU)",
        "0.5 [0.4, 0.6] px",
    ):
        assert escape(name) == name
