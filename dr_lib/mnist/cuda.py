"""Train, run and check the MNIST network of 2,343 parameters in CUDA C, on a GPU or a CPU."""

import math

import numpy as np

from dr_lib.errors import DrError
from dr_lib.hardware.facts import HardwareError
from dr_lib.mnist.build import Library

IMPLEMENTATIONS = ("paper", "fused", "minibatch")  # by the numbers of mnist_cnn.cu
LEARNING_RATES = {"paper": 0.1, "fused": 0.1, "minibatch": 0.02}
# those of Keras's Conv2D(6, 5), of Conv3D(1, (4, 4, 1), (4, 4, 1)) on the maps, and of Dense(10)
SHAPES = {
    "conv_kernel": (5, 5, 1, 6),
    "conv_bias": (6,),
    "pool_kernel": (4, 4, 1, 1, 1),
    "pool_bias": (1,),
    "dense_kernel": (216, 10),
    "dense_bias": (10,),
}
SIZES = [math.prod(shape) for shape in SHAPES.values()]
NUM_PARAMETERS = sum(SIZES)


def train(
    library: Library,
    x_train: np.ndarray,
    y_train: np.ndarray,
    x_test: np.ndarray,
    y_test: np.ndarray,
    *,
    implementation: str = "fused",
    epochs: int = 40,
    batch_size: int = 1,
    seed: int = 0,
) -> tuple[list[float], list[float]]:
    """Train the network, with the images in order.

    Args:
        library: from `build`.
        x_train: (n, 28, 28) uint8 images, as those to test on after each epoch.
        y_train: (n,) digits, 0 to 9.
        x_test: see x_train.
        y_test: see y_train.
        implementation: paper (many small kernels; GPU and batch 1 alone), fused (the same
            arithmetic in one launch), minibatch (softmax, cross-entropy and Adam in one launch).
        epochs: passes over the training images.
        batch_size: images a step.
        seed: of the first weights.

    Returns:
        The seconds of each epoch, without the tests, and the share of the test images that are
        right after it.
    """
    _find_number(implementation, batch_size)
    if min(epochs, batch_size) < 1:
        raise ValueError(f"epochs {epochs}, batch_size {batch_size}: give 1 or more")
    if implementation == "paper" and library.kind != "gpu":
        raise HardwareError(
            "paper needs a GPU, but this library runs on the CPU: choose a runtime with a "
            "GPU, or fused"
        )
    data = _check_images(x_train, y_train, "training")
    x_test, y_test = _check_images(x_test, y_test, "test")

    rate = LEARNING_RATES[implementation]
    snapshots, seconds = train_weights(
        library, implementation, data, epochs, batch_size, rate, seed
    )
    correct = _evaluate(library, snapshots, x_test, y_test, implementation)
    return np.diff(seconds, prepend=0).tolist(), (correct / len(x_test)).tolist()


def train_weights(library, implementation, data, epochs, batch_size, rate, seed):
    """Train without tests; return weights after each epoch, (epochs, 2343), and seconds."""
    x, y = data
    snapshots = np.zeros((epochs, NUM_PARAMETERS), np.float32)
    seconds = np.zeros(epochs)
    finished = np.zeros(1, np.int32)
    library.call(
        "cnn_train",
        IMPLEMENTATIONS.index(implementation),
        x,
        y,
        len(x),
        batch_size,
        epochs,
        rate,
        flatten(initial_weights(seed)),
        snapshots,
        seconds,
        finished,
    )
    if finished[0] < epochs:
        epoch = finished[0] + 1
        raise DrError(f"training diverged in epoch {epoch}: use a smaller learning rate")
    return snapshots, seconds


