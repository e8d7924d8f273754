"""MNIST and CIFAR-10: from files, from Keras's folder or drawn, enlarged, and checked."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from dr_lib.data.small_images import load_images, load_mnist, resize
from dr_lib.errors import DrError


def write_set(path, **change):
    """A file of 100 grey images for training and 10 for testing, or what is given instead."""
    x_train = np.random.default_rng(0).integers(0, 256, (100, 28, 28), dtype=np.uint8)
    y_train = np.arange(100) // 10
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_train[:10]}
    arrays |= {"y_test": y_train[::10]} | change
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
    return str(path)


@pytest.mark.parametrize(("shape", "size"), [((28, 28, 1), 32), ((32, 32, 3), 64)])
def test_resizes_as_pillow_does(shape, size):
    """Bilinear interpolation with the centres of pixels at halves, to one grey level."""
    images = np.random.default_rng(1).integers(0, 256, (3, *shape), dtype=np.uint8)
    wanted = [
        Image.fromarray(image.squeeze()).resize((size, size), Image.Resampling.BILINEAR)
        for image in images
    ]
    resized = resize(images, size)
    assert resized.dtype == np.uint8
    assert cv2.absdiff(resized, np.reshape(wanted, (3, size, size, -1))).max() <= 1


def test_a_share_keeps_the_epochs_at_six_to_five():
    """0.0128 of 60,000 and of 50,000 images are 6 and 5 batches of 128; of none there is no set."""
    for dataset, number, channels in (("mnist", 768, 1), ("cifar10", 640, 3)):
        images = load_images(dataset, 32, "synthetic", share=0.0128)
        assert images.x_train.shape == (number, 32, 32, channels)
        assert len(images.x_test) == 128 and images.kind == "synthetic"
    with pytest.raises(DrError, match="larger share"):
        load_images("mnist", 32, "synthetic", share=1e-6)


def test_drawn_images_can_be_learnt_and_drawn_again():
    """The mean image of each class tells the test images apart; a seed gives the same images
    again.
    """
    images, again = (load_images("cifar10", 64, "synthetic", share=0.01) for _ in "ab")
    x_test = images.x_test[:, None].astype(float)
    means = [images.x_train[images.y_train == label].mean(axis=0) for label in range(10)]
    guess = ((x_test - means) ** 2).sum(axis=(2, 3, 4)).argmin(axis=1)
    assert (guess == images.y_test).mean() > 0.95
    assert (again.x_test == images.x_test).all()


def test_reads_a_file(tmp_path):
    """All of it: every image once, in its order, with its label, one channel added; of a share of a
    file that is sorted every class.
    """
    path = write_set(tmp_path / "digits.npz", y_test=np.arange(10)[:, None])
    images = load_images("mnist", 28, path)
    assert images.y_train.tolist() == [n // 10 for n in range(100)] and images.kind == "given"
    assert images.y_test.tolist() == list(range(10))
    with np.load(path) as file:
        assert (load_mnist(path)[0] == file["x_train"]).all()
    kept, again = (load_images("mnist", 32, path, share=0.5) for _ in "ab")
    assert (len(kept.y_train), len(kept.y_test)) == (50, 5)
    assert set(kept.y_train) == set(range(10)) and (kept.x_train == again.x_train).all()


@pytest.mark.slow
def test_saves_what_keras_loads(tmp_path, monkeypatch):
    """CIFAR-10, which Keras keeps as pickles, is saved as plain arrays, once."""
    stand_in = tmp_path / "modules" / "keras" / "__init__.py"
    stand_in.parent.mkdir(parents=True)
    loaded = "(numpy.full((20, 32, 32, 3), 7, 'uint8'), numpy.arange(20)[:, None] % 10)"
    load = f"staticmethod(lambda: ({loaded}, {loaded}))"
    stand_in.write_text(
        f"import numpy\nclass datasets:\n    class cifar10:\n        load_data = {load}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    images = load_images("cifar10", 32, "keras")
    assert images.y_test.tolist() == [n % 10 for n in range(20)] and (images.x_train == 7).all()
    assert [path.name for path in (tmp_path / "home" / "datasets").iterdir()] == ["cifar10.npz"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x_train": np.zeros((100, 28, 28))}, "x_train is float64"),
        ({"y_train": np.zeros(99, int)}, "y_train int64 .99,.: give"),
        ({"y_test": np.full(10, 10)}, "y_test int64 .10,.: give"),
        ({"y_test": np.array([{}] * 10)}, "not an .npz file"),  # pickles are never loaded
        (Path.unlink, "No such file"),
    ],
)
def test_a_file_that_is_no_such_set_is_refused(tmp_path, change, reason):
    """The message names the array and what is wrong with it."""
    path = tmp_path / "digits.npz"
    write_set(path, **({} if callable(change) else change))
    if callable(change):
        change(path)
    with pytest.raises(DrError, match=reason):
        load_images("mnist", 32, str(path))
