"""Run a LiteRT model."""

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from dr_lib.training.model_folder import ModelFolderError


class LiteRT:
    """A model and its buffers; only one thread at a time may use it."""

    def __init__(self, path: Path, *, num_threads: int = 1, content: bytes | None = None):
        """Load a .tflite file; raise ModelFolderError if it cannot be loaded or has other inputs or
        outputs. Interpreters of one file share its `content`, if it is given.
        """
        try:
            # a file would stay mapped, and what is written into it be read
            content = content or path.read_bytes()
            self._interpreter = Interpreter(model_content=content, num_threads=num_threads)
            self._interpreter.allocate_tensors()
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelFolderError(
                f"{path}: not a LiteRT model that this runtime can run: {error}"
            ) from error
        (inputs,) = self._interpreter.get_input_details()
        (outputs,) = self._interpreter.get_output_details()
        if (
            inputs["dtype"] is not np.uint8
            or len(inputs["shape"]) != 4
            or outputs["dtype"] is not np.float32
        ):
            raise ModelFolderError(
                f"{path}: the model must take (1, side, side, 3) uint8 and give float32"
            )
        self._input = inputs["index"]
        self._output = outputs["index"]
        self.image_size = int(inputs["shape"][1])

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """(n, side, side, 3) uint8 -> (n, grades) float32, one photograph after another."""
        probabilities = []
        for image in images:
            self._interpreter.set_tensor(self._input, image[None])
            self._interpreter.invoke()
            probabilities.append(self._interpreter.get_tensor(self._output)[0])
        return np.stack(probabilities)
