"""Divide patients into train, validation and test, stratified by grade."""

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import LabelTableError, name_rows

KINDS = ("random", "paper", "official")
TEST, VALIDATION = 0.30, 0.20  # of the photographs; of the patients that are not in test
NUM_DRAWS = 50


def split_patients(table: pd.DataFrame, *, seed: int, kind: str = "random") -> pd.Series:
    """Divide photographs into train, validation and test, each patient on one side, stratified by grade.

    Patients are seen in a random order, and each is chosen with the probability `share`, lowered where its grades
    are already ahead of their share and raised where they are behind (a self-balancing walk). The first of up to 50
    draws whose shares of the grades and of the whole are within one point is kept, or else the best.

    Args:
        table: columns patient and grade; for `official` also row and split. Its order does not matter.
        seed: of the draw.
        kind: random (30 % of the photographs for test, 20 % of the other patients for validation); paper (no
            validation, as in Voets et al. 2019); or official: the data set's own split, where validation is drawn out
            of train if it ships none.

    Returns:
        train, validation or test for each row, with the index of `table`.

    Raises:
        LabelTableError: a side would lack referable (grade 2 or more) or other photographs, or the set ships no
            such split, or a patient stands on both sides of it.
    """
    if kind not in KINDS:
        raise LabelTableError(f"split {kind!r}: choose from {', '.join(KINDS)}")
    _check_classes("the label table", table["grade"])
    rng = np.random.default_rng(seed)
    patient = table["patient"].astype(str)
    counts = pd.crosstab(patient, table["grade"])  # in the order of the patients' names
    if kind == "official":
        sides = _official_sides(table, patient)[counts.index]
    else:
        chosen = _draw(counts, counts.sum(axis=1), TEST, rng)
        sides = pd.Series(np.where(chosen, "test", "train"), index=counts.index)
    if kind != "paper" and not (sides == "validation").any():
        training = counts[sides == "train"]
        chosen = _draw(training, pd.Series(1, training.index), VALIDATION, rng)
        sides[training.index[chosen]] = "validation"
    split = patient.map(sides).rename("split")
    for side in ("train", "test") if kind == "paper" else ("train", "validation", "test"):
        _check_classes(f"the {side} split", table.loc[split == side, "grade"])
    return split


def _draw(counts: pd.DataFrame, amount: pd.Series, share: float, rng: np.random.Generator) -> np.ndarray:
    """Choose patients: a boolean each; `counts` are their photographs per grade, `amount` what `share` is of."""
    vectors = np.column_stack([counts, amount]).astype(float)
    whole = counts.sum() / counts.sum().sum()
    best, least = np.zeros(len(counts), bool), np.inf
    for _ in range(NUM_DRAWS):
        chosen = _choose(vectors, share, rng)
        if chosen.any():
            part = counts[chosen].sum() / counts[chosen].sum().sum()
            error = max((part - whole).abs().max(), abs(amount[chosen].sum() / amount.sum() - share))
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


def _official_sides(table: pd.DataFrame, patient: pd.Series) -> pd.Series:
    if "split" not in table or not {"train", "test"} <= set(table["split"]) or (table["split"] == "").any():
        raise LabelTableError("this data set ships no split into train and test: use random or paper")
    crossing = table.groupby(patient)["split"].transform("nunique") > 1
    if crossing.any():
        rows = name_rows(table[crossing].assign(labels="the label table"))
        raise LabelTableError(f"{rows}: the patient stands on two sides of the split; correct it, or use random")
    return table.groupby(patient)["split"].first()


def _check_classes(where: str, grades: pd.Series) -> None:
    referable = int((grades >= REFERABLE_FROM).sum())
    if referable in (0, len(grades)):
        raise LabelTableError(
            f"{where} has {referable} referable photographs (grade 2 or more) of {len(grades)}: both kinds are "
            "needed; give more photographs, or another share or seed"
        )
