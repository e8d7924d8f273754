"""Grade photographs in files: a table of the endpoint's answers."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.label_files import find_files
from dr_lib.data.labels.schema import fold_id
from dr_lib.data.labels.tables import read_patients, read_stated
from dr_lib.data.prepared.folder import Prepared, count_statuses, find_split
from dr_lib.data.prepared.stream import StoredCrops
from dr_lib.data.prepared.workers import map_over
from dr_lib.errors import DrError
from dr_lib.files import replace
from dr_lib.hardware import Request, activate, choose, probe
from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import ModelFolder, ModelFolderError, read_folder

BATCH = 32  # crops decoded at once
# tables by what is between their cells; Excel takes UTF-8 without a mark for something else
STYLES = {
    ",": {"sep": ",", "decimal": ".", "encoding": "utf-8"},
    ";": {"sep": ";", "decimal": ",", "encoding": "utf-8-sig"},
}


def grade_files(
    folder: ModelFolder,
    paths: Iterable[Path],
    out: Path,
    *,
    workers: int | None = None,
    sep: str = ",",
    progress: Callable[[int, int], None] = lambda *_: None,
) -> tuple[Counter[str], dict[str, int]]:
    """Grade photographs and write a CSV that names the files; keep it in a private folder.

    Args:
        folder: an exported LiteRT model or SavedModel.
        paths: files, and folders whose photographs are meant, as `prepare` finds them.
        out: the CSV, new, in UTF-8, written in one step: file, most_probable_grade, probability_0
            to probability_4, probability_referable, threshold, referable_at_threshold, fundus
            (status of the crop), model_version, error (empty where there is a grade). Files stand
            with their whole path, which no spreadsheet takes for a formula; bytes that are no UTF-8
            stand as \\udc80 to \\udcff.
        workers: processes; by default one per core where there are many photographs.
        sep: between cells; with a semicolon numbers have decimal commas, as Excel in Brazil opens
            them.
        progress: called with the numbers done and in all.

    Returns:
        Why some have no grade, numbers in it as "...", and how many; and how many crops are not ok,
        by each word of their statuses.
    """
    if out.exists():
        raise DrError(f"{out} exists and is not overwritten: name another file")
    out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = list_photographs(paths)
    # fewer than 100 are graded sooner than other processes have started
    workers = workers or (count_cpus() if len(files) >= 100 else 0)
    grade = partial(_grade, folder.path, folder.version)
    rows = []
    with map_over(workers) as pool:
        for row in pool(grade, files):
            rows.append(row)
            progress(len(rows), len(files))
    columns = [
        "file",
        "most_probable_grade",
        *(f"probability_{grade}" for grade in range(len(folder.facts["grades"]))),
        "probability_referable",
        "threshold",
        "referable_at_threshold",
        "fundus",
        "model_version",
        "error",
    ]
    table = pd.DataFrame(rows, columns=columns).astype({"most_probable_grade": "Int64"})
    _write(table, out, sep)
    errors = table["error"][table["error"] != ""].str.replace(r"\d+", "...", regex=True)
    return Counter(errors), count_statuses(table["fundus"].dropna().astype(str))


def list_photographs(paths: Iterable[Path]) -> list[Path]:
    """List files, and the photographs in folders, each once, by their whole paths.

    Raises:
        FileNotFoundError: one does not exist.
        DrError: a folder holds no photographs.
    """
    files = []
    for path in paths:
        path = Path(os.path.abspath(path))  # another folder may hold the same names
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        files += find_files(path)[0] if path.is_dir() else [path]
    return list(dict.fromkeys(files))


def find_patients(
    files: Sequence[Path],
    labels: Path | None = None,
    *,
    sheet: str = "",
    columns: Sequence[str] = (),
) -> pd.Series:
    """Find who each photograph is of, before any is graded.

    Args:
        files: of `list_photographs`.
        labels: a table that says it; without one a person is who `prepare` reads from DICOM, or
            from the name in a folder, as 10 from 10_left.jpg or 10-OD.jpg.
        sheet, columns: see `read_patients`.

    Returns:
        The patient, or the folder and the patient's name there; the file where neither has one, and
        of DICOM, whose PatientID stays in the file, "patient of" and the patient's first file.

    Raises:
        DrError: no photograph has a patient, or no two of the file names have the same.
    """
    paths = pd.Series(map(_write_path, files), dtype=str)
    stated = read_stated(paths)["patient"].map(fold_id)
    firsts = ("patient of " + paths.groupby(stated).transform("first")).where(stated != "", "")
    if labels:
        patients = read_patients(labels, files, sheet=sheet, columns=columns)
        is_open = (patients == "") & (firsts != "") & stated.isin(stated[patients != ""])
        if is_open.any():
            raise DrError(
                f"{labels.name} names some photographs of a PatientID and not {is_open.sum()}"
                " others: name the patient of each"
            )
        patients = patients.where(patients != "", firsts)
        if (patients == "").all():
            raise DrError(f"{labels.name} names the patient of none of these photographs")
        return patients.where(patients != "", paths)
    names = read_names(paths)["patient"].map(fold_id)
    is_known = names != ""
    patients = (paths.map(os.path.dirname) + "/" + names).where(is_known, paths)
    patients = firsts.where(firsts != "", patients)
    if not any(firsts) and patients.is_unique and (len(files) > 1 or not is_known.all()):
        raise DrError(
            "--by-patient: the file names give no patients, as 10_left.jpg and 10_right.jpg or "
            "10_OD.jpg and 10_OE.jpg do, and no PatientID stands for one person: name the patients "
            "in a table, --labels"
        )
    return patients


def refer_patients(
    grades: Path, patients: pd.Series, out: Path, sep: str = ","
) -> pd.DataFrame:
    """Write one answer per patient.

    Args:
        grades: of `grade_files`.
        patients: of `find_patients`, of the same files.
        out: the CSV.
        sep: between cells of both tables.

    Returns:
        A row per `patient`: `num_photographs`, `num_not_graded` (they could not be graded, or their
        crop is doubtful), the largest `probability_referable`, the `threshold`, and the `answer`:
        refer if one photograph reaches it, else grade by hand if one was not graded, else no
        referral.
    """
    table = pd.read_csv(grades, **STYLES[sep])
    is_doubtful = table["fundus"].map(str).str.contains("doubtful")
    table["is_open"] = table["threshold"].isna() | is_doubtful
    answers = table.groupby(patients, sort=False).agg(
        num_photographs=("file", "size"),
        num_not_graded=("is_open", "sum"),
        probability_referable=("probability_referable", "max"),
        threshold=("threshold", "max"),
    )
    is_referred = answers["probability_referable"] >= answers["threshold"]
    is_open = answers["num_not_graded"] > 0
    answers["answer"] = np.select(
        [is_referred, is_open], ["refer", "grade by hand"], "no referral"
    )
    answers = answers.rename_axis("patient").reset_index()
    _write(answers, out, sep)
    return answers


def grade_prepared(
    folder: ModelFolder,
    data_dir: Path,
    out: Path,
    *,
    is_external: bool = False,
    progress: Callable[[int, int], None] = lambda *_: None,
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
        progress: called with (done, total).

    Raises:
        DrError: the folder is not the model's and is_external is not said, or the other way round;
            the model learned from these crops by another split, was made for other crops, or does
            not say what it learned from.
    """
    prepared = Prepared(data_dir, find_split(data_dir, folder.facts["split_sha256"]))
    _check_origin(folder.facts, prepared, is_external)
    photographs = prepared.photographs
    sides = ("train", "validation", "test") if is_external else ("validation", "test")
    photographs = photographs[photographs["split"].isin(sides)].reset_index(drop=True)

    image_size = folder.facts["image_size"]
    crops = prepared.open_crops(photographs, image_size)
    if folder.facts["format"] == "keras":
        probabilities = _predict_in_keras(folder, crops)
        progress(len(crops), len(crops))
        # the network's own name
        name = f"{folder.facts['model']}_{image_size}{'_grades' * bool(folder.facts['grades'])}"
    else:
        predictor = Predictor(folder, count_cpus())
        predicted = []
        for start in range(0, len(crops), BATCH):
            predicted.append(predictor.predict(crops[start : start + BATCH]))
            progress(min(start + BATCH, len(crops)), len(crops))
        probabilities = np.concatenate(predicted)
        name = f"{folder.facts['model']}_{folder.facts['format']}"
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
    data_dir = prepared.path
    for name in ("crop_size", "crop_method"):
        if data[name] != facts[name]:
            raise DrError(
                f"{data_dir}: its {name} is {data[name]}, the model's is {facts[name]}: "
                "prepare it in the same way"
            )
    if not facts["data_sha256"]:
        raise DrError(
            "the model's manifest does not state its training data (data_sha256): no "
            "photograph can be a test photograph"
        )
    is_own = data["data_sha256"] == facts["data_sha256"]
    if is_own and is_external:
        raise DrError(f"the model was trained on {data_dir}: leave out --external")
    if not is_own and not is_external:
        raise DrError(
            f"{data_dir} has changed since the model was trained: give the folder as it was, "
            "or, if the model was trained on none of its photographs, add --external to make "
            "all of them test photographs"
        )
    if not is_external and data["split_sha256"] != facts["split_sha256"]:
        raise DrError(
            f"the model was trained on {data_dir} with a split table that no longer exists"
        )


