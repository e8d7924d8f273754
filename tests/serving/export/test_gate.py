"""The accuracy gate: hand-made tables, and what cannot be decided."""

import time

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from dr_lib.errors import DrError
from dr_lib.serving.export.gate import bound_share, check_model, compare, find_needed


def call(grade: int, surely: float = 0.9) -> np.ndarray:
    """Five probabilities that call a grade."""
    row = np.full(5, (1 - surely) / 4, np.float32)
    row[grade] = surely
    return row


def test_a_table_by_hand():
    """40 patients of two eyes, half of them referable in one eye, all right before. Two referable
    ones lose their referral and five others get one; one eye less of a patient referred by the
    other costs nothing.
    """
    grade = np.tile([0, 2, 0, 0], 20)
    patient = np.arange(80) // 2
    before = np.array([call(k) for k in grade])
    before[0] = call(2)  # both eyes of the first patient are referred
    after = before.copy()
    after[[0, 5, 9]] = call(0)
    after[[2, 6, 10, 14, 18]] = call(3)
    row = compare(grade, patient, before, after)
    assert (row["num_images"], row["num_patients"]) == (80, 40)
    assert (row["sensitivity_before"], row["sensitivity_after"]) == (1, 0.9)
    assert (row["specificity_before"], row["specificity_after"]) == (1, 0.75)
    assert row["max_abs_difference"] == pytest.approx(0.9 - 0.025)
    for name, lost in (("sensitivity", 2), ("specificity", 5)):
        _, high = proportion_confint(lost, 20, alpha=0.1, method="beta")
        assert row[f"lost_{name}_high"] == pytest.approx(high, abs=1e-9)
    assert not row["passes"]
    assert "2 of 20 rightly referred patients lose their right answer" in row["reason"]
    assert "5 of 20 rightly not referred patients" in row["reason"]
    assert row["reason"].endswith("with such a share 100,000 patients would not pass")


@pytest.mark.parametrize(("number", "passes"), [(58, False), (59, True)])
def test_without_a_loss_59_patients_of_a_kind_decide(number, passes):
    """0.95^59 is below 0.05, 0.95^58 is not: the reason names the number. What is gained makes up
    for nothing, and what moves by less than 0.01 passes with any number.
    """
    grade = np.tile([0, 2], number)
    patient = np.arange(2 * number)
    before = np.array([call(k, 0.9) for k in grade])
    after = np.array([call(k, 0.8) for k in grade])
    row = compare(grade, patient, before, after)
    assert row["passes"] == passes
    assert passes or "at least 59 such patients would be needed" in row["reason"]
    near = np.array([call(k, 0.892) for k in grade])
    assert compare(grade[:4], patient[:4], before[:4], near[:4])["passes"]
    far = np.array([call(k, 0.885) for k in grade])
    assert not compare(grade[:4], patient[:4], before[:4], far[:4])["passes"]


def test_grades_that_move_little_may_move_referable_disease_by_more():
    """0.0099 in each of two grades is 0.0198 of their sum: all who were referred are lost."""
    grade = np.repeat([0, 2], 20)
    before = np.where(grade[:, None], [0.495, 0, 0.3, 0.205, 0], [0.9, 0, 0.1, 0, 0])
    after = before + np.where(grade[:, None], [0.0099, 0.0099, -0.0099, -0.0099, 0], 0)
    row = compare(grade, np.arange(40), before, after)
    assert (row["sensitivity_before"], row["sensitivity_after"]) == (1, 0)
    assert not row["passes"] and row["max_abs_difference"] == pytest.approx(0.0198)


def test_those_whom_the_network_finds_are_what_a_format_can_lose():
    """12 of 400 are found: a format that finds none loses all of them, not 3 %."""
    grade = np.repeat([2, 0], 400)
    before = np.array([call(2)] * 12 + [call(0)] * 788)
    after = np.array([call(0)] * 788 + [call(0, 0.8)] * 12)
    row = compare(grade, np.arange(800), before, after)
    assert row["lost_sensitivity_high"] == 1 and row["lost_specificity_high"] < 0.05
    assert not row["passes"] and "12 of 12 rightly referred patients" in row["reason"]


