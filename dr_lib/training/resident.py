"""Keep the photographs in the device's memory and call it for several steps at a time."""

from collections.abc import Mapping
from itertools import islice

import keras
import numpy as np
from keras import layers, ops

STORE = "photographs"  # name of the layer that holds them


class Store(layers.Layer):
    """Photographs as a variable on the device: row numbers in, the photographs of those rows out."""

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

    def compute_output_spec(self, rows):
        """The shape of the rows taken."""
        return keras.KerasTensor((*rows.shape, *self.images.shape[1:]), self.images.dtype)


class ManySteps(keras.Model):
    """A model that, on JAX, runs `steps_per_execution` training steps in one call of the device.

    Keras itself calls the device once a step there. The steps run in a loop inside the compiled program; the last
    call of an epoch may have fewer of them, and the loop then ends earlier, so nothing is compiled twice.
    """

    def make_train_function(self, force=False):
        """Replace Keras's function of (state, iterator) by one that takes several batches from the iterator."""
        if self.steps_per_execution == 1 or keras.config.backend() != "jax":
            return super().make_train_function(force)
        if self.train_function is not None and not force:
            return None
        import jax

        many, run = self.steps_per_execution, jax.jit(self._run_steps, donate_argnums=0)

        def train_function(state, iterator):
            batches = list(islice(iterator, many))
            if not batches:
                raise StopIteration
            unused = [batches[-1]] * (many - len(batches))
            return run(state, batches + unused, len(batches))

        self.train_function = train_function
        return None

    def _run_steps(self, state, batches, number):
        import jax

        stacked = jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *batches)

        def step(position, carried):
            batch = jax.tree.map(lambda leaf: leaf[position], stacked)
            logs, state = self.train_step(carried[1], batch)
            return logs, state

        shapes = jax.eval_shape(self.train_step, state, batches[0])[0]
        logs = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.fori_loop(0, number, step, (logs, state))


def keep_on_device(network: keras.Model, inputs: Mapping[str, np.ndarray]) -> tuple[keras.Model, dict[str, np.ndarray]]:
    """Feed a network by row numbers of photographs that lie on the device.

    Args:
        network: takes (batch, ...) photographs; the returned model trains its variables.
        inputs: (n, ...) of each split, all of one type.

    Returns:
        A model that takes (batch,) row numbers, and the row numbers of each split, int32.
    """
    ends = np.cumsum([len(images) for images in inputs.values()])
    starts = ends - [len(images) for images in inputs.values()]
    rows = {name: np.arange(*span, dtype=np.int32) for name, *span in zip(inputs, starts, ends, strict=True)}
    numbers = keras.Input((), dtype="int32", name="rows")
    images = Store(np.concatenate(list(inputs.values())))(numbers)
    return ManySteps(numbers, network(images), name="resident"), rows
