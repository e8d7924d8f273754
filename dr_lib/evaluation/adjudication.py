"""Adjudication: a sample of photographs is graded again, and corrects accuracy for wrong labels."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.data.labels.reader import (
    read_numbers,
    read_sheets,
    refuse_rows,
    take_columns,
)
from dr_lib.data.labels.schema import fold_id, read_words
from dr_lib.errors import DrError
from dr_lib.evaluation.points import find_called, measure
from dr_lib.evaluation.predictions import read_column
from dr_lib.evaluation.scores import count_below, tabulate_scores
from dr_lib.files import write_text
from dr_lib.statistics.clustered import TINY
from dr_lib.statistics.intervals import UPPER, Interval

LIST = "adjudicate.csv"
WEIGHTS = "adjudicate.weights.csv"
NUM_DRAWS = 4000  # of patients and of the shares of wrong labels


def write_lists(
    out: Path, test: pd.DataFrame, points: pd.DataFrame, number: int, names: Mapping[str, str]
) -> None:
    """Write LIST, test photographs to be graded again, blind, and WEIGHTS apart from it.

    Args:
        out: folder.
        test: of the predictions.
        points: frozen.
        number: of photographs.
        names: of files, by image id, in a private folder alone.

    Raises:
        DrError: of `draw_sample`.
    """
    sample = draw_sample(test, points, number, np.random.default_rng(0))
    if names:
        sample["photograph"] = sample["image_id"].map(names)
    blank = sample.drop(columns="weight").assign(**{_find_answer(test): "", "gradable": ""})
    write_text(out / LIST, blank.to_csv(index=False))
    write_text(out / WEIGHTS, sample[["image_id", "weight"]].to_csv(index=False))


def draw_sample(
    test: pd.DataFrame, points: pd.DataFrame, number: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Draw photographs of each label called by no point, by one and by both, in proportion to the
    roots of their numbers.

    Returns:
        `image_id` and `weight`, the inverse of the probability of being drawn, in random order.

    Raises:
        DrError: there is no operating point, or there are fewer than two photographs a cell.
    """
    if points.empty:
        raise DrError("without an operating point there is nothing to adjudicate")
    cells = _find_cells(test, points)
    sizes = cells.value_counts(ascending=True)
    if number < 2 * len(sizes):
        raise DrError(f"adjudicate: give {2 * len(sizes)} photographs or more, not {number}")
    roots = np.sqrt(sizes.to_numpy())
    parts = []
    for place, (cell, size) in enumerate(sizes.items()):
        share = roots[place] / roots[place:].sum()
        drawn = min(size, max(2, round(number * share)))
        number -= drawn
        part = test.loc[cells == cell, ["image_id"]].sample(drawn, random_state=rng)
        parts.append(part.assign(weight=size / drawn))
    return pd.concat(parts).sample(frac=1, random_state=rng)


