"""Grade photographs in files, or the crops of a prepared folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import sum_referable
from dr_lib.data.labels.label_files import find_files
from dr_lib.data.prepared.crops import crop_files
from dr_lib.data.prepared.folder import Prepared, find_split
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.errors import DrError
from dr_lib.files import replace
from dr_lib.hardware import Request, activate, choose, probe
from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.grader.models import BATCH, predict_all
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import ModelFolder


def grade_files(
    folder: ModelFolder,
    source: Path,
    out: Path,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> pd.DataFrame:
    """Prepare photographs, grade them, and write a CSV that names the files, mode 0600.

    The crops lie beside the CSV until it is written: a call that was killed goes on by the same
    call.

    Args:
        folder: a trained or an exported model.
        source: a folder of photographs, as `prepare` finds them, or one file.
        out: the CSV, new: file (within the folder, as ./a.jpg, which no spreadsheet takes for a
            formula), fundus (status of the crop), model_version, error (empty where there is a
            grade), probability_0 to probability_4, most_probable_grade, probability_referable,
            threshold, referable_at_threshold. Bytes of a name that are no UTF-8 stand as \\udc80
            to \\udcff.
        progress: called with the numbers cropped and in all.

    Returns:
        The table.
    """
    if out.exists():
        raise DrError(f"{out} exists and is not overwritten: name another file")
    facts = folder.facts
    if not facts["grades"]:
        raise DrError(f"{folder.path} holds a model for referral: give one of task grades")
    above = source.parent if source.is_file() else source
    files = [source] if source.is_file() else find_files(source)[0]
    out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    cache = out.with_name(f"{out.name}.crops")
    table = crop_files(
        files,
        cache,
        method=facts["crop_method"],
        size=facts["crop_size"],
        workers=count_cpus(),
        progress=progress,
    )
    cropped = table[table["reason"] == ""]
    probabilities = _predict(folder, StoredCrops(cache, cropped, facts["image_size"]))
    referable = sum_referable(probabilities)
    grades = pd.DataFrame(probabilities, cropped.index).add_prefix("probability_")
    grades = grades.assign(
        most_probable_grade=probabilities.argmax(axis=1),
        probability_referable=referable,
        threshold=facts["threshold"],
        referable_at_threshold=(referable >= facts["threshold"]).astype(int),
    )
    whole = dict.fromkeys(["most_probable_grade", "referable_at_threshold"], "Int64")
    graded = pd.DataFrame(
        {
            "file": [f"./{file.relative_to(above)}" for file in files],
            "fundus": table["status"],
            "model_version": folder.version,
            "error": table["reason"],
        }
    ).join(grades.astype(whole))
    with replace(out) as temporary:
        temporary.touch(mode=0o600)  # it names files
        graded.to_csv(temporary, index=False, float_format="%.6g", errors="backslashreplace")
    shutil.rmtree(cache)
    return graded


def grade_prepared(
    folder: ModelFolder, data_dir: Path, out: Path, *, is_external: bool = False
) -> None:
    """Grade the crops of a prepared folder and write predictions.csv for evaluation.

    Of the folder that the model learned from, the validation and the test side by the same split;
    of any other folder, where the caller says that it is external, every photograph, all of them
    test: an external validation, which takes the thresholds from the model's predictions of its own
    folder, beside which `evaluate` finds photographs and patients that it learned from.

    Args:
        folder: a trained or an exported model, which knows what it learned from.
        data_dir: a prepared folder.
        out: the CSV; see `write_predictions`.
        is_external: the model learned from none of these photographs.

    Raises:
        DrError: the folder or its split is not the model's and is_external is not said, or the
            other way round; the model was made for other crops, or does not say what it learned
            from.
    """
    facts = folder.facts
    prepared = Prepared(data_dir, find_split(data_dir, facts["split_sha256"]))
    _check_origin(facts, prepared, is_external)
    photographs = prepared.photographs
    sides = ("train", "validation", "test") if is_external else ("validation", "test")
    photographs = photographs[photographs["split"].isin(sides)]
    probabilities = _predict(folder, prepared.open_crops(photographs, facts["image_size"]))
    name = f"{facts['model']}_{facts['format']}"
    if facts["format"] == "keras":  # the network's own name
        name = f"{facts['model']}_{facts['image_size']}{'_grades' * bool(facts['grades'])}"
    prepared.write_predictions(
        out,
        [(photographs["image_id"].to_numpy(), probabilities)],
        name,
        folder.version,
        is_external=is_external,
    )


def _check_origin(facts: dict[str, Any], prepared: Prepared, is_external: bool) -> None:
    """Check that these crops are the model's own data, or are declared external."""
    data = prepared.describe()
    for name in ("crop_size", "crop_method"):
        if data[name] != facts[name]:
            raise DrError(
                f"{prepared.path}: its {name} is {data[name]}, the model's is {facts[name]}: "
                "prepare it in the same way"
            )
    if not facts["data_sha256"]:
        raise DrError(
            "the model's manifest does not state its training data (data_sha256): no "
            "photograph can be a test photograph"
        )
    is_own = data["data_sha256"] == facts["data_sha256"]
    if is_own and is_external:
        raise DrError(f"the model was trained on {prepared.path}: leave out --external")
    is_same_split = data["split_sha256"] == facts["split_sha256"]
    if not is_external and not (is_own and is_same_split):
        raise DrError(
            f"{prepared.path} or its split has changed since the model was trained: give the "
            "folder as it was, or, if the model was trained on none of its photographs, add "
            "--external to make all of them test photographs"
        )


def _predict(folder: ModelFolder, crops: StoredCrops) -> np.ndarray:
    """Predict probabilities of crops: of an exported model as served, of a trained one as in
    training.
    """
    if folder.facts["format"] != "keras":
        return predict_all(Predictor(folder, count_cpus()).predict, crops)
    facts = probe()
    accelerator = "cpu" if facts.gpu_error else "auto"  # a prediction needs no GPU
    activate(choose(facts, Request(accelerator, batch_size=BATCH)))
    from dr_lib.serving.export.convert import load_network
    from dr_lib.training.fit import predict

    network = load_network(folder.artifact, folder.facts["model"])
    averaged = folder.facts.get("test_time_augmentation", False)
    return predict(network, crops, batch_size=BATCH, average_mirrored=averaged)
