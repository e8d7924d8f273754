"""Open an artifact with a runtime, and call every one of them in the same way.

A runtime is a function from (n, side, side, 3) uint8 photographs to (n, grades) float32
probabilities.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dr_lib.command import write_install
from dr_lib.errors import DrError
from dr_lib.hardware import import_tensorflow, without_stderr
from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.export.convert import FORMATS, load_network
from dr_lib.serving.grader.folder import MANIFEST, read_folder

Predict = Callable[[np.ndarray], np.ndarray]

RUNTIMES = {  # runtime: the format that it reads
    "keras_predict": "keras",  # model.predict, which the paper timed
    **{name: name for name in FORMATS},
    "openvino_float32": "onnx_float32",
    "openvino_bf16": "onnx_float32",
    "openvino_int8": "onnx_int8",
}


class RuntimeOpeningError(DrError):
    """The artifact cannot be run so; the message says what to install or to give."""


def open_runtime(name: str, path: Path, *, num_threads: int = 1) -> Predict:
    """Open an artifact with a runtime.

    TensorFlow has one pool of threads for the process: the first SavedModel or Keras model sets its
    size, and where TensorFlow has already computed with another number this is an error.

    Args:
        name: one of RUNTIMES.
        path: an artifact of the runtime's format, or a model folder that holds one.
        num_threads: that one prediction may use; 0 leaves it to the runtime, which takes the cores
            that there are.

    Returns:
        The function; it takes any number of photographs, and one thread at a time may call it.

    Raises:
        RuntimeOpeningError: a package is missing, the folder holds another format, the artifact
            cannot be read, this processor lacks bfloat16, or TensorFlow's threads are set already.
        ModelFolderError: the folder's artifact is not the one in its manifest.
    """
    if num_threads < 0:
        raise RuntimeOpeningError(f"{num_threads} threads: give 1 or more, or 0 for all cores")
    artifact = Path(path)
    if (artifact / MANIFEST).is_file():
        folder = read_folder(artifact)
        if folder.facts["format"] != RUNTIMES[name]:
            raise RuntimeOpeningError(
                f"{path} holds {folder.facts['format']}; {name} reads {RUNTIMES[name]}"
            )
        artifact = folder.artifact
    family, _, precision = name.partition("_")
    try:
        return _open(family, precision, artifact, num_threads)
    except RuntimeOpeningError:
        raise
    except ImportError as error:
        install = write_install("-e", ".[runtimes]")
        raise RuntimeOpeningError(f"{name} cannot be opened ({error}): {install}") from error
    except Exception as error:  # every runtime has errors of its own
        raise RuntimeOpeningError(
            f"{artifact.name} cannot be opened as {name}: {error}"
        ) from error


def pin_tensorflow(num_threads: int) -> None:
    """Let TensorFlow compute on so many threads in this process; to be called before it computes
    anything.

    Raises:
        RuntimeOpeningError: it has already computed with another number.
    """
    tf = import_tensorflow()
    try:
        tf.config.threading.set_intra_op_parallelism_threads(num_threads)
        tf.config.threading.set_inter_op_parallelism_threads(num_threads)
    except RuntimeError as error:
        raise RuntimeOpeningError(
            "TensorFlow already computes on another number of threads in this process: call"
            f" pin_tensorflow({num_threads}) before it is used, or open the model in a process of"
            " its own"
        ) from error


def compile_openvino(artifact: Path, precision: str, num_threads: int, **settings: object):
    """Compile an ONNX file with OpenVINO for this processor.

    Left to itself OpenVINO computes a float32 model in bfloat16 where the processor has AMX
    (probabilities off by up to 0.10), so the precision is always given.

    Args:
        artifact: an ONNX file.
        precision: float32, bf16 (RuntimeOpeningError where the processor has none) or int8; an int8
            file says itself what is rounded, and the rest is float32.
        num_threads: of one prediction.
        settings: further properties by OpenVINO's names.
    """
    import openvino

    core = openvino.Core()
    if precision == "bf16" and "BF16" not in core.get_property(
        "CPU", "OPTIMIZATION_CAPABILITIES"
    ):
        raise RuntimeOpeningError("this processor has no bfloat16: take openvino_float32")
    properties = {
        **settings,
        "INFERENCE_NUM_THREADS": num_threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
    }
    return core.compile_model(core.read_model(artifact), "CPU", properties)


def _open(family: str, precision: str, artifact: Path, num_threads: int) -> Predict:
    if family in ("keras", "savedmodel") and num_threads:
        pin_tensorflow(num_threads)
    if family == "keras":
        network = load_network(artifact)
        return lambda images: network.predict(images, verbose=0)
    if family == "savedmodel":
        from dr_lib.serving.grader.savedmodel import SavedModel

        return SavedModel(artifact)
    if family == "litert":
        from dr_lib.serving.grader.litert import LiteRT

        with without_stderr():  # it names its delegate there; what fails raises
            return LiteRT(artifact, num_threads=num_threads or count_cpus())
    if family == "onnx":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            str(artifact), options, providers=["CPUExecutionProvider"]
        )
        name = session.get_inputs()[0].name
        return lambda images: session.run(None, {name: images})[0]
    request = compile_openvino(artifact, precision, num_threads).create_infer_request()
    return lambda images: request.infer([images])[0].copy()  # the next call writes over it
