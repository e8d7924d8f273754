"""Keep the photographs in the device's memory."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import layers, ops

STORE = "photographs"  # name of the layer that holds them


class Store(layers.Layer):
    """Photographs as a variable on the device: maps row numbers to photographs."""

    def __init__(self, images: np.ndarray):
        """`images`: (n, ...), copied to the device once."""
        super().__init__(name=STORE, trainable=False)
        self.images = self.add_weight(
            shape=images.shape,
            dtype=images.dtype.name,
            initializer=lambda shape, dtype: ops.convert_to_tensor(images),
            trainable=False,
            autocast=False,
            name="images",
        )

    def call(self, rows):
        """(batch,) int32 -> (batch, ...) of the images' type."""
        return ops.take(self.images, rows, axis=0)


def keep_on_device(
    network: keras.Model, inputs: Mapping[str, np.ndarray]
) -> tuple[keras.Model, dict[str, np.ndarray]]:
    """Feed a network with row numbers of photographs that are on the device.

    Args:
        network: takes (batch, ...) photographs; the returned model trains its variables.
        inputs: (n, ...) of each split, all of one type.

    Returns:
        A model that takes (batch,) row numbers, and the row numbers of each split, int32.
    """
    ends = np.cumsum([len(images) for images in inputs.values()])
    rows = dict(
        zip(inputs, np.split(np.arange(ends[-1], dtype=np.int32), ends[:-1]), strict=True)
    )
    numbers = keras.Input((), dtype="int32", name="rows")
    images = Store(np.concatenate(list(inputs.values())))(numbers)
    return keras.Model(numbers, network(images), name="resident"), rows
