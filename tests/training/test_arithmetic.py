"""Which arithmetic a layer has, found by layers that round their inputs as each would."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from dr_lib import hardware
from dr_lib.hardware import Plan, Request
from dr_lib.hardware.plans import STRATEGIES
from dr_lib.training.arithmetic import name_arithmetic
from dr_lib.training.train_once import find_arithmetic
from tests.training import rounded

ROOT = Path(__file__).resolve().parents[2]


def keep_bits(number: int, away: bool = False):
    """A rounding to so many bits of the fraction: to the even neighbour, or from zero in a tie."""
    step = 2**-number

    def rounded(values: np.ndarray) -> np.ndarray:
        fraction, exponent = np.frexp(values.astype(np.float64))
        scaled = 2 * fraction / step
        whole = np.floor(scaled + 0.5) if away else np.round(scaled)
        return np.ldexp(whole * step / 2, exponent).astype(np.float32)

    return rounded


def cut_bits(number: int):
    """The same by leaving the lower bits of float32 out, as matrix units may."""
    mask = np.uint32(0xFFFFFFFF << (23 - number) & 0xFFFFFFFF)
    return lambda values: (values.astype(np.float32).view(np.uint32) & mask).view(np.float32)


def as_type(kind):
    """The rounding of a type of NumPy or ml_dtypes."""
    with np.errstate(over="ignore"):
        return lambda values: values.astype(kind).astype(np.float32)


def split_in_two(values: np.ndarray) -> np.ndarray:
    """What two bfloat16 numbers hold."""
    high = as_type(ml_dtypes.bfloat16)(values)
    return high + as_type(ml_dtypes.bfloat16)(values - high)


def saturate(values: np.ndarray) -> np.ndarray:
    """float16 that ends at its largest number."""
    return as_type(np.float16)(np.clip(values, -65504, 65504))


ROUNDINGS = {
    "float32": [lambda values: values],
    "tf32": [keep_bits(10), keep_bits(10, away=True), cut_bits(10)],
    "bfloat16": [as_type(ml_dtypes.bfloat16), keep_bits(7, away=True), cut_bits(7)],
    "bfloat16_3x": [split_in_two],
    "float16": [as_type(np.float16), saturate],
    "other": [
        as_type(ml_dtypes.float8_e4m3fn),
        as_type(ml_dtypes.float8_e5m2),
        keep_bits(12),
        lambda values: saturate(as_type(ml_dtypes.bfloat16)(values)),
        np.zeros_like,
        lambda values: np.full_like(values, np.nan),
    ],
}
CASES = [(name, rounding) for name, listed in ROUNDINGS.items() for rounding in listed]


@pytest.mark.parametrize(("name", "rounding"), CASES)
@pytest.mark.parametrize("sides", ["inputs", "kernel", "both"])
def test_the_format_is_that_to_which_inputs_are_rounded(name, rounding, sides):
    """Of inputs and kernel the coarser one counts; in what direction ties go does not."""

    def multiply(inputs, kernel):
        if sides != "kernel":
            inputs = rounding(inputs)
        if sides != "inputs":
            kernel = rounding(kernel)
        with np.errstate(invalid="ignore"):
            return inputs @ kernel

    with np.errstate(over="ignore"):
        assert name_arithmetic(multiply) == name


def test_passes_of_bfloat16_are_told_apart():
    """Three passes leave the product of the two lower parts out, six keep all that float32 holds;
    one is bfloat16.
    """

    def split(values, number):
        parts = []
        for _ in range(number):
            parts.append(as_type(ml_dtypes.bfloat16)(values))
            values = values - parts[-1]
        return parts

    for number, name in ((1, "bfloat16"), (2, "bfloat16_3x"), (3, "float32")):

        def multiply(inputs, kernel, number=number):
            pairs = itertools.product(*(enumerate(split(a, number)) for a in (inputs, kernel)))
            return sum(left @ right for (i, left), (j, right) in pairs if i + j < number)

        assert name_arithmetic(multiply) == name


@pytest.mark.parametrize("name", rounded.FORMATS)
def test_keras_layers_are_named_by_what_they_round_to(name, monkeypatch):
    """Here layers on TensorFlow; below on JAX too, and on several devices."""
    assert rounded.detect(name, hardware.activate(plan_here()), monkeypatch) == pair(name)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "number"), [("tensorflow", 2), ("jax", 1), ("jax", 2)])
def test_every_device_of_a_strategy_is_asked(backend, number):
    """MirroredStrategy and DataParallel on virtual CPUs: layers and policies are named as on one;
    weights are the same to the bit, and nothing compiled is kept.
    """
    pytest.importorskip(backend)
    command = [sys.executable, "-m", "tests.training.rounded", backend, str(number)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["strategy"] == (STRATEGIES[backend] if number > 1 else "none")
    assert found["formats"] == {name: pair(name) for name in rounded.FORMATS}
    assert found["policies"] == {
        "float32": pair("float32"),
        "mixed_bfloat16": pair("bfloat16"),
        "mixed_float16": pair("float16"),
    }
    assert found["is_undisturbed"] and not found["kept"]
    passes = {  # as a TPU reads them: one, three or six
        "default": ["DEFAULT"],
        "float32": ["HIGHEST"],
        "tf32": ["HIGH"],
        "bfloat16": ["DEFAULT"],
        "bfloat16_3x": ["HIGH"],
    }
    switches = {"default": [True], "float32": [False], "tf32": [True]}
    assert found["settings"] == (passes if backend == "jax" else switches)


def test_a_request_that_is_not_met_is_said(monkeypatch):
    """The training goes on, and its row has both."""
    device = hardware.activate(plan_here(matmul_precision="float32"))
    assert find_arithmetic(device) == pair("float32")  # without a warning
    said = "requested was matmul_precision float32, detected is matmul_precision tf32, conv_"
    with pytest.warns(UserWarning, match=said):
        rounded.detect("tf32", device, monkeypatch)


def test_detection_disturbs_nothing():
    """The weights that follow, names, seeds and policy are those without it, and no layer of it is
    left.
    """
    assert rounded.compare_weights(plan_here()) and not rounded.count_kept()


def plan_here(**asked) -> Plan:
    """A plan of one CPU on TensorFlow."""
    return hardware.choose(
        hardware.probe(), Request(accelerator="cpu", backend="tensorflow", **asked)
    )


def pair(name: str) -> dict[str, str]:
    """Both columns."""
    return {"matmul_precision": name, "conv_precision": name}
