"""What figures and tables share: words in both languages, numbers as they are read, points by
run.
"""

import ast
import csv
from pathlib import Path

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

from dr_lib.data.labels.readers import ALONE, RULES
from dr_lib.numbers import write_interval, write_probability
from dr_lib.report import limits, style
from dr_lib.report.papers import PAPERS
from dr_lib.report.select import (
    ALIKE,
    EQUAL,
    EXCLUSIONS,
    FEW_SESSIONS,
    MANY_OUTLIERS,
    NULL,
    OF_BOTH,
    OF_DEFAULTS,
    OF_EQUAL,
    OF_FLOAT32,
    OF_MODELS,
    OF_STACK,
    WARMTH,
    WITHIN,
    WITHIN_NULL,
)
from dr_lib.report.training_time import LIMITS, SCALED
from dr_lib.training.metrics import UNLEARNED
from tests.conftest import ABSENT

ROOT = Path(__file__).resolve().parents[2]
# called with an English sentence
SPEAKERS = "say state title heading section note figure table answer".split()


def list_words_of_rooms() -> set[str]:
    """The words in the tables of those rooms that are here."""
    words = set()
    if "claims" not in ABSENT:
        from dr_lib.rooms.claims.claims import read_judged
        from dr_lib.rooms.claims.page import WORDINGS
        from dr_lib.rooms.claims.verdicts import VERDICTS

        words |= {claim.place for claim in read_judged() if claim.wording != "reading"}
        words |= {*WORDINGS.values(), *VERDICTS}
    if "evaluation" not in ABSENT:
        from dr_lib.rooms.evaluation import checklist, committee, curves, flow, points, readers
        from dr_lib.rooms.evaluation.predictions import SUBGROUPS

        words |= {
            *flow.STAGES,
            *points.POINTS,
            *points.ERRORS,
            *points.REASONS,
            *curves.CALIBRATED,
        }
        words |= {*readers.KINDS, *readers.VERDICTS, *SUBGROUPS, "left", "right"}
        words |= {*committee.AIMS.values(), *committee.NOT_FOR, *committee.UNKNOWN}
        words |= {"female", "male"}
        words |= {*checklist.METHODS, *checklist.METHODS.values()}
        items = Path(checklist.__file__).with_name("checklist.csv")
        with items.open(encoding="utf-8") as file:
            words |= {row["topic"] for row in csv.DictReader(file) if row["fact"]}
    if "explain" not in ABSENT:
        from dr_lib.rooms.explain.figures import TITLES

        words |= {*TITLES}
    if "mnist" not in ABSENT:
        from dr_lib.rooms.mnist.epochs import IMPLEMENTATIONS

        words |= {*IMPLEMENTATIONS.values()}
    if "scenarios" not in ABSENT:
        from dr_lib.rooms.scenarios.figures import METERS

        words |= {*METERS.values()}
    if "serving" not in ABSENT:
        from dr_lib.rooms.serving.endpoint import DOUBTS, REASONS

        words |= {*DOUBTS, *REASONS}
    return words


