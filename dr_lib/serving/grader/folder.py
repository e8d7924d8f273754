"""A model folder: one artifact, a manifest that says what serving it needs, and a model card.

Whoever serves reads it: this file needs the standard library alone.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dr_lib import files
from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM

if TYPE_CHECKING:
    from dr_lib.training.config import TrainingConfig
    from dr_lib.training.train_once import Trained

MANIFEST = "manifest.json"
CARD = "README.md"
PREPROCESSING = (
    "crop_fundus; JPEG q95; shrunk by area to image_size; uint8 RGB, scaled in the model"
)
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
ARTIFACT = {"artifact": str, "bytes": int, "sha256": str}


class ModelFolderError(ValueError):
    """A folder holds no model that can be used; the message says what is wrong with it."""


class ModelFolder(NamedTuple):
    """A folder whose artifact is the one that its manifest names."""

    path: Path
    facts: dict[str, Any]

    @property
    def artifact(self) -> Path:
        """The model itself: a file, or a SavedModel's folder."""
        return self.path / self.facts["artifact"]

    @property
    def version(self) -> str:
        """The first 12 digits of the artifact's sha256."""
        return self.facts["sha256"][:12]


def write_folder(folder: Path, artifact: str, facts: Mapping[str, Any]) -> ModelFolder:
    """Write the manifest, all of FACTS and whatever else is known, and the card of an artifact in
    the folder.

    Where the facts do not name them, they were made now, for the preprocessing of this version.

    Raises:
        ModelFolderError: the artifact is not there, or a fact is missing or of the wrong kind.
    """
    made = {
        "preprocessing": PREPROCESSING,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    measured = {
        "artifact": artifact,
        "bytes": count_bytes(folder / artifact),
        "sha256": _digest(folder / artifact),
    }
    known = json.dumps({**made, **facts, **measured})
    # JSON has no word for NaN
    written = _check(json.loads(known, parse_constant=lambda _: None), folder)
    files.write_json(folder / MANIFEST, written)
    files.write_text(folder / CARD, describe(written))
    return ModelFolder(folder, written)


def write_trained(
    network: Path, config: "TrainingConfig", trained: "Trained", commit: str
) -> ModelFolder:
    """Move the .keras file that `train_once` left into a model folder beside it, `model`."""
    folder = network.parent / "model"
    row = trained.row
    folder.mkdir(exist_ok=True)
    network.replace(folder / "model.keras")
    chosen = "for a sensitivity of 0.9 on the validation split"
    facts = {
        "format": "keras",
        "model": config.model,
        "image_size": config.image_size,
        "grades": list(GRADES) if config.task == "grades" else [],
        "threshold": trained.scores["threshold"],
        "threshold_from": (
            chosen
            if "validation" in trained.splits
            else "not chosen, for lack of a validation split"
        ),
        "test_time_augmentation": config.parts.test_time_augmentation,
        "weights": Path(config.weights).name,
        "metrics": trained.scores,
        "commit": commit,
        "versions": {name: row[name] for name in ("keras", "numpy")},
    }
    facts = {name: row[name] for name in FACTS if name in row} | facts
    return write_folder(folder, "model.keras", facts)


def read_folder(folder: Path) -> ModelFolder:
    """Read a model folder, and check that the artifact is the one that was written.

    Raises:
        ModelFolderError: no manifest, a fact is missing, or the artifact is not there, cut short or
            another one.
    """
    try:
        facts = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError as error:
        advice = (
            "give one that export leaves, such as exported/litert_int8; export takes model/ of"
            " notebook 10's runs"
        )
        raise ModelFolderError(
            f"{folder} holds no model, for it has no {MANIFEST}: {advice}"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFolderError(
            f"{folder} holds no model: its {MANIFEST} cannot be read ({reason})"
        ) from error
    found = ModelFolder(folder, _check(facts, folder))
    name = found.facts["artifact"]
    if Path(name).name != name or found.artifact.is_symlink():
        raise ModelFolderError(f"{folder}: the artifact {name!r} has to lie in the folder itself")
    try:
        size = count_bytes(found.artifact)
        sha256 = _digest(found.artifact)
    except OSError as error:
        raise ModelFolderError(f"{folder}: {name} cannot be read: {error.strerror}") from error
    if (size, sha256) != (found.facts["bytes"], found.facts["sha256"]):
        raise ModelFolderError(
            f"{folder}: {name} is not what {MANIFEST} says: copy or export the model again"
        )
    return found


def describe(facts: Mapping[str, Any]) -> str:
    """The model card, as Markdown: what the model is, what it was made from, and what it must
    not be used for.
    """
    is_synthetic = facts["data_kind"] == "synthetic"
    grades = facts["grades"]
    answer = "Says how probable it is that a fundus photograph shows referable retinopathy"
    if grades:
        answer = (
            "Grades a fundus photograph:"
            f" {', '.join(f'{k} {name}' for k, name in enumerate(grades))}"
        )
    before = "" if facts["format"] == "keras" else "of the network before export"
    metrics = _tabulate(facts["metrics"])
    gate = _tabulate(facts.get("gate", {}))
    lines = [
        (
            f"# {facts['model']}, {facts['image_size']} px,"
            f" {'five grades' if grades else 'referral'} ({facts['format']})"
        ),
        "> **Made from a SYNTHETIC SAMPLE, not from photographs.**" if is_synthetic else "",
        (
            f"{answer}. An eye is called referable where the probability of grade {REFERABLE_FROM}"
            " or worse is at least "
            f"{facts['threshold']:.4g}"
            f" ({facts.get('threshold_from', 'how it was chosen is not known')}"
            f"{before and f'; {before}'})."
        ),
        (
            f"- parameters: {facts['num_parameters']:,}; artifact: {facts['artifact']},"
            f" {facts['bytes']:,} bytes, sha256 {facts['sha256']}\n- initial weights:"
            f" {facts['weights']}\n- preprocessing: {facts['preprocessing']}; crops of"
            f" {facts['crop_size']} px, {facts['crop_method']}\n- data: {facts['data_kind']}, crops"
            f" {facts['data_sha256']}, labels {facts['labels_sha256']}, split"
            f" {facts['split_sha256']}\n- commit: {facts['commit']};"
            f" {', '.join(f'{name} {version}' for name, version in facts['versions'].items())};"
            f" {facts['created_at']}"
        ),
        (
            f"## Test split{before and f', {before}'}\n\n| metric | value |\n| --- | --- |\n"
            + metrics
            if metrics
            else ""
        ),
        "## What the export changed\n\n| | |\n| --- | --- |\n" + gate if gate else "",
        "## Limits",
        (
            "No medical device: not for deciding about a patient. Its figures hold for the data"
            " above; other cameras and other populations need a test of their own."
        ),
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def list_files(artifact: Path) -> list[Path]:
    """An artifact's files, in order: itself, or all in a SavedModel's folder; ModelFolderError
    where there is none.
    """
    inside = artifact.rglob("*") if artifact.is_dir() else [artifact]
    listed = sorted(path for path in inside if path.is_file())
    if not listed:
        raise ModelFolderError(f"{artifact} is not there")
    return listed


def count_bytes(artifact: Path) -> int:
    """Bytes of an artifact; ModelFolderError where it is not there."""
    return sum(path.stat().st_size for path in list_files(artifact))


def _tabulate(values: Mapping[str, Any]) -> str:
    shown = {
        name: f"{value:.4g}" if isinstance(value, float) else value
        for name, value in values.items()
    }
    return "\n".join(f"| {name} | {value} |" for name, value in shown.items())


def _check(facts: Any, folder: Path) -> dict[str, Any]:
    if not isinstance(facts, dict):
        raise ModelFolderError(f"{folder}: {MANIFEST} is no table of facts")
    for name, kind in {**FACTS, **ARTIFACT}.items():
        value = facts.get(name)
        if not isinstance(value, (int, float) if kind is float else kind) or isinstance(
            value, bool
        ):
            raise ModelFolderError(f"{folder}: {name} is {value!r}, it has to be a {kind.__name__}")
    threshold = facts["threshold"]
    image_size = facts["image_size"]
    if not 0 <= threshold <= 1 or image_size < 1:
        raise ModelFolderError(
            f"{folder}: threshold {threshold}, image_size {image_size}: out of range"
        )
    return facts


def _digest(artifact: Path) -> str:
    """Of a file its sha256; of a folder that of its files' names and sha256."""
    if artifact.is_dir():
        listed = "".join(
            f"{path.relative_to(artifact).as_posix()} {_digest(path)}\n"
            for path in list_files(artifact)
        )
        return hashlib.sha256(listed.encode()).hexdigest()
    with artifact.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
