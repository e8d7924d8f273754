"""Load MNIST, and check images and digits."""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from dr_lib.cuda.build import CudaError

NAMES = ("x_train", "y_train", "x_test", "y_test")


class DataError(CudaError, ValueError):
    """Images, digits or weights are not what the network takes."""


def load_mnist(path: str | Path = "") -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Load MNIST from a file, else from where Keras keeps it, else let Keras download it.

    Args:
        path: an mnist.npz with x_train, y_train, x_test and y_test; empty for Keras's.

    Returns:
        x_train, y_train, x_test, y_test: (n, 28, 28) uint8 images and (n,) uint8 digits.

    Raises:
        DataError: the file is missing or holds something else, or Keras cannot load MNIST.
    """
    if not path:
        kept = Path.home() / ".keras" / "datasets" / "mnist.npz"
        return load_mnist(kept) if kept.is_file() else _check_all(_ask_keras())
    path = Path(path).expanduser()
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in NAMES]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, BadZipFile) as error:
        raise DataError(f"{path} is no mnist.npz with {', '.join(NAMES)} ({error}): give the path of one") from error
    return _check_all(arrays)


def check_images(x: np.ndarray, y: np.ndarray, which: str) -> tuple[np.ndarray, np.ndarray]:
    """Hold images and digits against what the network takes.

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


def _check_all(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return (*check_images(*arrays[:2], "training"), *check_images(*arrays[2:], "test"))


def _ask_keras() -> list[np.ndarray]:
    try:
        from keras.datasets import mnist

        train, test = mnist.load_data()
    except Exception as error:  # a failed download is a plain Exception of Keras's
        raise DataError(
            f"MNIST is not here, and keras.datasets cannot load it ({error}): give load_mnist the path of an mnist.npz"
        ) from error
    return [*train, *test]
