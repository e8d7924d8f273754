"""Keras layers that round their inputs and kernel: python -m tests.training.rounded BACKEND NUMBER
prints what is detected on so many virtual devices.
"""

import gc
import json
import os
import random
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dr_lib import hardware
from dr_lib.hardware import Device, Plan, Request
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import find_arithmetic, set_up
from tests.training.simulation import draw_splits

FORMATS = ("float32", "tf32", "bfloat16", "bfloat16_3x", "float16", "other")
SETTINGS = ("default", "float32", "tf32", "bfloat16", "bfloat16_3x")


def keep_bits(values: Any, number: int) -> Any:
    """Round to so many bits of the fraction (Veltkamp 1968): compilers drop pairs of casts."""
    large = values * (2.0 ** (23 - number) + 1)
    return large - (large - values)


def round_to(values: Any, name: str) -> Any:
    """Round to what a format holds."""
    from keras import ops

    if name == "bfloat16_3x":
        high = keep_bits(values, 7)
        return high + keep_bits(values - high, 7)
    if name == "float16":
        return ops.where(ops.abs(values) > 65504, np.inf, keep_bits(values, 10))
    bits = {"float32": 23, "tf32": 10, "bfloat16": 7, "other": 12}[name]
    return values if bits == 23 else keep_bits(values, bits)


def detect(name: str, device: Device, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Detect the arithmetic of Dense and Conv2D as they would be in a format."""
    from keras import layers, ops

    class Dense(layers.Dense):
        def call(self, inputs):
            return ops.matmul(round_to(inputs, name), round_to(self.kernel, name))

    class Conv2D(layers.Conv2D):
        def call(self, inputs):
            kernel = round_to(self.kernel, name)
            return ops.conv(round_to(inputs, name), kernel, self.strides, self.padding)

    with patch.context() as patched:
        patched.setattr(layers, "Dense", Dense)
        patched.setattr(layers, "Conv2D", Conv2D)
        return find_arithmetic(device)


def compare_weights(plan: Plan) -> bool:
    """Whether a training is set up alike without the detection and after it."""
    import keras

    made = []
    for is_detected in (False, True):
        keras.utils.clear_session()
        device = hardware.activate(plan)
        before = read_state(keras)
        if is_detected:
            find_arithmetic(device)
        assert read_state(keras) == before
        setup = set_up(
            TrainingConfig("", task="grades", image_size=32), device, draw_splits(17)
        )
        weights = [array.tobytes() for array in setup.network.get_weights()]
        paths = [variable.path for variable in setup.model.optimizer.variables]
        made.append([weights, paths, setup.network.to_json()])
    return made[0] == made[1]


def read_state(keras: Any) -> list:
    """The dtype policy, and the random states of Python and NumPy."""
    return [keras.config.dtype_policy().name, random.getstate(), str(np.random.get_state())]


def count_kept() -> int:
    """Count the detection's layers and models that are still in memory."""
    import keras

    names = ("arithmetic", "matmul_precision", "conv_precision")
    found = [one for one in gc.get_objects() if isinstance(one, keras.Layer)]
    return sum(one.name in names for one in found)


def read_setting(plan: Plan, name: str) -> list:
    """What a request sets: TensorFlow's TF32, or the precision of a product that JAX compiles."""
    hardware.activate(replace(plan, request=replace(plan.request, matmul_precision=name)))
    if plan.backend == "tensorflow":
        import tensorflow as tf

        return [tf.config.experimental.tensor_float_32_execution_enabled()]
    import jax
    from keras import ops

    text = jax.jit(ops.matmul).lower(np.ones((8, 8)), np.ones((8, 8))).as_text()
    return sorted({word for word in ("HIGHEST", "HIGH") if f"[{word}, " in text}) or ["DEFAULT"]


def main(backend: str, number: str) -> None:
    """Print what is found, as JSON."""
    asked = Request(accelerator="cpu", backend=backend, num_devices=int(number))
    plan = hardware.choose(hardware.probe(), asked)
    device = hardware.activate(plan)
    patch = pytest.MonkeyPatch()
    found = {"strategy": plan.strategy}
    found["formats"] = {name: detect(name, device, patch) for name in FORMATS}
    found["policies"] = {}
    for policy in ("mixed_float16", "mixed_bfloat16", "float32"):
        device = hardware.activate(replace(plan, precision=policy))
        found["policies"][policy] = find_arithmetic(device)
    found["is_undisturbed"] = compare_weights(plan)
    found["kept"] = count_kept()
    settings = SETTINGS if backend == "jax" else SETTINGS[:3]
    found["settings"] = {name: read_setting(plan, name) for name in settings[::-1]}
    print(json.dumps(found))


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main(*sys.argv[1:])
