"""CUDA C against Keras, which differentiates automatically."""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.hardware.facts import HardwareError
from dr_lib.mnist import cuda as mnist
from dr_lib.mnist.reference import MnistReference

# of the original program, read by hand
DIVISORS = {"conv_kernel": 576, "conv_bias": 576, "pool_bias": 216}


def open_reference(weights, batch_size, rate=0.1, backend="tensorflow"):
    """The network in Keras, with the original's loss at batch 1, and a softmax in larger ones."""
    return MnistReference(backend, weights, batch_size=batch_size, learning_rate=rate)


@pytest.mark.parametrize("implementation", mnist.IMPLEMENTATIONS)
def test_gradients_are_those_of_automatic_differentiation(library, digits, implementation):
    """Every gradient, divided where the original divides, to 1e-5 of its array's largest; of 7
    images at once, or of one, all that the original takes.
    """
    weights = mnist.initial_weights(3)
    number = 1 if implementation == "paper" else 7
    x, y = (array[:number] for array in digits[:2])
    found = mnist.gradients(library, weights, x, y, implementation=implementation)
    wanted = open_reference(weights, 32 if implementation == "minibatch" else 1).gradients(x, y)
    assert list(found) == list(weights)
    for name, gradient in wanted.items():
        if implementation != "minibatch":
            gradient = gradient / DIVISORS.get(name, 1)
        largest = np.abs(gradient).max()
        np.testing.assert_allclose(found[name], gradient, rtol=0, atol=1e-5 * largest)


def test_steps_go_down_the_gradient_at_the_original_rate(library, digits):
    """Each of four images in their order takes 0.1 times its gradient off the weights."""
    weights = mnist.initial_weights(0)
    x, y = (array[:4] for array in digits[:2])
    kept, _ = mnist.train_weights(library, "fused", (x, y), 1, 1, 0.1, 0)
    for k in range(4):
        gradients = open_reference(weights, 1).gradients(x[k : k + 1], y[k : k + 1])
        for name, gradient in gradients.items():
            weights[name] = weights[name] - 0.1 * gradient / DIVISORS.get(name, 1)
    assert np.abs(kept[0] - mnist.flatten(weights)).max() <= 5e-6


def test_training_is_that_of_keras(library, digits):
    """Two epochs in batches of 16, the last one of 8, by Adam, end in Keras's weights: what is
    timed side by side sees the same images in the same order. The accuracy after an epoch is that
    of the network as it is then.
    """
    x, y = (array[:56] for array in digits[:2])
    reference = open_reference(mnist.initial_weights(0), 16, 0.01)
    epoch_s, accuracies = reference.train(x, y, *digits[:2], epochs=2)
    kept, _ = mnist.train_weights(library, "minibatch", (x, y), 2, 16, 0.01, 0)
    expected = np.concatenate([array.ravel() for array in reference.model.get_weights()])
    assert np.abs(kept[1] - expected).max() <= 1e-4
    called = reference.forward(digits[0]).argmax(axis=1)
    assert accuracies[1] == (called == digits[1]).mean() and min(epoch_s) > 0


def test_says_what_it_cannot_do(digits):
    """A second backend in the process, no batch."""
    weights = mnist.initial_weights(0)
    data = [array[:8] for array in digits]
    open_reference(weights, 1)
    with pytest.raises(HardwareError, match="restart the kernel|pip install"):
        open_reference(weights, 1, backend="jax")
    for batch_size in (0, 32):
        with pytest.raises(DrError, match=f"8 images in batches of {batch_size}"):
            open_reference(weights, batch_size).train(*data, epochs=1)
