"""Run an exported model: LiteRT, or a SavedModel, which needs TensorFlow, as the paper did."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from dr_lib.command import write_install
from dr_lib.data.labels.grades import GRADES
from dr_lib.training.model_folder import ModelFolderError

BATCH = 16  # VGG19's first layers take 26 MB a photograph at 224 px

# (n, side, side, 3) uint8 crops -> (n, grades) float32 probabilities
Predict = Callable[[np.ndarray], np.ndarray]


def open_model(format_name: str, artifact: Path, num_threads: int) -> Predict:
    """Open an exported model.

    Args:
        format_name: savedmodel, whose threads are TensorFlow's, or a format of LiteRT.
        artifact: SavedModel's folder, or a .tflite file.
        num_threads: of one prediction by LiteRT.

    Raises:
        ModelFolderError: it cannot be loaded.
    """
    if format_name == "savedmodel":
        return SavedModel(artifact)
    return LiteRT(artifact, num_threads)


def predict_all(predict: Predict, images: np.ndarray) -> np.ndarray:
    """Predict any number of images, or of what gives some by a slice, none among them."""
    parts = [np.empty((0, len(GRADES)), np.float32)]
    for start in range(0, len(images), BATCH):
        parts.append(predict(images[start : start + BATCH]))
    return np.concatenate(parts)


class LiteRT:
    """A model and its buffers; only one thread at a time may use it."""

    def __init__(self, path: Path, num_threads: int):
        """Load a .tflite file whole: mapped from the disk, what is written into it would be read.

        Raises:
            ModelFolderError: it is no such model.
        """
        content = path.read_bytes()
        try:
            self._interpreter = Interpreter(model_content=content, num_threads=num_threads)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelFolderError(
                f"not a LiteRT model that this runtime can run: export it again ({error})"
            ) from error
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._output = self._interpreter.get_output_details()[0]["index"]

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) uint8 -> (n, grades) float32, one photograph after another."""
        probabilities = []
        for image in images:
            self._interpreter.set_tensor(self._input, image[None])
            self._interpreter.invoke()
            probabilities.append(self._interpreter.get_tensor(self._output)[0])
        return np.stack(probabilities)


class SavedModel:
    """A model that any number of threads may use at once; they share TensorFlow's threads."""

    def __init__(self, path: Path):
        """Load a SavedModel's folder; raise ModelFolderError if it cannot be loaded."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            import tensorflow as tf
        except ImportError as error:  # the container has none by default
            install = write_install("tensorflow")
            raise ModelFolderError(f"a SavedModel needs TensorFlow: {install}") from error
        try:
            # it holds the weights, which the signature does not
            self._loaded = tf.saved_model.load(str(path))
            self._grade = self._loaded.signatures["serving_default"]
        except Exception as error:  # TensorFlow's derive from nothing else
            raise ModelFolderError(
                f"{path}: not a SavedModel that TensorFlow can run: export it again ({error})"
            ) from error
        self._to_tensor = tf.constant

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) uint8 -> (n, grades) float32."""
        return self._grade(images=self._to_tensor(images))["probabilities"].numpy()