def read_adjudicated(path: Path, test: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Read the list that doctors filled in, with the weights beside it.

    Returns:
        The test photographs that were graded again, with `is_ill` (NaN of an ungradable one).

    Raises:
        DrError: a row is missing, unknown or not filled in, or the weights are not there or not
            those of this evaluation.
    """
    beside = path.with_name(WEIGHTS)
    if not beside.is_file():
        raise DrError(f"{beside} is missing: copy there the one that --adjudicate wrote")
    answer = _find_answer(test)
    tables = []
    for file, column in ((path, answer), (beside, "weight")):
        sheet = read_sheets(file)[0]
        if not {"image_id", column} <= {*sheet.names}:
            raise DrError(f"{sheet}: it needs the columns image_id and {column}")
        tables.append(take_columns(sheet))
    table, weights = tables
    name = path.name
    fold = fold_id if test["image_id"].map(fold_id).is_unique else str
    image = table["image_id"].map(fold)
    weights = read_numbers(weights["weight"]).set_axis(weights["image_id"].map(fold))
    refuse_rows(name, ~image.isin(weights.index), f"this photograph is not in {WEIGHTS}")
    refuse_rows(name, image.duplicated(), "this photograph is listed twice")
    if missing := len(weights) - len(image):
        raise DrError(f"{name}: {missing} of {len(weights)} photographs are missing: add them")
    table = table.reindex(columns=[answer, "gradable"], fill_value="")
    for column in table:
        table[column] = read_column(name, read_words(column, table[column]))
    numbers = table[answer].mask(table["gradable"] == 0)
    is_open = table[answer].isna() & (table["gradable"] != 0)
    refuse_rows(name, is_open, f"no {answer}: fill it in, or write gradable 0")
    test = test.set_index(test["image_id"].map(fold))
    cells = _find_cells(test, points)
    sample = test[test.index.isin(weights.index)].join(weights)
    drawn = cells[sample.index]
    is_same = len(sample) == len(weights) and set(drawn) == set(cells)
    expected = drawn.map(cells.value_counts() / drawn.value_counts())
    if not is_same or not np.allclose(expected, sample["weight"]):
        raise DrError(
            f"{beside} is of another evaluation: its photographs and weights are not those of "
            "these predictions at these thresholds"
        )
    numbers.index = image
    is_ill = numbers >= (REFERABLE_FROM if answer == "grade" else 1)
    if not is_ill.any():
        raise DrError(f"{name}: nobody has the disease: grades are from 0 to 4, not yes or no")
    return sample.assign(is_ill=is_ill.astype(float).where(numbers.notna()))


def correct_accuracy(
    test: pd.DataFrame, points: pd.DataFrame, adjudicated: pd.DataFrame
) -> pd.DataFrame:
    """Correct sensitivity and specificity, by photograph, for labels that are wrong.

    Every cell's share of ill photographs is that of its sample (Begg and Greenes 1983, Biometrics
    39). Bounds are those of draws: patients by the Bayesian bootstrap, shares from Jeffreys'
    distribution, for which the photographs of a patient count as one. One ill photograph among few
    may stand for many that are not called, so upper bounds take Clopper and Pearson's for these.

    Returns:
        A row per `point`: `sensitivity` and `specificity` as labelled, and `sensitivity_corrected`
        and `specificity_corrected`, with bounds.
    """
    counts = pd.crosstab(test["patient_id"], _find_cells(test, points))
    by_cell = adjudicated.groupby(_find_cells(adjudicated, points))
    num_graded = by_cell["is_ill"].count()
    num_ill = by_cell["is_ill"].sum()
    gradable = (num_graded / by_cell.size()).to_numpy()
    alike = counts.value_counts()  # patients with as many photographs in each cell
    rng = np.random.default_rng(0)
    weights = rng.gamma(alike, size=(NUM_DRAWS, len(alike)))
    totals = weights @ alike.index.to_frame().to_numpy() * gradable
    independent = by_cell["patient_id"].nunique() / by_cell.size()
    ill = independent * num_ill
    well = independent * (num_graded - num_ill)
    shares = rng.beta(ill + 0.5, well + 0.5, totals.shape)
    lower = rng.beta(ill + TINY, well + 1, totals.shape)
    share = (num_ill / num_graded).fillna(0)
    rows = []
    for place, row in enumerate(measure(test, points)):
        is_called = counts.columns.to_numpy() // 2 > place
        values = correct(counts.sum().to_numpy() * gradable, share.to_numpy(), is_called)
        worst = correct(totals, shares, is_called)
        best = correct(totals, np.where(is_called, shares, lower), is_called)
        lows = np.minimum(np.quantile(worst, 1 - UPPER, axis=-1), values)
        highs = np.maximum(np.quantile(best, UPPER, axis=-1), values)
        line = {"point": row["point"]}
        for k, name in enumerate(("sensitivity", "specificity")):
            line[name] = row[name]
            line[f"{name}_corrected"] = Interval(values[k], lows[k], highs[k], len(counts))
        rows.append(line)
    return tabulate_scores(rows)


def correct(
    totals: np.ndarray, shares: np.ndarray, is_called: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute sensitivity and specificity from the photographs in each cell, (..., cells), the
    share of them that is ill, and whether the cell is called, (cells,).
    """
    ill = totals * shares
    well = totals - ill
    return (
        ill[..., is_called].sum(-1) / ill.sum(-1),
        well[..., ~is_called].sum(-1) / well.sum(-1),
    )


def _find_answer(test: pd.DataFrame) -> str:
    """Find what doctors give: a grade, where it alone decides what is referable."""
    return "grade" if "grade" in test and not count_below(test) else "referable"


def _find_cells(test: pd.DataFrame, points: pd.DataFrame) -> pd.Series:
    """Number the cells of photographs: twice the points that call it, plus 1 if it is labelled
    referable.
    """
    cells = (test["referable"] == 1).astype(int)
    for name in points["point"].unique():
        cells += 2 * find_called(test, points, name)
    return cells
