"""What an evaluation says first: a table of situations."""

import pandas as pd
import pytest

from dr_lib.evaluation.answer import answer_evaluation
from dr_lib.evaluation.points import freeze_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.report.page import Page
from dr_lib.statistics.intervals import Interval
from tests.report.predictions import draw_predictions, write

GOOD = Interval(0.91, 0.87, 0.94, 61)
USELESS = Interval(0.52, 0.10, 0.92, 7)


def count(tp, fn, fp, tn) -> dict:
    """An operating point by patient, with bounds 10 points to each side from 30 patients on."""
    row = {"point": "high sensitivity", "tp": tp, "fn": fn, "fp": fp, "tn": tn}
    row |= {"fn_unscored": 0, "left_out": 0}
    for name, right, number in (("sensitivity", tp, tp + fn), ("specificity", tn, fp + tn)):
        share = right / number if number >= 30 else float("nan")
        row |= Interval(share, share - 0.1, share + 0.1, number).columns(name)
    return row


def answer(auc, points, others=(), lang="en"):
    """The answer of an evaluation, and all that it says."""
    summary = {**auc.columns("auc"), "rarer_patients": auc.n, "num_patients": 214}
    tables = pd.DataFrame(points), pd.DataFrame(others)
    said = answer_evaluation(pd.Series(summary, dtype=object), *tables, Page(lang=lang))
    numbers = [" ".join(map(str, number[:4])) for number in said.numbers]
    return said, "\n".join([said.sentence, *numbers, *said.more, *said.limits])


FINDS = (
    "At high sensitivity, this model finds {} of {} patients with referable disease, and refers {} "
    "of {} patients without it needlessly."
)
CHANCE = "The model has not been shown to be better than chance: its AUC is "


@pytest.mark.parametrize(
    ("auc", "points", "sentence", "shown", "absent"),
    [
        (  # good: sensitivity never alone
            GOOD,
            [count(54, 7, 37, 116), count(39, 22, 9, 144)],
            FINDS.format(54, 61, 37, 153),
            [
                "● 89 of 100 (79 to 99) are found",
                "0.910 [0.870, 0.940]",
                "● 76 of 100 (66 to 86)",
            ],
            ["Too few", "chance:"],
        ),
        (  # useless and few: counts alone
            USELESS,
            [count(7, 0, 7, 1)],
            f"{CHANCE}0.520 [0.100, 0.920] on 214 patients.",
            [FINDS.format(7, 7, 7, 8), "Too few patients to decide: effectively 7"],
            ["of 100"],
        ),
        (  # one missed and one alarm are not rounded away, nor is a bound
            GOOD,
            [count(249, 1, 1, 299) | {"sensitivity_low": 0.9955, "sensitivity_high": 0.9990}],
            FINDS.format(249, 250, 1, 300),
            ["● 99 of 100 (99 to 99) are found"],
            [],
        ),
        (Interval(0.2, 0.1, 0.4, 40), [], "This model ranks photographs the wrong way", [], []),
        (GOOD, [], "This model ranks photographs better than chance; without", [], ["finds"]),
        (GOOD, [count(9, 0, 9, 0)], "At high sensitivity, this model refers everyb", [], []),
    ],
)
def test_an_evaluation_says_no_more_than_its_interval(auc, points, sentence, shown, absent):
    """Useless, perfect, few, reversed, without a threshold, or referring everybody."""
    said, text = answer(auc, points)
    assert said.sentence.startswith(sentence)
    assert all(words in text for words in shown) and not any(words in text for words in absent)
    assert said.is_stop == (not auc.low > 0.5)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ((0.70, 0.60, 0.78), "pior em 0,210 [0,121; 0,314]"),
        ((0.90, 0.85, 0.93), "não foi mostrado que difere: -0,010 [-0,068; 0,040]"),
    ],
)
def test_another_hospital_is_worse_only_by_the_interval_of_the_difference(there, words):
    """Zou and Donner's interval, by hand: 0.21 - sqrt(0.08^2 + 0.04^2) = 0.121."""
    other = Interval(*there, 0).columns("auc") | {"tested_on": "B"}
    _, text = answer(GOOD, [count(54, 7, 37, 116)], [other], "pt")
    assert words in text and "89 de 100 (79 a 99)" in text


@pytest.mark.parametrize(
    ("lang", "begins", "name"),
    [
        (
            "en",
            "At the threshold given by you, 0.9, this",
            "the threshold given by you, 0.9001",
        ),
        ("pt", "Com o limiar dado por você, 0,9, este", "o limiar dado por você, 0,9001"),
    ],
)
def test_a_threshold_that_was_given_is_not_called_sensitive(tmp_path, lang, begins, name):
    """Nobody has shown that it is: it has the value that was given, to the last digit."""
    (model,) = read_predictions(write(tmp_path, draw_predictions(), "a"))
    (points,) = freeze_points([model], thresholds="0.9,0.9001", lang=lang)
    measured = measure_points(model, points)
    said, text = answer(GOOD, measured[:2], lang=lang)
    assert said.sentence.startswith(begins) and name in text
