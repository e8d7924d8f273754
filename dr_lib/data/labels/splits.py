"""Split groups of patients into train, validation and test, or into folds, stratified by grade."""

import warnings
from collections.abc import Mapping

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.groups import unite
from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.schema import SIDES

# what a photograph is known by in another split, the surest first
KNOWN_BY = ("image_id", "patient_id", "content_id")
SCHEMES = ("random", "paper", "official", "folds")


def split_photographs(
    table: pd.DataFrame,
    pairs: np.ndarray,
    *,
    scheme: str = "random",
    seed: int = 0,
    folds: int = 5,
    kept: Mapping[str, str] = {},  # noqa: B006
) -> list[pd.DataFrame]:
    """Split photographs, stratified by grade, with each group on one side.

    A group is the patients whom copies of photographs connect. Groups are seen in a random order,
    and each is chosen with the probability `share`, lowered where its grades are already ahead of
    their share and raised where they are behind (a self-balancing walk). The first of up to 50
    draws whose shares of the grades and of the whole are within one point is kept, or else the
    best. The same table and seed give the same split, whatever the pseudonyms.

    Groups that an earlier split knows stay where they are, and new ones are drawn beside them. What
    was on two sides and is one group now is on one: test before validation before train.

    Args:
        table: columns row, image_id, content_id (equal for equal files), patient_id, grade and, for
            `official`, official, which is the data set's own side.
        pairs: (n, 2) int, the places in the table of two photographs that show nearly the same
            picture.
        scheme: random (30 % of the photographs for test, 20 % of the other groups for validation);
            paper (no validation); official (validation is drawn out of train if there is none; a
            group on two sides keeps the photographs of one, test before validation before train);
            or folds, of which each is test once.
        seed: of the draw.
        folds: number of folds.
        kept: of an earlier split of the same scheme, which is no folds: sides by KNOWN_BY.

    Returns:
        A table, or one for each fold: image_id, group, split (train, validation, test or excluded),
        and the reason why a photograph is excluded.

    Raises:
        LabelTableError: there are fewer groups than sides or folds, a side would lack referable
            (grade 2 or more) or other photographs, or the data set has no usable split of its own.
    """
    if scheme not in SCHEMES:
        raise LabelTableError(f"scheme {scheme!r}: choose from {', '.join(SCHEMES)}")
    _check_classes("the label table", table["grade"])
    table = table.assign(group=unite(table["patient_id"], pairs), reason="")
    if scheme == "official":
        table = _keep_one_side(table)
    table = _keep_one_copy(table, pairs)
    used = table[table["reason"] == ""]
    # in the order of the table: pseudonyms have no part in the draw
    groups = pd.Index(used["group"].unique())
    if len(groups) < (2 if scheme == "paper" else 3) and scheme != "folds":
        raise LabelTableError(
            f"all {len(used)} photographs have {len(groups)} patient{'s'[: len(groups) > 1]}, "
            "counting those who share a photograph as one: each side of the split needs its own. "
            "Where the patient is unknown, leave the cell empty"
        )
    counts = pd.crosstab(used["group"], used["grade"]).loc[groups]
    rng = np.random.default_rng(seed)
    before = _find_group_sides(used, groups, kept)
    if scheme == "official":
        divided = [used.groupby("group")["official"].first()[groups]]
    elif scheme == "folds":
        divided = _draw_folds(used, groups, folds, seed)
    else:
        is_test = before.map({"train": 0.0, "validation": 0.0, "test": 1.0})
        chosen = _draw(counts, counts.sum(axis=1), 0.30, rng, is_test)
        divided = [pd.Series(np.where(chosen, "test", "train"), groups)]
    return [
        _complete(table, counts, sides, before, rng, with_validation=scheme != "paper")
        for sides in divided
    ]


def _keep_one_side(table: pd.DataFrame) -> pd.DataFrame:
    """Exclude photographs whose group has photographs on a later side of the official split."""
    if not {"train", "test"} <= set(table["official"]) or (table["official"] == "").any():
        raise LabelTableError(
            "this data set has no official split into train and test: use random or paper"
        )
    rank = table["official"].map(SIDES.index)
    greatest = rank.groupby(table["group"]).transform("max")
    if (greatest[table["official"] == "train"] > 0).all():
        raise LabelTableError(
            "every patient of train is in validation or test too, so the official split leaves "
            "nothing to train on: use random or paper"
        )
    reasons = [f"its patient, or a copy, is in {SIDES[side]}" for side in greatest]
    return table.assign(reason=np.where(rank < greatest, reasons, ""))


def _keep_one_copy(table: pd.DataFrame, pairs: np.ndarray) -> pd.DataFrame:
    """Exclude copies with different grades, and all but the first of identical files."""
    picture = unite(table["content_id"], pairs)
    is_unlike = table.groupby(picture)["grade"].transform("nunique") > 1
    is_free = table["reason"] == ""
    table.loc[is_free & is_unlike, "reason"] = "a copy has another grade"
    used = table[table["reason"] == ""]
    first = "same file as row " + used.groupby("content_id")["row"].transform("first").astype(
        str
    )
    copies = first[used["content_id"].duplicated()]
    table.loc[copies.index, "reason"] = copies
    return table


