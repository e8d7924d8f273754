"""Apply a plan: select the backend and verify that the devices exist."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from dr_lib.command import write_install
from dr_lib.hardware.facts import Facts, HardwareError, find_boot, read_version
from dr_lib.hardware.plans import Plan
from dr_lib.hardware.settings import OWN


class Device(NamedTuple):
    """The devices on which a plan runs."""

    plan: Plan
    name: str  # as the framework gives it, or cpu
    names: tuple[str, ...]  # of each device that shares a batch, as the framework takes it
    distribution: Any = None  # a tf.distribute.Strategy where `distribute` made one

    def scope(self) -> AbstractContextManager:
        """The context in which the model is built and compiled."""
        return self.distribution.scope() if self.distribution else nullcontext()

    def describe(self, facts: Facts) -> dict[str, str | int | float]:
        """Describe the device, the plan, the machine and the versions, as columns of the run's
        row.
        """
        plan = self.plan
        return {
            "accelerator": self.name,
            "num_accelerators": 1 if plan.accelerator == "cpu" else plan.num_replicas,
            **plan.describe(),
            **facts.describe(),
            "python": platform.python_version(),
            **{name: read_version(name) for name in ("tensorflow", "keras", "jax", "numpy")},
        }


def activate(plan: Plan) -> Device:
    """Set Keras up as planned and check, by name, that the devices are there.

    Call it before anything imports Keras.

    Raises:
        HardwareError: Keras is running on another backend already, or the framework does not list
            the devices.

    Example:
        >>> device = activate(choose(probe(), Request("cpu")))  # doctest: +SKIP
    """
    _check_running(plan.backend)
    try:
        return (
            _activate_tensorflow(plan) if plan.backend == "tensorflow" else _activate_jax(plan)
        )
    except RuntimeError as error:  # it is too late to divide a CPU
        raise HardwareError(
            f"{plan.backend} cannot be started as planned: restart the kernel ({error})"
        ) from error


def distribute(device: Device) -> Device:
    """Divide each batch over the devices of the plan, as notebook 10 does."""
    if device.plan.strategy == "MirroredStrategy":
        strategy = make_once(import_tensorflow().distribute.MirroredStrategy, *device.names)
        return device._replace(distribution=strategy)
    if device.plan.strategy == "DataParallel":
        import keras

        distribution = keras.distribution.DataParallel(
            devices=device.names, auto_shard_dataset=False
        )
        keras.distribution.set_distribution(distribution)
    return device


@cache
def make_once(strategy: Callable[[tuple[str, ...]], Any], *names: str) -> Any:
    """Make a strategy, one for these devices in a process: a second one counts its collective
    operations from the start, and fails where their shapes are others.
    """
    return strategy(names)


def _check_running(backend: str) -> None:
    """Refuse another backend than that of a Keras which is imported; it chose its own once."""
    keras = sys.modules.get("keras")
    if keras and keras.config.backend() != backend:
        raise HardwareError(
            f"Keras already runs on {keras.config.backend()}: restart the kernel to train on"
            f" {backend}"
        )


def import_keras(backend: str, precision: str = "float32") -> ModuleType:
    """Import Keras on a backend, with the settings of this library and not those of the user's
    keras.json or KERAS_*.

    Raises:
        HardwareError: Keras runs on another backend already, or the backend is not installed.
    """
    _check_running(backend)
    os.environ["KERAS_BACKEND"] = backend
    os.environ["KERAS_NNX_ENABLED"] = "false"
    try:
        if backend == "tensorflow":  # it imports Keras
            import_tensorflow()
        import keras
    except ModuleNotFoundError as error:
        raise HardwareError(
            f"{error.name} is not installed: {write_install(error.name)}"
        ) from error

    settings = {
        "floatx": "float32",
        "epsilon": 1e-7,
        "image_data_format": "channels_last",
        "dtype_policy": precision,
        "max_epochs": None,
        "max_steps_per_epoch": None,
    }
    for name, value in settings.items():
        getattr(keras.config, f"set_{name}")(value)
    return keras


def import_tensorflow() -> ModuleType:
    """Import TensorFlow with few of its lines on drivers and CPUs."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.get_logger().setLevel("WARNING")  # else each reduction of a strategy is told
    return tf


def find_cache() -> str:
    """Find the folder for compiled programs of mode fast, of this boot alone: the first run of its
    kind compiles.
    """
    return str(Path(tempfile.gettempdir(), f"dr_lib-xla-{find_boot()}"))


