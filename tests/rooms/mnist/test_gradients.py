"""The network against Keras and against automatic differentiation in float64."""

import numpy as np
import pytest

from dr_lib.rooms.mnist import cuda as mnist
from dr_lib.rooms.mnist.reference import MnistReference

# of the original program, read by hand
DIVISORS = {"conv_kernel": 576, "conv_bias": 576, "pool_bias": 216}


def differentiate(
    weights: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, softmax: bool
) -> dict[str, np.ndarray]:
    """Gradients of the mean cross-entropy over the batch, by TensorFlow, in float64."""
    import tensorflow as tf

    w = {name: tf.Variable(array, dtype=tf.float64) for name, array in weights.items()}
    with tf.GradientTape() as tape:
        maps = tf.nn.conv2d(x[..., None] / 255.0, w["conv_kernel"], 1, "VALID") + w["conv_bias"]
        windows = tf.reshape(tf.sigmoid(maps), (-1, 6, 4, 6, 4, 6))
        units = (
            tf.einsum("nyixjm,ij->nyxm", windows, w["pool_kernel"][:, :, 0, 0, 0])
            + w["pool_bias"]
        )
        sums = tf.reshape(tf.sigmoid(units), (-1, 216)) @ w["dense_kernel"] + w["dense_bias"]
        target = tf.one_hot(y, 10, dtype=tf.float64)
        if softmax:
            loss = tf.nn.softmax_cross_entropy_with_logits(target, sums)
        else:
            loss = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(target, sums), axis=1)
        loss = tf.reduce_mean(loss)
    found = tape.gradient(loss, list(w.values()))
    return {name: gradient.numpy() for name, gradient in zip(w, found, strict=True)}


@pytest.mark.parametrize("implementation", mnist.IMPLEMENTATIONS)
def test_gradients_are_those_of_automatic_differentiation(library, digits, implementation):
    """Every gradient, divided where the original divides, to 1e-5 of its array's largest; of 7
    images at once.
    """
    weights = mnist.initial_weights(3)
    x, y = (array[:7] for array in digits[:2])
    found = mnist.gradients(library, weights, x, y, implementation=implementation)
    wanted = differentiate(weights, x, y, softmax=implementation == "minibatch")
    assert list(found) == list(weights)
    for name, gradient in wanted.items():
        if implementation in ("paper", "fused"):
            gradient = gradient / DIVISORS.get(name, 1)
        largest = np.abs(gradient).max()
        np.testing.assert_allclose(found[name], gradient, rtol=0, atol=1e-5 * largest)


def test_a_step_goes_down_the_gradient_at_the_original_rate(library, digits):
    """After one image the weights are the first ones less 0.1 times the gradient, as computed in
    float64.
    """
    weights = mnist.initial_weights(0)
    x, y = (array[:1] for array in digits[:2])
    gradients = differentiate(weights, x, y, softmax=False)
    kept, _ = mnist.train_weights(library, "fused", (x, y), 1, 1, 0.1, 0, 1)
    for name, found in mnist.unflatten(kept[0, 0]).items():
        expected = weights[name] - 0.1 * gradients[name] / DIVISORS.get(name, 1)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("implementation", "batch_size", "rate"),
    [("true_gradient", 1, 0.1), ("minibatch", 16, 0.01)],
)
def test_training_is_that_of_keras(library, digits, implementation, batch_size, rate):
    """Two epochs, image by image by plain descent or in batches of 16, the last one of 8, by Adam,
    end in Keras's weights: what is timed side by side sees the same images in the same order."""
    x, y = (array[:56] for array in digits[:2])
    weights = mnist.initial_weights(0)
    reference = MnistReference("tensorflow", weights, batch_size=batch_size, learning_rate=rate)
    reference.train(x, y, x, y, epochs=2)
    kept, _ = mnist.train_weights(library, implementation, (x, y), 2, batch_size, rate, 0, 1)
    expected = np.concatenate([array.ravel() for array in reference.model.get_weights()])
    assert np.abs(kept[0, 1] - expected).max() <= 1e-4
