"""From a trained model's folder to folders to serve, one for each format that passes."""

import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.serving.export import gate
from dr_lib.serving.export.convert import convert, find_format, load_network
from dr_lib.serving.export.runtimes import open_runtime
from dr_lib.training.model_folder import (
    MANIFEST,
    ModelFolder,
    count_bytes,
    list_files,
    read_folder,
    write_folder,
)

BATCH_SIZE = 16  # VGG19's first layers take 26 MB a photograph at 224 px
NOT_JUDGED = (
    "the model names no split, so it may have been trained on these photographs and was not judged:"
    " train it on a prepared folder"
)


def open_examples(
    prepared: Prepared, facts: Mapping[str, Any]
) -> tuple[np.ndarray, gate.Labelled]:
    """Open the crops of a prepared folder that calibrate and that judge a model's exports.

    Args:
        prepared: with the split that the model was trained with.
        facts: of the model's manifest.

    Returns:
        The first 100 crops of the training side, and all of the test side with their grades.
    """
    # decodes the few that are taken
    calibration = prepared.load("train", facts["image_size"], stream=True).images
    test = prepared.load("test", facts["image_size"])
    split_sha256 = prepared.describe()["split_sha256"]
    labelled = gate.Labelled(test.images, test.grade, test.patient_id, split_sha256)
    return calibration[:100], labelled


def export_model(
    folder: Path,
    out: Path,
    *,
    formats: Iterable[str],
    calibration: np.ndarray,
    labelled: gate.Labelled,
    force: bool = False,
    say: Callable[[str], object] = print,
) -> pd.DataFrame:
    """Convert a trained model, compare each format with the Keras network, and write those that
    pass.

    `out`/<format> becomes a model folder with the source's facts and the gate's row. It is written
    beside its place and then renamed; what lay there is replaced whole. A refused format writes
    nothing and leaves what lay there.

    Args:
        folder: a model folder that holds a .keras file.
        out: where the folders go.
        formats: of `convert.FORMATS`.
        calibration: (n, side, side, 3) uint8 crops of the training split, for int8.
        labelled: of a split that nothing was chosen on.
        force: write what the gate refuses too; its manifest says so.
        say: is told of each format before it is converted.

    Returns:
        One row per format: format, artifact_mib, what `gate.compare` gives, forced, and folder
        (empty where nothing was written).

    Raises:
        DrError: an unknown format, the folder holds no Keras model that grades, there are no
            photographs, the model may have learned from them or gives all the same probability, or
            a conversion failed.
    """
    formats = list(formats)
    for format_name in formats:
        find_format(format_name)
    source = _open_source(folder, labelled)
    network = load_network(source.artifact, source.facts["model"])
    before = network.predict(labelled.images, batch_size=BATCH_SIZE, verbose=0)
    if not force:
        gate.check_model(before)
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for format_name in formats:
        say(f"converting to {format_name} and comparing")
        with tempfile.TemporaryDirectory(dir=out, prefix=".exporting-") as temporary:
            new = Path(temporary) / format_name
            new.mkdir()
            artifact = new / find_format(format_name)
            convert(network, format_name, artifact, calibration=calibration)
            after = _predict(format_name, artifact, labelled.images)
            row = {
                "format": format_name,
                "artifact_mib": count_bytes(artifact) / 2**20,
                **gate.compare(
                    labelled.grade,
                    labelled.patient_id,
                    before,
                    after,
                    threshold=source.facts["threshold"],
                ),
            }
            if not source.facts["split_sha256"]:
                row |= {"passes": False, "reason": NOT_JUDGED}
            row["forced"] = force and not row["passes"]
            is_written = force or row["passes"]
            target = out / format_name
            if is_written:
                write_folder(new, artifact.name, _describe(source, row))
                if target.exists():
                    target.rename(new.parent / "old")
                new.rename(target)
            rows.append({**row, "folder": str(target) if is_written else ""})
    return pd.DataFrame(rows)


def _open_source(folder: Path, labelled: gate.Labelled) -> ModelFolder:
    """Open a model folder that can be exported and be judged by these photographs."""
    source = read_folder(folder)
    if source.facts["format"] != "keras":
        raise DrError(
            f"{folder} holds {source.facts['format']}: give the folder of the trained Keras model"
        )
    if not source.facts["grades"]:
        raise DrError(
            f"{folder} holds a model for referral: only models of task grades can be exported"
        )
    if not len(labelled.images):
        raise DrError("no labelled photographs: the test split is empty")
    # without one it is not judged, see NOT_JUDGED
    if source.facts["split_sha256"] not in ("", labelled.split_sha256):
        raise DrError(
            "the model was trained with another split, possibly on these test photographs: judge it"
            " with the split that it was trained with, or train it again"
        )
    return source


def _describe(source: ModelFolder, row: dict[str, Any]) -> dict[str, Any]:
    """Describe an export in the facts of its manifest: those of its source, and the gate's row."""
    return {
        **source.facts,
        "source_sha256": source.facts["sha256"],
        "format": row["format"],
        "gate": row,
        "warning": row["warning"] or source.facts.get("warning", ""),
    }


def _predict(format_name: str, artifact: Path, images: np.ndarray) -> np.ndarray:
    predict = open_runtime(format_name, artifact, num_threads=0)
    starts = range(0, len(images), BATCH_SIZE)
    return np.concatenate([predict(images[start : start + BATCH_SIZE]) for start in starts])


def pack_folder(folder: Path, path: Path) -> None:
    """Pack a model folder into a model.tar.gz for SageMaker: the files at the archive's root.

    Nothing is packed but artifact and manifest, and no name of a user.
    """
    model = read_folder(folder)

    def forget_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        return entry.replace(uid=0, gid=0, uname="", gname="", mtime=0, mode=0o644, deep=False)

    with tarfile.open(path, "w:gz") as archive:
        for file in (model.path / MANIFEST, *list_files(model.artifact)):
            archive.add(file, file.relative_to(model.path).as_posix(), filter=forget_owner)