def _activate_tensorflow(plan: Plan) -> Device:
    if plan.request.mode == "fast" and "TF_XLA_FLAGS" not in os.environ:
        flag = f"--tf_xla_persistent_cache_directory={find_cache()}"
        os.environ["TF_XLA_FLAGS"] = OWN["TF_XLA_FLAGS"] = flag
    import_keras("tensorflow", plan.precision)
    tf = import_tensorflow()
    gpus = tf.config.list_physical_devices("GPU")[: plan.num_gpus]
    if len(gpus) < plan.num_gpus:
        install = write_install("tensorflow[and-cuda]")
        raise HardwareError(
            f"the plan has {plan.num_gpus} GPUs, TensorFlow lists {len(gpus)}: {install}, or"
            " restart the kernel"
        )
    tf.config.set_visible_devices(gpus, "GPU")
    # TensorFlow's own default is True
    tf.config.experimental.enable_tensor_float_32_execution(
        plan.request.matmul_precision != "float32"
    )
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    name = "cpu"
    if gpus:
        name = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
    if not gpus and plan.num_replicas > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        virtual = [tf.config.LogicalDeviceConfiguration()] * plan.num_replicas
        tf.config.set_logical_device_configuration(cpu, virtual)
    kind = plan.accelerator.upper()
    return Device(plan, name, tuple(f"{kind}:{k}" for k in range(plan.num_replicas)))


def _activate_jax(plan: Plan) -> Device:
    is_cpu = plan.accelerator == "cpu"
    if is_cpu:
        os.environ["JAX_PLATFORMS"] = "cpu"
    # errors: while it compiles for a GPU it warns by the page
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import jax

    requested = plan.request.matmul_precision
    names = {
        "default": None,
        "tf32": "tensorfloat32",
        "bfloat16_3x": "high",  # three passes on a TPU
    }
    jax.config.update("jax_default_matmul_precision", names.get(requested, requested))
    is_fast = plan.request.mode == "fast"
    jax.config.update("jax_compilation_cache_dir", find_cache() if is_fast else None)
    if is_cpu and plan.num_replicas > 1:
        jax.config.update("jax_num_cpu_devices", plan.num_replicas)
    there = [device for device in jax.devices() if device.platform == plan.accelerator]
    devices = sorted(there, key=lambda device: device.id)[: plan.num_replicas]
    if len(devices) < plan.num_replicas:
        advice = {
            "cpu": "restart the kernel",
            "gpu": "install jax[cuda12], or restart the kernel",
            "tpu": (
                "choose a TPU in the runtime's settings and restart it, install jax[tpu], or set"
                " accelerator='cpu'"
            ),
        }
        raise HardwareError(
            f"the plan has {plan.num_replicas} x {plan.accelerator}, JAX lists {jax.devices()}:"
            f" {advice[plan.accelerator]}"
        )
    if plan.accelerator == "tpu" and len(there) > plan.num_replicas:
        counts = f"{plan.num_replicas} of {len(there)} chips are used for training"
        warnings.warn(f"{counts}: set num_devices to use more", stacklevel=3)
    keras = import_keras("jax", plan.precision)
    keras.distribution.set_distribution(None)  # a kernel may have had another plan before
    names = tuple(f"{device.platform}:{device.id}" for device in devices)
    return Device(plan, "cpu" if is_cpu else devices[0].device_kind, names)


def measure_device_peak(framework: str) -> float | None:
    """Measure the most memory that a framework's allocator has given out on a device [MiB].

    It counts from the start of this process; memory that is only reserved does not count.

    Args:
        framework: the module that computes: tensorflow, jax or torch.

    Returns:
        The largest of several devices; None without a counter, as on a CPU and in MXNet.
    """
    peaks = [0]
    with suppress(ImportError, KeyError, RuntimeError, TypeError, ValueError):
        if framework == "jax":
            import jax

            peaks = [
                device.memory_stats()["peak_bytes_in_use"] for device in jax.local_devices()
            ]
        elif framework == "tensorflow":
            import tensorflow as tf

            gpus = range(len(tf.config.list_logical_devices("GPU")))
            infos = [tf.config.experimental.get_memory_info(f"GPU:{gpu}") for gpu in gpus]
            peaks = [info["peak"] for info in infos]
        elif framework == "torch":
            import torch

            gpus = range(torch.cuda.device_count())
            peaks = [torch.cuda.max_memory_allocated(gpu) for gpu in gpus]
    return max(peaks, default=0) / 2**20 or None
