"""Split groups of patients into train, validation and test, or into folds, stratified by grade."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.groups import unite
from dr_lib.data.labels.schema import SIDES
from dr_lib.errors import DrError

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
        table: columns image_id, content_id (equal for equal files), patient_id, grade and, for
            `official`, official, which is the data set's own side.
        pairs: (n, 2) int, the places in the table of two photographs that show nearly the same
            picture.
        scheme: random (30 % of the photographs for test, 20 % of the other groups for validation);
            paper (no validation); official (validation is drawn out of train if there is none; a
            group on two sides keeps the photographs of one, test before validation before train);
            or folds, of which each is test once, drawn one after the other.
        seed: of the draw.
        folds: number of folds.
        kept: of an earlier split of the same scheme, which is no folds: sides by KNOWN_BY.

    Returns:
        A table, or one for each fold: image_id, group, split (train, validation, test or excluded),
        and the reason why a photograph is excluded.

    Raises:
        DrError: a side would lack referable (grade 2 or more) or other photographs, or the data set
            has no split of its own.
    """
    if scheme not in SCHEMES or folds < 2:
        raise DrError(
            f"scheme {scheme!r}: choose from {', '.join(SCHEMES)}; folds are 2 or more"
        )
    table = table.assign(group=unite(table["patient_id"], pairs), reason="")
    if scheme == "official":
        _keep_one_side(table)
    _keep_one_copy(table, pairs)
    used = table[table["reason"] == ""]
    # in the order of the table: pseudonyms have no part in the draw
    groups = used["group"].unique()
    counts = pd.crosstab(used["group"], used["grade"]).loc[groups]
    order = pd.CategoricalDtype(SIDES, ordered=True)
    before = find_sides(used, kept).astype(order).groupby(used["group"]).max()[groups]
    rng = np.random.default_rng(seed)
    if scheme == "official":
        divided = [used.groupby("group")["official"].first()[groups]]
    else:
        shares = [1 / left for left in range(folds, 0, -1)] if scheme == "folds" else [0.30]
        divided = _draw_tests(counts, shares, before, rng)
    wanted = ("train", "test") if scheme == "paper" else SIDES
    return [_complete(table, counts, sides, wanted, before, rng) for sides in divided]


def _keep_one_side(table: pd.DataFrame) -> None:
    """Exclude photographs whose group has photographs on a later side of the official split."""
    if not {"train", "test"} <= {*table["official"]} <= {*SIDES}:
        raise DrError(
            "this data set has no official split into train and test: use random or paper"
        )
    rank = table["official"].map(SIDES.index)
    is_earlier = rank < rank.groupby(table["group"]).transform("max")
    table.loc[is_earlier, "reason"] = "its patient, or a copy, is in validation or test"


def _keep_one_copy(table: pd.DataFrame, pairs: np.ndarray) -> None:
    """Exclude copies with different grades, and all but the first of identical files."""
    picture = unite(table["content_id"], pairs)
    is_unlike = table.groupby(picture)["grade"].transform("nunique") > 1
    table.loc[is_unlike, "reason"] = "a copy has another grade"
    used = table[table["reason"] == ""]
    again = used.index[used["content_id"].duplicated()]
    table.loc[again, "reason"] = "the same file is in an earlier row"


def find_sides(table: pd.DataFrame, sides: Mapping[str, str]) -> pd.Series:
    """Find each photograph's side in an earlier split; NaN for a new one."""
    side = table[KNOWN_BY[0]].map(sides)
    for column in KNOWN_BY[1:]:
        side = side.fillna(table[column].map(sides))
    return side


def _draw_tests(
    counts: pd.DataFrame, shares: Sequence[float], before: pd.Series, rng: np.random.Generator
) -> list[pd.Series]:
    """Draw test sides, each with its share of the photographs that are in none before it."""
    divided = []
    left = counts
    for share in shares:
        chosen = _draw(left, left.sum(axis=1), share, "test", before, rng)
        tested = left.index[chosen]
        sides = np.where(counts.index.isin(tested), "test", "train")
        divided.append(pd.Series(sides, counts.index))
        left = left.drop(tested)
    return divided


def _complete(
    table: pd.DataFrame,
    counts: pd.DataFrame,
    sides: pd.Series,
    wanted: Sequence[str],
    before: pd.Series,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Draw a validation side if one is wanted and missing, and make the table of a split."""
    if "validation" in {*wanted} - {*sides}:
        training = counts[sides == "train"]
        chosen = _draw(training, 1, 0.20, "validation", before, rng)
        sides[training.index[chosen]] = "validation"
    split = table["group"].map(sides).where(table["reason"] == "", "excluded")
    for side in wanted:
        grades = table.loc[split == side, "grade"]
        referable = int((grades >= REFERABLE_FROM).sum())
        if referable in (0, len(grades)):
            excluded = table.loc[split == "excluded", "reason"].value_counts().to_dict()
            raise DrError(
                f"the {side} split has {referable} referable photographs (grade 2 or more) of"
                f" {len(grades)}: each side needs referable and other photographs, of patients of"
                f" its own, and there are {len(counts)}, counting those who share a photograph as"
                f" one; excluded: {excluded}. Add photographs, leave the patient empty where it is"
                " unknown, or choose another --scheme (or, with split, another --seed or fewer"
                " --folds)"
            )
    return table.assign(split=split)[["image_id", "group", "split", "reason"]]


def _draw(
    counts: pd.DataFrame,
    amount: pd.Series | int,
    share: float,
    side: str,
    before: pd.Series,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose groups for a side: one boolean each.

    Args:
        counts: their photographs per grade.
        amount: what `share` is of.
        share: to be chosen.
        side: test or validation.
        before: of all groups, where one is settled, its side; else NaN.
        rng: where chance comes from.
    """
    vectors = counts.assign(amount=amount).to_numpy(float)
    total = vectors.sum(axis=0)
    whole = total[:-1] / max(total[:-1].sum(), 1)
    is_referable = counts.columns >= REFERABLE_FROM
    before = before[counts.index]
    is_new = before.isna().to_numpy()
    best = np.zeros(len(counts), bool)
    least = np.inf
    for _ in range(50):  # draws
        chosen = (before == side).to_numpy(bool, copy=True)
        # what was chosen, less its share of what was seen
        ahead = (chosen[~is_new] - share) @ vectors[~is_new]
        for i in rng.permutation(np.flatnonzero(is_new)):
            vector = vectors[i]
            chosen[i] = rng.random() < share - 2 * (ahead @ vector) / (vector @ vector)
            ahead += (chosen[i] - share) * vector
        part = vectors[chosen].sum(axis=0)
        if chosen.any():
            grades = part[:-1] / part[:-1].sum()
            gaps = np.append(grades - whole, part[-1] / total[-1] - share)
            is_mixed = 0 < grades[is_referable].sum() < 1 - 1e-9  # both kinds are needed
            error = np.abs(gaps).max() + (not is_mixed)
            best, least = (chosen, error) if error < least else (best, least)
        if least <= 0.01:
            break
    return best
