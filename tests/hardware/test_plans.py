"""Hardware: the plan follows from the facts, and nothing falls back in silence."""

import subprocess
import sys

import pytest

from dr_lib.hardware import Facts, HardwareError, activate, choose, describe, probe

CPU = Facts("local", "AMD EPYC", 2, 24.0, (), "", False, ("tensorflow", "jax"))
T4 = CPU._replace(platform="colab", gpus=("Tesla T4",), driver="550.54")
JAX_ONLY = T4._replace(gpus=("NVIDIA H200",), backends=("jax",))
TPU = CPU._replace(tpu=True, backends=("jax",))


@pytest.mark.parametrize(
    ("facts", "asked", "accelerator", "backend", "jit"),
    [
        (CPU, {}, "cpu", "tensorflow", False),
        (CPU, {"backend": "jax"}, "cpu", "jax", False),
        (T4, {}, "gpu", "tensorflow", True),
        (T4, {"accelerator": "cpu"}, "cpu", "tensorflow", False),
        (JAX_ONLY, {"precision": "mixed_bfloat16"}, "gpu", "jax", True),
        (TPU, {"accelerator": "cpu"}, "cpu", "jax", False),
    ],
)
def test_plan_follows_from_the_facts(facts, asked, accelerator, backend, jit):
    """The fastest device that is there, the backend that is installed, and the reasons in words."""
    plan = choose(facts, **asked)
    assert (plan.accelerator, plan.backend, plan.jit) == (accelerator, backend, jit)
    assert plan.precision == asked.get("precision", "float32") and all(plan.reasons)


@pytest.mark.parametrize(
    ("facts", "asked", "message"),
    [
        (CPU, {"accelerator": "gpu"}, "no GPU is here"),
        (CPU, {"accelerator": "tpu"}, "no TPU is here"),
        (TPU, {}, "a TPU is here"),
        (CPU._replace(backends=()), {}, "neither tensorflow nor jax"),
        (JAX_ONLY, {"backend": "tensorflow"}, "tensorflow is not installed"),
        (CPU, {"accelerator": "gpus"}, "'gpus' is not known"),
        (CPU, {"precision": "half"}, "'half' is not known"),
    ],
)
def test_what_is_not_there_is_an_error(facts, asked, message):
    """An accelerator or backend that is missing is never replaced by another."""
    with pytest.raises(HardwareError, match=message):
        choose(facts, **asked)


def test_two_gpus_say_that_one_idles():
    """The plan says in words what it leaves unused."""
    plan = choose(T4._replace(gpus=("Tesla T4", "Tesla T4")))
    assert plan.num_replicas == 1 and any("one of 2 GPUs trains" in reason for reason in plan.reasons)


def test_activation_finds_the_cpu_and_describes_the_machine():
    """On this machine the plan can be made so, and the row says what it is."""
    facts = probe()
    device = activate(choose(facts, accelerator="cpu"))
    assert device == {"accelerator": "cpu", "num_accelerators": 1}
    row = describe(facts)
    assert row["num_cpus"] >= 1 and row["memory_gib"] > 0 and row["keras"] and row["python"].startswith("3.")


def test_activation_raises_where_the_framework_lists_no_gpu():
    """A driver that promises a GPU which TensorFlow does not see stops the run."""
    if probe().gpus:
        pytest.skip("this machine has a GPU")
    with pytest.raises(HardwareError, match="TensorFlow does not"):
        activate(choose(T4))


def test_activation_raises_where_keras_runs_on_another_backend():
    """Keras cannot change its backend once imported."""
    activate(choose(probe(), accelerator="cpu", backend="tensorflow"))
    with pytest.raises(HardwareError, match="restart the kernel"):
        activate(choose(CPU, backend="jax"))


def test_probing_imports_no_framework():
    """Facts come before Keras: neither probe nor choose may import a backend."""
    code = "import sys; from dr_lib import hardware; hardware.choose(hardware.probe()); "
    code += "sys.exit(any(name in sys.modules for name in ('tensorflow', 'jax', 'keras', 'torch')))"
    subprocess.run([sys.executable, "-c", code], check=True)
