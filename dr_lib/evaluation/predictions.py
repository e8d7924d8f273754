"""Read several files of predictions: models to compare, further data sets, folds, ensembles."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from dr_lib.data.labels.schema import OF_GRADES, SIDES, fold_id
from dr_lib.errors import DrError
from dr_lib.evaluation.table import (
    PROBABILITIES,
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
        return [_pool_folds(paths, found)]
    found = _name(found)
    first, *others = group_by_photographs(found)
    versions = [predictions.version for predictions in first]
    for other in itertools.chain(*others):
        if not other.version or other.version not in versions:
            raise DrError(_explain_difference(other, first[0]))
    for version in {predictions.version for predictions in found} - {""}:
        _check_external([p for p in found if p.version == version])
    for same in [first, *others]:
        for other in same[1:]:
            _check_same(same[0], other)
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
            validation=_average([p.validation for p in same], "validation"),
            test=_average([p.test for p in same], "test"),
        )
        averaged.append(ensemble)
    if len({ensemble.version for ensemble in averaged}) > 1:
        raise DrError("an ensemble needs the same models on every data set, by model_version")
    return averaged


def _average(tables: Sequence[pd.DataFrame], side: str) -> pd.DataFrame:
    """Return the first table with the mean probabilities of all tables."""
    by_id = [table.set_index("image_id") for table in tables]
    ids = by_id[0].index
    if any(set(table.index) != set(ids) for table in by_id):
        raise DrError(f"an ensemble needs the same {side} photographs in every file")
    columns = [name for name in PROBABILITIES if all(name in table for table in by_id)]
    mean = tables[0].drop(columns=[*OF_GRADES, "predicted_grade"], errors="ignore")
    mean[columns] = sum(table.loc[ids, columns].to_numpy() for table in by_id) / len(tables)
    return add_columns(mean)


def _pool_folds(paths: Sequence[Path], folds: Sequence[Predictions]) -> Predictions:
    """Pool the test photographs of all folds, numbered from 1."""
    tables = [fold.table for fold in folds]
    _check_folds(paths, tables)
    table = _number([table[table["split"] == "test"] for table in tables])
    return folds[0]._replace(
        table=pd.concat([table, tables[0][~tables[0]["split"].isin(SIDES)]]),
        validation=_number([fold.validation for fold in folds]),
        test=_number([fold.test for fold in folds]),
        unscored=_number([fold.unscored for fold in folds]),
        version=find_only(table, "model_version"),
        files=tuple(file for fold in folds for file in fold.files),
    )


def _check_folds(names: Iterable[object], tables: Sequence[pd.DataFrame]) -> None:
    """Check that tables of predictions test each patient once.

    Raises:
        DrError: a patient is tested in two of them, or a photograph in none.
    """
    tested = [table[table["split"] == "test"] for table in tables]
    named = zip(names, tested, strict=True)
    for (name, rows), (later, others) in itertools.combinations(named, 2):
        if {*map(fold_id, rows["patient_id"])} & {*map(fold_id, others["patient_id"])}:
            raise DrError(
                f"{later} and {name} test the same patients: they are not folds of one split"
            )
    used = pd.concat(table.loc[table["split"].isin(SIDES), "image_id"] for table in tables)
    if missing := set(used) - set(pd.concat(tested)["image_id"]):
        raise DrError(
            f"{len(missing)} photographs are in no fold's test split: give the files of every fold"
        )


def _number(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    pooled = pd.concat(table.assign(fold=number) for number, table in enumerate(tables, 1))
    return pooled.fillna(dict.fromkeys(pooled.select_dtypes(exclude="number"), ""))


def _name(found: Sequence[Predictions]) -> list[Predictions]:
    """Give a model one name in all its files, and models that share a name their number: mine · 2;
    files of the same photographs one data set, and another of its name a number: data (2).
    """
    models = [predictions.version or str(place) for place, predictions in enumerate(found)]
    names = {}
    for model, predictions in zip(models, found, strict=True):
        names.setdefault(model, predictions.name)
    if len(set(names.values())) < len(names):
        names = {model: f"{name} · {k}" for k, (model, name) in enumerate(names.items(), 1)}
    datasets = {}
    counts = Counter()
    for same in group_by_photographs(found):
        given = [find_only(predictions.table, "dataset") for predictions in same]
        name = next(filter(None, given), same[0].dataset)
        counts[name] += 1
        number = f" ({counts[name]})" if counts[name] > 1 else ""
        datasets[same[0].photographs] = name + number
    return [
        p._replace(name=names[model], dataset=datasets[p.photographs])
        for p, model in zip(found, models, strict=True)
    ]


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
    for first, second in itertools.combinations(files, 2):
        tested = ({*map(fold_id, file.tested["patient_id"])} for file in (first, second))
        if both := set.intersection(*tested):
            raise DrError(
                f"{second.dataset}: {len(both)} of its patients are tested in {first.dataset} too, "
                "so it is not another data set: leave them out, or where they are other people, "
                "write the name of the data set before their patient_id"
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


def _check_same(first: Predictions, other: Predictions) -> None:
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
