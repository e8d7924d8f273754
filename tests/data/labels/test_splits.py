"""Splits: no patient stands on two sides, grades are in proportion, and the seed alone decides."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.splits import split_patients
from dr_lib.data.labels.tables import LabelTableError, read_labels


def draw_table(num_patients: int, seed: int) -> pd.DataFrame:
    """Patients with one to four photographs, eyes alike, grades about as in a clinic."""
    rng = np.random.default_rng(seed)
    grades = rng.choice(5, num_patients, p=[0.5, 0.15, 0.2, 0.1, 0.05])
    rows = [
        (f"p{patient}", int(np.clip(grade + rng.integers(-1, 2) * (eye > 0), 0, 4)))
        for patient, grade in enumerate(grades)
        for eye in range(rng.integers(1, 5))
    ]
    return pd.DataFrame(rows, columns=["patient", "grade"])


@pytest.mark.parametrize("seed", range(12))
def test_splits_keep_patients_together_and_grades_in_proportion(seed):
    """30 % of the photographs for test, 20 % of the other patients for validation, shares within two points."""
    table = draw_table(170, seed)
    split = split_patients(table, seed=seed)
    assert (split.groupby(table["patient"]).nunique() == 1).all()
    assert (split == "test").mean() == pytest.approx(0.30, abs=0.015)
    patients = split.groupby(table["patient"]).first().value_counts()
    assert patients["validation"] / (patients["train"] + patients["validation"]) == pytest.approx(0.20, abs=0.015)
    shares = pd.crosstab(split, table["grade"], normalize="index")
    assert shares.sub(table["grade"].value_counts(normalize=True)).abs().max(axis=None) <= 0.02


def test_a_split_depends_on_the_seed_and_not_on_the_order_of_rows():
    """The same table in another order is divided alike; another seed divides it otherwise."""
    table = draw_table(120, 0)
    split = split_patients(table, seed=3)
    again = split_patients(table.sample(frac=1, random_state=1), seed=3)
    pd.testing.assert_series_equal(again.sort_index(), split)
    assert (split_patients(table, seed=4) != split).any()


def test_every_patient_has_about_the_same_chance_of_being_tested():
    """Over 150 seeds no group, by photographs or by grade, is in test much more often than 30 % of the time."""
    table = draw_table(100, 5)
    tested = sum(split_patients(table, seed=seed, kind="paper") == "test" for seed in range(150)) / 150
    assert tested.min() > 0.15 and tested.max() < 0.50
    number = table.groupby("patient")["grade"].transform("size")
    for group in (number, table["grade"]):
        assert tested.groupby(group).mean().between(0.25, 0.37).all()


def test_the_paper_split_has_no_validation():
    """70/30, as the papers did it."""
    assert set(split_patients(draw_table(100, 0), seed=0, kind="paper")) == {"train", "test"}


def test_the_official_split_is_kept_and_completed():
    """Test stays test; validation is drawn out of train only where the set ships none."""
    table = draw_table(200, 1).assign(row=lambda t: t.index + 2)
    number = table["patient"].str[1:].astype(int)
    table["split"] = np.where(number < 40, "test", "train")
    split = split_patients(table, seed=0, kind="official")
    assert ((split == "test") == (table["split"] == "test")).all() and "validation" in set(split)
    table["split"] = split
    pd.testing.assert_series_equal(split_patients(table, seed=9, kind="official"), table["split"])


def test_unusable_splits_are_errors_that_say_so():
    """A patient on two sides, no official split, one class, too few photographs, a misspelt kind."""
    table = draw_table(60, 2).assign(row=lambda t: t.index + 2, split="")
    with pytest.raises(LabelTableError, match="ships no split"):
        split_patients(table, seed=0, kind="official")
    alternating = table.assign(split=np.where(table.index % 2, "train", "test"))
    with pytest.raises(LabelTableError, match=r"rows \d+, .* two sides"):
        split_patients(alternating, seed=0, kind="official")
    with pytest.raises(LabelTableError, match="the label table has 0 referable"):
        split_patients(table.assign(grade=1), seed=0)
    with pytest.raises(LabelTableError, match="split has .* referable photographs"):
        split_patients(pd.DataFrame({"patient": list("abcdef"), "grade": [0, 0, 0, 0, 0, 4]}), seed=0)
    with pytest.raises(LabelTableError, match="random, paper, official"):
        split_patients(table, seed=0, kind="by eye")


@pytest.mark.parametrize(("name", "layout", "num_images"), [("odir512", "folder", 610), ("eyepacs64", "eyepacs", 2400)])
def test_real_data_sets_are_read_and_split(real_data, name, layout, num_images):
    """Every photograph has its label, its patient and a place in a proportionate split."""
    found = read_labels(real_data / name)
    assert (found.layout, found.patients, len(found.table)) == (layout, "from file names", num_images)
    assert found.unusable.empty
    split = split_patients(found.table, seed=20)
    shares = pd.crosstab(split, found.table["grade"], normalize="index")
    assert shares.sub(found.table["grade"].value_counts(normalize=True)).abs().max(axis=None) <= 0.02
