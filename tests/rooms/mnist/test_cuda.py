"""Trainings: what they return, what they promise, and what they refuse."""

import numpy as np
import pytest

from dr_lib.data.small_images import load_mnist
from dr_lib.errors import DrError
from dr_lib.hardware import HardwareError
from dr_lib.rooms.mnist import cuda as mnist


def weights_after(library, data, **asked) -> np.ndarray:
    """(replicas, epochs, 2343) weights of a short training."""
    given = {
        "implementation": "fused",
        "epochs": 2,
        "batch_size": 1,
        "rate": 0.1,
        "seed": 0,
        "replicas": 1,
    } | asked
    implementation = given.pop("implementation")
    return mnist.train_weights(library, implementation, data[:2], *given.values())[0]


def test_it_learns_drawn_digits(library, digits):
    """After 5 epochs nine of ten digits that it has not seen are read, of which the first
    weights read few.
    """
    table = mnist.train(library, *digits, implementation="fused", epochs=5)
    before = mnist.forward(
        library, mnist.initial_weights(0), digits[2], implementation="fused"
    ).argmax(axis=1)
    assert table.test_accuracy.iloc[-1] >= 0.9 and (before == digits[3]).mean() < 0.3


def test_the_table_has_a_row_per_replica_and_epoch(library, digits):
    """Epochs count from 1, seconds add up."""
    table = mnist.train(
        library,
        *digits,
        epochs=3,
        replicas=2,
        seed=7,
        implementation="minibatch",
        batch_size=32,
    )
    assert [*table.columns] == ["replica", "epoch", "train_s", "test_accuracy"]
    assert table.epoch.tolist() == [1, 2, 3] * 2 and table.replica.tolist() == [0] * 3 + [1] * 3
    assert (table.groupby("replica").train_s.diff().dropna() > 0).all() and (
        table.train_s > 0
    ).all()
    assert library.device


@pytest.mark.parametrize("implementation", ["fused", "minibatch"])
def test_the_same_seed_gives_the_same_bits(library, digits, implementation):
    """Two trainings end in the same weights, and another seed in others."""
    first, again, other = (
        weights_after(library, digits, implementation=implementation, seed=seed).tobytes()
        for seed in (4, 4, 5)
    )
    assert first == again != other


def test_a_replica_is_the_training_of_its_seed(library, digits):
    """Three replicas side by side are, to the bit, the trainings of their seeds alone."""
    together = weights_after(library, digits, seed=3, replicas=3)
    alone = [weights_after(library, digits, seed=seed)[0] for seed in (3, 4, 5)]
    assert together.tobytes() == np.stack(alone).tobytes()


def test_the_accuracy_is_that_of_the_outputs(library, digits):
    """Counting the largest outputs of the last weights gives the table's share."""
    asked = {"implementation": "minibatch", "epochs": 2, "batch_size": 32}
    table = mnist.train(library, *digits, **asked)
    weights = mnist.unflatten(weights_after(library, digits, rate=0.02, **asked)[0, -1])
    guesses = mnist.forward(library, weights, digits[2], implementation="minibatch").argmax(
        axis=1
    )
    assert table.test_accuracy.iloc[-1] == (guesses == digits[3]).mean() < 1


@pytest.mark.parametrize("implementation", ["fused", "minibatch"])
def test_a_training_that_diverges_names_its_epoch(library, digits, implementation):
    """Weights that are no numbers stop the training: the error says in which epoch and what to
    change.
    """
    with pytest.raises(DrError, match="epoch 1 .*smaller learning rate"):
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
        ({"replicas": -1}, "replicas -1"),
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
        (1, lambda y: y[:-1], "training digits"),
        (1, lambda y: y + 1, "from 0 to 9"),
        (2, lambda x: x[0], "test images"),
        (3, lambda y: y.astype(int) - 1, "test digits"),
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
    for changed in (
        {**weights, "conv_kernel": weights["conv_kernel"].T},
        {"conv_kernel": weights["conv_kernel"]},
    ):
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
def test_fused_reaches_what_the_original_program_reaches(library, real_data):
    """MNIST, batch 1: the 97.0 % of its 40 epochs within half a point, after 10 of them."""
    data = load_mnist(real_data / "mnist" / "mnist.npz")
    table = mnist.train(library, *data, implementation="fused", epochs=10)
    assert table.test_accuracy.iloc[-1] == pytest.approx(0.97, abs=0.005)


@pytest.mark.slow
def test_minibatch_reaches_it_in_five_epochs(library, real_data):
    """Adam and softmax at batch 64 reach 97.0 % in an eighth of the epochs."""
    data = load_mnist(real_data / "mnist" / "mnist.npz")
    table = mnist.train(library, *data, implementation="minibatch", batch_size=64, epochs=5)
    assert table.test_accuracy.max() >= 0.97
