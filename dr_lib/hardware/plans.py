"""Choose how to train on a machine: from its facts to a plan, with reasons in words."""

from __future__ import annotations

from dataclasses import dataclass, fields

from dr_lib.command import write_install
from dr_lib.hardware.facts import BACKENDS, Facts, HardwareError

# of a replica's part of a step; with fewer, devices are left idle unless asked for
MIN_IMAGES = 4


@dataclass(frozen=True)
class Request:
    """What the user requests of a machine; auto and 0 leave the choice to `choose`.

    Example:
        >>> Request("cpu", batch_size=16).backend
        'auto'
    """

    accelerator: str = "auto"  # auto takes the fastest that is there, never less in silence
    backend: str = "auto"  # of Keras
    # 0 takes as many GPUs or chips as have MIN_IMAGES each; several of a CPU are virtual
    num_devices: int = 0
    # paper and plain: float32, one step per call; fast takes all that it can do
    mode: str = "paper"
    batch_size: int = 8
    batch_size_of: str = "step"  # over all replicas, of which as many as divide it; or replica
    # local or global, see `Plan`; auto takes local where it can be had
    batch_norm: str = "auto"
    matmul_precision: str = "default"  # of products of float32; default is the platform's
    data_gib: float = 0.0  # size of the decoded photographs of all sides
    may_keep: bool = True  # photographs on the device, in mode fast


@dataclass(frozen=True)
class Plan:
    """How to train on a machine, and why."""

    request: Request
    facts: Facts
    accelerator: str  # cpu, gpu or tpu
    num_devices: int  # those that cannot share the batch too
    backend: str  # of Keras
    strategy: str  # none (one device), MirroredStrategy or DataParallel
    num_replicas: int  # a step is divided among them evenly
    # photographs over which batch normalisation takes its statistics in training: global, all of a
    # step; local, a replica's part of it
    batch_norm: str
    precision: str  # a dtype policy of Keras
    jit: bool  # compile with XLA
    # of training, a call; on JAX Keras loops over them in Python. 0: an epoch is one program
    steps_per_execution: int
    # memory (photographs are decoded once) or stream (whenever a batch asks for them)
    input: str
    on_device: bool  # the decoded photographs are kept in the device's memory

    @property
    def step_size(self) -> int:
        """Photographs of a step, over all replicas."""
        is_of_replica = self.request.batch_size_of == "replica"
        return self.request.batch_size * (self.num_replicas if is_of_replica else 1)

    @property
    def num_gpus(self) -> int:
        """Number of GPUs used for training."""
        return self.num_replicas if self.accelerator == "gpu" else 0

    def describe(self) -> dict[str, str | int | bool]:
        """Describe the plan, without the device, in columns of a run's row."""
        names = [field.name for field in fields(self)]
        columns = {name: getattr(self, name) for name in names[names.index("backend") :]}
        return {**columns, "step_size": self.step_size, **self.arithmetic}

    @property
    def arithmetic(self) -> dict[str, str]:
        """The formats in which layers multiply, in columns of a run's row."""
        requested = self.request.matmul_precision
        if self.precision != "float32":
            requested = self.precision.removeprefix("mixed_")
        capability = self.facts.compute_capability
        return find_arithmetic(self.accelerator, capability, self.backend, requested)

    @property
    def reasons(self) -> list[str]:
        """Why each part of the plan is as it is."""
        facts = self.facts
        request = self.request
        names = {
            "cpu": facts.cpu,
            "gpu": ", ".join(facts.gpus),
            "tpu": f"{facts.num_tpu_chips} chips, which TensorFlow cannot drive",
        }
        why = f"at most half of {facts.memory_gib:.1f} GiB may be used for them"
        if request.mode == "plain":
            why = "tf.data decodes them in each epoch"
        place = "device" if self.on_device else "host"
        steps = self.steps_per_execution or "all of an epoch, as one program"
        reasons = [
            f"{self.accelerator}: {names[self.accelerator]}",
            f"{self.backend}: installed here are {', '.join(facts.backends)}",
            f"{self.precision}: mode {request.mode} on this {self.accelerator}",
            f"input from {self.input}: decoded, the photographs take {request.data_gib:.2g} GiB;"
            f" {why}",
            f"steps per call of Keras: {steps}; photographs on the {place}",
        ]
        if self.num_replicas > 1:
            reasons.append(f"{self.strategy}: {self.num_replicas} devices on {self.backend}")
        if self.num_replicas < self.num_devices:
            least = "" if request.num_devices else f", {MIN_IMAGES} photographs each or more"
            reasons.append(
                f"{self.num_replicas} of {self.num_devices} devices: a step of {self.step_size}"
                f" cannot be divided over more{least}"
            )
        return reasons


