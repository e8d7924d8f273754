"""MNIST from a file or from Keras, and clear errors where it cannot be had."""

import sys

import numpy as np
import pytest

from dr_lib.cuda import mnist


def write(path, digits, **changes):
    """An mnist.npz of synthetic digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = dict(zip(("x_train", "y_train", "x_test", "y_test"), digits, strict=True)) | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_reads_a_file(tmp_path, digits):
    """What was written comes back."""
    for found, wanted in zip(mnist.load_mnist(write(tmp_path / "m.npz", digits)), digits, strict=True):
        assert found.dtype == np.uint8 and (found == wanted).all()


def test_takes_what_keras_has_kept(tmp_path, digits, monkeypatch):
    """Without a path it is the file in Keras's folder, and Keras is not imported for it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "keras", None)
    write(tmp_path / ".keras" / "datasets" / "mnist.npz", digits)
    assert (mnist.load_mnist()[0] == digits[0]).all()


def test_without_file_keras_and_network(tmp_path, monkeypatch):
    """The error names the way out."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "keras.datasets", None)
    with pytest.raises(mnist.DataError, match="give load_mnist the path"):
        mnist.load_mnist()


@pytest.mark.parametrize("changes", [{"y_test": None}, {"x_train": np.zeros((600, 784), np.uint8)}])
def test_refuses_another_archive(tmp_path, digits, changes):
    """An array is missing or has another shape."""
    with pytest.raises(mnist.DataError, match="y_test|training images"):
        mnist.load_mnist(write(tmp_path / "m.npz", digits, **changes))


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 cut off", b"\x93NUMPY"])
def test_refuses_what_is_no_archive(tmp_path, content):
    """A missing, empty or broken file is named."""
    path = tmp_path / "broken.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(mnist.DataError, match="broken.npz is no mnist.npz"):
        mnist.load_mnist(path)
