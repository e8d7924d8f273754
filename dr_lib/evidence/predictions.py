"""predictions.csv: read anybody's, and refuse what would make an evaluation false."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.files import read_csv

GRADES = [f"probability_{grade}" for grade in range(5)]
REFERABLE_FROM = 2
SIDES = ("train", "validation", "test")
SPLITS = (*SIDES, "excluded", "rejected")
SUBGROUPS = ("camera", "eye", "quality", "sex", "age")
NUMBERS = ("grade", "referable", "gradable", "probability_referable", *GRADES)
ABOUT = ("reason", "visit", "data_kind", "dataset", "model", "model_version")  # are read, too
ROUNDING = 0.02  # of five probabilities that add up to 1: int8 networks round each to 1/256
MAX_ROWS = 5  # named in a sentence


class PredictionsError(ValueError):
    """These predictions cannot be evaluated; the message names the rows and says what to change."""


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

    @property
    def has_grades(self) -> bool:
        """Whether every photograph of the test split has a true grade and probabilities of all
        five.
        """
        columns = {"grade", "predicted_grade"}
        return columns <= set(self.test) and bool(self.test[[*columns]].notna().all(axis=None))


def read_predictions(*paths: Path) -> list[Predictions]:
    """Read and check predictions: of several models of the same photographs, and of each model on
    other data sets.

    A file has a row per photograph with `image_id`, `patient_id`, `split` (train, validation, test,
    excluded or rejected), `grade` (0-4) or `referable` (0 or 1), and `probability_referable` or
    `probability_0` to `probability_4`. It may have `reason` (why there is no probability),
    `gradable` (0 or 1), `group` (patients who share a picture), `eye`, `visit` (at each an eye has
    one label), `data_kind` (synthetic or photographs), `model` (its name), `model_version` (by
    which a model is known in several files), `dataset`, and camera, age, sex, quality for
    subgroups.

    Args:
        paths: CSV files, each of one model on one data set.

    Returns:
        Their predictions in that order, with `referable` (bool), `probability_referable` and, of
        five probabilities, `predicted_grade` in every table. Files of the same test photographs are
        of one data set, by the first name that they give it; another of that name is numbered: data
        (2).

    Raises:
        PredictionsError: a file is no such table, leaks from one split or file into another, or
            does not fit the others.
    """
    if len(set(map(str, paths))) < len(paths):
        raise PredictionsError("a file is named twice: a model is not compared with itself")
    found = [_read_one(Path(path)) for path in paths]
    models = [p.version or path for p, path in zip(found, paths, strict=True)]
    names = {}
    for predictions, model in zip(found, models, strict=True):
        names.setdefault(model, predictions.name)
    if len(set(names.values())) < len(names):
        names = {model: f"{number} {names[model]}" for number, model in enumerate(names, 1)}
    found = [p._replace(name=names[model]) for p, model in zip(found, models, strict=True)]
    for other in found[1:]:
        if other.is_synthetic != found[0].is_synthetic:
            raise PredictionsError(
                f"{other.name} and {found[0].name}: synthetic photographs and real ones are not"
                " pooled"
            )
    found = _name_data_sets(found)
    sets = group_by_photographs(found)
    for other in [p for others in sets[1:] for p in others]:
        if not any(p.version == other.version != "" for p in found if p is not other):
            unlike = set(found[0].test["image_id"]) ^ set(other.test["image_id"])
            raise PredictionsError(
                f"{other.name} and {found[0].name} are of different test photographs ({len(unlike)}"
                " stand in one alone): models are compared on the same patients, or on another"
                " data set each by its model_version"
            )
    for predictions in found:
        _check_external([p for p in found if p.version == predictions.version != ""])
    for first, other in [(part[0], other) for part in sets for other in part[1:]]:
        known = [p.table[p.table["split"].isin(SIDES)] for p in (first, other)]
        both = known[0].merge(known[1], on="image_id", suffixes=("", "_other"))
        for column in {"patient_id", "referable", "grade"} & set(known[0]) & set(known[1]):
            pair = both[[column, f"{column}_other"]].dropna()
            if (pair[column] != pair[f"{column}_other"]).any():
                raise PredictionsError(
                    f"{other.name} and {first.name} name other patients or labels of one photograph"
                )
    return found


def join_paths(paths: Sequence[Path]) -> str:
    """Several paths as one parameter: commas between them, quotes around one that has a comma."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(paths)
    return text.getvalue()


def split_paths(text: str) -> list[str]:
    """The paths of a parameter, as `join_paths` writes it."""
    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]


def group_by_photographs(found: Sequence[Predictions]) -> list[list[Predictions]]:
    """Put predictions of the same test photographs together, in the order of the first of each."""
    sets: dict[frozenset, list[Predictions]] = {}
    for predictions in found:
        sets.setdefault(frozenset(predictions.test["image_id"]), []).append(predictions)
    return list(sets.values())


