"""Read one predictions.csv from any source, and refuse what would make an evaluation wrong."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM, sum_referable
from dr_lib.data.labels.reader import (
    SPELT,
    find_spellings,
    read_numbers,
    read_sheet,
    refuse_cells,
    refuse_rows,
    take_columns,
)
from dr_lib.data.labels.schema import (
    EVALUATED,
    EXCLUDED,
    OF_GRADES,
    OF_REFERABLE,
    OWN,
    REJECTED,
    SCALE,
    SIDES,
)
from dr_lib.errors import DrError
from dr_lib.files import hash_file

SPLITS = (*SIDES, EXCLUDED, REJECTED)
PROBABILITIES = (*OF_GRADES, OF_REFERABLE)
SUFFIX = ".csv"  # of a data set that has its file's name; no public one has a suffix
AGES = ("0-39", "40-59", "60+")  # bands of years
ROUNDING = 0.025 + 1e-9  # of five probabilities of two decimals, which add up to 1
ALLOWED = {  # the values of a column where it is not empty, and their words
    "split": (SPLITS, f"one of {', '.join(SPLITS)}"),
    "data_kind": (("synthetic", "photographs", ""), "synthetic or photographs"),
    "grade": (range(5), SCALE),
    "referable": ((0, 1), "0 or 1"),
    "gradable": ((0, 1), "0 or 1"),
    **dict.fromkeys(PROBABILITIES, ((), "a finite number, such as 0.93")),
}


class Predictions(NamedTuple):
    """One model's predictions for the photographs of a data set."""

    name: str
    # a row per photograph; all columns of EVALUATED are there, numbers NaN and words empty where
    # the file does not say
    table: pd.DataFrame
    # of the model: the same on several data sets; empty where the file does not say
    version: str = ""
    dataset: str = ""  # what the photographs are from
    files: tuple[str, ...] = ()  # each with its SHA-256

    @property
    def tested(self) -> pd.DataFrame:
        """The rows of the test split; those that are not scored have no probability."""
        return self.table[self.table["split"] == "test"]

    @property
    def test(self) -> pd.DataFrame:
        """Those of them that are evaluated: they have a probability, and are gradable."""
        return self.tested.dropna(subset=OF_REFERABLE)

    @property
    def validation(self) -> pd.DataFrame:
        """The same of the validation split: what operating points are chosen on."""
        side = self.table[self.table["split"] == "validation"]
        return side.dropna(subset=OF_REFERABLE)

    @property
    def photographs(self) -> frozenset[str]:
        """The image ids of the photographs that are evaluated."""
        return frozenset(self.test["image_id"])

    @property
    def graded(self) -> pd.DataFrame:
        """Those that have a true grade and probabilities of all five."""
        return self.test.dropna(subset=["grade", "predicted_grade"])

    @property
    def is_synthetic(self) -> bool:
        """Whether nobody took these photographs."""
        return bool((self.table["data_kind"] == "synthetic").any())


