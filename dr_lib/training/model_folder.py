"""A model folder: one artifact, and a manifest with everything that serving needs.

Whoever serves reads it: this file needs the standard library alone.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from dr_lib import files
from dr_lib.command import write_command
from dr_lib.errors import DrError
from dr_lib.schema import SCHEMA, find_other_schema

MANIFEST = "manifest.json"
# what a manifest says, beside threshold_from and anything else that whoever wrote it knew
FACTS = {
    "format": str,  # keras, savedmodel, or litert_ and its precision
    "model": str,
    "num_parameters": int,
    "image_size": int,
    # names of those that it tells apart; empty where it answers whether an eye is referable alone
    "grades": list,
    # an eye is referable where the probability of grade 2 or worse is at least that
    "threshold": float,
    "preprocessing": str,
    "crop_size": int,  # px, before it is shrunk to image_size
    "crop_method": str,
    "weights": str,
    "data_kind": str,  # synthetic or photographs
    "data_sha256": str,  # of the crops; what is known of them and the split have their own
    "labels_sha256": str,
    "split_sha256": str,
    "metrics": dict,
    "commit": str,
    "versions": dict,
    "created_at": str,
}
EXPORT = write_command("export", "FOLDER", "--data", "DATA", "--out", "exported")


class ModelFolderError(DrError):
    """A folder holds no usable model; the message says what is wrong with it."""


class ModelFolder(NamedTuple):
    """A folder whose artifact matches its manifest."""

    path: Path
    facts: dict[str, Any]

    @property
    def artifact(self) -> Path:
        """The path of the model itself: a file, or a SavedModel's folder."""
        return self.path / self.facts["artifact"]

    @property
    def version(self) -> str:
        """The first 12 digits of the artifact's sha256."""
        return self.facts["sha256"][:12]


def write_folder(folder: Path, artifact: str, facts: Mapping[str, Any]) -> ModelFolder:
    """Write the manifest of an artifact in the folder: all of FACTS and any further facts.

    Where the facts do not name them, they were made now, for the preprocessing of this version.

    Raises:
        ModelFolderError: the artifact is not there, or a fact is missing or of the wrong kind.
    """
    manifest = {
        "preprocessing": (
            "crop_fundus; JPEG q95; shrunk by area to image_size; uint8 RGB, scaled in the model"
        ),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
        "schema": SCHEMA,
        "artifact": artifact,
        "bytes": count_bytes(folder / artifact),
        "sha256": _digest(folder / artifact),
    }
    manifest = replace_nan(manifest)
    _check(manifest, folder)
    files.write_json(folder / MANIFEST, manifest)
    return ModelFolder(folder, manifest)


def replace_nan(content: Any) -> Any:
    """Return what JSON can hold of a content: null for what is no number."""
    return json.loads(json.dumps(content), parse_constant=lambda _: None)


def read_folder(folder: Path) -> ModelFolder:
    """Read a model folder and check that its artifact has not changed.

    Raises:
        ModelFolderError: it holds no model; a fact is missing, or the artifact is not there, cut
            short or another one.
    """
    folder = Path(folder)
    facts = _read_manifest(folder)
    _check(facts, folder)
    model = ModelFolder(folder, facts)
    name = facts["artifact"]
    if Path(name).name != name or model.artifact.is_symlink():
        raise ModelFolderError(f"{folder}: the artifact {name!r} must be in the folder itself")
    try:
        sha256 = _digest(model.artifact)
    except OSError as error:
        raise ModelFolderError(f"{folder}: {name} cannot be read: {error.strerror}") from error
    if sha256 != facts["sha256"]:
        raise ModelFolderError(
            f"{folder}: {name} does not match {MANIFEST}: copy or export the model again"
        )
    return model


def list_files(artifact: Path) -> list[Path]:
    """List an artifact's files in order: itself, or all in a SavedModel's folder.

    Raises:
        ModelFolderError: there is none.
    """
    listed = [artifact] if artifact.is_file() else []
    for path in artifact.rglob("*"):
        if path.is_file() and not any(map(files.is_foreign, path.relative_to(artifact).parts)):
            listed.append(path)
    listed.sort()
    if not listed:
        raise ModelFolderError(f"{artifact} does not exist")
    return listed


def count_bytes(artifact: Path) -> int:
    """Count the bytes of an artifact; raise ModelFolderError if it is missing."""
    return sum(path.stat().st_size for path in list_files(artifact))


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of a model's folder; that of a prepared folder names no artifact."""
    with suppress(OSError, ValueError, TypeError):
        facts = json.loads((folder / MANIFEST).read_bytes())
        if "artifact" in facts:
            return facts
    above = folder if folder.is_dir() else folder.parent
    names = [path.parent.name for path in sorted(above.glob(f"*/{MANIFEST}"))]
    train = write_command("run", "papermill_runs/grades.yaml")
    raise ModelFolderError(
        f"{folder} holds no model of this suite, a folder with a {MANIFEST}: unpack an archive "
        f"first, or give a folder in {above} ({', '.join(names) or 'none'} has a {MANIFEST}); to "
        f"make one: {train}, then {EXPORT}"
    )


def _check(facts: Mapping[str, Any], folder: Path) -> None:
    if fault := find_other_schema(facts, "train or export it again"):
        raise ModelFolderError(f"{folder}: {fault}")
    artifact = {"artifact": str, "bytes": int, "sha256": str}
    for name, kind in (FACTS | artifact).items():
        value = facts.get(name)
        is_kind = isinstance(value, (int, float) if kind is float else kind)
        if not is_kind or isinstance(value, bool):
            raise ModelFolderError(
                f"{folder}: {name} is {value!r}, it must be a {kind.__name__}"
            )
    if not 0 <= facts["threshold"] <= 1:
        raise ModelFolderError(f"{folder}: threshold {facts['threshold']}: out of range")
    if facts["image_size"] < 1:
        raise ModelFolderError(f"{folder}: image_size {facts['image_size']}: out of range")


def _digest(artifact: Path) -> str:
    """Compute the SHA-256 of a file, or of a folder's file names and SHA-256s."""
    if artifact.is_dir():
        listed = "".join(
            f"{path.relative_to(artifact).as_posix()} {_digest(path)}\n"
            for path in list_files(artifact)
        )
        return hashlib.sha256(listed.encode()).hexdigest()
    return files.hash_file(artifact)
