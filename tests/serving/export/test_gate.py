"""The accuracy gate: hand-made tables, and what cannot be decided."""

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
    assert "2 of 20 referable patients lose their right answer" in row["reason"]
    assert "5 of 20 other patients" in row["reason"]


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


def test_a_share_that_is_too_large_needs_no_more_patients():
    """2 of 100 may be decided by more of them, 6 of 100 never."""
    more = find_needed(2, 100)
    assert bound_share(2, 100) > 0.05 and more > 100
    assert proportion_confint(np.ceil(0.02 * more), more, alpha=0.1, method="beta")[1] < 0.05
    assert find_needed(6, 100) == 0


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
