"""Run a LiteRT model."""

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter


class LiteRTError(ValueError):
    """The file is no LiteRT model from uint8 photographs to probabilities."""


class LiteRT:
    """A model and its buffers; one thread at a time may use it."""

    def __init__(self, model: Path | bytes, *, num_threads: int = 1):
        """Load a model for single photographs.

        Args:
            model: a .tflite file, or its bytes.
            num_threads: of one prediction.

        Raises:
            LiteRTError: it cannot be loaded, or takes or gives something else.
        """
        source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
        try:
            self._interpreter = Interpreter(**source, num_threads=num_threads)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise LiteRTError(f"not a LiteRT model that this runtime can run: {error}") from error
        (given,), (wanted,) = self._interpreter.get_output_details(), self._interpreter.get_input_details()
        if wanted["dtype"] is not np.uint8 or len(wanted["shape"]) != 4 or given["dtype"] is not np.float32:
            raise LiteRTError("the model has to take (1, side, side, 3) uint8 and give float32 probabilities")
        self._input, self._output = wanted["index"], given["index"]
        self.image_size = int(wanted["shape"][1])

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) uint8 -> (n, grades) float32, one photograph after another."""
        probabilities = []
        for image in images:
            self._interpreter.set_tensor(self._input, image[None])
            self._interpreter.invoke()
            probabilities.append(self._interpreter.get_tensor(self._output)[0])
        return np.stack(probabilities)
