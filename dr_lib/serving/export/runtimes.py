"""Open an artifact with a runtime, and call all runtimes in the same way.

A runtime is a function from (n, side, side, 3) uint8 photographs to (n, grades) float32
probabilities.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dr_lib.hardware import import_tensorflow
from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.export.convert import FORMATS, load_network
from dr_lib.serving.grader.litert import LiteRT
from dr_lib.serving.grader.savedmodel import SavedModel

Predict = Callable[[np.ndarray], np.ndarray]

RUNTIMES = {  # runtime: the format that it reads
    "keras_predict": "keras",  # model.predict, which the paper timed
    **{name: name for name in FORMATS},
}


def open_runtime(name: str, artifact: Path, *, num_threads: int = 1) -> Predict:
    """Open an artifact with a runtime.

    TensorFlow has one pool of threads for the process: see `pin_tensorflow`.

    Args:
        name: one of RUNTIMES.
        artifact: a file, or SavedModel's folder, of the runtime's format.
        num_threads: that one prediction may use; 0 leaves it to the runtime, which takes the cores
            that there are.

    Returns:
        The function; it takes any number of photographs, and one thread at a time may call it.

    Raises:
        DrError: the artifact cannot be read.
    """
    if num_threads and not name.startswith("litert"):
        pin_tensorflow(num_threads)
    if name == "keras_predict":
        network = load_network(artifact)
        return lambda images: network.predict(images, verbose=0)
    if name == "savedmodel":
        return SavedModel(artifact)
    return LiteRT(artifact.read_bytes(), num_threads or count_cpus())


def pin_tensorflow(num_threads: int) -> None:
    """Set TensorFlow's number of threads in this process.

    Raises:
        RuntimeError: TensorFlow has already computed with another number.
    """
    threading = import_tensorflow().config.threading
    threading.set_intra_op_parallelism_threads(num_threads)
    threading.set_inter_op_parallelism_threads(num_threads)
