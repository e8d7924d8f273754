"""Run a SavedModel, as the serving paper did. It needs TensorFlow, which the container lacks by
default.
"""

import os
from pathlib import Path

import numpy as np

from dr_lib.command import write_install
from dr_lib.training.model_folder import ModelFolderError


class SavedModel:
    """A model that any number of threads may use at once; they share TensorFlow's threads."""

    def __init__(self, path: Path):
        """Load a SavedModel's folder; raise ModelFolderError if it cannot be loaded."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            import tensorflow as tf
        except ImportError as error:
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
