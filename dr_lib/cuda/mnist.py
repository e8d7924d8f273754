"""Train, run and check the MNIST network of 2,343 parameters, in CUDA C, on a GPU or on a CPU."""

import ctypes

import numpy as np
import pandas as pd

from dr_lib.cuda.build import CudaError, Library, NoDeviceError

IMPLEMENTATIONS = ("paper", "fused", "true_gradient", "minibatch")
LEARNING_RATES = {"paper": 0.1, "fused": 0.1, "true_gradient": 0.1, "minibatch": 0.02}
# the numbers that mnist_cnn.cu knows them by
RECIPES = {"fused": 0, "true_gradient": 1, "minibatch": 2, "paper": 3}
# those of Keras's Conv2D(6, 5), of Conv3D(1, (4, 4, 1), (4, 4, 1)) on the maps, and of Dense(10)
SHAPES = {
    "conv_kernel": (5, 5, 1, 6),
    "conv_bias": (6,),
    "pool_kernel": (4, 4, 1, 1, 1),
    "pool_bias": (1,),
    "dense_kernel": (216, 10),
    "dense_bias": (10,),
}
NUM_PARAMETERS = sum(int(np.prod(shape)) for shape in SHAPES.values())


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
    replicas: int = 1,
) -> pd.DataFrame:
    """Train replicas of the network side by side, from different weights, on the images in their
    order.

    Args:
        library: from `build`.
        x_train: (n, 28, 28) uint8 images, as those to test on after each epoch.
        y_train: (n,) digits, 0 to 9.
        x_test: see x_train.
        y_test: see y_train.
        implementation: paper (many small kernels; GPU and batch 1 alone), fused (the same
            arithmetic in one launch), true_gradient (fused without the divisors), minibatch
            (softmax, cross-entropy and Adam in one launch).
        seed: of the first replica's weights; the others have the next ones.
        replicas: networks to train at a time, each on a multiprocessor (or core) of its own.

    Returns:
        A row per replica and epoch: epoch (from 1), train_s (seconds of training since its start,
        without the tests), test_accuracy (share), implementation, device, batch_size, replica,
        seed.

    Raises:
        NoDeviceError: paper on a CPU.
        CudaError: weights became infinite or no numbers, or the device's memory is too small.
        ValueError: any argument that cannot be.
    """
    _check_recipe(library, implementation, batch_size=batch_size, epochs=epochs, replicas=replicas)
    x_train, y_train = check_images(x_train, y_train, "training")
    x_test, y_test = check_images(x_test, y_test, "test")
    data = (x_train, y_train)
    rate = LEARNING_RATES[implementation]
    snapshots, seconds = train_weights(
        library, implementation, data, epochs, batch_size, rate, seed, replicas
    )
    correct = _evaluate(
        library, snapshots.reshape(-1, NUM_PARAMETERS), x_test, y_test, implementation
    )[0]
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