def average_sets(found: Sequence[Predictions]) -> list[Predictions]:
    """The mean of the models' probabilities on each data set, photograph by photograph, as one
    model (an ensemble).

    Raises:
        PredictionsError: a data set lacks a model, or a model validation photographs of the others.
    """
    averaged = []
    for part in group_by_photographs(found):
        # without their numbers
        networks = sorted({re.sub(r"^\d+ ", "", predictions.name) for predictions in part})
        name = f"ensemble of {len(part)}: {', '.join(networks)}"
        tables = {}
        for side in ("validation", "test"):
            parts = [getattr(predictions, side).set_index("image_id") for predictions in part]
            if any(set(one.index) != set(parts[0].index) for one in parts):
                raise PredictionsError(
                    f"an ensemble needs the same {side} photographs in every file"
                )
            columns = [
                column
                for column in (*GRADES, "probability_referable")
                if all(column in one for one in parts)
            ]
            means = sum(one.loc[parts[0].index, columns].to_numpy() for one in parts) / len(parts)
            table = getattr(part[0], side).drop(
                columns=[*GRADES, "predicted_grade"], errors="ignore"
            )
            tables[side] = _add_columns(table.assign(**dict(zip(columns, means.T, strict=True))))
        version = " ".join(sorted(predictions.version for predictions in part)).strip()
        averaged.append(part[0]._replace(name=name, version=version, **tables))
    if len({predictions.version for predictions in averaged}) > 1:
        raise PredictionsError(
            "an ensemble needs the same models on every data set, by their model_version"
        )
    return averaged


def pool_folds(paths: Sequence[Path], out: Path) -> Path:
    """Write the test photographs of all folds as one table, each with what the model said that had
    not seen it.

    One evaluation, whose interval is over all patients, asks one order of the probabilities of
    several models: more than the mean of the folds' AUCs does. There are no validation rows, for
    each photograph is some model's test. Columns that no evaluation reads stay behind: they may
    name people.

    Args:
        paths: predictions.csv of each fold, of one recipe.
        out: folder to write.

    Returns:
        The path of its predictions.csv.

    Raises:
        PredictionsError: a patient is tested in two folds, a photograph in none, or a file cannot
            be read.
    """
    tables = [
        _read_one(Path(path)).table.drop(columns="predicted_grade", errors="ignore")
        for path in paths
    ]
    tested = [table[table["split"] == "test"] for table in tables]
    for k, rows in enumerate(tested):
        for path, others in list(zip(paths, tested, strict=True))[:k]:
            if set(rows["patient_id"]) & set(others["patient_id"]):
                raise PredictionsError(
                    f"{paths[k]} and {path} test the same patients: they are no folds of one split"
                )
    pooled = pd.concat(tested)
    missing = {
        image for table in tables for image in table.loc[table["split"].isin(SIDES), "image_id"]
    }
    missing -= set(pooled["image_id"])
    if missing:
        raise PredictionsError(
            f"{len(missing)} photographs are in no fold's test split: give the files of every fold"
        )
    unused = tables[0][~tables[0]["split"].isin(SIDES)]
    table = pd.concat([pooled, unused])
    read = {"image_id", "patient_id", "split", *NUMBERS, *SUBGROUPS, *ABOUT}
    out.mkdir(parents=True, exist_ok=True)
    path = out / "predictions.csv"
    table[[column for column in table if column in read]].to_csv(path, index=False)
    return path


def _read_one(path: Path) -> Predictions:
    if not path.is_file():
        raise PredictionsError(f"there is no file {path}")
    try:
        rows = read_csv(path, NUMBERS)
    except (OSError, ValueError) as error:
        raise PredictionsError(f"{path} cannot be read: save it as a CSV in UTF-8") from error
    header = rows.pop(min(rows)) if rows else []
    repeated = [column for k, column in enumerate(header) if column and column in header[:k]]
    if repeated:
        raise PredictionsError(f"{path.name} has more than one column {repeated[0]}")
    for line, row in rows.items():
        if len(row) > len(header):
            raise PredictionsError(
                f"{path.name}, row {line}: {len(row)} cells below the {len(header)} of the header"
            )
    cells = [row + [""] * (len(header) - len(row)) for row in rows.values()]
    table = pd.DataFrame(cells, list(rows), header, dtype=str).loc[
        :, [column != "" for column in header]
    ]
    _check_columns(path.name, table)
    _check_identity(path.name, table)
    numbers = {
        column: _to_numbers(path.name, table, column) for column in NUMBERS if column in table
    }
    table = table.assign(**numbers)
    _check_labels(path.name, table)
    _check_probabilities(path.name, table)
    table = _add_columns(table)
    _check_leaks(path.name, table)
    _check_eyes(path.name, table)
    has_probability = table["probability_referable"].notna()
    is_test = table["split"] == "test"
    is_gradable = table.get("gradable", pd.Series(1.0, table.index)) != 0
    test = table[is_test & has_probability & is_gradable]
    for column in ["referable"] if len(test) else []:
        if test[column].nunique() < 2:
            kind = "referable" if test[column].all() else "not referable"
            raise PredictionsError(
                f"{path.name}: all {len(test)} test photographs are {kind}: both kinds are needed"
            )
    if test.empty:
        raise PredictionsError(
            f"{path.name} has no test photograph with a probability: nothing can be evaluated"
        )
    validation = table[(table["split"] == "validation") & has_probability & is_gradable]
    ungradable = table[is_test & ~(has_probability & is_gradable) & table["referable"].notna()]
    is_synthetic = "data_kind" in table and (table["data_kind"] == "synthetic").any()
    return Predictions(
        _find_only(table, "model") or path.stem,
        table,
        validation,
        test,
        ungradable,
        bool(is_synthetic),
        version=_find_only(table, "model_version"),
        # no public data set has a suffix
        dataset=_find_only(table, "dataset") or f"{path.stem}.csv",
    )


