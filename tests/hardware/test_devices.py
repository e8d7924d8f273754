"""Devices: a plan is made so, or an error says what is missing; in a process of its own where it
sets a backend.
"""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from dr_lib.hardware import HardwareError, Request, activate, choose, probe
from dr_lib.hardware.devices import measure_device_peak
from tests.hardware.test_plans import COLAB_T4, KAGGLE_T4, LAPTOP


def in_a_process(code: str) -> str:
    """Run code after `from dr_lib.hardware import *` in a fresh process and return what it
    prints.
    """
    code = f"from dr_lib.hardware import *\nfrom tests.hardware.test_plans import *\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def refuse(*plans: str) -> list[str]:
    """The messages with which `activate` refuses the plans of these arguments in one fresh
    process.
    """
    code = f"""
for facts, *request in [{", ".join(f"[{plan}]" for plan in plans)}]:
    try:
        activate(choose(facts, *request))
    except Exception as error:
        print(*str(error).splitlines())
"""
    return in_a_process(code).splitlines()


def test_activation_finds_the_cpu_and_describes_the_machine():
    """On this machine the plan can be made so, and the row says what it is."""
    facts = probe()
    device = activate(choose(facts, Request(accelerator="cpu", backend="tensorflow")))
    row = device.describe(facts)
    expected = {
        "accelerator": "cpu",
        "num_accelerators": 1,
        "num_replicas": 1,
        "backend": "tensorflow",
        "strategy": "none",
        "precision": "float32",
        "jit": False,
    }
    assert row.items() >= expected.items()
    assert row["num_cpus"] >= 1 and row["memory_gib"] > 0 and row["keras"]
    assert row["python"].startswith("3.") and not device.distribution


@pytest.mark.slow
def test_settings_of_keras_are_the_plans(tmp_path, monkeypatch):
    """Whatever keras.json and KERAS_* say."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("KERAS_MAX_EPOCHS", "1")
    said = {
        "floatx": "float16",
        "epsilon": 0.1,
        "backend": "numpy",
        "image_data_format": "channels_first",
        "nnx_enabled": True,
    }
    (tmp_path / "keras.json").write_text(json.dumps(said))
    names = "backend floatx epsilon image_data_format max_epochs is_nnx_enabled"
    code = (
        "activate(choose(LAPTOP)); from keras import config as c; print(c.dtype_policy().name"
    )
    printed = in_a_process(f"{code}, *(getattr(c, name)() for name in {names.split()}))")
    assert printed == "float32 tensorflow float32 1e-07 channels_last None False"


def test_activation_raises_where_keras_runs_on_another_backend():
    """Keras cannot change its backend once imported."""
    activate(choose(probe(), Request(accelerator="cpu", backend="tensorflow")))
    with pytest.raises(HardwareError, match="restart the kernel"):
        activate(choose(LAPTOP, Request(backend="jax")))


def test_activation_raises_where_tensorflow_lists_no_gpu():
    """A driver that promises a GPU which TensorFlow does not see stops the run."""
    if probe().gpus:
        pytest.skip("this machine has a GPU")
    for facts, number in (COLAB_T4, 1), (KAGGLE_T4, 2):
        with pytest.raises(
            HardwareError, match=f"the plan has {number} GPUs, TensorFlow lists 0"
        ):
            activate(choose(facts))


@pytest.mark.slow
def test_activation_raises_where_the_framework_lists_no_accelerator():
    """A runtime that promises a TPU or a GPU that is not there stops the run, never the CPU in
    silence; JAX has then counted its devices, and it is too late to divide the CPU.
    """
    pytest.importorskip("jax")
    plans = ("COLAB_TPU", "COLAB_T4._replace(backends=('jax',))", "H200")
    *messages, late = refuse(*plans, "LAPTOP, Request(backend='jax', num_devices=8)")
    assert len(messages) == 3 and all(", JAX lists " in message for message in messages)
    assert "restart the kernel" in late


def test_a_cpu_has_no_memory_of_a_device():
    """A missing counter is no 0."""
    assert measure_device_peak("tensorflow") is None


@pytest.mark.parametrize(
    ("name", "is_on"),
    [
        ("float32", False),
        ("tf32", True),
    ],
)
def test_a_request_sets_tensorflows_tf32(name, is_on):
    """Whatever it was set to before."""
    plan = choose(LAPTOP, Request("cpu", "tensorflow"))
    activate(replace(plan, request=replace(plan.request, matmul_precision=name)))
    import tensorflow as tf

    assert tf.config.experimental.tensor_float_32_execution_enabled() == is_on


def test_a_request_sets_the_passes_of_jax(monkeypatch):
    """Of a product that JAX compiles, as a TPU reads them: one, three or six; a variable of the
    user's changes nothing.
    """
    pytest.importorskip("jax")
    monkeypatch.setenv("JAX_DEFAULT_MATMUL_PRECISION", "highest")
    found = in_a_process("""
from dataclasses import replace
import numpy as np
plan = choose(LAPTOP, Request("cpu", "jax"))
for name in ("float32", "tf32", "bfloat16", "bfloat16_3x", "default"):
    activate(replace(plan, request=replace(plan.request, matmul_precision=name)))
    import jax
    text = jax.jit(jax.numpy.matmul).lower(np.ones((8, 8)), np.ones((8, 8))).as_text()
    passes = [word for word in ("HIGHEST", "HIGH") if f"[{word}, " in text]
    print(*(passes or ["DEFAULT"]))
""")
    assert found.splitlines() == ["HIGHEST", "HIGH", "DEFAULT", "HIGH", "DEFAULT"]
