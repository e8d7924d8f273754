"""From a trained model's folder to folders to serve, one for each format that passes."""

import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.export import FORMATS, gate
from dr_lib.serving.export.convert import convert, load_network
from dr_lib.serving.grader.models import BATCH, open_model, predict_all
from dr_lib.training.model_folder import (
    MANIFEST,
    ModelFolder,
    count_bytes,
    list_files,
    read_folder,
    write_folder,
)

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
) -> pd.DataFrame:
    """Convert a trained model, compare each format with the Keras network, and write those that
    pass.

    `out`/<format> becomes a model folder with the source's facts and the gate's row, renamed into
    its place in one step. A refused format writes nothing and leaves what lay there.

    Args:
        folder: a model folder that holds a .keras file.
        out: where the folders go.
        formats: of `convert.FORMATS`.
        calibration: (n, side, side, 3) uint8 crops of the training split, for int8.
        labelled: of a split that nothing was chosen on.
        force: write what the gate refuses too; its manifest says so.

    Returns:
        One row per format: format, artifact_mib, what `gate.compare` gives, forced, and folder
        (empty where nothing was written).

    Raises:
        DrError: the folder holds no Keras model that grades, there are no photographs, the model
            may have learned from them or gives all the same probability, or a conversion failed.
    """
    source = _open_source(folder, labelled)
    network = load_network(source.artifact, source.facts["model"])
    before = network.predict(labelled.images, batch_size=BATCH, verbose=0)
    if not force:
        gate.check_model(before)
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for format_name in formats:
        print(f"converting to {format_name} and comparing")
        with tempfile.TemporaryDirectory(dir=out, prefix=".exporting-") as temporary:
            new = Path(temporary) / format_name
            new.mkdir()
            artifact = new / FORMATS[format_name]
            convert(network, format_name, artifact, calibration=calibration)
            after = predict_all(
                open_model(format_name, artifact, count_cpus()), labelled.images
            )
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
            rows.append(row)
            if not (force or row["passes"]):
                row["folder"] = ""
                continue
            facts = {
                **source.facts,
                "source_sha256": source.facts["sha256"],
                "format": format_name,
                "gate": row,
                "warning": row["warning"] or source.facts.get("warning", ""),
            }
            write_folder(new, artifact.name, facts)
            target = out / format_name
            if target.exists():
                target.rename(new.parent / "old")
            new.rename(target)
            row["folder"] = str(target)
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


def pack_folder(folder: Path, path: Path) -> None:
    """Pack a model folder into a model.tar.gz for SageMaker: the files at the archive's root.

    Nothing is packed but artifact and manifest, and no name of a user.
    """
    model = read_folder(folder)
    with tarfile.open(path, "w:gz") as archive:
        for file in (model.path / MANIFEST, *list_files(model.artifact)):
            # of no owner and no time
            entry = tarfile.TarInfo(file.relative_to(model.path).as_posix())
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                archive.addfile(entry, content)
