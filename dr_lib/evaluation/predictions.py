"""Read several files of predictions: models to compare, further data sets, folds, ensembles."""

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.schema import OF_REFERABLE, SIDES, fold_id
from dr_lib.errors import DrError
from dr_lib.evaluation.table import (
    PROBABILITIES,
    SUFFIX,
    Predictions,
    add_columns,
    find_only,
    read_file,
)


def read_predictions(
    *paths: Path,
    sheet: str = "",
    columns: Sequence[str] = (),
    folds: bool = False,
) -> list[Predictions]:
    """Read predictions of several models for the same photographs, and of each for other data sets.

    Args:
        paths: of `read_file`, as are sheet and columns.
        sheet: see paths.
        columns: see paths.
        folds: the files are of the folds of one recipe; they become one, of the test photographs of
            all, each predicted by the model that had not seen it, with a column `fold`. The
            validation rows are those of every fold, so a photograph is there in several of them.

    Returns:
        Their predictions in that order. Files of the same test photographs are of one data set.

    Raises:
        DrError: a file leaks into another, or does not fit the others, a patient is tested in two
            folds, or a photograph in none.
    """
    found = [read_file(Path(path), sheet, columns) for path in paths]
    if len({predictions.is_synthetic for predictions in found}) > 1:
        names = " and ".join(predictions.name for predictions in found)
        raise DrError(f"{names}: synthetic and real photographs cannot be pooled")
    if folds:
        return [_pool_folds(found)]
    found = _name(found)
    first, *others = group_by_photographs(found)
    versions = {predictions.version for predictions in found} - {""}
    of_first = {predictions.version for predictions in first} & versions
    for other in itertools.chain(*others):
        if other.version not in of_first:
            raise DrError(_explain_difference(other, first[0]))
    for version in versions:
        _check_external([p for p in found if p.version == version])
    for same in [first, *others]:
        if len(same) > 1:
            _check_same(same)
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
        networks = sorted({predictions.name.partition(" · ")[0] for predictions in same})
        ensemble = same[0]._replace(
            name=f"ensemble of {len(same)}: {', '.join(networks)}",
            version=" ".join(sorted(p.version for p in same)).strip(),
            files=tuple(file for predictions in same for file in predictions.files),
            table=_average([p.table for p in same]),
        )
        averaged.append(ensemble)
    if len({ensemble.version for ensemble in averaged}) > 1:
        raise DrError("an ensemble needs the same models on every data set, by model_version")
    return averaged


def _average(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the first table with the mean probabilities of all tables."""
    columns = [*PROBABILITIES]
    given = [table.set_index("image_id")[columns] for table in tables]
    mean = sum(given[1:], given[0]) / len(given)
    if len({each[OF_REFERABLE].count() for each in [mean, *given]}) > 1:
        raise DrError("an ensemble needs a probability of the same photographs in every file")
    return add_columns(tables[0].drop(columns=columns).join(mean, on="image_id"))


def _pool_folds(folds: Sequence[Predictions]) -> Predictions:
    """Pool the test photographs of all folds, numbered from 1.

    Raises:
        DrError: a patient is tested in two folds, or a photograph in none.
    """
    table = pd.concat(fold.table.assign(fold=number) for number, fold in enumerate(folds, 1))
    test = table[table["split"] == "test"]
    by_patient = test.groupby(test["patient_id"].map(fold_id))["fold"]
    if by_patient.nunique().max() > 1:
        names = ", ".join(fold.name for fold in folds)
        raise DrError(f"{names}: a patient is tested twice: they are not folds of one split")
    used = table[table["split"].isin(SIDES)]
    if missing := set(used["image_id"]) - set(test["image_id"]):
        raise DrError(
            f"{len(missing)} photographs are in no fold's test split: give the files of every fold"
        )
    others = table[~table["split"].isin(["train", "test"])]
    return folds[0]._replace(
        table=pd.concat([others, test]),
        version=find_only(test, "model_version"),
        files=tuple(file for fold in folds for file in fold.files),
    )


def _name(found: Sequence[Predictions]) -> list[Predictions]:
    """Give a model one name in all its files, and files of the same photographs one data set."""
    versions = [predictions.version or place for place, predictions in enumerate(found)]
    photographs = [predictions.photographs for predictions in found]
    names = _tell_apart(versions, [predictions.name for predictions in found])
    datasets = _tell_apart(photographs, [predictions.dataset for predictions in found])
    return [
        predictions._replace(name=name, dataset=dataset)
        for predictions, name, dataset in zip(found, names, datasets, strict=True)
    ]


def _tell_apart(keys: Sequence[Hashable], names: Sequence[str]) -> list[str]:
    """Take the first name of each key, the file's own only where there is no other; with a number
    where another key has it: mine · 2.
    """
    taken = Counter()
    chosen = {}
    pairs = sorted(zip(keys, names, strict=True), key=lambda pair: pair[1].endswith(SUFFIX))
    for key, name in pairs:
        if key not in chosen:
            taken[name] += 1
            chosen[key] = name if taken[name] == 1 else f"{name} · {taken[name]}"
    return [chosen[key] for key in keys]


def _explain_difference(other: Predictions, first: Predictions) -> str:
    """Explain why two models cannot be compared: their image ids or their photographs differ."""
    ours = first.photographs - other.photographs
    theirs = other.photographs - first.photographs
    examples = " and ".join(min(ids) for ids in (ours, theirs) if ids)
    return (
        f"{first.name} and {other.name} have different test photographs ({len(ours | theirs)} are "
        f"in only one), such as {examples}: compare models on the same patients, with image_id "
        "written alike, or give each model's files for other data sets the same model_version"
    )


def _check_external(files: Sequence[Predictions]) -> None:
    """Check that a model's files hold other patients, and that one has its validation rows."""
    num_homes = sum(len(predictions.validation) > 0 for predictions in files)
    if num_homes > 1:
        raise DrError(
            f"{files[0].name} has validation rows in {num_homes} files: keep those of one "
            "file, which freeze its thresholds"
        )
    for home, other in itertools.permutations(files, 2):
        used = home.table[home.table["split"].isin(SIDES)]
        for column in ("image_id", "patient_id"):
            both = {*map(fold_id, used[column])} & {*map(fold_id, other.tested[column])}
            if both:
                raise DrError(
                    f"{other.dataset}: {len(both)} {column} of its test rows are in "
                    f"{home.dataset} too, so it is not another data set: leave them out, or "
                    "where they are others, write the name of the data set before them"
                )


def _check_same(same: Sequence[Predictions]) -> None:
    """Check that files agree on the photographs that they share."""
    pooled = pd.concat(predictions.table for predictions in same)
    pooled = pooled[pooled["split"].isin(SIDES)]
    pooled = pooled.assign(patient_id=pooled["patient_id"].map(fold_id))
    stated = pooled.groupby("image_id")[["patient_id", "referable", "grade"]].nunique()
    if (stated > 1).any(axis=None):
        names = " and ".join(predictions.name for predictions in same)
        raise DrError(f"{names} disagree on the patient or label of a photograph")
