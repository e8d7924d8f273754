"""EfficientNet-Lite0: its size, and a reader of PyTorch's tables of weights that runs nothing."""

import os
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.training.lite0 import PACKAGE, find_weights, read_state
from dr_lib.training.models import build_model


def write_table(path: Path, table: bytes, values: np.ndarray) -> Path:
    """Write a file as PyTorch did before version 1.6: five pickles, then the storage 0."""
    heads = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {})]
    storage = struct.pack("<q", len(values)) + values.astype("<f4").tobytes()
    path.write_bytes(b"".join([*heads, table, pickle.dumps(["0"], 2), storage]))
    return path


def write_tensor(start: int, shape: tuple, strides: tuple) -> bytes:
    """Pickle a table of one tensor, w, by hand: PyTorch need not be there."""
    storage = b"(S'storage'\nctorch\nFloatStorage\nS'0'\nS'cpu'\nI6\nNtQ"
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    spread = b"".join(pickle.dumps(each, 0)[:-1] for each in (start, shape, strides, False))
    return b"(dS'w'\n" + rebuild + b"(" + storage + spread + b"NtRs."


def test_a_table_of_tensors_is_read_by_its_strides(tmp_path):
    """A matrix of 3 x 2 that lies in the file column by column, after a first value."""
    path = write_table(tmp_path / "w.pth", write_tensor(1, (2, 2), (1, 2)), np.arange(6))
    assert read_state(path)["w"].tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("start", "shape", "strides"),
    [
        (3, (2, 2), (2, 1)),
        (1, (3,), (-1,)),
    ],
)
def test_a_tensor_beyond_its_values_is_refused(tmp_path, start, shape, strides):
    """Nothing of the memory behind or before them is read."""
    path = write_table(tmp_path / "w.pth", write_tensor(start, shape, strides), np.arange(6))
    with pytest.raises(DrError, match="w.pth is not a table of weights"):
        read_state(path)


@pytest.mark.parametrize(
    "hostile",
    [
        b"cos\nsystem\n(S'touch MARK'\ntR.",
        b"ctorch\nload\n(S'MARK'\ntR.",
        b"not a pickle",
    ],
)
def test_a_hostile_table_runs_nothing(tmp_path, monkeypatch, hostile):
    """Every name but those of tensors is refused before it is looked up."""
    monkeypatch.chdir(tmp_path)
    path = write_table(tmp_path / "w.pth", hostile, np.arange(6))
    with pytest.raises(DrError, match="is not a table of weights"):
        read_state(path)
    assert os.listdir() == ["w.pth"]


def test_the_network_is_as_large_as_published():
    """4,652,008 parameters (Google's model card), less the top's 1280 x 1000 + 1000."""
    base = build_model("efficientnet_lite0", 32).get_layer("base")
    trained = sum(int(np.prod(weight.shape)) for weight in base.trainable_weights)
    assert trained == 4_652_008 - 1_281_000


def test_imagenet_weights_fill_every_layer():
    """The first kernel of the file is that of the network, turned."""
    pytest.importorskip(PACKAGE)
    base = build_model("efficientnet_lite0", 32, weights="imagenet").get_layer("base")
    kernel = read_state(find_weights())["_conv_stem.weight"]
    assert (base.get_layer("stem_conv").get_weights()[0] == kernel.transpose(2, 3, 1, 0)).all()
