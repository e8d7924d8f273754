"""Read predictions.csv from any source, and refuse what would make an evaluation wrong."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import REFERABLE_FROM, sum_referable
from dr_lib.data.labels.reader import (
    SPELT,
    find_spellings,
    read_numbers,
    read_same,
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
    fold_id,
    read_words,
)
from dr_lib.errors import DrError
from dr_lib.files import hash_file
from dr_lib.runs.folds import check_folds

SPLITS = (*SIDES, EXCLUDED, REJECTED)
SUBGROUPS = ("camera", "eye", "quality", "sex", "age")
PROBABILITIES = (*OF_GRADES, OF_REFERABLE)
ROUNDING = 0.025 + 1e-9  # of five probabilities of two decimals, which add up to 1


class Source(NamedTuple):
    """A file of predictions."""

    file: str  # its name
    rows: int
    sha256: str
    encoding: str  # as it was read, empty of a workbook


class Predictions(NamedTuple):
    """One model's predictions: tables of one row per photograph."""

    name: str
    table: pd.DataFrame  # all rows, those without a probability too
    # with a probability: what operating points and recalibration are chosen on
    validation: pd.DataFrame
    test: pd.DataFrame  # with a probability and gradable: what is evaluated
    # of the test split, with a label: marked ungradable, or without a probability
    ungradable: pd.DataFrame
    is_synthetic: bool
    # of the model: the same on several data sets; empty where the file does not say
    version: str = ""
    dataset: str = ""  # what the photographs are from
    sources: tuple[Source, ...] = ()

    @property
    def photographs(self) -> frozenset[str]:
        """The image ids of the test split."""
        return frozenset(self.test["image_id"])

    @property
    def graded(self) -> pd.DataFrame:
        """The test photographs that have a true grade and probabilities of all five."""
        columns = ["grade", "predicted_grade"]
        is_there = set(columns) <= set(self.test)
        return self.test.dropna(subset=columns) if is_there else self.test[:0]


def read_predictions(
    *paths: Path,
    sheet: str = "",
    columns: Sequence[str] = (),
    folds: bool = False,
) -> list[Predictions]:
    """Read predictions of several models for the same photographs, and of each for other data sets.

    A file has a row per photograph with `image_id`, `patient_id`, `split` (train, validation, test,
    excluded or rejected), `grade` (0-4) or `referable` (0 or 1), and `probability_referable` or
    `probability_0` to `probability_4`. It may have `reason` (why there is no probability),
    `gradable` (0 or 1), `group` (patients who share a picture), `eye`, `visit` (at each an eye has
    one label), `data_kind` (synthetic or photographs), `model` (its name), `model_version` (by
    which a model is known in several files), `dataset`, and camera, age, sex, quality for
    subgroups. Names of columns and what stands in them may be those of COLUMNS and WORDS, in any
    case, with or without accents. Any other column has OWN before its name. Where `grade` and
    `referable` are both given, a lower grade may be referable, as by macular oedema.

    Args:
        paths: CSV or XLSX files, each of one model on one data set.
        sheet: the sheet of a workbook, where several have the columns.
        columns: which column of the files is ours, by its name or its number from 1: grade=Grau.
        folds: the files are of the folds of one recipe; they become one, of the test photographs of
            all, each predicted by the model that had not seen it, with a column `fold`. The
            validation rows are those of every fold, so a photograph is there in several of them.
            One evaluation over all patients needs one order of the probabilities of several models:
            more than the mean of the folds' AUCs does.

    Returns:
        Their predictions in that order, with `referable` (bool), `probability_referable` and, of
        five probabilities, `predicted_grade` in every table. Files of the same test photographs are
        of one data set, by the first name that they give it; another of that name is numbered: data
        (2).

    Raises:
        DrError: a file is no such table, leaks from one split or file into another, or does not fit
            the others, a patient is tested in two folds, or a photograph in none; the message names
            the rows and says what to change.
    """
    found = [_read_one(Path(path), sheet, columns) for path in paths]
    if sheet and all(source.encoding for source in _list_sources(found)):
        raise DrError(f"sheet {sheet}: no file is a workbook; leave sheet out")
    if len({predictions.is_synthetic for predictions in found}) > 1:
        names = " and ".join(predictions.name for predictions in found)
        raise DrError(f"{names}: synthetic and real photographs cannot be pooled")
    if folds:
        return [_pool_folds(paths, found)]
    if len(set(map(str, paths))) < len(paths):
        raise DrError("a file is named twice: a model cannot be compared with itself")
    found = _name_models(found)
    found = _name_data_sets(found)
    sets = group_by_photographs(found)
    versions = Counter(predictions.version for predictions in found if predictions.version)
    for other in itertools.chain(*sets[1:]):
        if versions[other.version] < 2:
            raise DrError(_explain_unlike(other, found[0]))
    for version in versions:
        _check_external([p for p in found if p.version == version])
    for same in sets:
        for other in same[1:]:
            _check_alike(same[0], other)
    return found


