"""The Keras reference of CUDA C: what notebook 40, which holds the two against each other, does
not show.
"""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.hardware.facts import HardwareError
from dr_lib.mnist import cuda as mnist
from dr_lib.mnist.reference import MnistReference


def draw_digits(n, seed=0):
    """Images of ten classes: a coarse pattern each, under noise."""
    rng = np.random.default_rng(seed)
    patterns = (
        np.random.default_rng(99).integers(0, 2, (10, 7, 7)).repeat(4, axis=1).repeat(4, axis=2)
    )
    digits = rng.integers(0, 10, n, dtype=np.uint8)
    return (150 * patterns[digits] + rng.integers(0, 100, (n, 28, 28))).astype(np.uint8), digits


def open_reference(batch_size=1, backend="tensorflow", learning_rate=0.1, scale=1.0):
    """A reference from drawn weights, multiplied."""
    weights = {name: scale * array for name, array in mnist.initial_weights(0).items()}
    return MnistReference(backend, weights, batch_size=batch_size, learning_rate=learning_rate)


def test_more_images_than_a_chunk_holds_keep_their_order():
    """Outputs of one call are those of two; notebook 40 holds them against CUDA C."""
    images = draw_digits(1030)[0]
    reference = open_reference(32)
    assert reference.forward(images)[990:] == pytest.approx(
        reference.forward(images[990:]), abs=1e-6
    )


def test_training_tells_of_every_epoch():
    """Time adds up, the last accuracy is that of the network as it is, and it learns; epochs are
    told as they end.
    """
    x, y = draw_digits(640)
    x_test, y_test = draw_digits(200, seed=1)
    told = []
    reference = open_reference(32, learning_rate=0.01)
    table = reference.train(x, y, x_test, y_test, epochs=3, on_epoch_end=told.append)
    assert list(table["epoch"]) == told == [1, 2, 3]
    assert (np.diff(table["train_s"], prepend=0) > 0).all()
    is_right = reference.forward(x_test).argmax(axis=1) == y_test
    assert table["test_accuracy"].iloc[-1] == is_right.mean() > 0.5


def test_says_what_it_cannot_do():
    """A second backend in the process, no batch; a training that runs away says in which epoch."""
    x, y = draw_digits(8)
    open_reference()
    with pytest.raises(HardwareError, match="restart the kernel|pip install"):
        open_reference(backend="jax")
    for batch_size in (0, 32):
        with pytest.raises(DrError, match=f"8 images in batches of {batch_size}"):
            open_reference(batch_size).train(x, y, x, y, epochs=1)
    with pytest.raises(DrError, match="the loss is nan in epoch 1"):
        open_reference(scale=np.nan).train(x, y, x, y, epochs=2)
