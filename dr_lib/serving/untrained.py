"""A model folder with an untrained network, to measure size and time."""

from pathlib import Path

import numpy as np

from dr_lib.data.labels.grades import GRADES
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.hardware import import_keras
from dr_lib.serving.export import FORMATS
from dr_lib.serving.export.convert import convert
from dr_lib.training.model_folder import ModelFolder, write_folder


def export_untrained(
    folder: Path,
    model: str,
    image_size: int,
    format_name: str = "keras",
    *,
    examples: np.ndarray | None = None,
    seed: int = 0,
) -> ModelFolder:
    """Build a network with random weights and save it; size and speed do not depend on the weights.

    A deep network that nobody trained gives nearly the same answer for every photograph.

    Args:
        folder: to write, made where it is not there.
        model: any network, see `dr_lib.training.models.find_network`.
        image_size: side of the square input [px].
        format_name: keras, or of `convert.FORMATS`; no gate judges it.
        examples: (n, side, side, 3) uint8 crops, needed for int8, whose scales they set.
        seed: of the weights.
    """
    keras = import_keras("tensorflow")
    from dr_lib.training.models import build_model, save_model

    keras.utils.set_random_seed(seed)
    network = build_model(model, image_size, task="grades", seed=seed)
    folder.mkdir(parents=True, exist_ok=True)
    if format_name == "keras":
        artifact = folder / "model.keras"
        save_model(network, artifact)
    else:
        artifact = folder / FORMATS[format_name]
        convert(network, format_name, artifact, calibration=examples)

    facts = {
        "format": format_name,
        "model": model,
        "num_parameters": network.count_params(),
        "image_size": image_size,
        "grades": list(GRADES),
        "threshold": 0.5,
        "crop_size": max(IMAGE_SIZE, image_size),
        "crop_method": "robust",
        "weights": "none: random weights, untrained",
        "data_kind": "none",
        **dict.fromkeys(("data_sha256", "labels_sha256", "split_sha256", "commit"), ""),
        "metrics": {},
        "warning": "The model is untrained: its answers mean nothing.",
        "versions": {"keras": keras.__version__},
    }
    return write_folder(folder, artifact.name, facts)
