"""Grade photographs in files: the endpoint's answers as a table that grows while they are made."""

import csv
import errno
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.label_files import PICTURES, find_files
from dr_lib.data.labels.near_duplicates import is_copy, perceptual_hash
from dr_lib.data.photograph.decode import MAX_PIXELS
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.workers import map_over
from dr_lib.errors import DrError
from dr_lib.files import lock
from dr_lib.hardware import Request, activate, choose, probe
from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.grader.folder import ModelFolder, ModelFolderError, read_folder
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.train_once import PREDICTIONS

BATCH = 32  # crops decoded at once
MANY = 100  # photographs; fewer are graded sooner than other processes have started
LINE_END = b"\r\n"  # of CSV, RFC 4180
UNKNOWN = "unknown"  # whether a photograph is in the training; else yes or no
LEARNED = ("train", "validation")  # sides that a model learns from
ENCODINGS = {
    ",": "utf-8",
    ";": "utf-8-sig",
}  # Excel takes UTF-8 without a mark for something else
ANSWERS = ("refer", "grade by hand", "no referral")  # the first that is true of a person


class Graded(NamedTuple):
    """The photographs of a table of grades, counted."""

    reasons: Counter[str]  # why some have no grade, numbers in it as "..."
    in_training: Counter[str]  # yes, no or unknown, of those that have one


