"""The accuracy gate: hand-made tables, and what cannot be decided."""

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from dr_lib.errors import DrError
from dr_lib.serving.export.gate import compare


def call(grades, surely: float = 0.9) -> np.ndarray:
    """Five probabilities for each photograph, which call its grade."""
    return np.where(np.eye(5)[np.ravel(grades)] == 1, surely, (1 - surely) / 4)


def test_a_table_by_hand():
    """40 patients of two eyes, half of them referable in one eye, all right before. Two referable
    ones lose their referral and five others get one; one eye less of a patient referred by the
    other costs nothing.
    """
    grade = np.tile([0, 2, 0, 0], 20)
    patient = np.arange(80) // 2
    before = call(grade)
    before[0] = call(2)  # both eyes of the first patient are referred
    after = before.copy()
    after[0] = call(0)
    after[[5, 9]] = call(0)
    after[[2, 7, 10, 15, 18]] = call(2)
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


KINDS = np.tile([0, 2], 100)  # 200 photographs, half of them referable
SURE = call(KINDS)
LESS = call(KINDS, 0.8)  # moves by more than 0.01, and loses nobody
# 0.0099 in each of two grades is 0.0198 of their sum: all who were referred are lost
NEAR = np.where(KINDS[:, None], [0.495, 0, 0.3, 0.205, 0], [0.9, 0, 0.1, 0, 0])
SUMMED = NEAR + np.where(KINDS[:, None], [0.0099, 0.0099, -0.0099, -0.0099, 0], 0)
ALIKE = np.array([[0.509, 0, 0.491, 0, 0], [0.491, 0, 0.509, 0, 0]] * 100)
CASES = {  # before, after, threshold, a part of the reason; none where it passes
    "59 of a kind": (SURE[:118], LESS[:118], 0.5, ""),
    "58 of a kind": (SURE[:116], LESS[:116], 0.5, "at least 59 such patients"),
    "moves by 0.008": (SURE[:4], call(KINDS[:4], 0.892), 0.5, ""),
    "moves by 0.015": (SURE[:4], call(KINDS[:4], 0.885), 0.5, "at least 59"),
    "two grades move": (NEAR, SUMMED, 0.5, "100 of 100 rightly referred"),
    "refers nobody": (SURE, LESS, 0.96, "refers none of 200 patients at its threshold of"),
    "refers everybody": (SURE, LESS, 0.01, "refers all of 200 patients"),
    "constant": (ALIKE, ALIKE[:1].repeat(200, 0), 0.5, "all 200 photographs"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_format_passes_if_it_moves_or_loses_little(name):
    """0.95^59 is below 0.05, 0.95^58 is not: without a loss 59 patients of a kind decide."""
    before, after, threshold, reason = CASES[name]
    patient = np.arange(len(before))
    row = compare(KINDS[: len(before)], patient, before, after, threshold=threshold)
    assert row["passes"] == (not reason) and reason in row["reason"], row


@pytest.mark.parametrize("row", [[np.nan] * 5, [0.5] * 5, [1.5, -0.5, 0, 0, 0]])
def test_refuses_what_are_no_probabilities(row):
    """A broken artifact is an error, never a verdict."""
    with pytest.raises(DrError, match="gives no probabilities"):
        compare(KINDS, np.arange(200), SURE, np.tile(row, (200, 1)))


def test_a_network_that_guesses_is_named():
    """One that knows something needs no such word."""
    guesses = call(np.tile([0, 0, 2, 2], 50))
    row = compare(KINDS, np.arange(200), guesses, guesses)
    assert "shown to be better than chance: its AUC is 0.500 [0.4" in row["warning"]
    assert compare(KINDS, np.arange(200), SURE, SURE)["warning"] == ""
