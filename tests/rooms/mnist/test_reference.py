"""The Keras reference of CUDA C: what notebook 40, which holds the two against each other, does
not show.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.hardware.facts import HardwareError
from dr_lib.rooms.mnist import cuda as mnist
from dr_lib.rooms.mnist.cuda import SHAPES
from dr_lib.rooms.mnist.reference import MnistReference

ROOT = Path(__file__).resolve().parents[3]


def draw_digits(n, seed=0):
    """Images of ten classes: a coarse pattern each, under noise."""
    rng = np.random.default_rng(seed)
    patterns = (
        np.random.default_rng(99).integers(0, 2, (10, 7, 7)).repeat(4, axis=1).repeat(4, axis=2)
    )
    digits = rng.integers(0, 10, n, dtype=np.uint8)
    return (150 * patterns[digits] + rng.integers(0, 100, (n, 28, 28))).astype(np.uint8), digits


def open_reference(batch_size=1, backend="tensorflow", weights=None, learning_rate=0.1):
    """A reference from drawn weights."""
    return MnistReference(
        backend,
        weights or mnist.initial_weights(0),
        batch_size=batch_size,
        learning_rate=learning_rate,
    )


def test_more_images_than_a_chunk_holds_keep_their_order():
    """Outputs of one call are those of two; notebook 40 holds them against CUDA C."""
    images = draw_digits(1030)[0]
    reference = open_reference(32)
    assert reference.forward(images)[990:] == pytest.approx(
        reference.forward(images[990:]), abs=1e-6
    )


def test_a_step_at_batch_1_is_plain_gradient_descent():
    """One image: each weight moves by the learning rate times its gradient, and nothing else."""
    images, digits = draw_digits(1)
    weights = mnist.initial_weights(0)
    reference = open_reference()
    gradients = reference.gradients(images, digits)
    reference.train(images, digits, images, digits, epochs=1)
    for (name, shape), moved in zip(SHAPES.items(), reference.model.get_weights(), strict=True):
        assert moved.reshape(shape) == pytest.approx(
            weights[name] - 0.1 * gradients[name], abs=1e-6
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
    assert (
        list(table["epoch"]) == told == [1, 2, 3]
        and (np.diff(table["train_s"], prepend=0) > 0).all()
    )
    assert (
        table["test_accuracy"].iloc[-1]
        == (reference.forward(x_test).argmax(axis=1) == y_test).mean()
        > 0.5
    )


ON_JAX = """
import json
from tests.rooms.mnist.test_reference import draw_digits, open_reference
(x, y), (x_test, y_test) = draw_digits(64), draw_digits(100, seed=1)
for batch_size in (1, 32):
    reference = open_reference(batch_size, "jax")
    gradients = {name: array.tolist() for name, array in reference.gradients(x[:8], y[:8]).items()}
    accuracy = reference.train(x, y, x_test, y_test, epochs=2)["test_accuracy"].tolist()
    print(json.dumps([gradients, accuracy, reference.versions()["backend"]]))
"""


@pytest.mark.slow
def test_jax_gives_what_tensorflow_gives():
    """At batch 1 and 32 the same gradients, and the same accuracies after two epochs."""
    pytest.importorskip("jax")
    out = subprocess.run(
        [sys.executable, "-c", ON_JAX], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    x, y = draw_digits(64)
    x_test, y_test = draw_digits(100, seed=1)
    for batch_size, line in zip((1, 32), out.splitlines()[-2:], strict=True):
        gradients, accuracy, backend = json.loads(line)
        reference = open_reference(batch_size)
        for name, array in reference.gradients(x[:8], y[:8]).items():
            assert np.abs(array - gradients[name]).max() <= 1e-5 * np.abs(array).max()
        wanted = reference.train(x, y, x_test, y_test, epochs=2)["test_accuracy"]
        assert accuracy == pytest.approx(list(wanted), abs=0.01) and backend == "jax"


def test_says_what_it_cannot_do():
    """An unknown backend, a second one in the process, no batch; a training that runs away says
    in which epoch.
    """
    x, y = draw_digits(8)
    with pytest.raises(DrError, match="choose from tensorflow, jax"):
        open_reference(backend="torch")
    open_reference()
    with pytest.raises(HardwareError, match="restart the kernel|pip install"):
        open_reference(backend="jax")
    for batch_size in (0, 32):
        with pytest.raises(DrError, match=f"8 images in batches of {batch_size}"):
            open_reference(batch_size).train(x, y, x, y, epochs=1)
    weights = {
        name: np.full_like(array, np.nan) for name, array in mnist.initial_weights(0).items()
    }
    with pytest.raises(DrError, match="the loss is nan in epoch 1"):
        open_reference(weights=weights).train(x, y, x, y, epochs=2)