def find_sides(table: pd.DataFrame, sides: Mapping[str, str]) -> pd.Series:
    """Find each photograph's side in an earlier split; NaN for a new one."""
    side = table[KNOWN_BY[0]].map(sides)
    for column in KNOWN_BY[1:]:
        side = side.fillna(table[column].map(sides))
    return side


def _find_group_sides(
    used: pd.DataFrame, groups: pd.Index, sides: Mapping[str, str]
) -> pd.Series:
    """Find each group's side in an earlier split, the latest of several; NaN for a new group."""
    side = find_sides(used, sides)
    rank = side.map({side: rank for rank, side in enumerate(SIDES)})
    return rank.groupby(used["group"]).max()[groups].map(dict(enumerate(SIDES)))


def _draw_folds(used: pd.DataFrame, groups: pd.Index, folds: int, seed: int) -> list[pd.Series]:
    # of a rarer grade a fold may have none; scikit-learn asks for one grade that fills them all
    commonest = used["grade"].value_counts().max()
    most = min(len(groups), commonest)
    if not 2 <= folds <= most:
        raise LabelTableError(
            f"{len(groups)} groups, with {commonest} photographs of the commonest grade, are too"
            f" few for {folds} folds: choose 2 to {most}"
        )
    folding = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    # the names of groups are pseudonyms, which must not decide
    parts = folding.split(used, used["grade"], pd.Categorical(used["group"], groups).codes)
    with warnings.catch_warnings():
        # a grade rarer than the folds; `_complete` checks what counts
        warnings.simplefilter("ignore", UserWarning)
        tested = [set(used["group"].iloc[test]) for _, test in parts]
    return [pd.Series(np.where(groups.isin(test), "test", "train"), groups) for test in tested]


def _complete(
    table: pd.DataFrame,
    counts: pd.DataFrame,
    sides: pd.Series,
    before: pd.Series,
    rng: np.random.Generator,
    *,
    with_validation: bool,
) -> pd.DataFrame:
    """Draw a validation side if one is needed and missing, and make the table of a split."""
    if with_validation and not (sides == "validation").any():
        training = counts[sides == "train"]
        is_validation = before[training.index].map({"train": 0.0, "validation": 1.0})
        chosen = _draw(training, pd.Series(1, training.index), 0.20, rng, is_validation)
        sides[training.index[chosen]] = "validation"
    split = table["group"].map(sides).where(table["reason"] == "", "excluded")
    for side in SIDES if with_validation else ("train", "test"):
        _check_classes(f"the {side} split", table.loc[split == side, "grade"])
    return table.assign(split=split)[["image_id", "group", "split", "reason"]]


def _draw(
    counts: pd.DataFrame,
    amount: pd.Series,
    share: float,
    rng: np.random.Generator,
    kept: pd.Series,
) -> np.ndarray:
    """Choose groups: one boolean each.

    Args:
        counts: their photographs per grade.
        amount: what `share` is of.
        share: to be chosen.
        rng: where chance comes from.
        kept: 1 and 0 where it is settled, NaN where it is to be drawn.
    """
    vectors = np.column_stack([counts, amount]).astype(float)
    grades = vectors[:, :-1]
    amounts = vectors[:, -1]
    is_referable = counts.columns >= REFERABLE_FROM
    whole = grades.sum(axis=0) / grades.sum()
    best = np.zeros(len(counts), bool)
    least = np.inf
    for _ in range(50):  # draws
        chosen = _choose(vectors, share, rng, kept.to_numpy(float))
        if chosen.any():
            part = grades[chosen].sum(axis=0) / grades[chosen].sum()
            error = max(
                np.abs(part - whole).max(), abs(amounts[chosen].sum() / amounts.sum() - share)
            )
            error += not 0 < part[is_referable].sum() < 1 - 1e-9  # both kinds are needed
            best, least = (chosen, error) if error < least else (best, least)
        if least <= 0.01:
            break
    return best


def _choose(
    vectors: np.ndarray, share: float, rng: np.random.Generator, kept: np.ndarray
) -> np.ndarray:
    chosen = kept == 1
    is_new = np.isnan(kept)
    # what was chosen, less its share of what was seen
    ahead = (kept[~is_new] - share) @ vectors[~is_new]
    for i in rng.permutation(np.flatnonzero(is_new)):
        vector = vectors[i]
        chosen[i] = rng.random() < share - 2 * (ahead @ vector) / (vector @ vector)
        ahead += (chosen[i] - share) * vector
    return chosen


def _check_classes(where: str, grades: pd.Series) -> None:
    referable = int((grades >= REFERABLE_FROM).sum())
    if referable in (0, len(grades)):
        raise LabelTableError(
            f"{where} has {referable} referable photographs (grade 2 or more) of {len(grades)}:"
            " each side needs referable and other photographs; add photographs, or choose "
            "another --scheme (or, with split, another --seed)"
        )
