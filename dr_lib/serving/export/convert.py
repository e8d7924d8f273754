"""Convert a Keras network to formats for serving: SavedModel, LiteRT with several precisions."""

import contextlib
import io
import json
import logging
import os
import re
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dr_lib.command import write_install
from dr_lib.errors import DrError
from dr_lib.training.model_folder import count_bytes

if TYPE_CHECKING:
    import keras

# of an artifact to its ideal size, parameters x bytes: what is stored twice is far above
MAX_RATIO = 1.15
# A graph costs bytes whatever its weights: names, shapes and scales of the small network's 30
# operations take 7-40 kB.
GRAPH_BYTES = 64 * 1024
MIB = 2**20


class Format(NamedTuple):
    """How a format stores a network."""

    artifact: str  # name of the file, or of SavedModel's folder
    bytes_per_parameter: int


FORMATS = {
    "savedmodel": Format("saved_model", 4),
    "litert_float32": Format("model.tflite", 4),
    "litert_float16": Format("model.tflite", 2),  # weights alone; a CPU computes in float32
    # weights alone; activations are rounded call by call
    "litert_dynamic_int8": Format("model.tflite", 1),
    "litert_int8": Format("model.tflite", 1),  # every operation, with scales from calibration
}


def find_format(name: str) -> Format:
    """Find a format by name; raise DrError if there is none."""
    if name not in FORMATS:
        raise DrError(f"format {name!r}: choose from {', '.join(FORMATS)}")
    return FORMATS[name]


def convert(
    network: "keras.Model",
    format_name: str,
    path: Path,
    *,
    calibration: np.ndarray | None = None,
) -> int:
    """Convert a network, and check that the artifact is about as large as its weights.

    What the converters write to stdout, stderr and the log is dropped. The process's own streams
    are turned away meanwhile, so nothing else should print from another thread.

    Args:
        network: (n, side, side, 3) uint8 photographs -> (n, grades) float32, on the TensorFlow
            backend.
        format_name: one of FORMATS.
        path: of the artifact; nothing may be there yet.
        calibration: (n, side, side, 3) uint8 crops from the training split, for int8 alone: their
            activations set the scales. About 100 of all grades do.

    Returns:
        The artifact's size in bytes, at most MAX_RATIO x its ideal size + GRAPH_BYTES, and the
        scales of int8.

    Raises:
        DrError: Keras runs on another backend, int8 without crops, a missing package, a
            converter that fails, too large an artifact.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        raise DrError(
            "converters need TensorFlow: set KERAS_BACKEND=tensorflow before keras is imported"
        )
    # scales of 0 end the process, from inside LiteRT
    is_calibrated = calibration is not None and np.ptp(calibration, axis=(1, 2)).any()
    family, _, precision = format_name.partition("_")
    if precision == "int8" and not is_calibrated:
        raise DrError(
            f"{format_name} needs calibration: crops of the training split that show something"
        )
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".converting-") as folder:
        temporary = Path(folder) / path.name
        with _keep_quiet(format_name):
            if family == "savedmodel":
                _write_savedmodel(network, temporary)
            else:
                temporary.write_bytes(_to_litert(network, precision, calibration))
        size = count_bytes(temporary)
        ideal = count_ideal_bytes(network, format_name)
        if size > MAX_RATIO * ideal + GRAPH_BYTES + _count_scale_bytes(network, precision):
            raise DrError(
                f"{format_name}: {size / MIB:.2f} MiB for {ideal / MIB:.2f} MiB of weights:"
                " something is stored twice or in a different precision"
            )
        temporary.rename(path)
    return size


def count_ideal_bytes(network: "keras.Model", format_name: str) -> int:
    """Count the bytes of the weights alone, in a format's precision."""
    return network.count_params() * FORMATS[format_name].bytes_per_parameter


def _count_scale_bytes(network: "keras.Model", precision: str) -> int:
    """Count the bytes that int8 adds for each filter: 12 for the scale and zero point of its
    weights, 12 for those of its bias, 4 for the bias.
    """
    if precision not in ("int8", "dynamic_int8"):
        return 0
    shapes = [weight.shape for weight in network.weights if len(weight.shape) > 1]
    # of a depthwise convolution the last but one are its channels
    return 28 * sum(shape[-1] if shape[-1] > 1 else shape[-2] for shape in shapes)


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
        fault = f"{path} is not a Keras model that this library can read: {error}"
        version = _read_version(path)
        if version not in ("", keras.__version__):
            advice = write_install(f"keras=={version}")
            fault = f"{path} was written by Keras {version}, which Keras {keras.__version__}"
            fault += f" cannot read: {advice}"
        raise DrError(fault) from error
    config = network.to_json()
    if "mixed_" not in config:
        return network
    full = keras.models.model_from_json(re.sub("mixed_b?float16", "float32", config))
    full.set_weights(network.get_weights())
    return full


def _read_version(path: Path) -> str:
    """Read which Keras wrote a .keras file; empty if that cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("metadata.json"))["keras_version"]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return ""


@contextlib.contextmanager
def _keep_quiet(format_name: str) -> Iterator[None]:
    """Drop the hundreds of lines that Python and C++ print."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    # stderr stays: a logger made now would keep another one
    quiet = contextlib.redirect_stdout(io.StringIO())
    errors = os.dup(2)
    try:
        with open(os.devnull, "wb") as null, warnings.catch_warnings(), quiet:
            os.dup2(null.fileno(), 2)
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # TensorFlow's derive from nothing else
        raise DrError(f"{format_name}: {error}") from error
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        logging.disable(disabled)


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


def _to_litert(network: "keras.Model", precision: str, calibration: np.ndarray | None) -> bytes:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_keras_model(network)
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if precision == "int8":
        # float32 where one knows no int8
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.representative_dataset = lambda: ([image[None]] for image in calibration)
    return converter.convert()