def read_file(path: Path, sheet: str = "", columns: Sequence[str] = ()) -> Predictions:
    """Read the predictions of one model on one data set.

    A file has a row per photograph with `image_id`, `patient_id`, `split` (train, validation, test,
    excluded or rejected), `grade` (0-4) or `referable` (0 or 1), and `probability_referable` or
    `probability_0` to `probability_4`. It may have `reason` (why there is no probability),
    `gradable` (0 or 1), `group` (patients who share a picture), `eye`, `visit` (at each an eye has
    one label), `data_kind` (synthetic or photographs), `model` (its name), `model_version` (by
    which a model is known in several files), `dataset`, and camera, age, sex, quality for groups.
    Names of columns and what stands in them may be those of COLUMNS and WORDS. Any other column has
    OWN before its name. Where `grade` and `referable` are both given, a lower grade may be
    referable, as by macular oedema.

    Args:
        path: CSV or XLSX.
        sheet: the sheet of a workbook, where several have the columns.
        columns: which column of the file is ours, by its name or its number from 1: grade=Grau.

    Returns:
        The predictions, with `referable`, `probability_referable` and `predicted_grade`; what is
        not gradable has no probability.

    Raises:
        DrError: the file is no such table; the message names the rows and says what to change.
    """
    name = path.name
    table = _read_table(path, sheet, columns)
    for column in ALLOWED:
        table[column] = _read_column(name, table[column])
    # 0 or 1 by rounding, as a sum of three of six decimals
    given = table[[*PROBABILITIES]]
    inside = given.clip(0, 1)
    table[given.columns] = inside.where((inside - given).abs() <= 1e-5, given)
    for rows, words in _find_leaks(table):
        refuse_rows(name, rows, words)
    table = add_columns(table)
    for rows, words in _find_faults(table):
        refuse_rows(name, rows, words)
    table.loc[table["gradable"] == 0, given.columns] = np.nan
    found = Predictions(
        find_only(table, "model") or path.stem,
        table,
        version=find_only(table, "model_version"),
        dataset=find_only(table, "dataset") or path.stem + SUFFIX,
        files=(f"{name}, {hash_file(path)}",),
    )
    labels = found.test["referable"]
    if labels.nunique() < 2:
        raise DrError(
            f"{name}: {labels.sum():.0f} of {len(labels)} test photographs with a probability are "
            "referable: both classes are needed"
        )
    return found


def _read_table(path: Path, title: str, columns: Sequence[str]) -> pd.DataFrame:
    """Read a file's cells as text, indexed by line, with our column names and words."""
    sheet = read_sheet(path, title, columns)
    names = {*sheet.names}
    has_five = names >= {*OF_GRADES}
    missing = [column for column in ("image_id", "patient_id", "split") if column not in names]
    if not names & {"grade", "referable"}:
        missing.append("grade or referable")
    if OF_REFERABLE not in names and not has_five:
        missing.append("probability_referable, or probability_0 to probability_4")
    if missing:
        raise DrError(
            f"{sheet.name} has no column {' and no column '.join(missing)}: add it, rename one in"
            " the header, or choose it with --column; of two classes --column"
            " probability_referable=NAME chooses the second; where a row is a patient, copy"
            " patient_id into image_id, and where it is two eyes, write two rows"
        )
    table = take_columns(sheet)
    if not has_five:  # those of two classes are none of grades
        table = table.drop(columns=OF_GRADES, errors="ignore")
    table = table.rename(columns=lambda name: name if name in EVALUATED else OWN + name)
    table = table.reindex(columns=table.columns.union([*EVALUATED], sort=False), fill_value="")
    years = table["age"].str.extract(r"^(\d+)", expand=False).astype(float)  # 64 anos
    bands = pd.cut(years, [0, 40, 60, np.inf], right=False, labels=AGES)
    return table.assign(age=bands.astype(object).fillna(""))


def _read_column(file: str, cells: pd.Series) -> pd.Series:
    """Read the numbers of a column, NaN where a cell is empty, or its words."""
    allowed, words = ALLOWED[cells.name]
    has_words = cells.name in ("split", "data_kind")
    values = cells if has_words else read_numbers(cells)
    is_known = values.isin(allowed) if allowed else np.isfinite(values)
    refuse_cells(file, cells, ~is_known & (has_words | (cells != "")), words)
    return values


