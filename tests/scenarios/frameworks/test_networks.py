"""A network in TensorFlow, held against NumPy, and timed."""

import time

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.architecture import draw_weights
from dr_lib.scenarios.frameworks.base import FixedBatches, Start
from dr_lib.scenarios.frameworks.program import open_network

START = Start(draw_weights(1, 8, 1, seed=3), (8, 8, 1))


@pytest.fixture(scope="module")
def batches() -> FixedBatches:
    """Five batches of 8 small images."""
    rng = np.random.default_rng(0)
    return FixedBatches(
        rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8), np.arange(40) % 10, 8, seed=1
    )


def test_an_epoch_has_full_batches_in_an_order_of_its_own(batches):
    """Of 23 images, 4 batches of 5, none twice; images and labels stay together. The order depends
    on the epoch.
    """
    some = FixedBatches(batches.images[:23], batches.labels[:23], 5, seed=1)
    order = some.draw_order(1)
    assert len(some) == len(order) == 4 and len(set(order.ravel())) == 20
    images, labels = some.take(order[0])
    assert (images[0] == batches.images[order[0, 0]]).all() and (labels == order[0] % 10).all()
    assert (order == some.draw_order(1)).all() and (order != some.draw_order(0)).any()
    with pytest.raises(DrError, match="choose 40 at most"):
        FixedBatches(batches.images, batches.labels, 41, seed=0)


def convolve(image: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A 3x3 convolution with a border of zeros and ReLU."""
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
    return np.maximum(np.einsum("yxcij,ijco->yxo", windows, kernel) + bias, 0)


def compute_logits(image: np.ndarray, weights: list[np.ndarray], num_blocks: int) -> np.ndarray:
    """The forward pass of one image as the documentation of `networks` describes it, in float64."""
    values = image / 255.0
    rest = [w.astype(float) for w in weights]
    for _ in range(num_blocks):
        for _ in range(2):
            values = convolve(values, rest.pop(0), rest.pop(0))
        height, width, channels = values.shape
        values = values.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3))
    hidden = np.maximum(values.ravel() @ rest[0] + rest[1], 0)
    return hidden @ rest[2] + rest[3]


@pytest.mark.parametrize(("network", "num_channels"), [(1, 3)])
def test_tensorflow_computes_what_numpy_does(network, num_channels):
    """Logits of two images, with biases that are not zero, to 1e-5 of the largest, among 300."""
    rng = np.random.default_rng(2)
    drawn = draw_weights(network, 32, num_channels, seed=1)
    weights = [w + rng.normal(0, 0.05, w.shape).astype(np.float32) for w in drawn]
    images = rng.integers(0, 256, (2, 32, 32, num_channels), dtype=np.uint8)
    wanted = np.array([compute_logits(image, weights, network + 1) for image in images])
    model = open_network("tensorflow", Start(weights, images.shape[1:]))
    logits = model.forward(np.repeat(images, 150, axis=0))
    assert (logits.shape, logits.dtype) == ((300, 10), np.float32)
    largest = np.abs(wanted).max()
    np.testing.assert_allclose(logits[[0, -1]], wanted, rtol=0, atol=1e-5 * largest)


def test_a_step_follows_the_rule(batches):
    """The bias of the last layer after two steps, by the documented rule and the gradient of the
    softmax.
    """
    two = FixedBatches(batches.images[:16], batches.labels[:16], 8, seed=1)
    model = open_network("tensorflow", START._replace(learning_rate=1e-4))
    losses = []
    wanted = np.zeros(10)
    velocity = np.zeros(10)
    for images, labels in map(two.take, two.draw_order(0)):
        # the steps are so short that the logits hardly change between them
        odds = np.exp(model.forward(images).astype(float))
        share = odds / odds.sum(axis=1, keepdims=True)
        losses.append(-np.log(share[np.arange(8), labels]).mean())
        velocity = 0.9 * velocity - 1e-4 * (share - np.eye(10)[labels]).mean(axis=0)
        wanted += velocity
    told = []
    model.fit(two, 1, lambda *epoch: told.append(epoch))
    bias = model.model.weights[-1].numpy()
    assert bias == pytest.approx(wanted, abs=0.01 * np.abs(wanted).max())
    assert told[0][:2] == (0, pytest.approx(np.mean(losses), rel=1e-2))


def test_an_epoch_has_the_time_of_its_steps_alone(batches):
    """What the function called at an epoch's end takes itself, an evaluation maybe, is in no
    epoch.
    """
    told = []

    def note(epoch: int, loss: float, seconds: float) -> None:
        told.append((epoch, seconds))
        time.sleep(0.2)

    start = time.perf_counter()
    open_network("tensorflow", START).fit(batches, 3, note)
    whole_s = time.perf_counter() - start
    epochs, times = zip(*told, strict=True)
    assert epochs == (0, 1, 2)
    assert sum(times) <= whole_s - 0.6