def choose(facts: Facts, request: Request = Request()) -> Plan:  # noqa: B008
    """Choose a plan from the facts of a machine, from `probe` or from a table.

    Raises:
        HardwareError: the machine does not have it, or the combination is known to fail.

    Example:
        >>> plan = choose(probe(), Request("cpu"))
        >>> plan.accelerator, plan.precision
        ('cpu', 'float32')
    """
    accelerator = request.accelerator
    if accelerator == "auto" and facts.num_tpu_chips:
        accelerator = "tpu"
    if accelerator in ("auto", "gpu") and facts.gpu_error:
        raise HardwareError(f"{facts.gpu_error}, or set accelerator='cpu'")
    if accelerator == "auto":
        accelerator = "gpu" if facts.gpus else "cpu"
    num_devices = _count_devices(facts, accelerator, request.num_devices)
    num_replicas = _count_replicas(accelerator, num_devices, request)
    backend = _choose_backend(facts, accelerator, request)
    # of several GPUs JAX can take an epoch as one program, and a MirroredStrategy cannot
    can_scan = request.mode == "fast" and num_replicas > 1 and facts.has_jax_cuda
    if can_scan and accelerator == "gpu" and request.backend == "auto":
        backend = "jax"
    strategy = "none"
    if num_replicas > 1:
        strategy = "MirroredStrategy" if backend == "tensorflow" else "DataParallel"
    batch_norm = _choose_batch_norm(request.batch_norm, strategy)
    is_fast = request.mode == "fast"
    precision = _choose_precision(facts, accelerator, is_fast)
    possible = _list_arithmetic(accelerator, facts.compute_capability, precision)
    if request.matmul_precision not in ("default", *possible):
        raise HardwareError(
            f"matmul_precision {request.matmul_precision!r} is not possible: in mode"
            f" {request.mode} {backend} multiplies in {' or '.join(possible)} on this"
            f" {accelerator}; set matmul_precision='default'"
        )
    source = _choose_input(facts, request)

    # several steps per call, XLA and photographs on the device fail under MirroredStrategy
    can_speed_up = is_fast and strategy != "MirroredStrategy"
    # the host holds copies on the way to the device
    device_gib = {
        "cpu": facts.memory_gib,
        "gpu": facts.gpu_memory_gib,
        "tpu": 16.0,  # of a v5e chip, what Colab and Kaggle lend
    }
    fits = request.data_gib < min(device_gib[accelerator] / 2, facts.memory_gib / 4)
    may_keep = request.may_keep and source == "memory"
    on_device = can_speed_up and fits and may_keep
    steps = (16 if accelerator == "gpu" else 8) if can_speed_up else 1
    # on a CPU XLA's loops are slow
    if on_device and backend == "jax" and accelerator != "cpu":
        steps = 0
    return Plan(
        request=request,
        facts=facts,
        accelerator=accelerator,
        num_devices=num_devices,
        backend=backend,
        strategy=strategy,
        num_replicas=num_replicas,
        batch_norm=batch_norm,
        precision=precision,
        jit=backend == "jax" or (can_speed_up and accelerator == "gpu"),
        steps_per_execution=steps,
        input=source,
        on_device=on_device,
    )


def _choose_input(facts: Facts, request: Request) -> str:
    if request.mode == "plain" and "tensorflow" not in facts.backends:
        install = write_install("tensorflow-cpu")
        raise HardwareError(
            "mode plain reads its shards by tf.data, and tensorflow is not installed: "
            f"{install}, or use mode paper"
        )
    # half of all memory: by what is free now, a repetition might choose otherwise
    fits = request.data_gib <= facts.memory_gib / 2
    return "memory" if fits and request.mode != "plain" else "stream"