@pytest.mark.parametrize(("threshold", "whom"), [(0.95, "none"), (0.01, "all")])
def test_a_network_that_refers_nobody_or_everybody_cannot_be_judged(threshold, whom):
    """Of 200 patients; what moves by no more than 0.01 passes nevertheless."""
    grade = np.tile([0, 2], 100)
    before = np.array([call(k) for k in grade])
    after = np.array([call(k, 0.8) for k in grade])
    row = compare(grade, np.arange(200), before, after, threshold=threshold)
    why = f"the network refers {whom} of 200 patients at its threshold of {threshold}, so what"
    assert not row["passes"] and row["reason"].startswith(why)
    assert compare(grade, np.arange(200), before, before, threshold=threshold)["passes"]


def test_a_format_that_tells_no_photographs_apart_never_passes():
    """Even if its one probability is within 0.01 of all of the network's."""
    grade = np.tile([0, 2], 100)
    before = np.array([[0.509, 0, 0.491, 0, 0], [0.491, 0, 0.509, 0, 0]] * 100)
    row = compare(grade, np.arange(200), before, np.tile([0.5, 0, 0.5, 0, 0], (200, 1)))
    assert not row["passes"]
    assert "the format gives all 200 photographs the same probability" in row["reason"]


def test_a_share_that_is_too_large_needs_no_more_patients():
    """2 of 100 may be decided by more of them, 6 of 100 never, 49 of 983 by millions."""
    more = find_needed(2, 100)
    assert bound_share(2, 100) > 0.05 and more > 100
    assert proportion_confint(np.ceil(0.02 * more), more, alpha=0.1, method="beta")[1] < 0.05
    assert find_needed(6, 100) == 0
    start = time.process_time()
    assert find_needed(49, 983) == 0 and time.process_time() - start < 2


def test_the_threshold_decides_who_is_referred():
    """0.35 and 0.45 are one decision at 0.3 and two at 0.4, where all who were missed are found."""
    grade = np.repeat([0, 2], 20)
    before = np.tile([0.65, 0, 0.35, 0, 0], (40, 1))
    after = np.tile([0.55, 0, 0.45, 0, 0], (40, 1))
    shares = [compare(grade, np.arange(40), before, after, threshold=t) for t in (0.3, 0.4)]
    assert [row["sensitivity_before"] for row in shares] == [1, 0]
    assert [row["sensitivity_after"] for row in shares] == [1, 1]
    assert [row["specificity_after"] for row in shares] == [0, 0]


@pytest.mark.parametrize("row", [[np.nan] * 5, [0.5] * 5, [1.5, -0.5, 0, 0, 0], [0.25] * 4])
def test_refuses_what_are_no_probabilities(row):
    """A broken artifact is an error, never a verdict."""
    before = np.tile(call(2), (40, 1))
    with pytest.raises(DrError, match="is broken"):
        compare(np.full(40, 2), np.arange(40), before, np.tile(row, (40, 1)))


def test_a_network_that_guesses_is_named_and_a_constant_one_refused():
    """One that knows something needs no such word; patients of one kind give none either."""
    grade = np.tile([0, 3], 100)
    knows = np.array([call(k) for k in grade])
    guesses = np.tile(np.array([call(0), call(0), call(3), call(3)]), (50, 1))
    row = compare(grade, np.arange(200), guesses, guesses)
    assert "shown to be better than chance: its AUC is 0.500 [0.4" in row["warning"]
    assert compare(grade, np.arange(200), knows, knows)["warning"] == ""
    assert compare(0 * grade, np.arange(200), guesses, guesses)["warning"] == ""
    with pytest.raises(DrError, match="all 200 photographs the same probability"):
        check_model(np.tile(call(1), (200, 1)))
    check_model(guesses)
