"""Which arithmetic a layer has, found by layers that round their inputs as each would."""

import gc
import itertools
import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
from keras import layers, ops

from dr_lib import hardware
from dr_lib.hardware import Device, Request
from dr_lib.training.arithmetic import name_arithmetic
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import find_arithmetic, set_up
from tests.training.simulation import draw_splits

# backend and number of virtual devices of the tests whose names end on a device
PLACE = os.environ.get("TESTED_PLACE", "tensorflow 1").split()


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


def activate(matmul_precision: str = "default", **changes: Any) -> Device:
    """Activate the plan of the place, with changes."""
    backend, number = PLACE
    plan = hardware.choose(hardware.probe(), Request("cpu", backend, int(number)))
    request = replace(plan.request, matmul_precision=matmul_precision)
    return hardware.activate(replace(plan, request=request, **changes))


def pair(name: str) -> dict[str, str]:
    """Both columns."""
    return {"matmul_precision": name, "conv_precision": name}


def cut_to(values: Any, number: int) -> Any:
    """Round to so many bits of the fraction (Veltkamp 1968): compilers drop pairs of casts."""
    large = values * (2.0 ** (23 - number) + 1)
    return large - (large - values)


LAYERS = {  # what a layer of each format makes of its inputs and its kernel
    "float32": lambda values: values,
    "tf32": lambda values: cut_to(values, 10),
    "bfloat16": lambda values: cut_to(values, 7),
    "bfloat16_3x": lambda values: cut_to(values, 7) + cut_to(values - cut_to(values, 7), 7),
    "float16": lambda values: ops.where(ops.abs(values) > 65504, np.inf, cut_to(values, 10)),
    "other": lambda values: cut_to(values, 12),
}


def round_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Keras's layers round as in a format."""
    rounding = LAYERS[name]

    class Dense(layers.Dense):
        def call(self, inputs):
            return ops.matmul(rounding(inputs), rounding(self.kernel))

    class Conv2D(layers.Conv2D):
        def call(self, inputs):
            kernel = rounding(self.kernel)
            return ops.conv(rounding(inputs), kernel, self.strides, self.padding)

    monkeypatch.setattr(layers, "Dense", Dense)
    monkeypatch.setattr(layers, "Conv2D", Conv2D)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_named_by_what_they_round_to_on_a_device(name, monkeypatch):
    """Those of Keras, on every device of a strategy."""
    device = activate()
    round_layers(name, monkeypatch)
    assert find_arithmetic(device) == pair(name)


def test_policies_are_named_on_a_device():
    """Mixed precision multiplies in its own format."""
    for policy in ("mixed_float16", "mixed_bfloat16", "float32"):
        device = activate(precision=policy)
        assert find_arithmetic(device) == pair(policy.removeprefix("mixed_"))


def test_a_request_sets_the_arithmetic_of_a_device():
    """TensorFlow's TF32, or the passes of a product that JAX compiles, as a TPU reads them: one,
    three or six.
    """
    switches = {"float32": False, "tf32": True, "default": True}
    passes = {
        "float32": "HIGHEST",
        "tf32": "HIGH",
        "bfloat16": "DEFAULT",
        "bfloat16_3x": "HIGH",
    }
    if PLACE[0] == "tensorflow":
        import tensorflow as tf

        for name, is_on in switches.items():
            activate(name)
            assert tf.config.experimental.tensor_float_32_execution_enabled() == is_on
        return
    import jax

    for name, expected in {**passes, "default": "DEFAULT"}.items():
        activate(name)
        text = jax.jit(ops.matmul).lower(np.ones((8, 8)), np.ones((8, 8))).as_text()
        found = [word for word in ("HIGHEST", "HIGH") if f"[{word}, " in text]
        assert (found or ["DEFAULT"]) == [expected]


def test_a_request_that_is_not_met_is_said(monkeypatch):
    """The training goes on, and its row has both."""
    device = activate("float32")
    assert find_arithmetic(device) == pair("float32")  # without a warning
    round_layers("tf32", monkeypatch)
    said = "requested was matmul_precision float32, detected is matmul_precision tf32, conv_"
    with pytest.warns(UserWarning, match=said):
        find_arithmetic(device)


def read_state() -> list:
    """The dtype policy, and the random states of Python and NumPy."""
    return [keras.config.dtype_policy().name, random.getstate(), str(np.random.get_state())]


def test_detection_disturbs_nothing_on_a_device():
    """The weights that follow, names, seeds and policy are those without it, and no layer of it is
    left.
    """
    made = []
    for is_detected in (False, True):
        keras.utils.clear_session(free_memory=False)
        device = activate()
        before = read_state()
        if is_detected:
            find_arithmetic(device)
        assert read_state() == before
        config = TrainingConfig("", task="grades", image_size=32)
        setup = set_up(config, device, draw_splits(17))
        weights = [array.tobytes() for array in setup.network.get_weights()]
        paths = [variable.path for variable in setup.model.optimizer.variables]
        made.append([weights, paths, setup.network.to_json()])
    assert made[0] == made[1]
    kept = {one.name for one in gc.get_objects() if isinstance(one, keras.Layer)}
    assert not kept & {"arithmetic", "matmul_precision", "conv_precision"}


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "number"), [("tensorflow", 2), ("jax", 1), ("jax", 2)])
def test_every_device_of_a_strategy_is_asked(backend, number):
    """The tests above, in a process of its own: MirroredStrategy and DataParallel on virtual
    CPUs.
    """
    pytest.importorskip(backend)
    place = {"TESTED_PLACE": f"{backend} {number}", "KERAS_BACKEND": backend}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "_a_device", __file__]
    done = subprocess.run(command, env=os.environ | place, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "9 passed" in done.stdout