def _find_only(table: pd.DataFrame, column: str) -> str:
    """The text that stands in all rows of a column, empty where there are several or none."""
    values = table[column].unique() if column in table else []
    return values[0] if len(values) == 1 else ""


def _name_data_sets(found: Sequence[Predictions]) -> list[Predictions]:
    """Give the same photographs one data set's name, and others of that name a number: data (2)."""
    names: dict[frozenset, str] = {}
    counts = Counter()
    for part in group_by_photographs(found):
        given = [_find_only(predictions.table, "dataset") for predictions in part]
        name = next(filter(None, given), part[0].dataset)
        counts[name] += 1
        number = f" ({counts[name]})" if counts[name] > 1 else ""
        names[frozenset(part[0].test["image_id"])] = name + number
    return [p._replace(dataset=names[frozenset(p.test["image_id"])]) for p in found]


def _check_external(files: Sequence[Predictions]) -> None:
    """See that one model's files are of other photographs each, and that it learned from those
    of one alone.
    """
    if len(group_by_photographs(files)) < len(files):
        raise PredictionsError(
            f"{files[0].name} stands twice, on the same photographs: a model is not compared with"
            " itself"
        )
    own = [p for p in files if len(p.validation)]
    if len(own) > 1:
        raise PredictionsError(
            f"{own[0].name} has validation rows in {len(own)} files: it is frozen on those of one"
        )
    for home in files:
        learned = home.table[home.table["split"].isin(SIDES[:2])]
        for other in files:
            for column in ("image_id", "patient_id") if other is not home else ():
                both = set(learned[column]) & set(other.test[column])
                if both:
                    raise PredictionsError(
                        f"{other.dataset}: {len(both)} {column} of its test rows stand among the"
                        f" training and validation rows of {home.dataset}: that is no external"
                        " validation"
                    )


def _check_columns(name: str, table: pd.DataFrame) -> None:
    missing = [column for column in ("image_id", "patient_id", "split") if column not in table]
    missing += [] if {"grade", "referable"} & set(table) else ["grade or referable"]
    if "probability_referable" not in table and not set(GRADES) <= set(table):
        missing.append("probability_referable, or probability_0 to probability_4")
    if missing:
        raise PredictionsError(f"{name} has no column {' and no column '.join(missing)}")
    if table.empty:
        raise PredictionsError(f"{name} has no rows")


def _check_identity(name: str, table: pd.DataFrame) -> None:
    _refuse(name, ~table["split"].isin(SPLITS), f"split has to be one of {', '.join(SPLITS)}")
    _refuse(name, table["image_id"] == "", "image_id is empty")
    _refuse(
        name, (table["patient_id"] == "") & (table["split"] != "rejected"), "patient_id is empty"
    )
    repeated = table["image_id"].duplicated(keep=False)
    _refuse(
        name,
        repeated,
        "a photograph stands more than once: augmented copies and padding do not belong here",
    )
    if "data_kind" in table:
        kinds = table["data_kind"].replace("", "photographs")
        _refuse(
            name,
            ~kinds.isin(["synthetic", "photographs"]),
            "data_kind has to be synthetic or photographs",
        )
        if kinds.nunique() > 1:
            _refuse(
                name, kinds == "synthetic", "synthetic photographs are not pooled with real ones"
            )


