"""predictions.csv: what a model says of the photographs of a prepared folder, beside what is
known of them.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from dr_lib.data.labels.label_files import FACTS
from dr_lib.data.prepared.folder import parse_table, read_manifest, read_photographs, write_table

OWN = "folder"  # the layout of a data set that is nobody else's


def write_predictions(
    path: Path,
    data_dir: Path,
    split: str | Path,
    predicted: Iterable[tuple[np.ndarray, np.ndarray]],
    model: str,
    version: str,
    *,
    is_external: bool = False,
) -> None:
    """Write a row per photograph that was offered, with probabilities where there are any.

    Those that a model learned from stand there too, without probabilities, and so do those that
    could not be used: who evaluates can then count them, and see that no patient is on two sides.

    Args:
        path: of the CSV: image_id, patient_id, group, split (train, validation, test, excluded or
            rejected), reason (of the last two), eye, grade, referable, probability_referable or
            probability_0 to probability_4, data_kind, dataset (the public data set that `prepare`
            recognised, otherwise the folder's name/), model, model_version, and what labels.csv
            knows of camera, age, sex, and quality. Pseudonyms, no name.
        data_dir: a prepared folder.
        split: see `read_photographs`.
        predicted: image ids (n,), and (n, 1) probabilities of referable disease or (n, 5) of the
            grades.
        model: its name.
        version: the first 12 digits of its file's sha256: who evaluates knows one model on several
            data sets by it.
        is_external: the model learned from none of these photographs: all are of the test side.
    """
    known = read_photographs(data_dir, split)
    known["split"] = (
        known["split"].replace(["train", "validation"], "test") if is_external else known["split"]
    )
    names = ["image_id", "patient_id", "group", "split", "reason", "eye", "grade", "referable"]
    names += [name for name in FACTS if name in known]
    listings = pd.concat([parse_table(file) for file in sorted(Path(data_dir).glob("crops-*.csv"))])
    rejected = listings.loc[listings["reason"] != "", ["image_id", "reason"]].assign(
        split="rejected"
    )
    table = pd.concat([known.reindex(columns=names), rejected], ignore_index=True)
    tables = []
    for image_id, probabilities in predicted:
        of_grades = [f"probability_{grade}" for grade in range(probabilities.shape[1])]
        columns = of_grades if len(of_grades) > 1 else ["probability_referable"]
        tables.append(pd.DataFrame(probabilities, columns=columns).assign(image_id=image_id))
    table = table.merge(pd.concat(tables), on="image_id", how="left", validate="1:1")
    manifest = read_manifest(data_dir)
    layout = manifest["parameters"].get("layout", OWN)
    folder = Path(data_dir).resolve().name
    dataset = f"{folder}/" if layout == OWN else layout  # no public data set has a slash
    table = table.assign(
        data_kind=manifest["data_kind"], dataset=dataset, model=model, model_version=version
    )
    write_table(path, table.astype({"grade": "Int64", "referable": "Int64"}))
