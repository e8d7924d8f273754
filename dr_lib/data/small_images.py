"""Load MNIST and CIFAR-10 at a chosen size: from Keras, from a file, or synthetic.

Synthetic images are for timing only. `python -m dr_lib.data.small_images DATASET FILE` saves what
Keras loads.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from dr_lib.command import ROOT
from dr_lib.errors import DrError
from dr_lib.processes import read_last_words

DIGITS = range(10)
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
# shape of an image, number of images to train and to test on
DATASETS = {"mnist": ((28, 28, 1), 60_000, 10_000), "cifar10": ((32, 32, 3), 50_000, 10_000)}


class ImageSet(NamedTuple):
    """Images of ten classes, for training and testing."""

    x_train: np.ndarray  # (n, size, size, channels) uint8
    y_train: np.ndarray  # (n,) int64, 0 to 9
    x_test: np.ndarray
    y_test: np.ndarray
    kind: str  # given, or synthetic: good for timing only


def load_mnist(source: str | Path = "keras") -> list[np.ndarray]:
    """Load MNIST as it is: x_train, y_train, x_test and y_test, (n, 28, 28) uint8 images and (n,)
    digits; see `load_images`.
    """
    *arrays, _ = load_images("mnist", 28, source)
    return [array[..., 0] if array.ndim == 4 else array for array in arrays]


def load_images(
    dataset: str, image_size: int, source: str | Path, *, share: float = 1.0, seed: int = 0
) -> ImageSet:
    """Load a data set, or a share of it, and enlarge its images to the given size.

    A share keeps the ratio of the data sets' epochs: 0.0128 of MNIST and CIFAR-10 are 6 and 5
    batches of 128.

    Args:
        dataset: mnist or cifar10.
        image_size: side to enlarge the images to, bilinearly [px]: 28 of MNIST, 32 or 64.
        source: keras; synthetic, for images of the same shapes and counts that a network can tell
            apart; or the path of an .npz file with uint8 images x_train and x_test and labels
            y_train and y_test, such as Keras's mnist.npz.
        share: of the training and of the test images that is kept, more than 0, at most 1.
        seed: of the choice of the images kept, and of the drawing; 0 or more.

    Raises:
        DrError: the share has no image, the file is not such a file, or Keras cannot load the data
            set.
    """
    if source == "synthetic":
        arrays = _draw(dataset, share, seed)
    else:
        arrays = _keep(_read(source, dataset), share, seed)
    if not (len(arrays[0]) and len(arrays[2])):
        raise DrError(f"share {share} rounds to no image: choose a larger share")
    for place in (0, 2):
        arrays[place] = resize(arrays[place], image_size)
    return ImageSet(*arrays, "synthetic" if source == "synthetic" else "given")


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Resize images, (n, height, width, channels) uint8, bilinearly to a new side [px]; to shrink
    by much would alias.
    """
    resized = np.empty((len(images), size, size, images.shape[-1]), np.uint8)
    for image, place in zip(images, resized, strict=True):
        place[:] = cv2.resize(image, (size, size)).reshape(place.shape)
    return resized


def _draw(dataset: str, share: float, seed: int) -> list[np.ndarray]:
    """Generate a coarse pattern for each class, and images that are half pattern, half noise."""
    shape, *numbers = DATASETS[dataset]
    rng = np.random.default_rng(seed)
    patterns = rng.integers(0, 128, (len(DIGITS), 4, 4, shape[2]), dtype=np.uint8)
    patterns = resize(patterns, shape[0])
    arrays = []
    for number in numbers:
        labels = rng.integers(0, len(DIGITS), round(number * share))
        noise = rng.integers(0, 128, (len(labels), *shape), dtype=np.uint8)
        arrays += [noise + patterns[labels], labels]
    return arrays


def _read(source: str | Path, dataset: str) -> list[np.ndarray]:
    """Read and check a file or Keras's: images (n, height, width, channels), labels (n,), twice.

    The first two are to train on, the last two to test.
    """
    path = _fetch(dataset) if source == "keras" else Path(source).expanduser()
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in ARRAYS]
    except Exception as error:  # whatever readers of zip files and of arrays meet
        raise DrError(
            f"{path} is not an .npz file with {', '.join(ARRAYS)}, or is damaged ({error}): give"
            " keras, synthetic or the path of one"
        ) from error
    shape = DATASETS[dataset][0]
    for place in (0, 2):
        images = arrays[place]
        labels = arrays[place + 1].ravel()
        is_right = (
            images.dtype == np.uint8
            and images.shape[1:3] == shape[:2]
            and images.size == len(labels) * np.prod(shape) > 0
            and labels.dtype.kind in "iu"
            and np.isin(labels, DIGITS).all()
        )
        if not is_right:
            raise DrError(
                f"{path}: {ARRAYS[place]} is {images.dtype} {images.shape}, {ARRAYS[place + 1]}"
                f" {labels.dtype} {labels.shape}: give uint8 (n, {shape}) and n labels from 0 to 9"
            )
        arrays[place] = images.reshape(-1, *shape)
        arrays[place + 1] = labels.astype(np.int64)
    return arrays


def _keep(arrays: list[np.ndarray], share: float, seed: int) -> list[np.ndarray]:
    """Keep a random share of the images (files may be sorted by class), in their order."""
    rng = np.random.default_rng(seed)
    kept = []
    for images, labels in (arrays[:2], arrays[2:]):
        number = round(len(images) * share)
        rows = np.sort(rng.choice(len(images), number, replace=False))
        kept += [images[rows], labels[rows]]
    return kept


def _fetch(dataset: str) -> Path:
    """Find a data set in Keras's folder, or start a process that downloads it there.

    This one imports no Keras, for its backend may be still to be chosen.
    """
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    path = Path(home) / "datasets" / f"{dataset}.npz"
    if path.is_file():
        return path
    # loading needs no backend, but Keras does not start without one that is installed
    backend = next(filter(find_spec, ("torch", "jax", "tensorflow")), "numpy")
    fetched = subprocess.run(
        [sys.executable, "-m", __name__, dataset, path],
        env={**os.environ, "KERAS_BACKEND": backend},
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if fetched.returncode:
        reason = read_last_words(fetched.stderr, "it was killed")
        fault = f"Keras cannot load {dataset} ({reason})"
        raise DrError(f"{fault}: give the path of a file, or the word synthetic")
    return path


def save(dataset: str, path: Path) -> None:
    """Save what Keras loads as plain arrays, because Keras keeps CIFAR-10 as pickles."""
    import keras

    from dr_lib.files import replace

    (x_train, y_train), (x_test, y_test) = getattr(keras.datasets, dataset).load_data()
    if not path.exists():
        with replace(path) as temporary, temporary.open("wb") as file:
            np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


if __name__ == "__main__":
    save(sys.argv[1], Path(sys.argv[2]))
