"""Splits: no group stands on two sides, grades are in proportion, and the seed alone decides."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.splits import split_photographs
from dr_lib.data.labels.tables import read_labels

NO_COPIES = np.empty((0, 2), int)


def draw_table(num_patients: int, seed: int) -> pd.DataFrame:
    """Patients with one to four photographs, eyes alike, grades about as in a clinic."""
    rng = np.random.default_rng(seed)
    grades = rng.choice(5, num_patients, p=[0.5, 0.15, 0.2, 0.1, 0.05])
    rows = [
        (f"p{patient}", int(np.clip(grade + rng.integers(-1, 2) * (eye > 0), 0, 4)))
        for patient, grade in enumerate(grades)
        for eye in range(rng.integers(1, 5))
    ]
    table = pd.DataFrame(rows, columns=["patient_id", "grade"])
    number = table.index.astype(str)
    table["person"] = table["patient_id"].str[1:].astype(int)
    return table.assign(
        row=table.index + 2, image_id="i" + number, content_id="c" + number, official=""
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


def make_official(table: pd.DataFrame, is_test: pd.Series) -> None:
    """Let a data set ship a split."""
    table["official"] = np.where(is_test, "test", "train")


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
    assert (others == "validation").mean() == pytest.approx(0.20, abs=0.015)
    assert miss_shares(split, table["grade"]) <= 0.02


def test_a_split_depends_on_the_seed_and_not_on_the_pseudonyms():
    """Whoever prepares the same table with a salt of their own gets the same sides; another seed
    gives others.
    """
    table = draw_table(120, 0)
    split = divide(table, seed=3)
    names = ["image_id", "patient_id"]
    salted = table.assign(**table[names].map(lambda name: str(hash(name))))
    assert divide(salted, seed=3).equals(split)
    assert not divide(table, seed=4).equals(split)
    assert set(split["split"]) == {"train", "validation", "test"}
    assert set(divide(table, scheme="paper")["split"]) == {"train", "test"}


def test_the_official_split_is_kept_and_completed():
    """Test stays test; validation is drawn out of train only where the set ships none."""
    table = draw_table(200, 1)
    make_official(table, table["person"] < 40)
    split = divide(table, scheme="official")["split"]
    assert ((split == "test") == (table["official"] == "test")).all()
    assert "validation" in set(split)
    again = divide(table.assign(official=split), seed=9, scheme="official")["split"]
    assert (again == split).all()


def test_what_stands_on_two_official_sides_is_left_out_of_the_lesser():
    """A patient's photographs in train are excluded where others of theirs, or copies, are in
    test; test stays.
    """
    table = draw_table(200, 1)
    make_official(table, table["person"] < 60)
    original, crossing, copy = (table.index[table["person"] == k][0] for k in (3, 70, 80))
    table.loc[crossing, "official"] = "test"
    table.loc[copy, "grade"] = table.loc[original, "grade"]
    parts = divide(table, [[copy, original]], scheme="official")
    excluded = parts[parts["split"] == "excluded"]
    expected = table.index[table["person"].isin([70, 80])].drop(crossing)
    assert excluded.index.tolist() == expected.tolist()
    assert set(excluded["reason"]) == {"its patient, or a copy, is in test"}
    assert ((parts["split"] == "test") == (table["official"] == "test")).all()


def test_copies_bring_their_patients_to_one_side_and_equal_files_count_once():
    """Ten patients have a near-copy of another's photograph, ten the same file: together, and
    the later one is out. Two equal files and a chain of three near-copies, one of which differs in
    its grade, are all excluded.
    """
    table = draw_table(150, 2)
    firsts = table.drop_duplicates("patient_id").index
    ones, others = firsts[5:25], firsts[25:45]
    table.loc[others[:10], "content_id"] = table.loc[ones[:10], "content_id"].to_numpy()
    table.loc[others, "grade"] = table.loc[ones, "grade"].to_numpy()
    table.loc[:4, "grade"] = [0, 3, 1, 1, 2]
    table.loc[1, "content_id"] = table.loc[0, "content_id"]
    parts = divide(table, [*zip(ones, others, strict=True), (2, 3), (3, 4)])
    used = parts["split"][parts["split"] != "excluded"]
    group = table["person"].mask(table["person"].between(25, 44), table["person"] - 20)
    assert used.groupby(group).nunique().max() == 1
    assert parts.index.difference(used.index).tolist() == [0, 1, 2, 3, 4, *others[:10]]
    assert set(parts["reason"][:5]) == {"a copy has another grade"}
    reasons = [f"same file as row {row}" for row in table["row"][ones[:10]]]
    assert parts["reason"][others[:10]].tolist() == reasons


def test_folds_test_each_group_once():
    """Five folds: every photograph is in test once, with its group, and each has grades and size
    in proportion.
    """
    table = draw_table(150, 4)
    folds, others = (
        [
            part["split"]
            for part in split_photographs(table, NO_COPIES, scheme="folds", seed=seed)
        ]
        for seed in (1, 2)
    )
    tested = pd.concat([fold == "test" for fold in folds], axis=1)
    assert (tested.sum(axis=1) == 1).all() and tested.mean().between(0.17, 0.23).all()
    assert (tested.groupby(table["patient_id"]).nunique() == 1).all(axis=None)
    for fold in folds:
        assert set(fold) == {"train", "validation", "test"}
        assert miss_shares(fold, table["grade"]) <= 0.06
    assert not all(one.equals(other) for one, other in zip(folds, others, strict=True))


@pytest.mark.parametrize("scheme", ["random", "paper", "official"])
def test_groups_stay_where_an_earlier_split_has_them(scheme):
    """Corrected grades and patients who leave move nobody; new ones keep shares and grades in
    proportion.
    """
    table = draw_table(300, 1)
    make_official(table, table["person"] % 3 == 0)
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


def test_what_is_one_group_now_goes_to_one_side():
    """Test before validation before train: no photograph that was tested is learned from; nobody
    else moves.
    """
    table = draw_table(170, 0)
    before = divide(table)["split"]
    one, other = (before.index[before == side][0] for side in ("train", "test"))
    table.loc[one, "grade"] = table.loc[other, "grade"]
    kept = dict(zip(table["image_id"], before, strict=True))
    after = divide(table, [[one, other]], kept=kept)["split"]
    moved = after[after != before]
    assert set(table["person"][moved.index]) == {table["person"][one]}
    assert set(moved) == {"test"}


TABLE = draw_table(60, 2)
TEN = TABLE[:10].assign(grade=[0, 0, 0, 1, 1, 2, 2, 2, 3, 4])
SIX = TABLE[:6].assign(grade=[0, 0, 0, 0, 0, 4], patient_id=list("abcdef"))
PAIRS = TABLE.assign(patient_id=(TABLE.index // 2).astype(str))
PAIRS["official"] = np.where(TABLE.index % 2, "test", "train")


@pytest.mark.parametrize(
    ("table", "how", "reason"),
    [
        (TABLE, {"scheme": "official"}, "no official split"),
        (PAIRS, {"scheme": "official"}, "every patient of train is in validation or test"),
        (TABLE.assign(grade=1), {}, "the label table has 0 referable"),
        (SIX, {}, "split has .* referable photographs"),
        (TABLE, {"scheme": "folds", "folds": 61}, "60 groups, .* are too few for 61 folds"),
        (TEN, {"scheme": "folds", "folds": 4}, "4 groups, with 3 .* 4 folds: choose 2 to 3"),
        (TABLE, {"scheme": "by eye"}, "random, paper, official, folds"),
        (TABLE.assign(patient_id="p"), {}, f"all {len(TABLE)} photographs have 1 patient,"),
        (TABLE.assign(patient_id="p"), {"scheme": "paper"}, "photographs have 1 patient,"),
        (
            TABLE.assign(patient_id=(TABLE.index % 2).astype(str)),
            {},
            f"all {len(TABLE)} photographs have 2 patients,",
        ),
    ],
)
def test_unusable_splits_are_errors_that_say_so(table, how, reason):
    """No official split, one class, too few photographs, more folds than groups, a misspelt
    scheme.
    """
    with pytest.raises(LabelTableError, match=reason):
        divide(table, **how)


@pytest.mark.parametrize(
    ("name", "layout", "num_images"),
    [("odir512", "folder", 610), ("eyepacs64", "eyepacs", 2400)],
)
def test_real_data_sets_are_read_and_split(real_data, name, layout, num_images):
    """Every photograph has its label, its patient and a place in a proportionate split."""
    found = read_labels(real_data / name)
    assert (found.layout, found.patients, len(found.table)) == (
        layout,
        "from file names",
        num_images,
    )
    assert found.unusable.empty
    table = found.table.rename(columns={"patient": "patient_id", "image": "image_id"})
    split = divide(table.assign(content_id=table["image_id"]), seed=20)["split"]
    assert miss_shares(split, found.table["grade"]) <= 0.02