def add_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Add what follows from other columns: the likeliest grade, and probability and label of
    referable disease where they are not given.
    """
    five = table[OF_GRADES].to_numpy()
    summed = pd.Series(sum_referable(five), table.index).clip(0, 1)
    from_grade = (table["grade"] // REFERABLE_FROM).clip(upper=1)
    return table.assign(
        predicted_grade=summed.where(summed.isna(), five.argmax(axis=1)),
        probability_referable=table[OF_REFERABLE].fillna(summed),
        referable=table["referable"].fillna(from_grade),
    )


def find_only(table: pd.DataFrame, column: str) -> str:
    """Find the only text in a column; empty if there are several."""
    values = table[column].unique()
    return values[0] if len(values) == 1 else ""


def _find_faults(table: pd.DataFrame) -> Iterator[tuple]:
    """Find rows of numbers and labels that would make an evaluation wrong, and say what to do."""
    p = table[OF_REFERABLE]
    five = table[OF_GRADES]
    given = five.assign(p=p)
    yield (
        ((given < 0) | (given > 1)).any(axis=1),
        "a probability is outside 0 to 1: divide percentages by 100, of logits give the sigmoid "
        "(of five the softmax), and leave a missing one empty",
    )
    is_one = (five.sum(axis=1) - 1).abs() <= ROUNDING
    yield (
        five.notna().any(axis=1) & ~(is_one & five.notna().all(axis=1)),
        "the five probabilities do not add up to 1, or one is missing: of logits give the softmax; "
        "else give probability_referable instead, and leave these five columns out",
    )
    yield (
        (sum_referable(five.to_numpy()) - p).abs() > ROUNDING,
        "probability_referable is not the sum of probability_2 to probability_4: correct it, or "
        "leave these five columns out",
    )
    yield (
        (table["split"] == "train") & p.notna(),
        "predictions of training photographs may not be evaluated",
    )
    yield (
        (table["grade"] >= REFERABLE_FROM) & (table["referable"] == 0),
        "grade and referable contradict each other: grades 2 to 4 are referable; correct one of "
        "the two, or leave out the column grade",
    )
    is_used = table["split"].isin(["validation", "test"]) & (table["gradable"] != 0)
    yield (
        is_used & p.isna() & (table["reason"] == ""),
        "no probability: give one, or say why not in the column reason",
    )
    is_labelled = table["referable"].notna()
    yield (
        is_used & p.notna() & ~is_labelled,
        "a probability without a label: give grade or referable, or gradable 0 where the "
        "photograph cannot be graded",
    )
    is_synthetic = table["data_kind"] == "synthetic"
    yield (
        is_synthetic & ~is_synthetic.all(),
        "synthetic and real photographs cannot be pooled",
    )
    eyes = table[table["split"].isin(SIDES) & is_labelled & (table["eye"] != "")]
    yield (
        _count_in(eyes, ["patient_id", "eye", "visit"], ["grade", "referable"])
        .gt(1)
        .any(axis=1),
        "an eye of a patient has two labels: name the visits in a column visit, or keep one",
    )


def _find_leaks(table: pd.DataFrame) -> Iterator[tuple]:
    """Find unknown patients, copies, and a patient or a group in two splits."""
    yield find_spellings(table["patient_id"]), SPELT
    yield table["image_id"] == "", "image_id is empty"
    yield (
        (table["patient_id"] == "") & (table["split"] != REJECTED),
        "patient_id is empty, or means unknown",
    )
    is_copy = table["image_id"].duplicated(keep=False)
    differs = table[is_copy].groupby("image_id").nunique().gt(1).any()
    kinds = differs.index[differs].difference(ALLOWED)
    names = " and ".join(name.removeprefix(OWN) for name in kinds)
    yield (
        is_copy & (names != ""),
        f"a photograph is listed once for each {names}: write a file for each (of folds add "
        "--folds), or keep one row per photograph, each with an image_id of its own",
    )
    leak = "is in two splits: training data leak into the evaluation"
    yield _count_in(table, "image_id", "split") > 1, f"a photograph {leak}"
    yield is_copy, "a photograph is listed more than once: remove augmented copies and padding"
    used = table[table["split"].isin(SIDES)]
    yield _count_in(used, "patient_id", "split") > 1, f"a patient {leak}"
    named = used[used["group"] != ""]
    yield (
        _count_in(named, "group", "split") > 1,
        f"a group of patients who share a picture {leak}; if the column means something else "
        f"({named['group'].nunique()} values of {named['patient_id'].nunique()} patients), "
        "rename it",
    )


def _count_in(table: pd.DataFrame, keys, column):
    """Count the distinct values of a column in each group, by row."""
    return table.groupby(keys)[column].transform("nunique")
