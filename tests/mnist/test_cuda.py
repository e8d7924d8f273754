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


def test_it_learns_drawn_digits(library, digits):
    """After 5 epochs nine of ten digits that it has not seen are read, of which the first
    weights read few.
    """
    table = mnist.train(library, *digits, epochs=5)
    first = mnist.initial_weights(0)
    outputs = mnist.forward(library, first, digits[2], implementation="fused")
    assert (outputs.argmax(axis=1) == digits[3]).mean() < 0.3
    assert table.test_accuracy.iloc[-1] >= 0.9


def test_the_table_has_a_row_per_epoch(library, digits):
    """Epochs count from 1, seconds add up."""
    table = mnist.train(library, *digits, epochs=3, seed=7)
    assert [*table.columns] == ["epoch", "train_s", "test_accuracy"]
    assert table.epoch.tolist() == [1, 2, 3]
    assert (table.train_s.diff().fillna(table.train_s) > 0).all()


@pytest.mark.parametrize("implementation", ["fused", "minibatch"])
def test_the_same_seed_gives_the_same_bits(library, digits, implementation):
    """Two trainings end in the same weights, and another seed in others."""
    first, again, other = (
        weights_after(library, digits, implementation=implementation, seed=seed).tobytes()
        for seed in (4, 4, 5)
    )
    assert first == again != other


def test_the_accuracy_is_that_of_the_outputs(library, digits):
    """Counting the largest outputs of the last weights gives the table's share."""
    name = {"implementation": "minibatch"}
    table = mnist.train(library, *digits, epochs=2, batch_size=32, **name)
    weights = weights_after(library, digits, batch_size=32, rate=0.02, **name)[-1]
    outputs = mnist.forward(library, mnist.unflatten(weights), digits[2], **name)
    is_right = outputs.argmax(axis=1) == digits[3]
    assert table.test_accuracy.iloc[-1] == is_right.mean() < 1


@pytest.mark.parametrize("implementation", ["fused", "minibatch"])
def test_a_training_that_diverges_names_its_epoch(library, digits, implementation):
    """Weights that are no numbers stop the training: the error says in which epoch and what to
    change.
    """
    with pytest.raises(DrError, match="epoch 1: .*smaller learning rate"):
        weights_after(library, digits, implementation=implementation, rate=3e38)


def test_the_papers_way_needs_a_gpu(library, digits):
    """Many small kernels on a CPU would measure nothing."""
    with pytest.raises(HardwareError, match="needs a GPU"):
        mnist.train(library, *digits, implementation="paper")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"implementation": "fussed"}, "choose from paper, fused"),
        ({"epochs": 0}, "epochs 0"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"implementation": "paper", "batch_size": 2}, "one image per step"),
    ],
)
def test_refuses_what_cannot_be_trained(library, digits, asked, told):
    """Each argument is named with its value."""
    with pytest.raises(ValueError, match=told):
        mnist.train(library, *digits, **asked)


@pytest.mark.parametrize(
    ("position", "change", "told"),
    [
        (0, lambda x: x / 255, "training images are float64"),
        (0, lambda x: x[:, :, :27], r"training images .*\(600, 28, 27\)"),
        (0, lambda x: x[:0], "training images"),
        (1, lambda y: y[:-1], "training images .* with 599 digits"),
        (1, lambda y: y + 1, "from 0 to 9"),
        (2, lambda x: x[0], "test images"),
        (3, lambda y: y.astype(int) - 1, "test images .* one digit from 0 to 9"),
    ],
)
def test_refuses_other_images_and_digits(library, digits, position, change, told):
    """Wrong shapes, types and digits say what was given and what is wanted."""
    data = [*digits]
    data[position] = change(data[position])
    with pytest.raises(ValueError, match=told):
        mnist.train(library, *data)


def test_refuses_other_weights(library, digits):
    """A missing or reshaped array says what the network takes."""
    weights = mnist.initial_weights(0)
    kernel = weights["conv_kernel"]
    for changed in ({**weights, "conv_kernel": kernel.T}, {"conv_kernel": kernel}):
        with pytest.raises(ValueError, match="the network needs"):
            mnist.forward(library, changed, digits[2], implementation="fused")


def test_the_first_weights_are_those_of_the_paper_s_network():
    """2,343 numbers between -0.5 and 0.5: 156 + 17 + 2,170, the same for the same seed."""
    weights = mnist.initial_weights(1)
    sizes = [array.size for array in weights.values()]
    assert [sum(sizes[i : i + 2]) for i in (0, 2, 4)] == [156, 17, 2170]
    flat = mnist.flatten(weights)
    assert len(flat) == 2343 and -0.5 <= flat.min() < -0.49 and 0.49 < flat.max() <= 0.5
    assert (flat == mnist.flatten(mnist.initial_weights(1))).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("implementation", "batch_size", "epochs"), [("fused", 1, 10), ("minibatch", 64, 5)]
)
def test_mnist_is_learned_as_by_the_original_program(
    library, real_data, implementation, batch_size, epochs
):
    """The 97.0 % of its 40 epochs within half a point, in fewer; Adam and softmax in an eighth."""
    asked = {"implementation": implementation, "batch_size": batch_size, "epochs": epochs}
    table = mnist.train(library, *load_mnist(real_data / "mnist" / "mnist.npz"), **asked)
    assert table.test_accuracy.max() >= 0.965
