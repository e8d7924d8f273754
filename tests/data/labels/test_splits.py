"""Splits: no group stands on two sides, grades are in proportion, and the seed alone decides."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.groups import unite
from dr_lib.data.labels.splits import split_photographs
from dr_lib.errors import DrError

NO_COPIES = np.empty((0, 2), int)


def draw_table(num_patients: int, seed: int) -> pd.DataFrame:
    """Patients with one to four photographs, grades about as in a clinic; a third is of the data
    set's own test side.
    """
    rng = np.random.default_rng(seed)
    person = np.repeat(range(num_patients), rng.integers(1, 5, num_patients))
    grades = rng.choice(5, num_patients, p=[0.5, 0.15, 0.2, 0.1, 0.05])
    table = pd.DataFrame({"person": person, "grade": grades[person]})
    number = table.index.astype(str)
    return table.assign(
        patient_id="p" + table["person"].astype(str),
        image_id="i" + number,
        content_id="c" + number,
        official=np.where(person % 3, "train", "test"),
    )


def divide(table: pd.DataFrame, pairs=NO_COPIES, **how) -> pd.DataFrame:
    """The sides of photographs, and the reasons why some have none."""
    (parts,) = split_photographs(table, np.array(pairs), **how)
    assert parts["image_id"].tolist() == table["image_id"].tolist()
    return parts.set_index(table.index)[["split", "reason"]]


def miss_shares(split: pd.Series, grades: pd.Series) -> float:
    """By how much a grade's share of a side differs from its share of all, at most."""
    shares = pd.crosstab(split, grades, normalize="index")
    return shares.sub(grades.value_counts(normalize=True)).abs().max(axis=None)


def test_a_chain_of_copies_is_one_group():
    """By hand: c-d, d-a makes a, c and d one group, b stays alone; a group has the first name of
    its patients.
    """
    patients = pd.Series([*"dacbad"])
    assert unite(patients, np.array([[2, 0], [5, 4]])).tolist() == [*"aaabaa"]


@pytest.mark.parametrize("seed", range(4))
def test_splits_keep_patients_together_and_grades_in_proportion(seed):
    """30 % of the photographs for test, 20 % of the other patients for validation, shares within
    two points.
    """
    table = draw_table(170, seed)
    split = divide(table, seed=seed)["split"]
    sides = split.groupby(table["patient_id"])
    assert (sides.nunique() == 1).all()
    assert (split == "test").mean() == pytest.approx(0.30, abs=0.015)
    others = sides.first()[sides.first() != "test"]
    assert (others == "validation").mean() == pytest.approx(0.20, abs=0.02)
    assert miss_shares(split, table["grade"]) <= 0.02


def test_a_split_depends_on_the_seed_and_not_on_the_pseudonyms():
    """Whoever prepares the same table with a salt of their own gets the same sides."""
    table = draw_table(120, 0)
    split = divide(table, seed=3)
    names = ["image_id", "patient_id"]
    salted = table.assign(**table[names].map(lambda name: str(hash(name))))
    assert divide(salted, seed=3).equals(split)
    assert not divide(table, seed=4).equals(split)
    assert set(divide(table, scheme="paper")["split"]) == {"train", "test"}


def test_the_official_split_is_kept_and_completed():
    """Validation is drawn out of train. A patient's photographs in train are excluded where others
    of theirs, or copies, are in test.
    """
    table = draw_table(200, 1)
    original, crossing, copy = (table.index[table["person"] == k][0] for k in (3, 70, 80))
    table.loc[crossing, "official"] = "test"
    table.loc[copy, "grade"] = table.loc[original, "grade"]
    parts = divide(table, [[copy, original]], scheme="official")
    excluded = parts[parts["split"] == "excluded"]
    expected = table.index[table["person"].isin([70, 80])].drop(crossing)
    assert excluded.index.tolist() == expected.tolist()
    assert set(excluded["reason"]) == {"its patient, or a copy, is in validation or test"}
    assert ((parts["split"] == "test") == (table["official"] == "test")).all()
    assert (parts["split"] == "validation").sum() > 20


def test_folds_test_each_group_once():
    """Every photograph is in test once, with its group, and each fold has grades and size in
    proportion.
    """
    table = draw_table(150, 4)
    folds = split_photographs(table, NO_COPIES, scheme="folds", seed=1)
    tested = pd.concat([fold["split"] == "test" for fold in folds], axis=1)
    assert (tested.sum(axis=1) == 1).all() and tested.mean().between(0.17, 0.23).all()
    assert (tested.groupby(table["patient_id"]).nunique() == 1).all(axis=None)
    for fold in folds:
        assert set(fold["split"]) == {"train", "validation", "test"}
        assert miss_shares(fold["split"], table["grade"]) <= 0.06


@pytest.mark.parametrize("scheme", ["random", "paper", "official"])
def test_groups_stay_where_an_earlier_split_has_them(scheme):
    """Corrected grades and patients who leave move nobody; new ones keep shares and grades in
    proportion.
    """
    table = draw_table(300, 1)
    before = divide(table[table["person"] < 200], scheme=scheme)["split"]
    is_regraded = table.index % 7 == 0
    regraded = table.assign(grade=table["grade"].mask(is_regraded, (table["grade"] + 1) % 5))
    regraded = regraded[regraded["person"] != 5]
    kept = dict(zip(table["image_id"], before, strict=False))
    after = divide(regraded, scheme=scheme, kept=kept)["split"]
    was = before.reindex(after.index).dropna()
    assert (after[was.index] == was).all()
    assert after.groupby(regraded["patient_id"]).nunique().max() == 1
    assert (after == "test").mean() == pytest.approx((was == "test").mean(), abs=0.04)
    assert miss_shares(after, regraded["grade"]) <= 0.08


TABLE = draw_table(60, 2)
PAIRS = TABLE.assign(official=np.where(TABLE.index % 2, "test", "train"))
PAIRS["patient_id"] = (TABLE.index // 2).astype(str)


@pytest.mark.parametrize(
    ("table", "how", "reason"),
    [
        (TABLE.assign(official=""), {"scheme": "official"}, "no official split"),
        (
            PAIRS,
            {"scheme": "official"},
            "train split has 0 .*'its patient, or a copy, is in val",
        ),
        (TABLE, {"scheme": "folds", "folds": 0}, "folds are 2 or more"),
        (
            TABLE,
            {"scheme": "folds", "folds": 61},
            "test split has .*there are 60, .*fewer --folds",
        ),
        (TABLE.assign(patient_id="p"), {}, "split has 0 referable .* there are 1, counting"),
    ],
)
def test_unusable_splits_are_errors_that_say_so(table, how, reason):
    """With what to do."""
    with pytest.raises(DrError, match=reason):
        divide(table, **how)
