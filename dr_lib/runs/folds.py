"""Find the folds of a model: models of its recipe, each tested on patients of its own."""

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from dr_lib.data.labels.grades import sum_referable
from dr_lib.data.labels.schema import OF_GRADES, OF_REFERABLE, SIDES, fold_id
from dr_lib.errors import DrError
from dr_lib.numbers import write_span
from dr_lib.runs import schema
from dr_lib.runs.row import read_left
from dr_lib.statistics.clustered import auc_interval


def find_folds(folder: Path) -> dict[str, Any]:
    """Find the folds of a trained model among the rows of its study, and pool their tests.

    Args:
        folder: of the model, as a run of notebook 10 leaves it.

    Returns:
        `sentence`, which says how many models of which recipe they are, or why there are none;
        where there are, `models` and `num_patients`, and of referable disease `auc`, `auc_low` and
        `auc_high`.
    """
    run = folder.resolve().parent
    study = run.parent.parent
    rows = {name: row for name, row in read_left(study).items() if row["status"] == "ok"}
    own = rows.pop(run.name, None)
    if not own:
        return {"sentence": "no folds: the row of the model's training is not beside it"}
    columns = {*schema.WORK, "mode"} - {"split_sha256", "code_sha256", "data_kind"}
    same = []
    differing = []
    for name, row in sorted(rows.items()):
        differs = [name for name in columns if row.get(name) != own.get(name)]
        differing += differs
        is_other = row.get("split_sha256") != own.get("split_sha256")
        if not differs and is_other and row["repetition"] == own["repetition"]:
            same.append(name)
    if len(same) < 2:
        why = "no other split of its study was trained with this recipe"
        if differing:
            why += f"; other models there differ in {', '.join(sorted(set(differing)))}"
        return {"sentence": f"no folds: {why}"}
    files = [study / "runs" / name / "predictions.csv" for name in same]
    try:
        tables = [pd.read_csv(file, dtype={"patient_id": str}) for file in files]
        check_folds(same, tables)
        pooled = pd.concat(tables).query("split == 'test'")
        is_graded = own["task"] == "grades"
        p = sum_referable(pooled[OF_GRADES].to_numpy()) if is_graded else pooled[OF_REFERABLE]
        auc = auc_interval(pooled["referable"] == 1, p, pooled["patient_id"])
    except DrError as error:
        return {"sentence": f"no folds: {error}"}
    except (OSError, ValueError, KeyError):  # whose words name folders of this machine
        return {"sentence": "no folds: not all their predictions.csv can be read"}
    num_patients = pooled["patient_id"].nunique()
    found = {"models": len(same), "num_patients": num_patients, **auc.columns("auc")}
    recipe = f"{own['model']}, recipe {own['recipe']}, {own['image_size']} px"
    words = f"{len(same)} models of the same recipe ({recipe}), each tested on other patients"
    if {rows[name].get("code_sha256") for name in same} != {own.get("code_sha256")}:
        words += ", trained by several versions of the code"
    words += f": AUC {write_span(found, 'auc')} over {num_patients} patients"
    return {"sentence": words, **found}


def check_folds(names: Iterable[object], tables: Sequence[pd.DataFrame]) -> None:
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
