"""Train, run and check the MNIST network of 2,343 parameters, in CUDA C, on a GPU or on a CPU."""

import ctypes
import math

import numpy as np
import pandas as pd

from dr_lib.cuda.build import CudaError, Library, NoDeviceError, OutOfMemoryError

IMPLEMENTATIONS = ("paper", "fused", "true_gradient", "minibatch")
LEARNING_RATES = {"paper": 0.1, "fused": 0.1, "true_gradient": 0.1, "minibatch": 0.02}
RECIPES = {"fused": 0, "true_gradient": 1, "minibatch": 2, "paper": 3}  # the numbers that mnist_cnn.cu knows them by
# the order and the shapes of a Keras model of Conv2D(6, 5), Reshape((24, 24, 6, 1)), Conv3D(1, (4, 4, 1), (4, 4, 1)),
# Flatten and Dense(10), so that model.set_weights([*weights.values()]) takes them
SHAPES = {
    "conv_kernel": (5, 5, 1, 6),
    "conv_bias": (6,),
    "pool_kernel": (4, 4, 1, 1, 1),
    "pool_bias": (1,),
    "dense_kernel": (216, 10),
    "dense_bias": (10,),
}
NUM_PARAMETERS = sum(int(np.prod(shape)) for shape in SHAPES.values())


class DataError(CudaError, ValueError):
    """Images, digits or weights are not what the network takes."""


class DivergedError(CudaError):
    """The weights of a training became infinite or no numbers; `epoch` says in which epoch."""

    def __init__(self, epoch: int, replica: int):
        """Of which epoch, from 1, and which replica, from 0."""
        super().__init__(f"training diverged in epoch {epoch} (replica {replica}): take a smaller learning rate")
        self.epoch, self.replica = epoch, replica


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
    learning_rate: float | None = None,
    seed: int = 0,
    replicas: int = 1,
    threads: int = 0,
) -> pd.DataFrame:
    """Train replicas of the network side by side, from different weights, on the images in their order.

    Args:
        library: from `build`.
        x_train: (n, 28, 28) uint8 images.
        y_train: (n,) digits, 0 to 9.
        x_test: images to test on after each epoch.
        y_test: their digits.
        implementation: paper (many small kernels; GPU and batch 1 alone), fused (the same arithmetic in one launch),
            true_gradient (fused without the divisors), minibatch (softmax, cross-entropy and Adam in one launch).
        epochs: passes over the training images.
        batch_size: images per step.
        learning_rate: None takes the implementation's own.
        seed: of the first replica's weights; the others have the next ones.
        replicas: networks to train at a time, each on a multiprocessor (or core) of its own.
        threads: cores to use on a CPU, 0 for all.

    Returns:
        A row per replica and epoch: epoch (from 1), train_s (seconds of training since its start, without the tests),
        test_accuracy (share), implementation, device, batch_size, replica, seed.

    Raises:
        NoDeviceError: paper on a CPU.
        DataError: images or labels of another shape, type or range.
        DivergedError: weights became infinite or no numbers.
        OutOfMemoryError: the device's memory is too small.
        ValueError: any other argument that cannot be.
    """
    rate = _check_recipe(
        library, implementation, batch_size, learning_rate, epochs=epochs, replicas=replicas, threads=threads
    )
    x_train, y_train = check_images(x_train, y_train, "training")
    x_test, y_test = check_images(x_test, y_test, "test")
    snapshots, seconds = train_weights(
        library, implementation, (x_train, y_train), epochs, batch_size, rate, seed, replicas, threads
    )
    correct = _evaluate(library, snapshots.reshape(-1, NUM_PARAMETERS), x_test, y_test, implementation, threads)[0]
    return pd.DataFrame(
        {
            "epoch": np.tile(np.arange(1, epochs + 1), replicas),
            "train_s": seconds.ravel(),
            "test_accuracy": correct / len(x_test),
            "implementation": implementation,
            "device": library.device,
            "batch_size": batch_size,
            "replica": np.repeat(np.arange(replicas), epochs),
            "seed": np.repeat(np.arange(seed, seed + replicas), epochs),
        }
    )


def train_weights(library, implementation, data, epochs, batch_size, rate, seed, replicas, threads):
    """Train without tests, on what `train` has checked.

    Returns:
        The flat weights after each epoch, (replicas, epochs, 2343), and the seconds, (replicas, epochs).

    Raises:
        DivergedError: weights became infinite or no numbers.
        OutOfMemoryError: the device's memory is too small.
    """
    try:
        snapshots = np.zeros((replicas, epochs, NUM_PARAMETERS), np.float32)
    except (MemoryError, ValueError) as error:  # NumPy's word for more than any memory
        raise OutOfMemoryError(f"{error}: take fewer replicas or epochs") from error
    first = np.stack([flatten(initial_weights(seed + replica)) for replica in range(replicas)])
    seconds, finished = np.zeros((replicas, epochs)), np.zeros(replicas, np.int32)
    asked = (*map(_pointer, data), len(data[0]))
    if implementation == "paper":
        for replica in range(replicas):
            own = (_pointer(array[replica:]) for array in (first, snapshots, seconds, finished))
            library.call("cnn_train_paper", *asked, epochs, ctypes.c_float(rate), *own)
    else:
        more = (batch_size, epochs, ctypes.c_float(rate), replicas, threads)
        results = map(_pointer, (first, snapshots, seconds, finished))
        library.call("cnn_train", RECIPES[implementation], *asked, *more, *results)
    for replica in np.flatnonzero(finished < epochs):
        raise DivergedError(int(finished[replica]) + 1, int(replica))
    return snapshots, seconds