def group_by_photographs(found: Sequence[Predictions]) -> list[list[Predictions]]:
    """Group predictions of the same test photographs, in the order of the first of each."""
    sets: dict[frozenset, list[Predictions]] = {}
    for predictions in found:
        sets.setdefault(predictions.photographs, []).append(predictions)
    return list(sets.values())


def average_sets(found: Sequence[Predictions]) -> list[Predictions]:
    """Average the models' probabilities on each data set, as one model (an ensemble).

    Raises:
        DrError: a data set lacks a model, or a model validation photographs of the others.
    """
    averaged = []
    for same in group_by_photographs(found):
        networks = sorted({re.sub(r"^\d+ ", "", p.name) for p in same})  # without their numbers
        ensemble = same[0]._replace(
            name=f"ensemble of {len(same)}: {', '.join(networks)}",
            version=" ".join(sorted(p.version for p in same)).strip(),
            sources=_list_sources(same),
            validation=_average([p.validation for p in same], "validation"),
            test=_average([p.test for p in same], "test"),
        )
        averaged.append(ensemble)
    if len({ensemble.version for ensemble in averaged}) > 1:
        raise DrError("an ensemble needs the same models on every data set, by model_version")
    return averaged


def _pool_folds(paths: Sequence[Path], folds: Sequence[Predictions]) -> Predictions:
    """Pool the test photographs of all folds, numbered from 1."""
    tables = [fold.table for fold in folds]
    check_folds(paths, tables)
    table = _number([table[table["split"] == "test"] for table in tables])
    return folds[0]._replace(
        table=pd.concat([table, tables[0][~tables[0]["split"].isin(SIDES)]]),
        validation=_number([fold.validation for fold in folds]),
        test=_number([fold.test for fold in folds]),
        ungradable=_number([fold.ungradable for fold in folds]),
        version=_find_only(table, "model_version"),
        sources=_list_sources(folds),
    )


def _explain_unlike(other: Predictions, first: Predictions) -> str:
    """Explain why two models cannot be compared: their image ids or their photographs differ."""
    theirs, mine = (
        dict(zip(read_same("image_id", ids), ids, strict=True))
        for ids in (other.test["image_id"], first.test["image_id"])
    )
    alike = theirs.keys() & mine.keys()
    names = f"{other.name} and {first.name} have different"
    if alike and other.photographs.isdisjoint(first.photographs):
        one = min(alike)
        return (
            f"{names} image ids, such as {theirs[one]} and {mine[one]}, which agree but for "
            "folder, suffix, case or leading zeros: write image_id alike in both files"
        )
    unlike = first.photographs ^ other.photographs
    return (
        f"{names} test photographs ({len(unlike)} are in only one): compare models on the same "
        "patients, or give each model's files for other data sets the same model_version"
    )


def _list_sources(found: Sequence[Predictions]) -> tuple[Source, ...]:
    return tuple(source for predictions in found for source in predictions.sources)


