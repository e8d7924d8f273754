"""Timing: known delays, hand-made tables, processes with fewer instructions, and layers that add up to the call."""

import time

import keras
import numpy as np
import pandas as pd
import pytest

from dr_lib.serving.export.convert import convert
from dr_lib.serving.export.timing import (
    LEVELS,
    TimingError,
    compare_runtimes,
    pair_runtimes,
    profile_layers,
    read_cpu_flags,
    sweep_instruction_sets,
    time_runtime,
)
from dr_lib.training.graders import build_grader
from tests.serving.stand_in import build_network, draw_crops

CROP = draw_crops(1)[0]

pytestmark = pytest.mark.slow  # OpenVINO is installed for the slow tests alone


@pytest.fixture(scope="module")
def network():
    """A small_cnn of 32 px."""
    return build_network()


@pytest.fixture(scope="module")
def paths(network, tmp_path_factory):
    """Its artifacts for the runtimes that need no TensorFlow; read only."""
    folder = tmp_path_factory.mktemp("artifacts")
    made = {
        name: convert(network, name, folder / name, calibration=draw_crops(20)).path
        for name in ("litert_float32", "litert_int8", "onnx_float32", "onnx_int8")
    }
    return made | {"openvino_float32": made["onnx_float32"], "openvino_int8": made["onnx_int8"]}


@pytest.fixture(scope="module")
def mobilenet(tmp_path_factory):
    """MobileNet at 224 px with random weights, and its ONNX files."""
    folder, keras_network = tmp_path_factory.mktemp("mobilenet"), build_grader("mobilenet", 224)
    crops = draw_crops(4, side=224)
    made = {
        f"openvino_{p}": convert(keras_network, f"onnx_{p}", folder / f"{p}.onnx", calibration=crops).path
        for p in ("float32", "int8")
    }
    return keras_network, made


def test_times_single_calls_after_the_warm_up():
    """The first ten calls take 20 ms, the others 5: no slow one is among the times, each at least 5 ms."""
    shapes = []

    def predict(images):
        shapes.append(images.shape)
        time.sleep(0.02 if len(shapes) <= 10 else 0.005)

    times = time_runtime(predict, CROP, num_calls=8, warmup=10)
    assert times.shape == (8,) and (times >= 5).all() and np.median(times) < 15
    assert shapes == [(1, 32, 32, 3)] * 18


def test_compares_in_turns(paths):
    """One row per runtime and round, every runtime once in each, in orders of their own."""
    times = compare_runtimes(paths, CROP, num_rounds=6, num_calls=2)
    assert times.columns.tolist() == ["runtime", "round", "ms"] and (times["ms"] > 0).all()
    assert times.groupby("round")["runtime"].agg(set).tolist() == [set(paths)] * 6
    assert len(set(times.groupby("round")["runtime"].agg(tuple))) > 1


def test_pairs_within_rounds():
    """A machine twice as slow from the third round on changes no ratio; medians and quartiles by hand."""
    slow = [1, 1, 2, 2]
    rows = [("a", k, 10 * s * r) for k, (s, r) in enumerate(zip(slow, [2, 3, 4, 5], strict=True))]
    rows += [("b", k, 10.0 * s) for k, s in enumerate(slow)]
    pair = pair_runtimes(pd.DataFrame(rows, columns=["runtime", "round", "ms"]), "a", "b")
    assert (pair["ratio_low"], pair["ratio"], pair["ratio_high"]) == pytest.approx((2.75, 3.5, 4.25))
    assert (pair["ms"], pair["peer_ms"], pair["n"]) == (55, 15, 4)  # of 20, 30, 80, 100 and of 10, 10, 20, 20
    assert pair["difference_ms"] == 40  # of 10, 20, 60, 80
    with pytest.raises(TimingError, match="c: not among a, b"):
        pair_runtimes(pd.DataFrame(rows, columns=["runtime", "round", "ms"]), "a", "c")


