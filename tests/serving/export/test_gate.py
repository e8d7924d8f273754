"""The accuracy gate: hand-made tables, and what cannot be decided."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from dr_lib.errors import DrError
from dr_lib.serving.export.gate import compare


def call(grade: int, surely: float = 0.9) -> np.ndarray:
    """Five probabilities that call a grade."""
    row = np.full(5, (1 - surely) / 4, np.float32)
    row[grade] = surely
    return row


def draw(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grades, and probabilities that know something of them."""
    rng = np.random.default_rng(seed)
    grade = rng.integers(0, 5, number)
    logits = rng.normal(size=(number, 5)) + np.eye(5)[grade]
    return grade, (np.exp(logits) / np.exp(logits).sum(1, keepdims=True)).astype(np.float32)


def test_a_table_by_hand():
    """20 eyes of grade 2 and 20 of 0, all right before; after, half of the healthy ones look ill.

    AUC: 1 against the healthy ones still called so, 1/2 (a tie) against the others. Kappa: 1 - 40 /
    80, a disagreement by two grades weighing 4 and by chance 4 x (20 x 30 + 20 x 10) / 40 = 80. 30
    of 40 agree.
    """
    grade = np.repeat([0, 2], 20)
    before = np.array([call(k) for k in grade])
    after = before.copy()
    after[:10] = call(2)
    row = compare(grade, np.arange(40), before, after)
    assert (row["auc_before"], row["auc_after"], row["kappa_before"]) == (1, 0.75, 1)
    assert row["kappa_after"] == pytest.approx(0.5)
    assert row["agreement"] == row["agreement_referable"] == 0.75
    assert row["max_abs_difference"] == pytest.approx(0.9 - 0.025)
    assert (
        not row["passes"]
        and "auc changes by -0.250" in row["reason"]
        and "kappa changes by -0.500" in row["reason"]
    )
    assert row["auc_difference_low"] < -0.25 < row["auc_difference_high"] < 0


@pytest.mark.parametrize("copies", [1, 25])
def test_a_format_passes_where_the_photographs_show_it(copies):
    """One eye in forty flips to a neighbouring grade: that costs little, and 60 patients cannot
    show it, 1,500 can.

    The lower bound of the interval decides, and the reason says how many patients would tell.
    """
    grade, before = draw(60, 2)
    grade = np.tile(grade, copies)
    before = np.tile(before, (copies, 1))
    after = before.copy()
    flipped = np.arange(0, len(grade), 40)
    after[flipped] = np.roll(before[flipped], 1, axis=1)
    row = compare(grade, np.arange(len(grade)), before, after, margin=0.1)
    lows = min(row["auc_difference_low"], row["kappa_difference_low"])
    assert row["passes"] == (lows > -0.1) == (copies == 25)
    if not row["passes"]:
        assert (
            f"about {row['needed_patients']} patients would decide, here are 60"
            in row["reason"]
        )


def test_the_interval_counts_patients_and_pairs():
    """The same photographs four times of the same patients know no more. No change has none."""
    grade, before = draw(60, 2)
    _, noise = draw(60, 3)
    after = 0.7 * before + 0.3 * noise
    bounds = [
        f"{score}_difference_{side}" for score in ("auc", "kappa") for side in ("low", "high")
    ]
    once = compare(grade, np.arange(60), before, after)
    four = [np.repeat(values, 4, axis=0) for values in (grade, np.arange(60), before, after)]
    grouped = compare(*four)
    for name in bounds:
        assert grouped[name] == pytest.approx(once[name], abs=1e-12)
    assert {compare(grade, np.arange(60), before, before)[name] for name in bounds} == {0}


def test_the_threshold_decides_who_is_referred():
    """0.35 and 0.45 are one decision at 0.3 and two at 0.4, where all who were missed are found."""
    grade = np.repeat([0, 2], 20)
    before = np.tile([0.65, 0, 0.35, 0, 0], (40, 1))
    after = np.tile([0.55, 0, 0.45, 0, 0], (40, 1))
    shares = [compare(grade, np.arange(40), before, after, threshold=t) for t in (0.3, 0.4)]
    assert [row["agreement_referable"] for row in shares] == [1, 0]
    assert [row["sensitivity_before"] for row in shares] == [1, 0]
    assert [row["sensitivity_after"] for row in shares] == [1, 1]


