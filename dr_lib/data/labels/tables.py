"""The label table: read it, match it with the photographs, check it, split it by patient."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.datasets import Layout
from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.label_files import (
    LabelTableError,
    find_files,
    find_sources,
    match_photographs,
    name_rows,
    read_rows,
)

KINDS = ("random", "paper", "official")
NUM_DRAWS = 50
UNKNOWN = (
    "The label table does not name the patient of every photograph; each of the others counts as a patient of its own, "
    "so fellow eyes may stand on both sides of a split."
)


class Labels(NamedTuple):
    """A data set's photographs with their labels, and what had to be left out.

    `table` has one row per photograph: row (line of the label file, its header being line 1; a data set with
    several label files counts in each), image (path), patient, eye (left, right or empty), grade (0-4) and
    split (train, validation, test; empty where the set ships no division). `unusable` has row (0: the
    photograph has no label), image and reason. `patients` is known, from file names or unknown. `notices`
    are sentences to show the user.
    """

    table: pd.DataFrame
    unusable: pd.DataFrame
    layout: str
    patients: str
    notices: list[str]


def read_labels(images: Path, labels: Path | None = None, *, layout: str = "auto") -> Labels:
    """Read the labels of a folder of photographs, or of a known data set, without opening a picture.

    A CSV has the columns image and grade, and patient, eye and split where known; `image` may lack its suffix
    or its folder, and differ in suffix and case from the file. Without a patient column patient and eye come
    from the file names if all are like 10_left.jpg.

    Args:
        images: folder of the photographs, or root of a data set; photographs may lie in subfolders.
        labels: the label file; None looks for those of a known layout, or a CSV as above, under `images`.
        layout: name of a layout (see `layouts`), or auto.

    Returns:
        The labels; photographs in them are in the order of the label file.

    Raises:
        LabelTableError: something does not fit; the message names label file and rows, never a photograph.
    """
    images = Path(images)
    if not images.is_dir():
        raise LabelTableError(f"there is no folder {images}: give the folder that holds the photographs")
    if labels is not None and not Path(labels).is_file():
        raise LabelTableError(f"there is no label file {labels}: give a CSV with the columns image and grade")
    photographs, label_files = find_files(images)
    label_files = label_files if labels is None else [Path(labels)]
    root = images.resolve().name
    places = {folder: f"{root}/{folder.relative_to(images).as_posix()}/" for folder in {p.parent for p in photographs}}
    known, sources = find_sources(label_files, list(places.values()), layout=layout, given=labels is not None)
    parts, considered = [], {}
    for source in sources:
        pool = [path for path in photographs if re.search(source.folder, places[path.parent])]
        parts.append(match_photographs(read_rows(source), pool))
        considered |= dict.fromkeys(str(path) for path in pool)
    rows = pd.concat(parts, ignore_index=True)
    if not (rows["reason"] == "").any():
        raise LabelTableError(
            f"no row of {', '.join(rows['labels'].unique())} can be used: {rows['reason'].value_counts().to_dict()}; "
            f"do the photographs lie under {images}?"
        )
    rows = _leave_out_repeats(rows)
    labelled = set(rows["image"])
    return _to_labels(rows, [path for path in considered if path not in labelled], images, known)


def split_patients(
    table: pd.DataFrame, *, seed: int, test: float = 0.30, validation: float = 0.20, kind: str = "random"
) -> pd.Series:
    """Divide photographs into train, validation and test, each patient on one side, stratified by grade.

    Patients are seen in a random order, and each is chosen with the probability `share`, lowered where its grades
    are already ahead of their share and raised where they are behind (a self-balancing walk). The first of up to 50
    draws whose shares of the grades and of the whole are within one point is kept, or else the best.

    Args:
        table: columns patient and grade; for `official` also row and split. Its order does not matter.
        seed: of the draw.
        test: share of the photographs.
        validation: share of the patients not in test.
        kind: random; paper (no validation, as in Voets et al. 2019); or official: the data set's own split, where
            validation is drawn out of train if it ships none.

    Returns:
        train, validation or test for each row, with the index of `table`.

    Raises:
        LabelTableError: a side would lack referable (grade 2 or more) or other photographs, or the set ships no
            such split, or a patient stands on both sides of it.
    """
    if kind not in KINDS or not 0 < test < 1 or not 0 <= validation < 1:
        raise LabelTableError(f"kind is one of {', '.join(KINDS)}, test and validation are shares from 0 to 1")
    _check_classes("the label table", table["grade"])
    rng = np.random.default_rng(seed)
    patient = table["patient"].astype(str)
    counts = pd.crosstab(patient, table["grade"])  # in the order of the patients' names
    if kind == "official":
        sides = _official_sides(table, patient)[counts.index]
    else:
        chosen = _draw(counts, counts.sum(axis=1), test, rng)
        sides = pd.Series(np.where(chosen, "test", "train"), index=counts.index)
    if kind != "paper" and validation and not (sides == "validation").any():
        training = counts[sides == "train"]
        chosen = _draw(training, pd.Series(1, training.index), validation, rng)
        sides[training.index[chosen]] = "validation"
    split = patient.map(sides).rename("split")
    expected = ["train", "test"] if kind == "paper" or not validation else ["train", "validation", "test"]
    for side in expected:
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


def _leave_out_repeats(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the first of rows that name the same file; they must agree."""
    usable = rows[rows["reason"] == ""]
    differing = usable.groupby("image")[["grade", "patient"]].transform("nunique").gt(1).any(axis=1)
    if differing.any():
        raise LabelTableError(f"{name_rows(usable[differing])}: one photograph with two grades or patients; keep one")
    rows.loc[usable.index[usable["image"].duplicated()], "reason"] = "named twice"
    return rows


def _to_labels(rows: pd.DataFrame, unlabelled: list[str], images: Path, layout: Layout) -> Labels:
    table = rows[rows["reason"] == ""].reset_index(drop=True)
    left_out = rows[rows["reason"] != ""]
    left_out = left_out.assign(image=left_out["image"].where(left_out["image"] != "", left_out["name"]))
    unusable = [*left_out[["row", "image", "reason"]].values, *((0, image, "no label") for image in unlabelled)]
    alone = table["patient"] == ""
    own = [Path(image).relative_to(images).as_posix() for image in table["image"]]
    table["patient"] = table["patient"].where(~alone, pd.Series(own, table.index))
    if table["split"].nunique() == 1:  # only one part of the data set is there
        table["split"] = ""
    return Labels(
        table.astype({"grade": int})[["row", "image", "patient", "eye", "grade", "split"]],
        pd.DataFrame(unusable, columns=["row", "image", "reason"]),
        layout.name,
        "unknown" if alone.any() else "from file names" if table["from_names"].any() else "known",
        [*layout.notices, *[UNKNOWN] * int(alone.any())],
    )