def test_a_profile_adds_up_to_the_call(network, paths):
    """Shares sum to 1, and every layer that computes stands there once, under its Keras name and class."""
    for precision in ("float32", "int8"):
        profile = profile_layers(paths[f"onnx_{precision}"], CROP, network=network, precision=precision, num_calls=30)
        assert profile["share"].sum() == pytest.approx(1) and (profile["ms"][:-1] >= 0).all()
        assert profile["layer"].is_unique and profile["layer"].iloc[-1] == "outside the layers"
        kinds = dict(zip(profile["layer"], profile["type"], strict=True))
        for part, kind, number in ((network.get_layer("base"), "Conv2D", 4), (network, "Dense", 3)):
            names = [layer.name for layer in part.layers if type(layer).__name__ == kind]
            assert len(names) == number and [kinds.get(name) for name in names] == [kind] * number


def test_without_a_network_layers_have_the_files_names(paths):
    """Nothing is lost: as many milliseconds under the operations' own names."""
    profile = profile_layers(paths["onnx_float32"], CROP, num_calls=10)
    assert profile["layer"].str.contains("conv2d").sum() >= 4 and profile["share"].sum() == pytest.approx(1)


def test_refuses_to_sweep_what_it_cannot(paths):
    """Unknown levels, runtimes that know no such limit, levels that no processor of this kind has."""
    with pytest.raises(TimingError, match="levels of AVX2"):
        sweep_instruction_sets({"openvino_float32": paths["onnx_float32"]}, CROP, levels=["MMX"])
    with pytest.raises(TimingError, match="onnx_int8: give openvino_ runtimes"):
        sweep_instruction_sets({"onnx_int8": paths["onnx_int8"]}, CROP)
    missing = [level for level in LEVELS if not LEVELS[level] <= read_cpu_flags()]
    if missing:
        with pytest.raises(TimingError, match="this processor has none of"):
            sweep_instruction_sets({"openvino_float32": paths["onnx_float32"]}, CROP, levels=missing)


def test_a_process_that_fails_says_why(paths):
    """The last line of its error stands in ours."""
    present = [level for level in LEVELS if LEVELS[level] <= read_cpu_flags()]
    if not present:
        pytest.skip("this processor has no levels")
    with pytest.raises(TimingError, match=f"openvino_int8 at {present[0]}: Unable to read the model"):
        sweep_instruction_sets({"openvino_int8": paths["litert_int8"]}, CROP, levels=present[:1], num_rounds=1)


def test_fewer_instructions_take_longer(mobilenet):
    """The limit has an effect: without VNNI int8 takes at least 1.5 x as long, without AVX-512 float32 1.2 x."""
    if not LEVELS["AVX512_CORE_VNNI"] <= read_cpu_flags():
        pytest.skip("this processor has no AVX-512 VNNI")
    crop = draw_crops(1, side=224)[0]
    sweep = sweep_instruction_sets(mobilenet[1], crop, levels=["AVX2", "AVX512_CORE_VNNI"], num_rounds=3)
    assert len(sweep) == 12 and sweep["runtime"].unique().tolist() == ["openvino_float32", "openvino_int8"]
    ms = sweep.groupby(["runtime", "level"])["ms"].min()
    assert ms["openvino_int8", "AVX2"] > 1.5 * ms["openvino_int8", "AVX512_CORE_VNNI"]
    assert ms["openvino_float32", "AVX2"] > 1.2 * ms["openvino_float32", "AVX512_CORE_VNNI"]


def test_mobilenets_time_is_in_its_convolutions(mobilenet):
    """Each of the 27 stands once, its normalisation and activation inside it, and 1x1 ones take the most."""
    network, made = mobilenet
    profile = profile_layers(made["openvino_float32"], draw_crops(1, side=224)[0], network=network)
    kinds = profile.groupby("type")["share"].agg(["size", "sum"])
    assert kinds.loc["Conv2D", "size"] == 14 and kinds.loc["DepthwiseConv2D", "size"] == 13
    assert "BatchNormalization" not in kinds.index and kinds["sum"].idxmax() == "Conv2D"
    named = {layer.name for part in (network, network.get_layer("base")) for layer in part.layers}
    assert isinstance(network, keras.Model) and profile.loc[profile["layer"].isin(named), "share"].sum() > 0.5