def grade_files(
    folder: ModelFolder,
    paths: Iterable[Path],
    out: Path,
    *,
    data_dir: Path | None = None,
    split: str = "split.csv",
    workers: int | None = None,
    sep: str = ",",
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Graded:
    """Grade photographs and write a CSV that names the files: it belongs in a private folder.

    Each row is on the disk as soon as its photograph is graded. Where the table is there already,
    its rows are kept and the other photographs are graded.

    Args:
        folder: an exported LiteRT model or SavedModel.
        paths: files, and folders whose photographs are meant, as `prepare` finds them.
        out: the CSV, in UTF-8: file, most_probable_grade, probability_0 to probability_4,
            probability_referable, threshold, referable_at_threshold, in_training (whether the model
            learned from this picture or a copy of it), fundus (status of the crop), model_version,
            error (empty where there is a grade). Files stand with their whole path, which no
            spreadsheet takes for a formula; bytes that are no UTF-8 stand as \\udc80 to \\udcff.
        data_dir: the prepared folder that the model learned from, which tells what is in_training;
            else it is unknown.
        split: file name of the split table by which it learned.
        workers: processes; by default one per core where there are many photographs.
        sep: between cells; with a semicolon numbers have decimal commas, as Excel in Brazil opens
            them.
        progress: called with the numbers done and in all.
    """
    learned = _read_learned(folder, data_dir, split)
    columns = [
        "file",
        "most_probable_grade",
        *(f"probability_{grade}" for grade in range(len(folder.facts["grades"]))),
        "probability_referable",
        "threshold",
        "referable_at_threshold",
        "in_training",
        "fundus",
        "model_version",
        "error",
    ]
    files = {_write_name(file): file for path in paths for file in _list_files(Path(path))}
    out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    writing = lock(out.with_name(f".{out.name}.lock"))
    if writing is None:
        raise DrError(f"another predict writes {out}: wait for its end, or name another file")
    kept = _read_kept(out, columns, folder.version, sep)
    if learned is not None and any(row["in_training"] == UNKNOWN for row in kept.values()):
        raise DrError(
            f"{out} has rows of which it is not known whether they are in_training: name another"
            " file"
        )

    todo = [file for name, file in files.items() if name not in kept]
    rows = list(kept.values())
    workers = workers or (count_cpus() if len(todo) >= MANY else 1)
    grade = partial(_grade, folder.path, folder.version)
    with (
        writing,
        out.open("a", newline="", encoding=ENCODINGS[sep]) as table,
        map_over(workers) as pool,
    ):
        writer = csv.DictWriter(table, columns, delimiter=sep)
        if not table.tell():
            writer.writeheader()
        for done, (row, shown) in enumerate(pool(grade, todo), len(files) - len(todo) + 1):
            if shown and learned is not None:
                row["in_training"] = "yes" if is_copy(shown, learned) else "no"
            writer.writerow({name: _write_cell(cell, sep) for name, cell in row.items()})
            table.flush()
            rows.append(row)
            progress(done, len(files))
    return Graded(
        Counter(re.sub(r"\d+", "...", row["error"]) for row in rows if row["error"]),
        Counter(row["in_training"] for row in rows if row["in_training"]),
    )


def refer_patients(grades: Path, sep: str = ",") -> pd.DataFrame:
    """Write one answer per person beside a table of grades, as NAME.patients.csv.

    A person is who `prepare` reads from the name in a folder, as 10 from 10_left.jpg; a photograph
    of another name is a person of its own.

    Returns:
        A row per `patient` (with the folder): `num_photographs`, `num_not_graded`, the largest
        `probability_referable`, the `threshold`, and the `answer`: refer if one photograph reaches
        it, else grade by hand if one could not be graded, else no referral.
    """
    decimal = "," if sep == ";" else "."
    table = pd.read_csv(grades, sep=sep, decimal=decimal, encoding=ENCODINGS[sep])
    names = read_names(table["file"])["patient"]
    people = table["file"].map(os.path.dirname) + "/" + names
    photographs = table.groupby(people.where(names != "", table["file"]), sort=False)
    patients = photographs[["probability_referable", "threshold"]].max()
    patients.insert(0, "num_photographs", photographs.size())
    patients.insert(1, "num_not_graded", photographs.size() - photographs["threshold"].count())
    patients["answer"] = np.select(
        [
            patients["probability_referable"] >= patients["threshold"],
            patients["num_not_graded"] > 0,
        ],
        ANSWERS[:2],
        ANSWERS[2],
    )
    patients = patients.rename_axis("patient").reset_index()
    path = grades.with_name(f"{grades.stem}.patients.csv")
    patients.to_csv(path, index=False, sep=sep, decimal=decimal, encoding=ENCODINGS[sep])
    return patients


def grade_prepared(
    folder: ModelFolder,
    data_dir: Path,
    out: Path,
    *,
    split: str = "split.csv",
    is_external: bool = False,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> None:
    """Grade the crops of a prepared folder and write predictions.csv, to be evaluated.

    Of the folder that the model learned from, the validation and the test side by the same split;
    of any other folder, where the caller says that it is external, every photograph, all of them
    test: an external validation, which takes the thresholds from the model's predictions of its own
    folder. Where these lie beside the model, where a training leaves them, photographs and patients
    that it learned from are found; else the caller alone knows.

    Args:
        folder: a trained or an exported model, which knows what it learned from.
        data_dir: a prepared folder.
        out: the CSV; see `write_predictions`.
        split: file name of the split table.
        is_external: the model learned from none of these photographs.
        progress: called with (done, total).

    Raises:
        DrError: the folder is not the model's and is_external is not said, or the other way round;
            the model learned from these crops by another split, was made for other crops, or does
            not say what it learned from.
    """
    prepared = Prepared(data_dir, split)
    _check_origin(folder.facts, prepared, is_external)
    photographs = prepared.photographs
    sides = (*LEARNED, "test") if is_external else ("validation", "test")
    photographs = photographs[photographs["split"].isin(sides)].reset_index(drop=True)
    if is_external:
        _check_unseen(folder.path.parent / PREDICTIONS, photographs)

    image_size = folder.facts["image_size"]
    is_keras = folder.facts["format"] == "keras"
    predict = _open(folder)
    crops = prepared.open_crops(photographs, image_size)
    step = len(crops) if is_keras else BATCH  # Keras makes batches of its own
    predicted = []
    for start in range(0, len(crops), step):
        predicted.append(predict(crops if is_keras else crops[start : start + step]))
        progress(min(start + step, len(crops)), len(crops))
    prepared.write_predictions(
        out,
        [(photographs["image_id"].to_numpy(), np.concatenate(predicted))],
        # of Keras the network's own name
        f"{folder.facts['model']}_{image_size if is_keras else folder.facts['format']}",
        folder.version,
        is_external=is_external,
    )


def _check_origin(facts: dict[str, Any], prepared: Prepared, is_external: bool) -> None:
    """See that these crops are the model's own, or are said not to be."""
    data = prepared.describe()
    data_dir = prepared.path
    for name in ("crop_size", "crop_method"):
        if data[name] != facts[name]:
            raise DrError(
                f"{data_dir}: its {name} is {data[name]}, the model's {facts[name]}: prepare it"
                " likewise"
            )
    if not facts["data_sha256"]:
        raise DrError(
            "the model's manifest does not say what it learned from (data_sha256): nothing can be a"
            " test"
        )
    is_own = data["data_sha256"] == facts["data_sha256"]
    if is_own and is_external:
        raise DrError(f"the model learned from {data_dir}: leave out --external")
    if not is_own and not is_external:
        raise DrError(
            f"{data_dir} is not as it was when the model learned: give the folder as it was, or, if"
            " the model learned from none of its photographs, say --external, and all of them"
            " become test photographs"
        )
    if not is_external and data["split_sha256"] != facts["split_sha256"]:
        raise DrError(
            f"the model learned from {data_dir} by another split table than {prepared.split}: give"
            " it as --split"
        )


def _check_unseen(learned: Path, photographs: pd.DataFrame) -> None:
    """See that a model learned from none of these, where its training says from which."""
    if not learned.is_file():
        return
    table = pd.read_csv(learned, dtype=str, keep_default_na=False)
    table = table[table["split"].isin(LEARNED)]
    for name in ("image_id", "patient_id"):
        if both := set(table[name]) & set(photographs[name].astype(str)):
            raise DrError(
                f"the model learned from {len(both)} {name} of these: that is no external"
                " validation"
            )


def _read_learned(folder: ModelFolder, data_dir: Path | None, split: str) -> np.ndarray | None:
    """The perceptual hashes, (n, 32) uint8, of what a model learned from; None if not known."""
    learned_by = folder.facts["split_sha256"]
    if data_dir is None:
        return None if learned_by else np.empty((0, 32), np.uint8)  # never trained
    prepared = Prepared(data_dir, split)
    if prepared.describe()["split_sha256"] != learned_by:
        raise DrError(
            f"the model did not learn by {split} of {data_dir} as it is now: give what it learned"
            " from, or leave --data out, and in_training is unknown"
        )
    table = prepared.photographs
    digits = "".join(table.loc[table["split"].isin(LEARNED), "perceptual_hash"])
    return np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, 32)


def _open(folder: ModelFolder) -> Callable[[np.ndarray], np.ndarray]:
    """What makes probabilities of crops; Keras of a trained model, as its training did."""
    if folder.facts["format"] != "keras":
        return Predictor(folder, count_cpus(), max_pixels=MAX_PIXELS).predict
    activate(choose(probe(), Request(batch_size=BATCH)))
    from dr_lib.serving.export.convert import load_network
    from dr_lib.training.fit import predict

    averaged = folder.facts.get("test_time_augmentation", False)
    network = load_network(folder.artifact)
    return partial(predict, network, batch_size=BATCH, average_mirrored=averaged)


def _list_files(path: Path) -> list[Path]:
    path = Path(os.path.abspath(path))  # another folder may hold the same names
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there")
    return find_files(path)[0] if path.is_dir() else [path]


def _write_name(file: Path) -> str:
    """A file's name as the table has it."""
    return str(file).encode("utf-8", "backslashreplace").decode()


def _write_cell(cell: object, sep: str) -> object:
    return str(cell).replace(".", ",") if sep == ";" and isinstance(cell, float) else cell


def _read_kept(
    out: Path, columns: list[str], version: str, sep: str
) -> dict[str, dict[str, str]]:
    """The rows of the table by file; one that was not finished is cut off."""
    if out.suffix.lower() in PICTURES or (out.exists() and not out.is_file()):
        raise DrError(f"{out} is no table: name a CSV file for the grades")
    if not out.exists():
        return {}
    content = out.read_bytes()
    header = sep.join(columns).encode(ENCODINGS[sep]) + LINE_END
    whole = content[: content.rfind(LINE_END) + len(LINE_END)] if LINE_END in content else b""
    # a kill may come while the header is written
    if not whole.startswith(header) and not header.startswith(content):
        raise DrError(
            f"{out} is there and has other columns: name another file, it is not overwritten"
        )
    try:
        text = io.StringIO(whole.decode(ENCODINGS[sep]), newline="")
        rows = list(csv.DictReader(text, delimiter=sep))
    except UnicodeDecodeError as error:
        raise DrError(
            f"{out} was saved anew, not in UTF-8: name another file, it is not overwritten"
        ) from error
    if any(row["model_version"] != version for row in rows):
        raise DrError(
            f"{out} holds another model's grades: name another file, it is not overwritten"
        )
    os.truncate(out, len(whole))
    return {row["file"]: row for row in rows}


@lru_cache(maxsize=1)
def _load(folder: Path, version: str) -> Predictor:
    """The model, once for each process."""
    model = read_folder(folder)
    if model.version != version:
        raise ModelFolderError(
            f"{folder}: the model was replaced while it was used: start again"
        )
    return Predictor(model, 1, max_pixels=MAX_PIXELS)


def _grade(folder: Path, version: str, file: Path) -> tuple[dict[str, Any], str]:
    """A photograph's row, and the perceptual hash of its crop; empty where there is none."""
    row = {"file": _write_name(file), "in_training": "", "model_version": version, "error": ""}
    predictor = _load(folder, version)
    try:
        stored = predictor.store(file)
        answer = predictor.grade_stored(stored)
    except (DrError, ValueError, OSError) as error:
        # no fault of the photograph
        if getattr(error.__cause__ or error, "errno", 0) in (errno.ENOENT, errno.ESTALE):
            raise DrError(
                f"{file} is not there any more: bring the folder back, and start again, to go on"
            ) from error
        return {**row, "error": str(error)}, ""
    except MemoryError as error:
        raise DrError(
            "too little memory for a photograph: pass --workers 1, to go on"
        ) from error
    graded = {
        **row,
        "most_probable_grade": answer["most_probable_grade"],
        **{
            f"probability_{grade}": value for grade, value in enumerate(answer["probabilities"])
        },
        "probability_referable": answer["probability_referable"],
        "threshold": answer["threshold"],
        "referable_at_threshold": answer["referable_at_threshold"],
        "in_training": UNKNOWN,
        "fundus": answer["fundus"]["status"],
    }
    return graded, perceptual_hash(stored.encoded)
