"""Open an artifact with the runtime that is asked for, and call every one of them in the same way.

A runtime is a function from (n, side, side, 3) uint8 photographs to (n, grades) float32 probabilities.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from dr_lib.serving.grader.folder import MANIFEST, read_folder

Predict = Callable[[np.ndarray], np.ndarray]

RUNTIMES = {  # runtime: the format that it reads
    "keras_predict": "keras",  # model.predict, which the paper timed
    "savedmodel": "savedmodel",
    "litert_float32": "litert_float32",
    "litert_float16": "litert_float16",
    "litert_dynamic_int8": "litert_dynamic_int8",
    "litert_int8": "litert_int8",
    "onnx_float32": "onnx_float32",
    "onnx_int8": "onnx_int8",
    "openvino_float32": "onnx_float32",
    "openvino_bf16": "onnx_float32",
    "openvino_int8": "onnx_int8",
}


class RuntimeOpeningError(RuntimeError):
    """The artifact cannot be run so; the message says what to install or to give."""


def open_runtime(name: str, path: Path, *, num_threads: int = 1) -> Predict:
    """Open an artifact with a runtime.

    TensorFlow has one pool of threads for the process: the first SavedModel or Keras model sets its size, and where
    TensorFlow has already computed with another number this is an error.

    Args:
        name: one of RUNTIMES.
        path: an artifact of the runtime's format, or a model folder that holds one.
        num_threads: that one prediction may use; 0 leaves it to the runtime, which takes the cores that there are.

    Returns:
        The function; it takes any number of photographs, and one thread at a time may call it.

    Raises:
        RuntimeOpeningError: unknown runtime, a package is missing, the folder holds another format, the artifact
            cannot be read, this processor lacks bfloat16, or TensorFlow's threads are set already.
        ModelFolderError: the folder's artifact is not the one in its manifest.
    """
    if name not in RUNTIMES:
        raise RuntimeOpeningError(f"runtime {name!r}: choose from {', '.join(RUNTIMES)}")
    if num_threads < 0:
        raise RuntimeOpeningError(f"{num_threads} threads: give 1 or more, or 0 for all cores")
    artifact = find_artifact(name, Path(path))
    family, _, precision = name.partition("_")
    try:
        return OPENERS[family](artifact, num_threads, precision)
    except RuntimeOpeningError:
        raise
    except Exception as error:  # every runtime has errors of its own
        raise RuntimeOpeningError(f"{artifact.name} cannot be opened as {name}: {error}") from error


def pin_tensorflow(num_threads: int) -> None:
    """Let TensorFlow compute on so many threads in this process; to be called before it computes anything.

    Raises:
        RuntimeOpeningError: it has already computed with another number.
    """
    threading = import_package("tensorflow").config.threading
    for kind in ("intra", "inter"):
        current = getattr(threading, f"get_{kind}_op_parallelism_threads")()
        if current == num_threads:
            continue
        try:
            getattr(threading, f"set_{kind}_op_parallelism_threads")(num_threads)
        except RuntimeError as error:
            raise RuntimeOpeningError(
                f"TensorFlow already computes on {current or 'all'} threads in this process: call "
                f"pin_tensorflow({num_threads}) before it is used, or open the model in a process of its own"
            ) from error


def find_artifact(name: str, path: Path) -> Path:
    """Find what a runtime reads: the artifact of a model folder, or the path itself.

    Raises:
        RuntimeOpeningError: nothing is there, or the folder holds another format.
        ModelFolderError: the folder's artifact is not the one in its manifest.
    """
    if not (path / MANIFEST).is_file():
        if path.exists():
            return path
        raise RuntimeOpeningError(f"{path} is not there: export the model as {RUNTIMES[name]} first")
    folder = read_folder(path)
    if folder.facts["format"] != RUNTIMES[name]:
        raise RuntimeOpeningError(f"{path} holds {folder.facts['format']}; {name} reads {RUNTIMES[name]}")
    return folder.artifact


def import_package(module: str) -> ModuleType:
    """Import a runtime's package.

    Raises:
        RuntimeOpeningError: it is not installed, or does not load on this machine.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RuntimeOpeningError(
            f"{module} cannot be imported ({error}): pip install {module.replace('_', '-')}"
        ) from error


def _open_keras(artifact: Path, num_threads: int, _: str) -> Predict:
    if num_threads:
        pin_tensorflow(num_threads)
    from dr_lib.serving.export.convert import load_network

    network = load_network(artifact)
    return lambda images: network.predict(images, verbose=0)


def _open_savedmodel(artifact: Path, num_threads: int, _: str) -> Predict:
    tf = import_package("tensorflow")
    if num_threads:
        pin_tensorflow(num_threads)
    loaded = tf.saved_model.load(str(artifact))
    signature = loaded.signatures["serving_default"]

    def predict(images: np.ndarray, _loaded: object = loaded) -> np.ndarray:  # without `loaded` its weights are freed
        return signature(images=tf.constant(images))["probabilities"].numpy()

    return predict


def _open_litert(artifact: Path, num_threads: int, _: str) -> Predict:
    import_package("ai_edge_litert")
    from dr_lib.serving.grader.litert import LiteRT

    return LiteRT(artifact, num_threads=num_threads or os.cpu_count() or 1)


def _open_onnx(artifact: Path, num_threads: int, _: str) -> Predict:
    onnxruntime = import_package("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = num_threads, 1
    session = onnxruntime.InferenceSession(str(artifact), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda images: session.run(None, {name: images})[0]


def _open_openvino(artifact: Path, num_threads: int, precision: str) -> Predict:
    request = compile_openvino(artifact, precision, num_threads).create_infer_request()
    return lambda images: request.infer([images])[0].copy()  # the next call writes over it


def compile_openvino(artifact: Path, precision: str, num_threads: int, **settings: object):
    """Compile an ONNX file with OpenVINO for this processor, in the precision that is asked for.

    Left to itself OpenVINO computes a float32 model in bfloat16 where the processor has AMX (probabilities off by up
    to 0.10), so the precision is always given, and read back.

    Args:
        artifact: an ONNX file.
        precision: float32, bf16 or int8; an int8 file says itself what is rounded, and the rest is float32.
        num_threads: of one prediction.
        settings: further properties by OpenVINO's names.

    Returns:
        OpenVINO's CompiledModel.

    Raises:
        RuntimeOpeningError: OpenVINO is not installed, or this processor lacks bfloat16.
    """
    openvino = import_package("openvino")
    core = openvino.Core()
    if precision == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise RuntimeOpeningError("this processor has no bfloat16: take openvino_float32")
    settings |= {"INFERENCE_NUM_THREADS": num_threads, "NUM_STREAMS": 1}
    settings |= {"INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32"}
    return core.compile_model(core.read_model(artifact), "CPU", settings)


OPENERS = {
    "keras": _open_keras,
    "savedmodel": _open_savedmodel,
    "litert": _open_litert,
    "onnx": _open_onnx,
    "openvino": _open_openvino,
}
