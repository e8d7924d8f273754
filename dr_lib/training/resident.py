"""Keep the photographs in the device's memory."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import layers, ops, tree

from dr_lib.data.prepared.batches import Batches

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


class Epoch(keras.utils.PyDataset):
    """The batches of an epoch as one, (batch, steps) each: Keras divides the first dimension over
    the devices, and that is of photographs.
    """

    def __init__(self, batches: Batches):
        """`batches`: of row numbers."""
        super().__init__()
        self.batches = batches

    def __len__(self) -> int:
        """One."""
        return 1

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        """Return row numbers and targets."""
        batches = [*map(self.batches.__getitem__, range(len(self.batches)))]
        self.batches.ready_s[:] = self.batches.ready_s[-1:]
        return tuple(np.stack(parts, axis=1) for parts in zip(*batches, strict=True))


class WholeEpochs(keras.Model):
    """A model on JAX whose epoch of training is one program: no device waits for a launch.

    Keras does as much for `steps_per_execution` on JAX in releases behind 3.15.1
    (keras-team/keras#23527).
    """

    def fit(self, batches: Batches, **requested: Any) -> Any:
        """Train as Keras does; callbacks see one batch an epoch."""
        self._symbolic_build(data_batch=batches[0])
        return super().fit(Epoch(batches), **requested)

    def train_step(self, state: Any, epoch: tuple) -> tuple[Any, Any]:
        """Take all steps of an epoch; return what the last one does."""
        import jax

        def step(state, batch):
            batch = tree.map_structure(divide, batch)
            logs, state = super(WholeEpochs, self).train_step(state, batch)
            return state, logs

        steps = tree.map_structure(lambda part: ops.moveaxis(part, 1, 0), epoch)
        state, logs = jax.lax.scan(step, state, steps)
        return tree.map_structure(lambda values: values[-1], logs), state


def divide(part: Any) -> Any:
    """Divide a part of a step, (batch, ...), over the devices of a DataParallel distribution."""
    import jax

    distribution = keras.distribution.distribution()
    if distribution is None:
        return part
    layout = distribution.get_data_layout(part.shape)
    return jax.lax.with_sharding_constraint(part, layout.backend_layout)


def keep_on_device(
    network: keras.Model, inputs: Mapping[str, np.ndarray], *, whole_epochs: bool = False
) -> tuple[keras.Model, dict[str, np.ndarray]]:
    """Feed a network with row numbers of photographs that are on the device.

    Args:
        network: takes (batch, ...) photographs; the returned model trains its variables.
        inputs: (n, ...) of each split, all of one type.
        whole_epochs: see `WholeEpochs`.

    Returns:
        A model that takes (batch,) row numbers, and the row numbers of each split, int32.
    """
    ends = np.cumsum([len(images) for images in inputs.values()])
    rows = dict(
        zip(inputs, np.split(np.arange(ends[-1], dtype=np.int32), ends[:-1]), strict=True)
    )
    numbers = keras.Input((), dtype="int32", name="rows")
    images = Store(np.concatenate(list(inputs.values())))(numbers)
    kind = WholeEpochs if whole_epochs else keras.Model
    return kind(numbers, network(images), name="resident"), rows
