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
        """Load a SavedModel's folder; raise ModelFolderError if it cannot be loaded or has other
        inputs or outputs.
        """
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        try:
            import tensorflow as tf
        except ImportError as error:
            install = write_install("tensorflow")
            raise ModelFolderError(
                f"{path}: a SavedModel needs TensorFlow: {install}"
            ) from error
        try:
            # it holds the weights, which the signature does not
            self._loaded = tf.saved_model.load(str(path))
            self._grade = self._loaded.signatures["serving_default"]
            (images,) = self._grade.structured_input_signature[1].values()
            self.image_size = int(images.shape[1])
            self._tf = tf
            outputs = self._grade.structured_outputs
            if images.dtype != tf.uint8 or "probabilities" not in outputs:
                raise ValueError("it must take (n, side, side, 3) uint8 and give probabilities")
        except Exception as error:  # TensorFlow's derive from nothing else
            raise ModelFolderError(
                f"{path}: not a SavedModel that TensorFlow can run: {error}"
            ) from error

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) uint8 -> (n, grades) float32."""
        return self._grade(images=self._tf.constant(images))["probabilities"].numpy()
