"""The Keras reference of CUDA C: what notebook 40, which compares the two, does not show."""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.hardware.facts import HardwareError
from dr_lib.mnist import cuda as mnist
from dr_lib.mnist.reference import MnistReference


def draw_digits(n, seed=0):
    """Images of ten classes: a coarse pattern each, under noise."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).integers(0, 2, (10, 7, 7))
    digits = rng.integers(0, 10, n, dtype=np.uint8)
    large = patterns[digits].repeat(4, axis=1).repeat(4, axis=2)
    return (150 * large + rng.integers(0, 100, (n, 28, 28))).astype(np.uint8), digits


def open_reference(batch_size=1, backend="tensorflow"):
    """A reference from drawn weights."""
    weights = mnist.initial_weights(0)
    return MnistReference(backend, weights, batch_size=batch_size, learning_rate=0.01)


def test_training_tells_of_every_epoch():
    """Time adds up, the last accuracy is that of the network as it is, and it learns; images keep
    their order, more than a chunk of them, too.
    """
    x, y = draw_digits(640)
    x_test, y_test = draw_digits(1030, seed=1)
    ended = []
    reference = open_reference(32)
    asked = {"epochs": 3, "on_epoch_end": ended.append}
    epoch_s, accuracies = reference.train(x, y, x_test, y_test, **asked)
    assert ended == [1, 2, 3] and len(epoch_s) == 3 and min(epoch_s) > 0
    outputs = reference.forward(x_test)
    is_right = outputs.argmax(axis=1) == y_test
    assert accuracies[-1] == is_right.mean() > 0.5
    assert outputs[990:] == pytest.approx(reference.forward(x_test[990:]), abs=1e-6)


def test_says_what_it_cannot_do():
    """A second backend in the process, no batch."""
    x, y = draw_digits(8)
    open_reference()
    with pytest.raises(HardwareError, match="restart the kernel|pip install"):
        open_reference(backend="jax")
    for batch_size in (0, 32):
        with pytest.raises(DrError, match=f"8 images in batches of {batch_size}"):
            open_reference(batch_size).train(x, y, x, y, epochs=1)