def train_weights(library, implementation, data, epochs, batch_size, rate, seed, replicas):
    """Train without tests: the weights after each epoch, (replicas, epochs, 2343), and seconds,
    (replicas, epochs).
    """
    snapshots = np.zeros((replicas, epochs, NUM_PARAMETERS), np.float32)
    first = np.stack([flatten(initial_weights(seed + replica)) for replica in range(replicas)])
    seconds = np.zeros((replicas, epochs))
    finished = np.zeros(replicas, np.int32)
    asked = (*map(_pointer, data), len(data[0]))
    if implementation == "paper":
        for replica in range(replicas):
            own = (_pointer(array[replica:]) for array in (first, snapshots, seconds, finished))
            library.call("cnn_train_paper", *asked, epochs, ctypes.c_float(rate), *own)
    else:
        more = (batch_size, epochs, ctypes.c_float(rate), replicas)
        results = map(_pointer, (first, snapshots, seconds, finished))
        library.call("cnn_train", RECIPES[implementation], *asked, *more, *results)
    for replica in np.flatnonzero(finished < epochs):
        epoch = f"epoch {finished[replica] + 1} (replica {replica})"
        raise CudaError(f"training diverged in {epoch}: take a smaller learning rate")
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

    Raises:
        ValueError: weights or images of other shapes or types, or no such implementation.
    """
    _check_implementation(implementation)
    x, y = check_images(x, np.zeros(len(x), np.uint8), "given")
    return _evaluate(library, flatten(weights)[None], x, y, implementation, want_outputs=True)[1]


def gradients(
    library: Library,
    weights: dict[str, np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    *,
    implementation: str,
) -> dict[str, np.ndarray]:
    """Find the gradient by which an implementation would step down on one batch, its divisors
    included.

    Takes and raises what `forward` does, and y, (n,) digits, 0 to 9; a CPU runs paper's small
    kernels too.

    Returns:
        Arrays of the weights' names and shapes: the mean over the batch.
    """
    _check_implementation(implementation)
    x, y = check_images(x, y, "given")
    flat = flatten(weights)
    size = 1 if implementation == "paper" else len(x)
    found = np.zeros((len(x) // size, NUM_PARAMETERS), np.float32)
    for i in range(len(found)):
        part = (
            _pointer(x[i * size :]),
            _pointer(y[i * size :]),
            size,
            _pointer(flat),
            _pointer(found[i:]),
        )
        library.call("cnn_gradients", RECIPES[implementation], *part)
    return unflatten(found.mean(axis=0))


def initial_weights(seed: int) -> dict[str, np.ndarray]:
    """Draw the first weights, uniform between -0.5 and 0.5, as the original program does.

    Returns:
        float32 arrays by name, in the order and with the shapes that Keras wants (see SHAPES).
    """
    rng = np.random.default_rng(seed)
    return unflatten(rng.uniform(-0.5, 0.5, NUM_PARAMETERS).astype(np.float32))


def flatten(weights: dict[str, np.ndarray]) -> np.ndarray:
    """All weights in a row, as the C code takes them; a ValueError where an array is missing or
    of another shape.
    """
    found = {name: np.shape(array) for name, array in weights.items()}
    if found != SHAPES:
        raise ValueError(
            f"weights of shapes {found}: the network takes {SHAPES}, as initial_weights gives them"
        )
    return np.concatenate([np.ravel(weights[name]) for name in SHAPES]).astype(np.float32)


def unflatten(flat: np.ndarray) -> dict[str, np.ndarray]:
    """Undo `flatten`."""
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES.values()])
    parts = np.split(flat, ends[:-1])
    return {
        name: part.reshape(shape) for (name, shape), part in zip(SHAPES.items(), parts, strict=True)
    }


def check_images(x: np.ndarray, y: np.ndarray, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Check images and digits against what the network takes; `which` they are called in an error.

    Returns x as (n, 28, 28) uint8 and y as (n,) uint8, contiguous in memory; a ValueError where
    they are anything else.
    """
    x = np.asarray(x)
    y = np.asarray(y)
    if x.dtype != np.uint8 or x.shape[1:] != (28, 28) or not len(x):
        raise ValueError(
            f"{which} images are {x.dtype} of shape {x.shape}: give uint8 from 0 to 255, (n,"
            " 28, 28)"
        )
    if y.shape != (len(x),) or not np.isin(y, range(10)).all():
        raise ValueError(
            f"{which} digits are {y.dtype} of shape {y.shape}: give one from 0 to 9 for each image"
        )
    return np.ascontiguousarray(x), np.ascontiguousarray(y, np.uint8)


def _evaluate(library, snapshots, x, y, implementation, want_outputs=False):
    """Correct answers of each snapshot, and the outputs of a single one."""
    correct = np.zeros(len(snapshots), np.int32)
    outputs = np.zeros((len(x), 10) if want_outputs else (1,), np.float32)
    arguments = (
        _pointer(x),
        _pointer(y),
        len(x),
        len(snapshots),
        _pointer(snapshots),
        _pointer(correct),
    )
    softmax = int(implementation == "minibatch")
    library.call("cnn_evaluate", softmax, *arguments, _pointer(outputs) if want_outputs else None)
    return correct, outputs


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check_implementation(implementation):
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"implementation {implementation!r}: there are {', '.join(IMPLEMENTATIONS)}"
        )


def _check_recipe(library, implementation, **counts) -> None:
    _check_implementation(implementation)
    for name, value in counts.items():
        if not 1 <= value < 2**31:
            raise ValueError(f"{name} {value!r}: 1 or more")
    if implementation == "paper" and library.kind != "gpu":
        raise NoDeviceError(
            "paper needs a GPU, and this library is the CPU's: choose a runtime with one, or fused"
        )
    size = counts["batch_size"]
    if implementation == "paper" and size != 1:
        raise ValueError(
            f"batch_size {size}: paper takes one image per step; fused does the same with more"
        )
