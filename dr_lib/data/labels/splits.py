"""Divide groups of patients into train, validation and test, or into folds, stratified by grade."""

import warnings

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.groups import unite
from dr_lib.data.labels.label_files import LabelTableError

SCHEMES = ("random", "paper", "official", "folds")
SIDES = ("train", "validation", "test")
TEST, VALIDATION = 0.30, 0.20  # of the photographs; of the groups that are not in test
NUM_DRAWS = 50


def split_photographs(
    table: pd.DataFrame, pairs: np.ndarray, *, scheme: str = "random", seed: int = 0, folds: int = 5
) -> list[pd.DataFrame]:
    """Divide photographs into train, validation and test, each group on one side, stratified by grade.

    A group is the patients whom copies of photographs connect. Groups are seen in a random order, and each is chosen
    with the probability `share`, lowered where its grades are already ahead of their share and raised where they are
    behind (a self-balancing walk). The first of up to 50 draws whose shares of the grades and of the whole are within
    one point is kept, or else the best. The same table and seed give the same split, whatever the pseudonyms.

    Args:
        table: columns row, image_id, content_id (equal for equal files), patient_id, grade and, for `official`,
            official, which is the data set's own side.
        pairs: (n, 2) int, the places in the table of two photographs that show nearly the same picture.
        scheme: random (30 % of the photographs for test, 20 % of the other groups for validation); paper (no
            validation); official (validation is drawn out of train if there is none; a group on two sides keeps the
            photographs of one, test before validation before train); or folds, of which each is test once.
        seed: of the draw.
        folds: number of folds.

    Returns:
        A table, or one for each fold: image_id, group, split (train, validation, test or excluded), and the reason why
        a photograph is excluded.

    Raises:
        LabelTableError: equal files have two grades, a side would lack referable (grade 2 or more) or other
            photographs, there are fewer groups than folds, or the data set has no split of its own.
    """
    if scheme not in SCHEMES:
        raise LabelTableError(f"scheme {scheme!r}: choose from {', '.join(SCHEMES)}")
    _check_classes("the label table", table["grade"])
    table = table.assign(group=unite(table["patient_id"], pairs), reason="")
    if scheme == "official":
        table = _keep_one_side(table)
    table = _keep_one_copy(table)
    used = table[table["reason"] == ""]
    groups = pd.Index(used["group"].unique())  # in the order of the table: pseudonyms have no part in the draw
    counts = pd.crosstab(used["group"], used["grade"]).loc[groups]
    rng = np.random.default_rng(seed)
    if scheme == "official":
        divided = [used.groupby("group")["official"].first()[groups]]
    elif scheme == "folds":
        divided = _draw_folds(used, groups, folds, seed)
    else:
        chosen = _draw(counts, counts.sum(axis=1), TEST, rng)
        divided = [pd.Series(np.where(chosen, "test", "train"), groups)]
    return [_complete(table, counts, sides, rng, with_validation=scheme != "paper") for sides in divided]


def _keep_one_side(table: pd.DataFrame) -> pd.DataFrame:
    """Exclude what shares its group with photographs on a greater side of the official split."""
    if not {"train", "test"} <= set(table["official"]) or (table["official"] == "").any():
        raise LabelTableError("this data set ships no split into train and test: use random or paper")
    rank = table["official"].map(SIDES.index)
    greatest = rank.groupby(table["group"]).transform("max")
    reasons = [f"its patient, or a copy, is in {SIDES[side]}" for side in greatest]
    return table.assign(reason=np.where(rank < greatest, reasons, ""))


def _keep_one_copy(table: pd.DataFrame) -> pd.DataFrame:
    """Exclude all but the first of equal files; name all that have another grade."""
    used = table[table["reason"] == ""]
    first = used.groupby("content_id")[["row", "grade"]].transform("first")
    differing = used["grade"] != first["grade"]
    if differing.any():
        pairs = zip(first["row"][differing], used["row"][differing], strict=True)
        raise LabelTableError(
            f"{differing.sum()} photographs are the same file as another with another grade: rows "
            f"{', '.join(f'{one} and {other}' for one, other in pairs)}. Correct them, or take one of each pair out"
        )
    copies = used.index[used["content_id"].duplicated()]
    table.loc[copies, "reason"] = [f"same file as row {row}" for row in first.loc[copies, "row"]]
    return table


def _draw_folds(used: pd.DataFrame, groups: pd.Index, folds: int, seed: int) -> list[pd.Series]:
    if not 2 <= folds <= len(groups):
        raise LabelTableError(f"{len(groups)} groups make no {folds} folds: ask for 2 to {len(groups)}")
    folding = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    # the names of groups are pseudonyms, which must not decide
    parts = folding.split(used, used["grade"], pd.Categorical(used["group"], groups).codes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a grade rarer than the folds; `_complete` checks what counts
        tested = [set(used["group"].iloc[test]) for _, test in parts]
    return [pd.Series(np.where(groups.isin(test), "test", "train"), groups) for test in tested]


def _complete(
    table: pd.DataFrame, counts: pd.DataFrame, sides: pd.Series, rng: np.random.Generator, *, with_validation: bool
) -> pd.DataFrame:
    """Draw validation where it is wanted and not there, and make the table of a split."""
    if with_validation and not (sides == "validation").any():
        training = counts[sides == "train"]
        chosen = _draw(training, pd.Series(1, training.index), VALIDATION, rng)
        sides[training.index[chosen]] = "validation"
    split = table["group"].map(sides).where(table["reason"] == "", "excluded")
    for side in SIDES if with_validation else ("train", "test"):
        _check_classes(f"the {side} split", table.loc[split == side, "grade"])
    return table.assign(split=split)[["image_id", "group", "split", "reason"]]


def _draw(counts: pd.DataFrame, amount: pd.Series, share: float, rng: np.random.Generator) -> np.ndarray:
    """Choose patients: a boolean each; `counts` are their photographs per grade, `amount` what `share` is of."""
    vectors = np.column_stack([counts, amount]).astype(float)
    grades, amounts, is_referable = vectors[:, :-1], vectors[:, -1], counts.columns >= REFERABLE_FROM
    whole = grades.sum(axis=0) / grades.sum()
    best, least = np.zeros(len(counts), bool), np.inf
    for _ in range(NUM_DRAWS):
        chosen = _choose(vectors, share, rng)
        if chosen.any():
            part = grades[chosen].sum(axis=0) / grades[chosen].sum()
            error = max(np.abs(part - whole).max(), abs(amounts[chosen].sum() / amounts.sum() - share))
            error += not 0 < part[is_referable].sum() < 1 - 1e-9  # both kinds are needed
            best, least = (chosen, error) if error < least else (best, least)
        if least <= 0.01:
            break
    return best


def _choose(vectors: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    chosen = np.zeros(len(vectors), bool)
    ahead = np.zeros(vectors.shape[1])  # what was chosen, less its share of what was seen
    for i in rng.permutation(len(vectors)):
        vector = vectors[i]
        chosen[i] = rng.random() < share - 2 * (ahead @ vector) / (vector @ vector)
        ahead += (chosen[i] - share) * vector
    return chosen


def _check_classes(where: str, grades: pd.Series) -> None:
    referable = int((grades >= REFERABLE_FROM).sum())
    if referable in (0, len(grades)):
        raise LabelTableError(
            f"{where} has {referable} referable photographs (grade 2 or more) of {len(grades)}: both kinds are "
            "needed; give more photographs, or another share or seed"
        )
