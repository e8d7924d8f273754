"""Convert a Keras network to formats for serving: SavedModel, LiteRT with several precisions."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dr_lib.errors import DrError

if TYPE_CHECKING:
    import keras


def convert(
    network: "keras.Model",
    format_name: str,
    path: Path,
    *,
    calibration: np.ndarray | None = None,
) -> None:
    """Convert a network.

    Args:
        network: (n, side, side, 3) uint8 photographs -> (n, grades) float32, on the TensorFlow
            backend.
        format_name: one of FORMATS.
        path: of the artifact; nothing may be there yet.
        calibration: (n, side, side, 3) uint8 crops from the training split, for int8 alone: their
            activations set the scales. About 100 of all grades do.

    Raises:
        DrError: int8 without crops, or a converter that fails.
    """
    # scales of 0 end the process, from inside LiteRT
    is_calibrated = calibration is not None and np.ptp(calibration, axis=(1, 2)).any()
    if format_name == "litert_int8" and not is_calibrated:
        raise DrError(
            f"{format_name} needs calibration: crops of the training split that show something"
        )
    try:
        if format_name == "savedmodel":
            _write_savedmodel(network, path)
        else:
            path.write_bytes(_to_litert(network, format_name, calibration))
    except Exception as error:  # TensorFlow's derive from nothing else
        raise DrError(f"{format_name}: {error}") from error


def load_network(path: Path, model: str = "") -> "keras.Model":
    """Load a .keras file with its network's layers, without its optimizer, to compute in float32.

    A network that was trained in mixed precision has float32 weights; it serves in float32, because
    only some converters and few processors know float16.

    Raises:
        DrError: there is no such file, or Keras cannot read it.
    """
    import keras

    from dr_lib.training.models import find_network

    if ":" in model:
        find_network(model)  # its module registers layers of its own
    try:
        network = keras.saving.load_model(path, compile=False)
    except Exception as error:  # Keras raises whatever its archive and its layers meet
        raise DrError(
            f"{path} is not a Keras model that Keras {keras.__version__} can read: install the"
            f" version that {path.with_name('manifest.json')} names ({error})"
        ) from error
    config = network.to_json()
    if "mixed_" not in config:
        return network
    full = keras.models.model_from_json(re.sub("mixed_b?float16", "float32", config))
    full.set_weights(network.get_weights())
    return full


def _write_savedmodel(network: "keras.Model", path: Path) -> None:
    """Write one signature and the weights; `network.export` would store every weight twice."""
    import tensorflow as tf

    @tf.function(
        input_signature=[tf.TensorSpec(network.inputs[0].shape, tf.uint8, name="images")]
    )
    def grade(images):
        return {"probabilities": network(images, training=False)}

    module = tf.Module()
    module.weights = [weight.value for weight in network.weights]
    module.grade = grade
    tf.saved_model.save(module, str(path), signatures={"serving_default": grade})


def _to_litert(
    network: "keras.Model", format_name: str, calibration: np.ndarray | None
) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(network)
    if format_name == "litert_int8":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        # float32 where one knows no int8
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.representative_dataset = lambda: ([image[None]] for image in calibration)
    return converter.convert()