def _predict_in_keras(folder: ModelFolder, crops: StoredCrops) -> np.ndarray:
    """Predict probabilities of crops with a trained model, as in training."""
    facts = probe()
    accelerator = "cpu" if facts.gpu_error else "auto"  # a prediction needs no GPU
    activate(choose(facts, Request(accelerator, batch_size=BATCH)))
    from dr_lib.serving.export.convert import load_network
    from dr_lib.training.fit import predict

    network = load_network(folder.artifact, folder.facts["model"])
    averaged = folder.facts.get("test_time_augmentation", False)
    return predict(network, crops, batch_size=BATCH, average_mirrored=averaged)


def _write(table: pd.DataFrame, out: Path, sep: str) -> None:
    with replace(out) as temporary:
        temporary.touch(mode=0o600)  # it names files, and maybe patients
        table.to_csv(temporary, index=False, **STYLES[sep])


def _write_path(file: Path) -> str:
    return str(file).encode("utf-8", "backslashreplace").decode()


@lru_cache(maxsize=1)
def _load(folder: Path, version: str) -> Predictor:
    """Load the model once per process."""
    model = read_folder(folder)
    if model.version != version:
        raise ModelFolderError(f"{folder}: the model was replaced while in use: start again")
    return Predictor(model, 1)


def _grade(folder: Path, version: str, file: Path) -> dict[str, Any]:
    """Return a photograph's row, in which the answer's other fields stand, too."""
    row = {"file": _write_path(file), "model_version": version, "error": ""}
    predictor = _load(folder, version)
    try:
        answer = predictor.grade(file)
    except (DrError, ValueError, OSError) as error:
        # no fault of the photograph
        if getattr(error.__cause__ or error, "errno", 0) in (errno.ENOENT, errno.ESTALE):
            raise DrError(
                f"{file} no longer exists: restore the folder, and start again"
            ) from error
        return {**row, "error": str(error)}
    except MemoryError as error:
        raise DrError("not enough memory for a photograph: pass --workers 1") from error
    probabilities = {f"probability_{k}": p for k, p in enumerate(answer["probabilities"])}
    return {**row, **answer, **probabilities, "fundus": answer["fundus"]["status"]}