def find_sentences() -> set[str]:
    """Every sentence that the figures and the analysis notebooks say, with the words of their
    tables.
    """
    sentences = {
        *style.read_headers().values(),
        *(paper.authors for paper in PAPERS.values()),
        *list_words_of_rooms(),
    }
    sentences |= {
        *style.FACTOR_NAMES.values(),
        style.SAMPLE,
        style.IMAGES,
    }
    sentences |= {
        "framework",
        "network",
        "accelerator",
        "environment",
        "reference",
        "Figure",
        "Table",
    }
    sentences |= {
        *EXCLUSIONS.values(),
        *WARMTH.values(),
        *LIMITS,
        *OF_MODELS.values(),
        *(ALIKE, OF_BOTH, OF_DEFAULTS, OF_EQUAL, OF_FLOAT32, OF_STACK),
        EQUAL,
        FEW_SESSIONS,
        MANY_OUTLIERS,
        UNLEARNED,
        *RULES,
        ALONE,
        NULL,
        WITHIN,
        WITHIN_NULL,
        "sensitivity",
        "specificity",
    }
    sentences |= {*limits.PARTS.values(), limits.UNKNOWN, "arithmetic", "launches"}
    names = ("answer", "figures", "limits", "means", "page", "style")
    drawing = [ROOT / f"dr_lib/report/{name}.py" for name in names]
    drawing += ROOT.glob("dr_lib/rooms/*/figures.py")
    drawing += ROOT.glob("dr_lib/rooms/*/answer.py")
    drawing += ROOT.glob("dr_lib/rooms/*/committee.py")
    drawing += ROOT.glob("dr_lib/rooms/*/page.py")
    for path in [*drawing, *ROOT.glob("notebooks/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in (
                "words",
                "legend",
            ):
                sentences |= {
                    leaf.value for leaf in [node.value] if isinstance(leaf, ast.Constant)
                }
            function = (
                ast.unparse(node.func).split(".")[-1] if isinstance(node, ast.Call) else ""
            )
            if function in SPEAKERS:  # of a figure and a table the caption
                start = {"figure": 2, "table": 2, "answer": 3}.get(function, 0)
                args = node.args[start:]
                for arg in args:
                    halves = [arg.body, arg.orelse] if isinstance(arg, ast.IfExp) else [arg]
                    texts = [half.value for half in halves if isinstance(half, ast.Constant)]
                    sentences |= {text for text in texts if isinstance(text, str)}
    return {sentence for sentence in sentences if sentence and sentence not in PAPERS}


def test_every_sentence_has_its_portuguese_and_none_is_left_over():
    """A report in Portuguese has no English in its figures and tables, and the table of words
    holds nothing unused.
    """
    with (ROOT / "dr_lib/report/words.csv").open(encoding="utf-8") as file:
        known = [row["english"] for row in csv.DictReader(file)]
    assert len(known) == len(set(known))
    assert find_sentences() - set(known) == set()
    assert set(known) - find_sentences() == set() or ABSENT


def test_what_sets_machines_apart_has_a_header():
    """Whatever a study of several machines varies, its table can be shown."""
    assert set(SCALED) <= style.read_headers().keys()


def test_a_language_without_words_is_refused():
    """The message names those that there are."""
    with pytest.raises(ValueError, match="lang='de': choose en or pt"):
        style.choose_words("de")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((np.inf, 3.4187, np.inf), "∞ [3.42, ∞]"),
        ((3, 1.2, 350), "3.0 [1.2, 350.0]"),
        ((0.9996, 0.99955, 0.99999), "0.99960 [0.99955, 0.99999]"),
        ((0.9996, 0.9, 1), "> 0.999 [0.900, 1.000]"),
        ((0.0004, 0, 0.1), "< 0.001 [0.000, 0.100]"),
        ((0.9996, 0.9, 1.1), "1.00 [0.90, 1.10]"),
        ((0.9996, np.nan, np.nan), "0.9996"),
        ((200, 200 - 1e-9, 200 + 1e-9), "200"),
        ((3.52e-31, np.nan, np.nan), "0"),
        ((5.37, 5.24, 5.5), "5.37 [5.24, 5.50]"),
        ((72.8, 44.3, 121), "73 [44, 121]"),
        ((3, 2, np.nan), "3.00 [2.00, –]"),
        ((7.22, 3.68, 1.44e22), "7.2 [3.7, ∞]"),
        ((0.278, 1.6e-6, 1), "0.278 [0.000, 1.000]"),
        ((0.0001, -0.2, 0.2), "0.000 [-0.200, 0.200]"),
        ((1 - 1e-12, 0.9, 1), "1.000 [0.900, 1.000]"),
        ((0.85, 0.8, 0.896), "0.850 [0.800, 0.896]"),
        ((np.nan, 0, np.inf), "– [0, ∞]"),
        ((np.inf, np.nan, np.nan), "–"),
    ],
)
def test_a_bound_says_what_it_is(numbers, text):
    """A ratio without a false alarm is infinite above its lower bound; a share below 1 is not 1.

    Value and bounds share the decimals of half of the width in two digits, by hand; rounding errors
    are no interval.
    """
    assert write_interval(*numbers, "en") == text


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1.885e-13, None, "1,89e-13"),
        (5e-300, None, "5e-300"),
        (0.0000645, None, "0,0000645"),
        (0.99996, None, "0,99996"),
        (0.0, None, "0"),
        (0.18851, None, "0,189"),
        (0.9996, 3, "> 0,999"),
        (0.0004, 3, "< 0,001"),
        (1.0, 3, "1,000"),
        (0.0, 3, "0,000"),
        (0.8, 3, "0,800"),
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


def test_a_notebook_shows_a_figure_that_ends_a_cell():
    """With IPython's own formatter, to which no pyplot has shown how."""
    figure, _ = style.open_panels(1)
    data, _ = DisplayFormatter().format(figure)
    assert data["image/png"].startswith(b"\x89PNG")