@pytest.mark.parametrize(
    ("grade", "message"),
    [([0, 2] * 14, "28 labelled"), ([0, 1] * 20, "one class"), ([3] * 40, "one class")],
)
def test_too_few_photographs_or_one_kind_decide_nothing(grade, message):
    """Even with no change at all the artifact does not pass; nothing is called right that nobody
    could see.
    """
    before = np.array([call(k) for k in grade])
    row = compare(np.array(grade), np.arange(len(grade)), before, before)
    assert not row["passes"] and message in row["reason"] and row["warning"] == ""


@pytest.mark.parametrize("row", [[np.nan] * 5, [0.5] * 5, [1.5, -0.5, 0, 0, 0], [0.25] * 4])
def test_refuses_what_are_no_probabilities(row):
    """A broken artifact is an error, never a verdict."""
    grade, before = draw(40, 0)
    with pytest.raises(DrError, match="after: .* the artifact is broken"):
        compare(grade, np.arange(40), before, np.tile(row, (40, 1)))


def test_what_no_patient_showed_may_still_happen():
    """None of 50 healthy and 10 referable patients is answered worse: at most 3.69 are (Garwood).

    A referable patient who ranks last costs 1 / 10 of AUC. Kappa has e = 10 / 9: called grade 4, a
    healthy patient costs 16 / 60 / e = 0.24, one of grade 2 costs 0.06, mean weighed by itself
    (50 x 0.24^2 + 10 x 0.06^2) / (50 x 0.24 + 10 x 0.06) = 0.2314. What only rounds passes.
    """
    grade = np.repeat([0, 2], [50, 10])
    before = np.array([call(k) for k in grade])
    after = before.copy()
    after[0] = 0.8 * before[0] + 0.2 * call(1)
    row = compare(grade, np.arange(60), before, after, margin=0.1)
    assert (row["auc_difference"], row["kappa_difference"], row["worse_patients"]) == (0, 0, 0)
    assert row["auc_difference_low"] == pytest.approx(-0.1 * np.log(40), rel=1e-6)
    assert row["kappa_difference_low"] == pytest.approx(-0.2314 * np.log(40), rel=1e-3)
    assert row["needed_patients"] == pytest.approx(60 * 0.2314 * np.log(40) / 0.1, abs=1)
    assert "about 513 patients would decide, here are 60" in row["reason"]
    assert not row["passes"] and "0 of 60 patients get worse answers" in row["reason"]
    assert compare(grade, np.arange(60), before, before, margin=0.1)["passes"]


def test_parts_of_patients_add_up_to_what_scikit_learn_says():
    """Changes of AUC and kappa between two unlike predictions of three eyes each, and of the grades
    called anew.
    """
    grade, before = draw(600, 5)
    _, after = draw(600, 6)
    after = (after + before) / 2
    row = compare(grade, np.arange(600) // 3, before, after)
    for name, rows in (("before", before), ("after", after)):
        auc = roc_auc_score(grade >= 2, rows[:, 2:].sum(axis=1))
        kappa = cohen_kappa_score(grade, rows.argmax(axis=1), weights="quadratic")
        assert (row[f"auc_{name}"], row[f"kappa_{name}"]) == pytest.approx((auc, kappa))


def test_a_network_that_guesses_loses_nothing_and_is_named():
    """One answer for everybody passes the comparison with itself; one that knows something needs
    no such word.
    """
    grade, knows = draw(400, 4)
    guesses = np.tile(call(1), (400, 1))
    row = compare(grade, np.arange(400), guesses, guesses)
    assert row["passes"]
    assert "shown to be better than chance: its AUC is 0.50 [0.3" in row["warning"]
    assert compare(grade, np.arange(400), knows, knows)["warning"] == ""
