"""What an evaluation says first: a table of situations."""

import pandas as pd
import pytest

from dr_lib.evaluation.answer import answer_evaluation
from dr_lib.statistics.intervals import Interval

NAN = float("nan")
GOOD = Interval(0.91, 0.87, 0.94, 61)
USELESS = Interval(0.52, 0.10, 0.92, 7)
AIMS = ["90 % sensitivity", "95 % specificity"]


def count(tp, fn, fp, tn) -> dict:
    """An operating point by patient, with bounds 10 points to each side."""
    shares = {"sensitivity": tp / max(1, tp + fn), "specificity": tn / max(1, fp + tn)}
    bounds = {f"{name}_low": value - 0.1 for name, value in shares.items()}
    bounds |= {f"{name}_high": value + 0.1 for name, value in shares.items()}
    for name, number in (("sensitivity", tp + fn), ("specificity", fp + tn)):
        bounds[f"{name}_counted"] = number if number < 30 else NAN
    return {"tp": tp, "fn": fn, "fp": fp, "tn": tn, **shares, **bounds}


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
        (  # good: of 100 by patient, at both points, sensitivity never alone
            GOOD,
            [count(54, 7, 37, 116), count(39, 22, 9, 144)],
            FINDS,
            ["Of 100 patients with the disease   89 are found [79, 99]", "0.91 [0.87, 0.94]"]
            + ["Of 100 patients without it   24 are referred needlessly [14, 34]"]
            + [
                "for 95 % specificity, of 100 patients with the disease, 64 are found [54, 74]; of"
            ],
            ["Too few", "chance:"],
        ),
        (  # useless and few: counts alone, no percentage, no "of 100"
            USELESS,
            [count(7, 0, 7, 1)],
            f"{CHANCE}0.52 [0.10, 0.92] on 214 patients.",
            ["At the threshold chosen for 90 % sensitivity, this model finds 7 of 7 patients"]
            + ["Too few patients to decide: effectively 7"],
            ["of 100", "are found"],
        ),
        (  # perfect and few: no praise
            Interval(1.0, 0.59, 1.0, 7),
            [count(7, 0, 0, 8)],
            FINDS.replace("54 of 61", "7 of 7").replace("37 of 153", "0 of 8"),
            ["Of 7 patients with the disease   7 are found", "Too few patients to decide"],
            ["of 100", "Of 100", "1.00 [1.00"],
        ),
        (  # mixed: many without the disease, few with it
            Interval(0.8, 0.6, 0.9, 12),
            [count(10, 2, 37, 116)],
            FINDS.replace("54 of 61", "10 of 12"),
            ["Of 12 patients with the disease   10 are found", "Of 100 patients without it"],
            ["Of 100 patients with the"],
        ),
        (  # nearly perfect: one missed and one alarm are not rounded away, none at all is none
            GOOD,
            [count(249, 1, 1, 299), count(250, 0, 0, 300)],
            FINDS.replace("54 of 61", "249 of 250").replace("37 of 153", "1 of 300"),
            [
                "99 are found",
                "1 are referred needlessly",
                "specificity, of 100",
                "100 are found",
            ]
            + ["0 are referred"],
            [],
        ),
        (  # every patient has one eye with the disease
            GOOD,
            [count(54, 7, 0, 0), count(39, 22, 0, 0)],
            FINDS.partition(", and")[0] + "; all patients have it.",
            ["for 95 % specificity, of 100 patients with the disease, 64 are found [54, 74]."],
            ["without it"],
        ),
        (
            USELESS,
            [count(7, 0, 0, 0)],
            f"{CHANCE}0.52 [0.10, 0.92] on 214 patients.",
            ["finds 7 of 7 patients with referable disease; all patients have it."],
            ["without it"],
        ),
        (  # without an interval nothing is shown
            Interval(0.9, NAN, NAN, 5),
            [count(5, 0, 0, 6)],
            f"{CHANCE}0.90 on 214 patients.",
            ["Too few"],
            ["of 100"],
        ),
        (
            Interval(0.2, 0.1, 0.4, 40),
            [count(3, 40, 30, 20)],
            "This model ranks photographs the",
            [],
            [],
        ),
        (
            Interval(NAN, NAN, NAN, 0),
            [count(9, 0, 0, 0)],
            "All patients are of one class",
            [],
            ["nan"],
        ),
        (
            GOOD,
            [],
            "This model ranks photographs better than chance; without an",
            [],
            ["finds"],
        ),
    ],
)
def test_an_evaluation_says_no_more_than_its_interval(auc, points, sentence, shown, absent):
    """Useless, perfect, few, mixed, one class, reversed, without a threshold."""
    told, text = answer(auc, points)
    assert told.sentence.startswith(sentence)
    assert all(words in text for words in shown) and not any(words in text for words in absent)
    assert told.is_stop == (not auc.low > 0.5)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (
            (0.70, 0.60, 0.78),
            "worse by 0.21 [0.12, 0.31]; the same threshold finds 41 of 55 patients",
        ),
        ((0.90, 0.85, 0.93), "not shown to differ: -0.01 [-0.07, 0.04]"),
        ((0.906, 0.85, 0.93), "not shown to differ: -0.004 [-0.068, 0.043]"),
        ((0.99, 0.98, 1.00), "better by 0.08 [0.05, 0.12]"),
    ],
)
def test_another_hospital_is_worse_only_by_the_interval_of_the_difference(there, words):
    """Zou and Donner's interval, by hand: 0.21 - sqrt(0.08^2 + 0.04^2) = 0.12."""
    other = dict(zip(("auc", "auc_low", "auc_high"), there, strict=True))
    other |= {"tested_on": "B", "tp": 41, "fn": 14}
    _, text = answer(GOOD, [count(54, 7, 37, 116)], others=[other])
    assert words in text and "On the data set B (AUC)" in text


def test_an_answer_is_portuguese():
    """With decimal commas."""
    _, text = answer(GOOD, [count(54, 7, 37, 116), count(39, 22, 9, 144)], lang="pt")
    assert "0,91 [0,87; 0,94]" in text and "89 são encontrados [79; 99]" in text
