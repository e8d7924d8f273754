"""What figures and tables share: words in both languages, numbers as they are read, points by
run.
"""

import ast
import csv
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dr_lib.claims.claims import read_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.numbers import write_interval, write_probability
from dr_lib.report import style
from dr_lib.runs import schema

ROOT = Path(__file__).resolve().parents[2]
DRAWING = re.compile(r"/(report/\w+|figures|answer|committee|page|notebooks/\w+)\.py$")
# called with an English sentence, and where theirs begins among their arguments
SPEAKERS = dict.fromkeys("say state title heading section note".split(), 0)
SPEAKERS.update(figure=2, table=2, answer=3)


# modules, and their constants that are shown: a word, several, or values by a key
TABLES = {
    "statistics.intervals": ["UNLEARNED"],
    "report.style": ["SAMPLE", "IMAGES"],
    "report.groups": ["COLD", "COPY", "MARKS", "NO_TIME"],
    "statistics.times": ["EQUAL", "FEW_PAIRS", "FEW_RUNS", "FEW_SESSIONS", "WITHIN"],
    "claims.page": ["WORDINGS"],
    "claims.verdicts": ["VERDICTS"],
    "evaluation.committee": ["AIMS", "DOES", "NOT_FOR", "UNKNOWN"],
    "evaluation.groups": ["FACTORS", "STAGES"],
    "evaluation.points": ["ERRORS", "GIVEN", "POINTS", "SOURCES", "UNITS"],
    "explain.figures": ["TITLES"],
    "mnist.epochs": ["IMPLEMENTATIONS"],
    "scenarios.figures": ["METERS"],
    "serving.costs": ["REASONS"],
}


def list_words_of_tables() -> set[str]:
    """The words in the tables of the library, and those of papers and claims."""
    words = {paper.authors for paper in PAPERS.values()}
    for module, names in TABLES.items():
        for name in names:
            table = getattr(import_module(f"dr_lib.{module}"), name)
            table = [table] if isinstance(table, str) else table
            words.update(table.values() if isinstance(table, dict) else table)
    words.update(claim.place for claim in read_claims() if claim.wording != "reading")
    return words


def find_sentences() -> set[str]:
    """Every sentence that the figures and the analysis notebooks say, with the words of their
    tables.
    """
    sentences = list_words_of_tables()
    paths = [*ROOT.glob("dr_lib/**/*.py"), *ROOT.glob("notebooks/*.py")]
    for path in [path for path in paths if DRAWING.search(path.as_posix())]:
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        said = []
        names = set()
        for node in [node for node in nodes if isinstance(node, ast.Call)]:
            function = ast.unparse(node.func).split(".")[-1]
            spoken = node.args[SPEAKERS[function] :] if function in SPEAKERS else []
            said += spoken
            names.update(each.id for each in spoken[:1] if isinstance(each, ast.Name))
        for node in [node for node in nodes if isinstance(node, ast.Assign)]:
            said += [node.value] if ast.unparse(node.targets[0]) in names else []
        texts = [each.value for each in said if isinstance(each, ast.Constant)]
        sentences.update(text for text in texts if isinstance(text, str))
    return sentences - PAPERS.keys() - {""}


def test_every_sentence_has_its_portuguese():
    """A report in Portuguese has no English in its figures and tables."""
    header, *lines = (ROOT / "dr_lib/report/words.csv").read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines), "sort the lines of dr_lib/report/words.csv"
    missing = find_sentences() - {row["english"] for row in csv.DictReader([header, *lines])}
    assert not missing, f"dr_lib/report/words.csv has no Portuguese of {missing}"


def test_every_column_that_names_a_group_has_a_header():
    """A group is named by the columns in which it differs."""
    columns = {*schema.WORK, *schema.STACK, *schema.HARDWARE}
    missing = columns - style.read_headers().keys()
    assert not missing, f"dr_lib/report/words.csv has no header of {missing}"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((3, 1.2, 350), "3.0 [1.2, 350.0]"),
        ((0.9996, 0.99955, 0.99999), "0.99960 [0.99955, 0.99999]"),
        ((0.9996, 0.9, 1), "> 0.999 [0.900, 1.000]"),
        ((0.0004, 0, 0.1), "< 0.001 [0.000, 0.100]"),
        ((0.9996, np.nan, np.nan), "0.9996"),
        ((200, 200 - 1e-9, 200 + 1e-9), "200"),
        ((72.8, 44.3, 121), "73 [44, 121]"),
        ((7.22, 3.68, np.inf), "7.2 [3.7, ∞]"),
        ((0.0001, -0.2, 0.2), "0.000 [-0.200, 0.200]"),
        ((np.inf, np.nan, np.nan), "–"),
    ],
)
def test_a_bound_says_what_it_is(numbers, text):
    """A share below 1 is not 1, and a ratio may have no upper bound.

    Value and bounds share the decimals of half of the width in two digits, by hand; rounding errors
    are no interval.
    """
    assert write_interval(*numbers, "en") == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1.885e-13, None, "1,89e-13"),
        (0.99996, None, "0,99996"),
        (0.0, None, "0"),
        (0.18851, None, "0,189"),
        (0.9996, 3, "> 0,999"),
        (0.0004, 3, "< 0,001"),
        (1.0, 3, "1,000"),
        (np.nan, 3, "–"),
    ],
)
def test_a_probability_is_0_or_1_if_it_is_that(value, decimals, text):
    """A threshold of 0 would refer everybody."""
    assert write_probability(value, "pt", decimals) == text


def test_a_dollar_in_a_name_begins_no_formula():
    """Two, with what no formula may hold, in title and axis; powers of ten stay formulas."""
    figure, (ax,) = style.open_panels(1)
    figure.suptitle(name := r"5 $\no{ $ 6")
    ax.set_yticks([1, 2], [name, name])
    ax.set(xscale="log", xlim=(1, 1000))
    figure.draw_without_rendering()
    assert "mathdefault" in ax.get_xticklabels()[1].get_text()
