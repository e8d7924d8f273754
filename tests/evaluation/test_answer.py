"""What an evaluation says first: a table of situations."""

import pandas as pd
import pytest

from dr_lib.evaluation.answer import answer_evaluation
from dr_lib.statistics.intervals import Interval

NAN = float("nan")
GOOD = Interval(0.91, 0.87, 0.94, 61)
USELESS = Interval(0.52, 0.10, 0.92, 7)
AIMS = ["chosen for 90 % sensitivity", "chosen for 95 % specificity"]


def count(tp, fn, fp, tn) -> dict:
    """An operating point by patient, with bounds 10 points to each side from 30 patients on."""
    row = {"tp": tp, "fn": fn, "fp": fp, "tn": tn, "fn_unscored": 0, "left_out": 0}
    for name, right, number in (("sensitivity", tp, tp + fn), ("specificity", tn, fp + tn)):
        share = right / number if number >= 30 else NAN
        row |= {name: share, f"{name}_low": share - 0.1, f"{name}_high": share + 0.1}
    return row


def answer(auc, points, num_patients=214, others=(), lang="en"):
    """The answer of an evaluation, and all that it says."""
    summary = {**auc.columns("auc"), "rarer_patients": auc.n, "num_patients": num_patients}
    tables = pd.DataFrame(points), AIMS, pd.DataFrame(others)
    told = answer_evaluation(pd.Series(summary, dtype=object), *tables, lang)
    numbers = [" ".join(map(str, number[:4])) for number in told.numbers]
    return told, "\n".join([told.sentence, *numbers, *told.more, *told.limits])


FINDS = (
    "At the threshold chosen for 90 % sensitivity, this model finds 54 of 61 patients with "
    "referable disease, and refers 37 of 153 patients without it needlessly."
)
CHANCE = "The model has not been shown to be better than chance: its AUC is "


@pytest.mark.parametrize(
    ("auc", "points", "sentence", "shown", "absent"),
    [
        (  # good: of 100 by patient, sensitivity never alone
            GOOD,
            [count(54, 7, 37, 116), count(39, 22, 9, 144)],
            FINDS,
            [
                "Of 100 patients with the disease   89 are found [79, 99]",
                "0.910 [0.870, 0.940]",
                "Of 100 patients without it   24 are referred needlessly [14, 34]",
                "for 95 % specificity, this model finds 39 of 61",
            ],
            ["Too few", "chance:"],
        ),
        (  # useless and few: counts alone, no percentage, no "of 100"
            USELESS,
            [count(7, 0, 7, 1)],
            f"{CHANCE}0.520 [0.100, 0.920] on 214 patients.",
            [
                "At the threshold chosen for 90 % sensitivity, this model finds 7 of 7 patients",
                "Too few patients to decide: effectively 7",
            ],
            ["of 100", "are found"],
        ),
        (  # what finds all by referring all is no praise
            USELESS,
            [count(25, 0, 40, 0)],
            CHANCE,
            ["chosen for 90 % sensitivity, this model refers everybody."],
            ["25 of 25"],
        ),
        (  # perfect and few: counts, and no interval
            Interval(1.0, NAN, NAN, 7),
            [count(7, 0, 0, 8)],
            f"{CHANCE}1 on 214 patients.",
            ["finds 7 of 7", "Too few patients to decide"],
            ["of 100", "Of 100"],
        ),
        (  # many without the disease, few with it
            Interval(0.8, 0.6, 0.9, 12),
            [count(10, 2, 37, 116)],
            FINDS.replace("54 of 61", "10 of 12"),
            ["Of 100 patients without it"],
            ["Of 100 patients with the"],
        ),
        (  # one missed and one alarm are not rounded away
            GOOD,
            [count(249, 1, 1, 299)],
            FINDS.replace("54 of 61", "249 of 250").replace("37 of 153", "1 of 300"),
            ["99 are found", "1 are referred needlessly"],
            [],
        ),
        (  # a bound is rounded as its value is
            GOOD,
            [count(997, 3, 1, 299) | {"sensitivity_low": 0.9955, "sensitivity_high": 0.9990}],
            FINDS.replace("54 of 61", "997 of 1000").replace("37 of 153", "1 of 300"),
            ["99 are found [99, 99]"],
            [],
        ),
        (
            Interval(0.2, 0.1, 0.4, 40),
            [count(3, 40, 30, 20)],
            "This model ranks photographs the wrong way round",
            [],
            [],
        ),
        (GOOD, [], "This model ranks photographs better than chance; without", [], ["finds"]),
    ],
)
def test_an_evaluation_says_no_more_than_its_interval(auc, points, sentence, shown, absent):
    """Useless, perfect, few, mixed, reversed, without a threshold."""
    told, text = answer(auc, points)
    assert told.sentence.startswith(sentence)
    assert all(words in text for words in shown) and not any(words in text for words in absent)
    assert told.is_stop == (not auc.low > 0.5)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ((0.70, 0.60, 0.78), "worse by 0.210 [0.121, 0.314]"),
        ((0.90, 0.85, 0.93), "not shown to differ: -0.010 [-0.068, 0.040]"),
        ((0.99, 0.98, 1.00), "better by 0.080 [0.048, 0.121]"),
    ],
)
def test_another_hospital_is_worse_only_by_the_interval_of_the_difference(there, words):
    """Zou and Donner's interval, by hand: 0.21 - sqrt(0.08^2 + 0.04^2) = 0.121."""
    other = dict(zip(("auc", "auc_low", "auc_high"), there, strict=True))
    _, text = answer(GOOD, [count(54, 7, 37, 116)], others=[other | {"tested_on": "B"}])
    assert words in text and "On the data set B (AUC)" in text


def test_an_answer_is_portuguese():
    """With decimal commas."""
    _, text = answer(GOOD, [count(54, 7, 37, 116), count(39, 22, 9, 144)], lang="pt")
    assert "0,910 [0,870; 0,940]" in text and "89 são encontrados [79; 99]" in text
