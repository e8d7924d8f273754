"""Trainings: what they return, what they promise, and what they refuse."""

import numpy as np
import pytest

from dr_lib.data.small_images import load_mnist
from dr_lib.errors import DrError
from dr_lib.hardware import HardwareError
from dr_lib.mnist import cuda as mnist


def weights_after(
    library, data, implementation="fused", batch_size=1, rate=0.1, seed=0
) -> np.ndarray:
    """(2, 2343) weights after each of two epochs."""
    asked = (2, batch_size, rate, seed)
    return mnist.train_weights(library, implementation, data[:2], *asked)[0]


@pytest.mark.parametrize(
    ("implementation", "batch_size", "rate"), [("fused", 1, 0.1), ("minibatch", 32, 0.02)]
)
def test_it_learns_and_the_same_seed_gives_the_same_bits(
    library, digits, implementation, batch_size, rate
):
    """Seconds and an accuracy for each epoch, the last one that of the outputs of the last weights:
    after two epochs more is read than by the first ones; another seed ends elsewhere.
    """
    name = {"implementation": implementation}
    epoch_s, accuracies = mnist.train(library, *digits, epochs=2, batch_size=batch_size, **name)
    assert len(epoch_s) == len(accuracies) == 2 and min(epoch_s) > 0
    first, again, other = (
        weights_after(library, digits, batch_size=batch_size, rate=rate, seed=seed, **name)
        for seed in (0, 0, 5)
    )
    assert (first == again).all() and not (first == other).all()
    shares = [
        (mnist.forward(library, weights, digits[2], **name).argmax(axis=1) == digits[3]).mean()
        for weights in (mnist.initial_weights(0), mnist.unflatten(first[-1]))
    ]
    assert shares[0] < 0.3 < shares[1] == accuracies[1]


@pytest.mark.parametrize("implementation", ["fused", "minibatch"])
def test_a_training_that_diverges_names_its_epoch(library, digits, implementation):
    """Weights that are no numbers stop the training: the error says what to change."""
    with pytest.raises(DrError, match="epoch 1: .*smaller learning rate"):
        weights_after(library, digits, implementation=implementation, rate=3e38)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"implementation": "fussed"}, ValueError, "choose from paper, fused"),
        ({"implementation": "paper"}, HardwareError, "needs a GPU"),
        ({"implementation": "paper", "batch_size": 2}, ValueError, "one image per step"),
        ({"epochs": 0}, ValueError, "epochs 0"),
        ({"batch_size": 0}, ValueError, "batch_size 0"),
        ({"x_train": np.zeros((9, 28, 28))}, ValueError, "training images are float64"),
        ({"x_train": np.zeros((9, 28, 27), np.uint8)}, ValueError, r"images .*\(9, 28, 27\)"),
        (
            {"x_train": np.zeros((0, 28, 28), np.uint8), "y_train": []},
            ValueError,
            "training im",
        ),
        ({"y_train": np.full(600, 10)}, ValueError, "from 0 to 9"),
        ({"y_test": np.full(200, -1)}, ValueError, "test images .* one digit from 0 to 9"),
    ],
)
def test_refuses_what_cannot_be_trained(library, digits, asked, error, words):
    """Each argument is named with its value; wrong shapes, types and digits say what is wanted."""
    data = dict(zip(("x_train", "y_train", "x_test", "y_test"), digits, strict=True))
    with pytest.raises(error, match=words):
        mnist.train(library, **data | asked)


def test_the_weights_are_those_of_the_paper_s_network(library, digits):
    """2,343 numbers between -0.5 and 0.5, as the original draws them; a reshaped array is
    refused.
    """
    weights = mnist.initial_weights(1)
    flat = mnist.flatten(weights)
    assert len(flat) == 2343 and -0.5 <= flat.min() < -0.49 and 0.49 < flat.max() <= 0.5
    weights["conv_kernel"] = weights["conv_kernel"].T
    with pytest.raises(ValueError, match="the network needs"):
        mnist.forward(library, weights, digits[2], implementation="fused")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("implementation", "batch_size", "epochs"), [("fused", 1, 10), ("minibatch", 64, 5)]
)
def test_mnist_is_learned_as_by_the_original_program(
    library, real_data, implementation, batch_size, epochs
):
    """The 97.0 % of its 40 epochs within half a point, in fewer; Adam and softmax in an eighth."""
    asked = {"implementation": implementation, "batch_size": batch_size, "epochs": epochs}
    data = load_mnist(real_data / "mnist" / "mnist.npz")
    assert max(mnist.train(library, *data, **asked)[1]) >= 0.965