def _count_devices(facts: Facts, accelerator: str, wanted: int) -> int:
    if accelerator == "cpu":
        return wanted or 1
    there = len(facts.gpus) if accelerator == "gpu" else facts.num_tpu_chips
    if not there:
        advice = "enable one in the runtime's settings, or set accelerator='cpu'"
        raise HardwareError(f"this machine has no {accelerator.upper()}: {advice}")
    # the runtime's hints may count too few chips; `activate` will see
    if wanted > there and accelerator == "gpu":
        raise HardwareError(f"num_devices {wanted}: this machine has {there}; 0 takes all")
    return wanted or there


def _count_replicas(accelerator: str, num_devices: int, request: Request) -> int:
    """Count the most devices that share a step evenly; for a TPU a half, a quarter etc. of its
    chips, as they are wired.
    """
    if request.batch_size_of == "replica":
        return num_devices
    least = 1 if request.num_devices else MIN_IMAGES
    counts = [
        n
        for n in range(2, num_devices + 1)
        if request.batch_size % n == 0
        and request.batch_size // n >= least
        and (accelerator != "tpu" or num_devices % n == 0)
    ]
    return max(counts, default=1)


def _choose_batch_norm(requested: str, strategy: str) -> str:
    """Choose what batch normalisation takes its statistics of; one replica has them all."""
    if strategy == "MirroredStrategy":
        return "local" if requested == "auto" else requested
    if requested == "local" and strategy == "DataParallel":
        raise HardwareError(
            "batch_norm 'local' is not possible: on JAX a step is one array over all devices; set"
            " batch_norm='global', or backend='tensorflow'"
        )
    return "global"


def _choose_backend(facts: Facts, accelerator: str, request: Request) -> str:
    backend = request.backend
    if backend == "tensorflow" and accelerator == "tpu":
        raise HardwareError(
            "TensorFlow cannot drive the TPUs that Colab and Kaggle lend today: set backend='jax'"
        )
    possible = ("jax",) if accelerator == "tpu" else BACKENDS
    there = [name for name in possible if name in facts.backends]
    wanted = there[0] if backend == "auto" and there else backend
    if wanted not in there:
        missing = possible[0] if backend == "auto" else backend
        raise HardwareError(f"{missing} is not installed: {write_install(missing)}")
    return wanted


def _choose_precision(facts: Facts, accelerator: str, is_fast: bool) -> str:
    if not is_fast or accelerator == "cpu":
        return "float32"
    # tensor cores take bfloat16 from compute capability 8.0 (Ampere) on
    has_bfloat16 = accelerator == "tpu" or facts.compute_capability >= 8
    return "mixed_bfloat16" if has_bfloat16 else "mixed_float16"


def _list_arithmetic(
    accelerator: str, capability: float, precision: str = "float32"
) -> tuple[str, ...]:
    """List the formats in which matrices can be multiplied, the default first; docs/training.md has
    the sources.
    """
    if precision != "float32":
        return (precision.removeprefix("mixed_"),)
    if accelerator == "tpu":
        return ("bfloat16", "bfloat16_3x", "float32")
    # TF32 exists from compute capability 8.0 (Ampere) on
    return ("tf32", "float32") if accelerator == "gpu" and capability >= 8 else ("float32",)


def find_arithmetic(
    accelerator: str, capability: float, backend: str, requested: str = "default"
) -> dict[str, str]:
    """Find the formats to which a device rounds float32 before it multiplies.

    Args:
        accelerator: cpu, gpu or tpu.
        capability: compute capability of a GPU.
        backend: tensorflow, jax, torch or mxnet.
        requested: one of the formats, or default.

    Returns:
        The columns matmul_precision and conv_precision.
    """
    found = (
        _list_arithmetic(accelerator, capability)[0] if requested == "default" else requested
    )
    # PyTorch and MXNet allow TF32 in convolutions alone
    is_exact = found == "tf32" and backend not in BACKENDS
    return {"matmul_precision": "float32" if is_exact else found, "conv_precision": found}
