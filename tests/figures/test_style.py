"""What figures and tables share: words in both languages, numbers as they are read, points by run."""

import ast
import csv
from pathlib import Path

import pytest
from IPython.core.formatters import DisplayFormatter

from dr_lib.evidence import evaluation
from dr_lib.evidence.claims import count_claims, read_published
from dr_lib.evidence.epochs import IMPLEMENTATIONS
from dr_lib.evidence.verdicts import NEVER
from dr_lib.figures import page, scenarios, style

ROOT = Path(__file__).resolve().parents[2]
# called with an English sentence
SPEAKERS = {"say", "state", "_open", "title", "heading", "figure", "table"}


def find_sentences() -> set[str]:
    """Every sentence that the figures and the analysis notebooks say, with the words of their tables."""
    sentences = {
        *style.read_headers().values(),
        *style.PAPERS.values(),
        *scenarios.MEANS.values(),
    }
    sentences |= {*style.FACTOR_NAMES.values(), *IMPLEMENTATIONS.values(), style.SAMPLE, style.IMAGES, scenarios.BARS}
    sentences |= {"framework", "network", "accelerator", "environment", "Figure", "Table"}
    claims = read_published()
    sentences |= {*claims["place"][claims["wording"] != "reading"], *count_claims()["why"], *NEVER.values()}
    sentences |= {*page.WORDINGS.values(), *page.SAID, *evaluation.SOURCES}
    for path in [*ROOT.glob("dr_lib/figures/*.py"), *ROOT.glob("notebooks/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("words", "legend"):
                sentences |= {leaf.value for leaf in [node.value] if isinstance(leaf, ast.Constant)}
            function = ast.unparse(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
            if function in SPEAKERS:
                halves = [(part.body, part.orelse) if isinstance(part, ast.IfExp) else (part,) for part in node.args]
                leaves = [leaf for half in halves for leaf in half]
                texts = [
                    leaf.value for leaf in leaves if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)
                ]
                sentences |= set(texts[-1:] if function in ("figure", "table") else texts)
    return {sentence for sentence in sentences if sentence and sentence not in style.PAPERS}


def test_every_sentence_has_its_portuguese_and_none_is_left_over():
    """A report in Portuguese has no English in its figures and tables, and the table of words holds nothing unused."""
    with (ROOT / "dr_lib/figures/words.csv").open(encoding="utf-8") as file:
        known = [row["english"] for row in csv.DictReader(file)]
    assert len(known) == len(set(known))
    assert find_sentences() - set(known) == set()
    assert set(known) - find_sentences() == set()


def test_a_language_without_words_is_refused():
    """The message names those that there are."""
    with pytest.raises(ValueError, match="lang='de': choose en or pt"):
        style.choose_words("de")


def test_a_notebook_shows_a_figure_that_ends_a_cell():
    """With IPython's own formatter, to which no pyplot has shown how."""
    figure, _ = style.open_panels(1)
    data, _ = DisplayFormatter().format(figure)
    assert data["image/png"].startswith(b"\x89PNG")