def _number(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    pooled = pd.concat(table.assign(fold=number) for number, table in enumerate(tables, 1))
    return pooled.fillna(dict.fromkeys(pooled.select_dtypes(exclude="number"), ""))


def _read_one(path: Path, title: str, columns: Sequence[str]) -> Predictions:
    name = path.name
    table, encoding = _read_table(path, title, columns)
    table = table.rename(columns=lambda name: name if name in EVALUATED else OWN + name)
    refuse_rows(name, find_spellings(table["patient_id"]), SPELT)
    for column in table.columns.intersection([*ALLOWED, *PROBABILITIES]):
        table[column] = read_column(name, table[column])
    # 0 or 1 by rounding, as a sum of three of six decimals
    given = table.filter(PROBABILITIES)
    table[given.columns] = given.mask(given.ge(-1e-5) & given.le(1 + 1e-5), given.clip(0, 1))
    table = _add_columns(table)
    _check_rows(name, table)
    is_test = table["split"] == "test"
    is_usable = table[OF_REFERABLE].notna() & _is_gradable(table)
    test = table[is_test & is_usable]
    if test.empty:
        raise DrError(f"{name} has no test photograph with a probability")
    if test["referable"].nunique() < 2:
        kind = "referable" if test["referable"].all() else "not referable"
        raise DrError(
            f"{name}: all {len(test)} test photographs are {kind}: both classes are needed"
        )
    return Predictions(
        _find_only(table, "model") or path.stem,
        table,
        validation=table[(table["split"] == "validation") & is_usable],
        test=test,
        ungradable=table[is_test & ~is_usable & table["referable"].notna()],
        is_synthetic="data_kind" in table and bool((table["data_kind"] == "synthetic").any()),
        version=_find_only(table, "model_version"),
        # no public data set has a suffix
        dataset=_find_only(table, "dataset") or f"{path.stem}.csv",
        sources=(Source(name, len(table), hash_file(path), encoding),),
    )


def _read_table(path: Path, title: str, columns: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """Read a file's cells as text, indexed by line, with our column names and words; return its
    encoding, too.
    """
    sheet = read_sheet(path, title, columns)
    if missing := _list_missing(sheet.names):
        raise DrError(
            f"{sheet} has no column {' and no column '.join(missing)}: add it, rename one in the"
            " header, or choose it with --column"
        )
    table = take_columns(sheet)
    for column in table:
        table[column] = read_words(column, table[column])
    if "age" in table:  # 64 anos
        table["age"] = table["age"].str.extract(r"^(\d+)", expand=False).fillna("")
    return table, sheet.encoding


def _list_missing(names: Sequence[str]) -> list[str]:
    """List the columns that predictions need and a table lacks."""
    missing = [column for column in ("image_id", "patient_id", "split") if column not in names]
    if not {"grade", "referable"} & set(names):
        missing.append("grade or referable")
    if OF_REFERABLE not in names and not set(OF_GRADES) <= set(names):
        missing.append("probability_referable, or probability_0 to probability_4")
    return missing


def _find_only(table: pd.DataFrame, column: str) -> str:
    """Find the only text in a column; empty if there are several or none."""
    values = table[column].unique() if column in table else []
    return values[0] if len(values) == 1 else ""


def _name_models(found: Sequence[Predictions]) -> list[Predictions]:
    """Give a model the same name in all its files, and number models that share a name: 1 mine."""
    models = [predictions.version or place for place, predictions in enumerate(found)]
    names = {}
    for model, predictions in zip(models, found, strict=True):
        names.setdefault(model, predictions.name)
    if len(set(names.values())) < len(names):
        names = {model: f"{k} {name}" for k, (model, name) in enumerate(names.items(), 1)}
    return [p._replace(name=names[model]) for p, model in zip(found, models, strict=True)]


def _name_data_sets(found: Sequence[Predictions]) -> list[Predictions]:
    """Name data sets by their photographs, and number further ones of the same name: data (2)."""
    names = {}
    counts = Counter()
    for same in group_by_photographs(found):
        given = [_find_only(predictions.table, "dataset") for predictions in same]
        name = next(filter(None, given), same[0].dataset)
        counts[name] += 1
        number = f" ({counts[name]})" if counts[name] > 1 else ""
        names[same[0].photographs] = name + number
    return [p._replace(dataset=names[p.photographs]) for p in found]


def _check_external(files: Sequence[Predictions]) -> None:
    """Check that a model's files hold different photographs and only one has its training data."""
    if len(group_by_photographs(files)) < len(files):
        raise DrError(
            f"{files[0].name} is given twice, for the same photographs: a model cannot be "
            "compared with itself"
        )
    num_homes = sum(len(predictions.validation) > 0 for predictions in files)
    if num_homes > 1:
        raise DrError(
            f"{files[0].name} has validation rows in {num_homes} files: keep those of one "
            "file, which freeze its thresholds"
        )
    for home, other in itertools.permutations(files, 2):
        learned = home.table[home.table["split"].isin(["train", "validation"])]
        for column in ("image_id", "patient_id"):
            both = {*map(fold_id, learned[column])} & {*map(fold_id, other.test[column])}
            if both:
                raise DrError(
                    f"{other.dataset}: {len(both)} {column} of its test rows are among the "
                    f"training and validation rows of {home.dataset}: this is not an external "
                    "validation"
                )


def _check_alike(first: Predictions, other: Predictions) -> None:
    """Check that two files agree on the photographs that they share."""
    mine, theirs = (p.table[p.table["split"].isin(SIDES)] for p in (first, other))
    both = mine.merge(theirs, on="image_id", suffixes=("", "_other"))
    for column in {"patient_id", "referable", "grade"} & set(mine) & set(theirs):
        pair = both[[column, f"{column}_other"]].dropna()
        if column == "patient_id":
            pair = pair.map(fold_id)
        if (pair[column] != pair[f"{column}_other"]).any():
            raise DrError(
                f"{other.name} and {first.name} disagree on the patient or label of a photograph"
            )


def _average(tables: Sequence[pd.DataFrame], side: str) -> pd.DataFrame:
    """Return the first table with the mean probabilities of all tables."""
    by_id = [table.set_index("image_id") for table in tables]
    ids = by_id[0].index
    if any(set(table.index) != set(ids) for table in by_id):
        raise DrError(f"an ensemble needs the same {side} photographs in every file")
    columns = [name for name in PROBABILITIES if all(name in table for table in by_id)]
    mean = tables[0].drop(columns=[*OF_GRADES, "predicted_grade"], errors="ignore")
    mean[columns] = sum(table.loc[ids, columns].to_numpy() for table in by_id) / len(tables)
    return _add_columns(mean)


def _add_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that all evaluations read, derived from the existing ones."""
    table = table.copy()
    if set(OF_GRADES) <= set(table):
        five = table[OF_GRADES].to_numpy()
        is_known = ~np.isnan(five).any(axis=1)
        table["predicted_grade"] = np.where(
            is_known, np.nan_to_num(five).argmax(axis=1), np.nan
        )
        summed = pd.Series(np.clip(sum_referable(five), 0, 1), table.index)
        table[OF_REFERABLE] = table.get(OF_REFERABLE, summed).fillna(summed)
    if "grade" in table:
        grade = table["grade"]
        referable = (grade >= REFERABLE_FROM).astype(float).where(grade.notna())
        table["referable"] = table.get("referable", referable).fillna(referable)
    return table


def read_column(file: str, cells: pd.Series) -> pd.Series:
    """Read the numbers of a column, NaN where a cell is empty, or its words.

    Raises:
        DrError: a cell is none of ALLOWED, or of another column no finite number.
    """
    allowed, words = ALLOWED.get(cells.name, ((), "a finite number, such as 0.93"))
    has_words = cells.name in ("split", "data_kind")
    values = cells if has_words else read_numbers(cells)
    is_known = values.isin(allowed) if allowed else np.isfinite(values)
    refuse_cells(file, cells, ~is_known & (has_words | (cells != "")), words)
    return values


def _check_rows(name: str, table: pd.DataFrame) -> None:
    """Refuse invalid rows, each with one sentence."""
    refuse = partial(refuse_rows, name)
    patient = table["patient_id"]
    p = table[OF_REFERABLE]
    side = table["split"]
    refuse(table["image_id"] == "", "image_id is empty")
    refuse((patient == "") & (side != REJECTED), "patient_id is empty, or means unknown")
    is_copy = table["image_id"].duplicated(keep=False)
    refuse(is_copy, _explain_copies(table[is_copy]))
    is_synthetic = table.get("data_kind", side) == "synthetic"
    refuse(
        is_synthetic & ~is_synthetic.all(),
        "synthetic and real photographs cannot be pooled",
    )
    grade = table.get("grade", pd.Series(np.nan, table.index))
    refuse(
        (grade >= REFERABLE_FROM) & (table["referable"] == 0),
        "grade and referable contradict each other: grades 2 to 4 are referable; correct one of "
        "the two, or leave out the column grade",
    )
    five = table.reindex(columns=OF_GRADES)
    given = five.assign(p=p)
    total = five.sum(axis=1, min_count=1)
    advice = "of logits give the sigmoid (of five the softmax)"
    if given.min(axis=None) < 0:
        advice += ", and leave a missing one empty"
    elif given.max(axis=None) > 20:  # logits of which none is negative are hardly so large
        advice = "divide percentages by 100"
    else:
        advice = f"divide percentages by 100, {advice}"
    refuse(
        ((given < 0) | (given > 1)).any(axis=1), f"a probability is outside 0 to 1: {advice}"
    )
    refuse(five.isna().sum(axis=1).between(1, 4), "one of the five probabilities is missing")
    refuse(
        (total - 1).abs() > ROUNDING,
        "the five probabilities do not add up to 1: of logits give the softmax, of cumulative "
        "probabilities the differences, of rounded ones more decimals",
    )
    summed = five[OF_GRADES[REFERABLE_FROM:]].sum(axis=1, min_count=1)
    is_wider = ((grade < REFERABLE_FROM) & (table["referable"] == 1)).any()
    refuse(
        (summed - p > ROUNDING) | ((p - summed > ROUNDING) & ~is_wider),
        "probability_referable is not the sum of probability_2 to probability_4",
    )
    is_asked = side.isin(["validation", "test"]) & _is_gradable(table)
    refuse(
        is_asked & p.isna() & (table.get("reason", "") == ""),
        "no probability: give one, or say why not in the column reason",
    )
    refuse(
        is_asked & p.notna() & table["referable"].isna(),
        "a probability without a label: give grade or referable, or gradable 0 where the "
        "photograph cannot be graded",
    )
    refuse(
        (side == "train") & p.notna(),
        "predictions of training photographs may not be evaluated",
    )
    used = table[side.isin(SIDES)]
    leak = "is in two splits: training data leak into the evaluation"
    refuse(_count_in(used, "patient_id", "split") > 1, f"a patient {leak}")
    if "group" in used:
        named = used[used["group"] != ""]
        refuse(
            _count_in(named, "group", "split") > 1,
            f"a group of patients who share a picture {leak}; if the column means something else "
            f"({named['group'].nunique()} values of {named['patient_id'].nunique()} patients), "
            "rename it",
        )
    if "eye" in used:
        eyes = used[(used["eye"] != "") & used["referable"].notna()]
        keys = [name for name in ("patient_id", "eye", "visit") if name in eyes]
        labels = [name for name in ("grade", "referable") if name in eyes]
        refuse(
            _count_in(eyes, keys, labels).gt(1).any(axis=1),
            "an eye of a patient has two labels: name the visits in a column visit, or keep one",
        )


def _explain_copies(copies: pd.DataFrame) -> str:
    """Explain several rows of one photograph by the columns in which they differ."""
    differs = copies.groupby("image_id").nunique().gt(1).any()
    for name in ("patient_id", "eye", "visit"):
        if differs.get(name, False):
            return f"photographs share an image_id, one for each {name}: give each its own"
    texts = [name for name in copies.select_dtypes(exclude="number") if differs.get(name)]
    # more than 20 are numbers or names
    kinds = [name.removeprefix(OWN) for name in texts if copies[name].nunique() <= 20]
    if kinds == ["split"]:
        return "a photograph is in two splits: training data leak into the evaluation"
    if kinds:
        words = " and ".join(name for name in kinds if name != "split")
        pooled = " and add --folds" if words == "fold" else ""
        return (
            f"a photograph is listed once for each {words}: write a file for each{pooled}, or "
            "keep one row per photograph"
        )
    return "a photograph is listed more than once: remove augmented copies and padding"


def _count_in(table: pd.DataFrame, keys, column):
    """Count the distinct values of a column in each group, by row."""
    return table.groupby(keys)[column].transform("nunique")


def _is_gradable(table: pd.DataFrame) -> pd.Series:
    return table.get("gradable", pd.Series(1, table.index)) != 0


ALLOWED = {  # the values of a column where it is not empty, and their words
    "split": (SPLITS, f"one of {', '.join(SPLITS)}"),
    "data_kind": (("synthetic", "photographs", ""), "synthetic or photographs"),
    "grade": (range(5), SCALE),
    "referable": ((0, 1), "0 or 1"),
    "gradable": ((0, 1), "0 or 1"),
}
