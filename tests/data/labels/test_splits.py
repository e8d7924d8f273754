"""Splits: no group stands on two sides, grades are in proportion, and the seed alone decides."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.splits import split_photographs
from dr_lib.data.labels.tables import LabelTableError, read_labels

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
    return table.assign(
        row=table.index + 2, image_id="i" + number, content_id="c" + number, official=""
    )


def divide(table: pd.DataFrame, **how) -> pd.Series:
    """The sides of photographs without copies."""
    (parts,) = split_photographs(table, NO_COPIES, **how)
    assert parts["image_id"].tolist() == table["image_id"].tolist()
    return parts["split"].set_axis(table.index)


@pytest.mark.parametrize("seed", range(4))
def test_splits_keep_patients_together_and_grades_in_proportion(seed):
    """30 % of the photographs for test, 20 % of the other patients for validation, shares within
    two points.
    """
    table = draw_table(170, seed)
    split = divide(table, seed=seed)
    assert (split.groupby(table["patient_id"]).nunique() == 1).all()
    assert (split == "test").mean() == pytest.approx(0.30, abs=0.015)
    patients = split.groupby(table["patient_id"]).first().value_counts()
    assert patients["validation"] / (
        patients["train"] + patients["validation"]
    ) == pytest.approx(0.20, abs=0.015)
    shares = pd.crosstab(split, table["grade"], normalize="index")
    assert shares.sub(table["grade"].value_counts(normalize=True)).abs().max(axis=None) <= 0.02


def test_a_split_depends_on_the_seed_and_not_on_the_pseudonyms():
    """Whoever prepares the same table with a salt of their own gets the same sides; another seed
    gives others.
    """
    table = draw_table(120, 0)
    split = divide(table, seed=3)
    salted = table.assign(
        **{name: table[name].map(hash).astype(str) for name in ("image_id", "patient_id")}
    )
    assert (divide(salted, seed=3) == split).all()
    assert (divide(table, seed=4) != split).any()
    assert set(split) == {"train", "validation", "test"} and set(
        divide(table, scheme="paper")
    ) == {
        "train",
        "test",
    }


@pytest.mark.slow
def test_every_patient_has_about_the_same_chance_of_being_tested():
    """Over 150 seeds no group, by photographs or by grade, is in test much more often than 30 %
    of the time.
    """
    table = draw_table(100, 5)
    tested = (
        sum(divide(table, seed=seed, scheme="paper") == "test" for seed in range(150)) / 150
    )
    assert tested.min() > 0.15 and tested.max() < 0.50
    number = table.groupby("patient_id")["grade"].transform("size")
    for group in (number, table["grade"]):
        assert tested.groupby(group).mean().between(0.25, 0.37).all()


def test_the_official_split_is_kept_and_completed():
    """Test stays test; validation is drawn out of train only where the set ships none."""
    table = draw_table(200, 1)
    table["official"] = np.where(table["patient_id"].str[1:].astype(int) < 40, "test", "train")
    split = divide(table, scheme="official")
    assert ((split == "test") == (table["official"] == "test")).all() and "validation" in set(
        split
    )
    assert (divide(table.assign(official=split), seed=9, scheme="official") == split).all()


def test_what_stands_on_two_official_sides_is_left_out_of_the_lesser():
    """A patient's photographs in train are excluded where others of theirs, or copies, are in
    test; test stays.
    """
    table = draw_table(200, 1)
    table["official"] = np.where(table["patient_id"].str[1:].astype(int) < 60, "test", "train")
    crossing = table.index[table["patient_id"] == "p70"][0]
    table.loc[crossing, "official"] = "test"
    copy = table.index[table["patient_id"] == "p80"][0]
    original = table.index[table["patient_id"] == "p3"][0]
    table.loc[copy, "grade"] = table.loc[original, "grade"]
    (parts,) = split_photographs(table, np.array([[copy, original]]), scheme="official")
    excluded = parts.index[parts["split"] == "excluded"]
    assert set(excluded) == set(table.index[table["patient_id"].isin(["p70", "p80"])]) - {
        crossing
    }
    assert set(parts["reason"][excluded]) == {"its patient, or a copy, is in test"}
    assert ((parts["split"] == "test") == (table["official"] == "test")).all()


def test_copies_bring_their_patients_to_one_side_and_equal_files_count_once():
    """Ten patients have a near-copy of another's photograph, ten the same file: together, and
    the later one is out.
    """
    table = draw_table(150, 2)
    firsts = table.drop_duplicates("patient_id").index
    pairs = np.column_stack([firsts[:20], firsts[20:40]])
    equal = pairs[:10]
    table.loc[equal[:, 1], "content_id"] = table.loc[equal[:, 0], "content_id"].to_numpy()
    table.loc[pairs[:, 1], "grade"] = table.loc[pairs[:, 0], "grade"].to_numpy()
    (parts,) = split_photographs(table, pairs)
    used = parts[parts["split"] != "excluded"]
    assert (used["split"].groupby(table["patient_id"]).nunique() == 1).all()
    for one, other in pairs:
        patients = table.loc[[one, other], "patient_id"]
        assert used["split"][table["patient_id"].isin(patients)].nunique() == 1
    assert set(parts.index[parts["split"] == "excluded"]) == set(equal[:, 1])
    assert parts["reason"][equal[:, 1]].tolist() == [
        f"same file as row {row}" for row in table["row"][equal[:, 0]]
    ]


def test_copies_with_two_grades_are_excluded():
    """Two equal files and a chain of three near-copies, one of which differs: all five, and nobody
    else; a new split of an older folder goes on without them.
    """
    table = draw_table(150, 2).assign(official="")
    table.loc[:5, "grade"] = [0, 3, 1, 1, 2, 0]
    table.loc[1, "content_id"] = table.loc[0, "content_id"]
    (parts,) = split_photographs(table, np.array([[2, 3], [3, 4]]))
    assert parts.index[parts["split"] == "excluded"].tolist() == [0, 1, 2, 3, 4]
    assert set(parts["reason"][:5]) == {"a copy has another grade"}


def test_folds_test_each_group_once():
    """Five folds: every photograph is in test once, with its group, and each has grades and size
    in proportion.
    """
    table = draw_table(150, 4)
    folds = split_photographs(table, NO_COPIES, scheme="folds", folds=5, seed=1)
    tested = pd.concat([fold["split"] == "test" for fold in folds], axis=1)
    assert (tested.sum(axis=1) == 1).all()
    by_patient = tested.groupby(table["patient_id"].to_numpy()).nunique()
    assert (by_patient == 1).all(axis=None)
    assert tested.mean().between(0.17, 0.23).all()
    for fold in folds:
        shares = pd.crosstab(fold["split"], table["grade"], normalize="index")
        assert set(shares.index) == {"train", "validation", "test"}
        assert (
            shares.sub(table["grade"].value_counts(normalize=True)).abs().max(axis=None) <= 0.06
        )
    again = split_photographs(table, NO_COPIES, scheme="folds", folds=5, seed=2)
    assert any((one != other).any(axis=None) for one, other in zip(folds, again, strict=True))


@pytest.mark.parametrize("scheme", ["random", "paper", "official"])
def test_groups_stay_where_an_earlier_split_has_them(scheme):
    """Corrected grades and patients who leave move nobody; new ones keep shares and grades in
    proportion.
    """
    table = draw_table(300, 1)
    table["official"] = np.where(table["patient_id"].str[1:].astype(int) % 3, "train", "test")
    is_old = table["patient_id"].str[1:].astype(int) < 200
    (before,) = split_photographs(table[is_old], NO_COPIES, scheme=scheme)
    kept = dict(zip(before["image_id"], before["split"], strict=True))
    regraded = table.assign(
        grade=table["grade"].where(table.index % 7 > 0, (table["grade"] + 1) % 5)
    )
    regraded = regraded[regraded["patient_id"] != "p5"]
    (after,) = split_photographs(regraded, NO_COPIES, scheme=scheme, kept=kept)
    was = after["image_id"].map(kept)
    assert (after["split"] == was)[was.notna()].all()
    assert (after["split"].groupby(regraded["patient_id"].to_numpy()).nunique() == 1).all()
    assert (after["split"] == "test").mean() == pytest.approx(
        (was.dropna() == "test").mean(), abs=0.04
    )
    shares = pd.crosstab(
        after["split"].to_numpy(), regraded["grade"].to_numpy(), normalize="index"
    )
    whole = regraded["grade"].value_counts(normalize=True)
    assert shares.sub(whole).abs().max(axis=None) <= 0.08


def test_what_is_one_group_now_goes_to_one_side():
    """Test before validation before train: no photograph that was tested is learned from; nobody
    else moves.
    """
    table = draw_table(170, 0)
    (before,) = split_photographs(table, NO_COPIES)
    kept = dict(zip(before["image_id"], before["split"], strict=True))
    one, other = (before.index[before["split"] == side][0] for side in ("train", "test"))
    table.loc[one, "grade"] = table.loc[other, "grade"]
    (after,) = split_photographs(table, np.array([[one, other]]), kept=kept)
    moved = after["split"] != before["split"]
    assert set(table["patient_id"][moved]) == {table["patient_id"][one]} and set(
        after["split"][moved]
    ) == {"test"}


def test_unusable_splits_are_errors_that_say_so():
    """No official split, one class, too few photographs, more folds than groups, a misspelt
    scheme.
    """
    table = draw_table(60, 2)
    with pytest.raises(LabelTableError, match="no official split"):
        divide(table, scheme="official")
    with pytest.raises(LabelTableError, match="the label table has 0 referable"):
        divide(table.assign(grade=1))
    with pytest.raises(LabelTableError, match="split has .* referable photographs"):
        divide(table[:6].assign(grade=[0, 0, 0, 0, 0, 4], patient_id=list("abcdef")))
    with pytest.raises(LabelTableError, match="60 groups, .* are too few for 61 folds"):
        divide(table, scheme="folds", folds=61)
    ten = table[:10].assign(grade=[0, 0, 0, 1, 1, 2, 2, 2, 3, 4])
    with pytest.raises(LabelTableError, match="4 groups, with 3 .* 4 folds: choose 2 to 3"):
        divide(ten, scheme="folds", folds=4)
    with pytest.raises(LabelTableError, match="random, paper, official, folds"):
        divide(table, scheme="by eye")
    for scheme, patients in (
        ("random", "1 patient,"),
        ("paper", "1 patient,"),
        ("random", "2 p"),
    ):
        few = table.assign(patient_id="p" + (table.index % int(patients[0])).astype(str))
        with pytest.raises(
            LabelTableError, match=f"all {len(table)} photographs have {patients}"
        ):
            divide(few, scheme=scheme)
    halves = table.assign(patient_id="p" + (table.index // 2).astype(str))
    halves = halves.assign(official=np.where(table.index % 2, "test", "train"))
    with pytest.raises(
        LabelTableError, match="every patient of train is in validation or test"
    ):
        divide(halves, scheme="official")


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
    split = divide(table.assign(content_id=table["image_id"]), seed=20)
    shares = pd.crosstab(split, found.table["grade"], normalize="index")
    assert (
        shares.sub(found.table["grade"].value_counts(normalize=True)).abs().max(axis=None)
        <= 0.02
    )
