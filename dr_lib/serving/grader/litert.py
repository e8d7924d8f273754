"""Run a LiteRT model."""

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from dr_lib.training.model_folder import ModelFolderError


class LiteRT:
    """A model and its buffers; only one thread at a time may use it."""

    def __init__(self, content: bytes, num_threads: int):
        """Load the content of a .tflite file, which interpreters share; read from the disk, it
        would stay mapped, and what is written into it be read.

        Raises:
            ModelFolderError: it is no such model.
        """
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
