"""Say what this machine is, choose backend, strategy and precision for it, and make it so or raise."""

import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

ACCELERATORS = ("auto", "cpu", "gpu", "tpu")
BACKENDS = ("tensorflow", "jax")
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")


class HardwareError(RuntimeError):
    """The machine does not have what was asked for."""


class Facts(NamedTuple):
    """What a machine has, found without importing a framework."""

    platform: str  # kaggle, colab or local
    cpu: str  # model
    num_cpus: int
    memory_gib: float
    gpus: tuple[str, ...]  # names, as the driver lists them
    driver: str  # of the GPUs, or empty
    tpu: bool
    backends: tuple[str, ...]  # of tensorflow and jax, those installed


class Plan(NamedTuple):
    """How to train on a machine, and why."""

    accelerator: str  # cpu or gpu
    backend: str  # of Keras
    strategy: str  # none: one device
    num_replicas: int
    precision: str  # a dtype policy of Keras
    jit: bool
    steps_per_execution: int
    reasons: tuple[str, ...]


def probe() -> Facts:
    """Collect the facts of this machine."""
    import psutil

    gpus, driver = _list_gpus()
    return Facts(
        platform=_platform(),
        cpu=_cpu_model(),
        num_cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=gpus,
        driver=driver,
        tpu=bool(os.environ.get("TPU_ACCELERATOR_TYPE")) or any(Path("/dev").glob("accel*")),
        backends=tuple(name for name in BACKENDS if importlib.util.find_spec(name)),
    )


def choose(facts: Facts, *, accelerator: str = "auto", backend: str = "auto", precision: str = "float32") -> Plan:
    """Choose a plan from the facts alone.

    Args:
        facts: of the machine, from `probe` or from a table.
        accelerator: auto, cpu, gpu or tpu; auto takes the fastest that is there, never less in silence.
        backend: auto, tensorflow or jax.
        precision: float32 (the papers'), mixed_float16 or mixed_bfloat16.

    Raises:
        HardwareError: the machine does not have it, or this suite cannot train on it.
    """
    for value, known in ((accelerator, ACCELERATORS), (backend, ("auto", *BACKENDS)), (precision, PRECISIONS)):
        if value not in known:
            raise HardwareError(f"{value!r} is not known: choose from {', '.join(known)}")
    if accelerator == "auto":
        accelerator = "tpu" if facts.tpu else "gpu" if facts.gpus else "cpu"
    if accelerator == "tpu":
        there = "a TPU is here" if facts.tpu else "no TPU is here"
        raise HardwareError(f"{there}, and training on a TPU is not built yet: ask for accelerator='cpu' or 'gpu'")
    if accelerator == "gpu" and not facts.gpus:
        raise HardwareError("no GPU is here: switch one on in the runtime's settings, or ask for accelerator='cpu'")
    if backend == "auto" and not facts.backends:
        raise HardwareError("neither tensorflow nor jax is installed: pip install -r requirements.txt")
    if backend != "auto" and backend not in facts.backends:
        raise HardwareError(f"{backend} is not installed: pip install {backend}, or ask for backend='auto'")
    if backend == "auto":
        backend = facts.backends[0]
    reasons = [f"{accelerator}: " + (", ".join(facts.gpus) if accelerator == "gpu" else facts.cpu)]
    reasons.append(f"{backend}: installed here are {', '.join(facts.backends)}")
    if accelerator == "gpu" and len(facts.gpus) > 1:
        reasons.append(f"one of {len(facts.gpus)} GPUs trains, the others idle: training on several is not built yet")
    reasons.append(f"{precision}: asked for" if precision != "float32" else "float32: the papers' precision")
    return Plan(accelerator, backend, "none", 1, precision, accelerator == "gpu", 1, tuple(reasons))


def activate(plan: Plan) -> dict[str, str | int]:
    """Set Keras up as planned and check, by name, that the device is there.

    Call it before anything imports Keras.

    Returns:
        What the run's row says of the device: `accelerator` (its name) and `num_accelerators`.

    Raises:
        HardwareError: Keras is running on another backend already, or the framework does not list the device.
    """
    if "keras" in sys.modules and sys.modules["keras"].config.backend() != plan.backend:
        raise HardwareError(f"Keras runs on another backend already: restart the kernel to train on {plan.backend}")
    os.environ["KERAS_BACKEND"] = plan.backend
    names = _activate_tensorflow(plan) if plan.backend == "tensorflow" else _activate_jax(plan)
    import keras

    keras.config.set_dtype_policy(plan.precision)
    return {"accelerator": names[0], "num_accelerators": plan.num_replicas}


def describe(facts: Facts) -> dict[str, str | int | float]:
    """What the run's row says of the machine and of the versions installed."""
    return {
        "platform": facts.platform,
        "cpu": facts.cpu,
        "num_cpus": facts.num_cpus,
        "memory_gib": facts.memory_gib,
        "driver": facts.driver,
        "python": platform.python_version(),
        "tensorflow": _version("tensorflow") or _version("tensorflow-cpu"),
        **{name: _version(name) for name in ("keras", "jax", "numpy")},
    }


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop what native code writes to stderr: TensorFlow greets with lines on drivers and CPUs that no level stops."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def _activate_tensorflow(plan: Plan) -> list[str]:
    with _without_stderr():
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
    if plan.accelerator == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return ["cpu"]
    if not gpus:
        raise HardwareError("the driver lists a GPU, TensorFlow does not: pip install tensorflow[and-cuda]")
    tf.config.set_visible_devices(gpus[:1], "GPU")
    tf.config.experimental.set_memory_growth(gpus[0], True)
    return [tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")]


def _activate_jax(plan: Plan) -> list[str]:
    if plan.accelerator == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    wanted = "cpu" if plan.accelerator == "cpu" else "gpu"
    devices = [d for d in jax.devices() if d.platform == wanted]
    if not devices:
        listed = ", ".join(str(d) for d in jax.devices())
        raise HardwareError(f"JAX lists {listed} and no {wanted}: install jax[cuda12], or restart the kernel")
    return ["cpu" if wanted == "cpu" else devices[0].device_kind]


def _list_gpus() -> tuple[tuple[str, ...], str]:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no NVIDIA driver
        return (), ""
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    return tuple(str(pynvml.nvmlDeviceGetName(h)) for h in handles), str(pynvml.nvmlSystemGetDriverVersion())


def _platform() -> str:
    if "KAGGLE_KERNEL_RUN_TYPE" in os.environ:
        return "kaggle"
    return "colab" if "COLAB_RELEASE_TAG" in os.environ else "local"


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
