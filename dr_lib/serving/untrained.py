"""A model folder of a network that nobody trained: for size and time, where there is no trained one."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from dr_lib.data.labels.grades import GRADES
from dr_lib.serving.export.convert import FORMATS, convert, load_network
from dr_lib.serving.grader.folder import PREPROCESSING, ModelFolder, write_folder

WEIGHTS = "none: initialised at random, untrained"


def write_untrained(folder: Path, model: str, image_size: int, *, commit: str = "", seed: int = 0) -> ModelFolder:
    """Build a network with random weights and save it; an artifact's size and speed do not depend on the weights.

    Args:
        folder: to write, made where it is not there.
        model: mobilenet, vgg19 or small_cnn.
        image_size: side of the square input [px].
        commit: of the repository, for the manifest.
        seed: of the weights.
    """
    import keras

    from dr_lib.training.graders import build_grader
    from dr_lib.training.models import save_model

    keras.utils.set_random_seed(seed)
    network = build_grader(model, image_size, seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    save_model(network, folder / "model.keras")
    facts = {
        "format": "keras",
        "model": model,
        "num_parameters": network.count_params(),
        "image_size": image_size,
        "grades": list(GRADES),
        "threshold": 0.5,
        "threshold_from": "not chosen",
        "preprocessing": PREPROCESSING,
        "weights": WEIGHTS,
        "data_kind": "none",
        "data_manifest_sha256": "",
        "metrics": {},
        "commit": commit,
        "versions": {"keras": keras.__version__},
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return write_folder(folder, "model.keras", facts)


def export_untrained(
    folder: Path, model: str, image_size: int, format_name: str, *, calibration: np.ndarray, seed: int = 0
) -> ModelFolder:
    """Build a network with random weights and convert it, without the gate: there is no accuracy to lose.

    Args:
        folder: gets `model`, the Keras network's folder, and one named as the format.
        model: mobilenet, vgg19 or small_cnn.
        image_size: side of the square input [px].
        format_name: of `convert.FORMATS`.
        calibration: (n, side, side, 3) uint8 crops, for int8.
        seed: of the weights.

    Raises:
        ConversionError: unknown format, or the conversion failed.
    """
    source, exported = write_untrained(folder / "model", model, image_size, seed=seed), folder / format_name
    exported.mkdir(parents=True, exist_ok=True)
    artifact = exported / FORMATS[format_name].artifact if format_name in FORMATS else exported / "model"
    artifact.unlink(missing_ok=True)
    convert(load_network(source.artifact), format_name, artifact, calibration=calibration)
    return write_folder(exported, artifact.name, source.facts | {"format": format_name})
