"""Converting a Keras network: sizes on the disk, the same probabilities, silence, and errors
that say what to do.
"""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from dr_lib.errors import DrError
from dr_lib.serving.export.convert import convert, load_network
from dr_lib.serving.grader.models import open_model
from tests.serving.stand_in import build_network, draw_crops

# the largest and the mean difference of a probability; measured 4e-6, 3e-3 and 0.08
# on the stand-in, whose logits are steep; in the mean 0.015 of int8
CLOSE = {
    "savedmodel": (4, 1e-5, 1e-5),
    "litert_float32": (4, 1e-4, 1e-4),
    "litert_int8": (1, 0.3, 0.02),
}


def count_on_disk(path) -> int:
    """Bytes of a file, or of all below a folder."""
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())


@pytest.mark.parametrize("format_name", CLOSE)
def test_an_artifact_is_small_and_right(network, tmp_path, format_name):
    """At most 1.15 x parameters x bytes + 64 KiB, and the Keras network's probabilities."""
    bytes_each, most, mean = CLOSE[format_name]
    artifact = tmp_path / "artifact"
    convert(network, format_name, artifact, calibration=draw_crops(50, seed=2))
    ideal = network.count_params() * bytes_each
    assert 0.95 * ideal < count_on_disk(artifact) <= 1.15 * ideal + 64 * 1024
    crops = draw_crops(40, seed=3)
    given = open_model(format_name, artifact, 1)(crops)
    difference = np.abs(given - network.predict(crops, verbose=0))
    assert difference.max() < most and difference.mean() < mean
    if format_name == "litert_int8":  # activations too
        tensors = Interpreter(str(artifact)).get_tensor_details()
        assert {each["dtype"] for each in tensors if "conv2d" in each["name"]} == {np.int8}


def test_a_network_of_mixed_precision_serves_in_float32(tmp_path):
    """Its float32 weights are all there; the probabilities are those of the training up to
    float16's rounding.
    """
    before = keras.mixed_precision.dtype_policy()
    try:
        keras.mixed_precision.set_global_policy("mixed_float16")
        mixed = build_network()
        mixed.save(tmp_path / "model.keras")
    finally:
        keras.mixed_precision.set_global_policy(before)
    network = load_network(tmp_path / "model.keras")
    crops = draw_crops(20)
    assert "float16" not in network.to_json()
    wanted = network.predict(crops, verbose=0)
    assert np.abs(mixed.predict(crops, verbose=0) - wanted).max() < 0.05


@pytest.mark.parametrize("calibration", [None, draw_crops(1) * 0], ids=["none", "flat"])
def test_int8_needs_crops_that_show_something(network, tmp_path, calibration):
    """Flat ones would end the process, from inside LiteRT."""
    with pytest.raises(DrError, match="litert_int8 needs calibration"):
        convert(network, "litert_int8", tmp_path / "model.tflite", calibration=calibration)


def test_a_model_that_cannot_be_read_says_why(tmp_path):
    """The file and the version of Keras that failed are named."""
    (tmp_path / "broken.keras").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(DrError, match=f"broken.keras is not .* Keras {keras.__version__} can"):
        load_network(tmp_path / "broken.keras")