def forward(
    library: Library, weights: dict[str, np.ndarray], x: np.ndarray, *, implementation: str
) -> np.ndarray:
    """Run the network on images.

    Args:
        library: from `build`.
        weights: arrays of the names and shapes of `initial_weights`.
        x: (n, 28, 28) uint8 images.
        implementation: minibatch ends in a softmax, the others in sigmoids.

    Returns:
        (n, 10) float32 outputs.
    """
    _find_number(implementation)
    x, y = _check_images(x, np.zeros(len(x), np.uint8), "given")
    outputs = np.zeros((len(x), 10), np.float32)
    _evaluate(library, flatten(weights)[None], x, y, implementation, outputs)
    return outputs


def gradients(
    library: Library,
    weights: dict[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    *,
    implementation: str,
) -> dict[str, np.ndarray]:
    """Compute the gradient that an implementation descends on one batch, divisors included.

    Takes what `forward` does, and y, (n,) digits, 0 to 9; a CPU runs paper's small kernels too.

    Returns:
        Arrays of the weights' names and shapes: the mean over the batch.
    """
    number = _find_number(implementation, len(x))
    x, y = _check_images(x, y, "given")
    flat = np.zeros(NUM_PARAMETERS, np.float32)
    library.call("cnn_gradients", number, x, y, len(x), flatten(weights), flat)
    return unflatten(flat)


def initial_weights(seed: int) -> dict[str, np.ndarray]:
    """Draw the first weights, uniform between -0.5 and 0.5, as the original program does.

    Returns:
        float32 arrays by name, in the order and with the shapes that Keras wants (see SHAPES).
    """
    rng = np.random.default_rng(seed)
    return unflatten(rng.uniform(-0.5, 0.5, NUM_PARAMETERS).astype(np.float32))


def flatten(weights: dict[str, np.ndarray]) -> np.ndarray:
    """Flatten the weights for the C code; other names or shapes raise a ValueError."""
    shapes = {name: np.shape(array) for name, array in weights.items()}
    if shapes != SHAPES:
        raise ValueError(f"weights of shapes {shapes}: the network needs {SHAPES}")
    return np.concatenate([np.ravel(weights[name]) for name in SHAPES]).astype(np.float32)


def unflatten(flat: np.ndarray) -> dict[str, np.ndarray]:
    """Undo `flatten`."""
    parts = np.split(flat, np.cumsum(SIZES)[:-1])
    return {name: part.reshape(SHAPES[name]) for name, part in zip(SHAPES, parts, strict=True)}


def _check_images(x: np.ndarray, y: np.ndarray, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (n, 28, 28) and digits (n,), uint8 and contiguous; raise ValueError for
    others.
    """
    x = np.ascontiguousarray(x)
    digits = np.asarray(y).astype(np.uint8)
    is_right = x.dtype == np.uint8 and x.shape == (len(digits), 28, 28) and len(x)
    if not is_right or (digits != y).any() or digits.max() > 9:
        raise ValueError(
            f"{which} images are {x.dtype} of shape {x.shape}, with {len(digits)} digits: give"
            " (n, 28, 28) uint8 from 0 to 255, and for each one digit from 0 to 9"
        )
    return x, digits


def _find_number(implementation: str, batch_size: int = 1) -> int:
    if implementation not in IMPLEMENTATIONS:
        names = ", ".join(IMPLEMENTATIONS)
        raise ValueError(f"implementation {implementation!r}: choose from {names}")
    if implementation == "paper" and batch_size != 1:
        raise ValueError(
            f"batch_size {batch_size}: paper takes one image per step; use fused for larger "
            "batches"
        )
    return IMPLEMENTATIONS.index(implementation)


def _evaluate(library, snapshots, x, y, implementation, outputs=None) -> np.ndarray:
    """Count the correct answers of each snapshot; write a single one's outputs to `outputs`."""
    correct = np.zeros(len(snapshots), np.int32)
    ends_in_softmax = int(implementation == "minibatch")
    counts = (len(x), len(snapshots))
    library.call("cnn_evaluate", ends_in_softmax, x, y, *counts, snapshots, correct, outputs)
    return correct