def forward(library: Library, weights: dict[str, np.ndarray], x: np.ndarray, *, implementation: str) -> np.ndarray:
    """Run the network on images.

    Args:
        library: from `build`.
        weights: arrays of the names and shapes of `initial_weights`.
        x: (n, 28, 28) uint8 images.
        implementation: minibatch ends in a softmax, the others in sigmoids.

    Returns:
        (n, 10) float32 outputs.

    Raises:
        DataError: weights or images of other shapes or types.
        ValueError: there is no such implementation.
    """
    _check_implementation(implementation)
    x, y = check_images(x, np.zeros(len(x), np.uint8), "given")
    return _evaluate(library, flatten(weights)[None], x, y, implementation, 0, want_outputs=True)[1]


def gradients(
    library: Library, weights: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, *, implementation: str
) -> dict[str, np.ndarray]:
    """Find the gradient by which an implementation would step down on one batch, its divisors included.

    Args:
        library: from `build`; a CPU runs the small kernels of paper too, for this check.
        weights: arrays of the names and shapes of `initial_weights`.
        x: (n, 28, 28) uint8 images.
        y: (n,) digits, 0 to 9.
        implementation: one of IMPLEMENTATIONS.

    Returns:
        Arrays of the weights' names and shapes: the mean over the batch.

    Raises:
        DataError: weights, images or labels of other shapes, types or ranges.
        ValueError: there is no such implementation.
    """
    _check_implementation(implementation)
    x, y = check_images(x, y, "given")
    flat, size = flatten(weights), 1 if implementation == "paper" else len(x)
    found = np.zeros((len(x) // size, NUM_PARAMETERS), np.float32)
    for i in range(len(found)):
        part = (_pointer(x[i * size :]), _pointer(y[i * size :]), size, _pointer(flat), _pointer(found[i:]))
        library.call("cnn_gradients", RECIPES[implementation], *part)
    return unflatten(found.mean(axis=0))


def initial_weights(seed: int) -> dict[str, np.ndarray]:
    """Draw the first weights, uniform between -0.5 and 0.5, as the original program does.

    Args:
        seed: 0 or more.

    Returns:
        float32 arrays by name, in the order and with the shapes that Keras wants (see SHAPES).

    Raises:
        ValueError: the seed is negative or no whole number.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed {seed!r}: give a whole number, 0 or more")
    rng = np.random.default_rng(seed)
    return unflatten(rng.uniform(-0.5, 0.5, NUM_PARAMETERS).astype(np.float32))


def flatten(weights: dict[str, np.ndarray]) -> np.ndarray:
    """All weights in a row, as the C code takes them.

    Raises:
        DataError: an array is missing, too many, or has another shape.
    """
    found = {name: np.shape(array) for name, array in weights.items()}
    if found != SHAPES:
        raise DataError(f"weights of shapes {found}: the network takes {SHAPES}, as initial_weights gives them")
    return np.concatenate([np.ravel(weights[name]) for name in SHAPES]).astype(np.float32)


def unflatten(flat: np.ndarray) -> dict[str, np.ndarray]:
    """Undo `flatten`."""
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES.values()])
    parts = np.split(flat, ends[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(SHAPES.items(), parts, strict=True)}


def check_images(x: np.ndarray, y: np.ndarray, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Check images and digits against what the network takes.

    Args:
        x: images.
        y: digits.
        which: what they are called in an error.

    Returns:
        x as (n, 28, 28) uint8 and y as (n,) uint8, contiguous in memory.

    Raises:
        DataError: a shape, type or value is another one.
    """
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != np.uint8 or x.ndim != 3 or x.shape[1:] != (28, 28) or not len(x):
        raise DataError(f"{which} images are {x.dtype} of shape {x.shape}: give uint8 from 0 to 255, (n, 28, 28)")
    if not np.issubdtype(y.dtype, np.integer) or y.shape != (len(x),):
        raise DataError(f"{which} digits are {y.dtype} of shape {y.shape}: give whole numbers, one for each image")
    if y.min() < 0 or y.max() > 9:
        raise DataError(f"{which} digits reach from {y.min()} to {y.max()}: there are 0 to 9")
    return np.ascontiguousarray(x), np.ascontiguousarray(y, np.uint8)


def _evaluate(library, snapshots, x, y, implementation, threads, want_outputs=False):
    """Correct answers of each snapshot, and the outputs of a single one."""
    correct = np.zeros(len(snapshots), np.int32)
    outputs = np.zeros((len(x), 10) if want_outputs else (1,), np.float32)
    arguments = (_pointer(x), _pointer(y), len(x), threads, len(snapshots), _pointer(snapshots), _pointer(correct))
    softmax = int(implementation == "minibatch")
    library.call("cnn_evaluate", softmax, *arguments, _pointer(outputs) if want_outputs else None)
    return correct, outputs


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check_implementation(implementation):
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"implementation {implementation!r}: there are {', '.join(IMPLEMENTATIONS)}")


def _check_recipe(library, implementation, batch_size, learning_rate, **counts) -> float:
    """The learning rate, if all that was asked for can be done."""
    _check_implementation(implementation)
    for name, value in {"batch_size": batch_size, **counts}.items():
        lowest = 0 if name == "threads" else 1
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not lowest <= value < 2**31:
            raise ValueError(f"{name} {value!r}: give a whole number, {lowest} or more")
    rate = LEARNING_RATES[implementation] if learning_rate is None else float(learning_rate)
    if not math.isfinite(rate) or rate <= 0:
        raise ValueError(f"learning_rate {learning_rate!r}: give a number above 0")
    if implementation == "paper" and library.kind != "gpu":
        raise NoDeviceError("paper needs a GPU, and this library is the CPU's: choose a runtime with one, or fused")
    if implementation == "paper" and batch_size != 1:
        raise ValueError(f"batch_size {batch_size}: paper takes one image per step; fused does the same with more")
    return rate