def _check_labels(name: str, table: pd.DataFrame) -> None:
    for column, allowed in {"grade": range(5), "referable": (0, 1), "gradable": (0, 1)}.items():
        if column in table:
            words = "0, 1, 2, 3 or 4" if column == "grade" else "0 or 1"
            _refuse(
                name,
                ~(table[column].isin(allowed) | table[column].isna()),
                f"{column} has to be {words}",
            )
    if {"grade", "referable"} <= set(table):
        both = table["grade"].notna() & table["referable"].notna()
        unlike = both & ((table["grade"] >= REFERABLE_FROM) != (table["referable"] == 1))
        _refuse(
            name, unlike, "grade and referable contradict each other: grades 2 to 4 are referable"
        )


def _check_eyes(name: str, table: pd.DataFrame) -> None:
    label = "grade" if "grade" in table else "referable"
    if "eye" in table:
        eyes = table[table["eye"].ne("") & table[label].notna() & table["split"].isin(SIDES)]
        labels = eyes.groupby(["patient_id", "eye", *({"visit"} & set(eyes))])[label].transform(
            "nunique"
        )
        words = "an eye of a patient has two labels: name the visits in a column visit, or keep one"
        _refuse(name, (labels > 1).reindex(table.index, fill_value=False), words)


def _check_probabilities(name: str, table: pd.DataFrame) -> None:
    given = [column for column in ("probability_referable", *GRADES) if column in table]
    probabilities = table[given]
    outside = ((probabilities < 0) | (probabilities > 1)).any(axis=1)
    _refuse(name, outside, "a probability lies outside 0 to 1")
    if set(GRADES) <= set(table):
        five = table[GRADES]
        some = five.notna().any(axis=1)
        _refuse(name, some & five.isna().any(axis=1), "one of the five probabilities is missing")
        _refuse(
            name,
            some & ((five.sum(axis=1) - 1).abs() > ROUNDING),
            "the five probabilities do not add up to 1",
        )
        if "probability_referable" in table:
            unlike = (
                five[GRADES[REFERABLE_FROM:]].sum(axis=1) - table["probability_referable"]
            ).abs() > ROUNDING
            _refuse(
                name,
                some & unlike,
                "probability_referable is not the sum of probability_2 to probability_4",
            )
    has_any = probabilities.notna().any(axis=1)
    explained = table.get("reason", pd.Series("", table.index)) != ""
    explained |= table.get("gradable", pd.Series(1.0, table.index)) == 0
    is_bare = table["split"].isin(["validation", "test"]) & ~has_any & ~explained
    _refuse(name, is_bare, "there is no probability: give one, or why not in the column reason")
    label = [column for column in ("grade", "referable") if column in table]
    _refuse(name, has_any & table[label].isna().all(axis=1), "there is a probability and no label")


def _check_leaks(name: str, table: pd.DataFrame) -> None:
    learned = (table["split"] == "train") & table["probability_referable"].notna()
    _refuse(
        name, learned, "these are predictions of training photographs, which no evaluation may hold"
    )
    used = table[table["split"].isin(SIDES)]
    for column, words in {
        "patient_id": "patient",
        "group": "group of patients who share a picture",
    }.items():
        if column in used:
            known = used[used[column] != ""]
            crossing = (known.groupby(column)["split"].transform("nunique") > 1).reindex(
                table.index, fill_value=False
            )
            _refuse(
                name,
                crossing,
                f"a {words} stands in two splits: what was learned leaks into the evaluation",
            )


def _add_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that all evaluations read, from those that are there."""
    if set(GRADES) <= set(table):
        five = table[GRADES].to_numpy()
        known = ~np.isnan(five).any(axis=1)
        graded = np.where(known, np.nan_to_num(five).argmax(axis=1), np.nan)
        summed = np.where(known, np.clip(five[:, REFERABLE_FROM:].sum(axis=1), 0, 1), np.nan)
        table = table.assign(predicted_grade=graded)
        summed = pd.Series(summed, table.index)
        given = table.get("probability_referable", summed)
        table = table.assign(probability_referable=given.fillna(summed))
    if "grade" in table:
        referable = (table["grade"] >= REFERABLE_FROM).astype(float).where(table["grade"].notna())
        table = table.assign(
            referable=table["referable"].fillna(referable) if "referable" in table else referable
        )
    return table


def _to_numbers(name: str, table: pd.DataFrame, column: str) -> pd.Series:
    numbers = pd.to_numeric(table[column], errors="coerce")
    _refuse(
        name,
        (table[column] != "") & ~np.isfinite(numbers),
        f"{column} is no finite number, such as 0.93",
    )
    return numbers


def _refuse(name: str, bad: pd.Series, words: str) -> None:
    """A PredictionsError that names the first rows for which something is wrong."""
    rows = list(bad.index[bad])
    if rows:
        named = ", ".join(map(str, rows[:MAX_ROWS])) + (
            f" and {len(rows) - MAX_ROWS} more" if rows[MAX_ROWS:] else ""
        )
        raise PredictionsError(f"{name}, row{'s' if rows[1:] else ''} {named}: {words}")
