"""A model folder of a network that nobody trained: for size and time, where there is no trained
one.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from dr_lib.data.labels.grades import GRADES
from dr_lib.data.photograph.pixels import IMAGE_SIZE
from dr_lib.hardware import import_tensorflow
from dr_lib.serving.export.convert import convert, find_format
from dr_lib.serving.grader.folder import ModelFolder, write_folder


def export_untrained(
    folder: Path,
    model: str,
    image_size: int,
    format_name: str = "keras",
    *,
    examples: np.ndarray | None = None,
    commit: str = "",
    seed: int = 0,
) -> ModelFolder:
    """Build a network with random weights and save it; an artifact's size and speed do not depend
    on the weights.

    Args:
        folder: to write, made where it is not there.
        model: mobilenet, vgg19 or small_cnn.
        image_size: side of the square input [px].
        format_name: keras, or of `convert.FORMATS`; no gate judges it, for there is no accuracy to
            lose.
        examples: (n, side, side, 3) uint8 crops, needed for int8, whose scales they set. With them
            the answers differ from one photograph to another; without, a deep network gives nearly
            the same one for all.
        commit: of the repository.
        seed: of the weights.

    Raises:
        ExportError: unknown format, or the conversion failed.
    """
    import_tensorflow()
    import keras

    from dr_lib.training.graders import build_grader
    from dr_lib.training.models import save_model

    artifact = folder / (
        "model.keras" if format_name == "keras" else find_format(format_name).artifact
    )
    keras.utils.set_random_seed(seed)
    network = build_grader(model, image_size, seed=seed)
    if examples is not None:
        _spread_answers(network, examples[:16])
    folder.mkdir(parents=True, exist_ok=True)
    if format_name == "keras":
        save_model(network, artifact)
    else:
        artifact.unlink(missing_ok=True)
        convert(network, format_name, artifact, calibration=examples)
    facts = {
        "format": format_name,
        "model": model,
        "num_parameters": network.count_params(),
        "image_size": image_size,
        "grades": list(GRADES),
        "threshold": 0.5,
        "threshold_from": "not chosen",
        "crop_size": max(IMAGE_SIZE, image_size),
        "crop_method": "robust",
        "weights": "none: initialised at random, untrained",
        "data_kind": "none",
        "data_sha256": "",
        "labels_sha256": "",
        "split_sha256": "",
        "metrics": {},
        "commit": commit,
        "versions": {"keras": keras.__version__},
    }
    return write_folder(folder, artifact.name, facts)


def _spread_answers(network, examples: np.ndarray) -> None:
    """Standardise the features of every layer over some photographs, batch normalisation's by its
    own statistics.

    A data-dependent initialisation, after Krähenbühl et al. 2016, while the photographs pass
    through the network.
    """
    from dr_lib.training.models import list_layers

    layers = list_layers(network)
    for layer in layers:
        layer.call = partial(_standardise, layer, layer.call)
    network(examples)
    for layer in layers:
        del layer.call


def _standardise(layer, call: Callable, x, **kwargs):
    """Call a layer once its weights standardise what comes out of it before its activation."""
    if hasattr(layer, "moving_mean"):
        mean, variance = _find_moments(x)
        layer.moving_mean.assign(mean)
        layer.moving_variance.assign(variance)
    elif getattr(layer, "bias", None) is not None:
        activation, layer.activation = layer.activation, None
        mean, variance = _find_moments(call(x))
        layer.activation = activation
        layer.kernel.assign(layer.kernel / np.sqrt(variance))
        layer.bias.assign((layer.bias - mean) / np.sqrt(variance))
    return call(x, **kwargs)


def _find_moments(x) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each feature, the last axis; never 0, for a feature may be the same
    everywhere.
    """
    x = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
    return x.mean(axis=0), x.var(axis=0) + 1e-6
