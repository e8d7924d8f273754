"""How to train on a machine: from its facts to a plan, with the reasons in words."""

from __future__ import annotations

from typing import NamedTuple

from dr_lib.command import write_install
from dr_lib.hardware.facts import BACKENDS, Facts, HardwareError

ACCELERATORS = ("auto", "cpu", "gpu", "tpu")
STRATEGIES = ("auto", "none", "MirroredStrategy", "DataParallel", "TPUStrategy")
MODES = ("paper", "fast", "scaled")
INPUTS = ("auto", "memory", "stream")
PRECISIONS = ("auto", "float32", "mixed_float16", "mixed_bfloat16")
# of all memory, for decoded photographs; by what is free now, a repetition might choose otherwise
MEMORY_SHARE = 0.5
TPU_MEMORY_GIB = 16.0  # of a v5e chip, what Colab and Kaggle lend
STEPS_PER_EXECUTION = {"cpu": 8, "gpu": 16, "tpu": 8}  # in the modes fast and scaled


class Plan(NamedTuple):
    """How to train on a machine, and why."""

    accelerator: str  # cpu, gpu or tpu
    backend: str  # of Keras
    strategy: str  # none (one device), MirroredStrategy, DataParallel or TPUStrategy
    num_machines: int  # each started for itself
    num_replicas: int  # of all machines; the batch is divided among them evenly
    precision: str  # a dtype policy of Keras
    jit: bool  # compile with XLA
    steps_per_execution: int  # training steps per call of the device
    input: str  # memory (photographs are decoded once) or stream (whenever a batch asks for them)
    on_device: bool  # the decoded photographs are kept in the device's memory
    reasons: tuple[str, ...]

    @property
    def num_gpus(self) -> int:
        """GPUs of this machine that train."""
        return self.num_replicas // self.num_machines if self.accelerator == "gpu" else 0


def choose(
    facts: Facts,
    *,
    accelerator: str = "auto",
    backend: str = "auto",
    strategy: str = "auto",
    num_devices: int = 0,
    num_machines: int = 1,
    mode: str = "paper",
    precision: str = "auto",
    steps_per_execution: int = 0,
    batch_size: int = 8,
    input: str = "auto",
    data_gib: float = 0.0,
    may_keep: bool = True,
) -> Plan:
    """Choose a plan from the facts alone.

    Args:
        facts: of the machine, from `probe` or from a table.
        accelerator: auto, cpu, gpu or tpu; auto takes the fastest that is there, never less in
            silence.
        backend: auto, tensorflow or jax.
        strategy: auto, none, or a distribution by name; TPUStrategy is never chosen by itself.
        num_devices: 0 takes all GPUs or chips; several of a CPU are virtual and simulate a plan for
            accelerators.
        num_machines: that train as one, each like this one, see `machines`.
        mode: paper (our reading of it: float32, one step per call), fast or scaled (all that the
            device can do).
        precision: auto follows from the mode, else a dtype policy of Keras.
        steps_per_execution: training steps per call of the device, 0 follows from the mode.
        batch_size: over all replicas; as many devices are used as divide it.
        input: memory or stream; auto takes memory where the decoded photographs fill half of the
            machine's at most.
        data_gib: size of the decoded photographs of all sides.
        may_keep: whether the modes fast and scaled may keep photographs on the device.

    Raises:
        HardwareError: the machine does not have it, or the combination is known to fail.
    """
    backends = ("auto", *BACKENDS)
    named = (
        (accelerator, ACCELERATORS),
        (backend, backends),
        (strategy, STRATEGIES),
        (input, INPUTS),
    )
    for value, known in (*named, (mode, MODES), (precision, PRECISIONS)):
        if value not in known:
            raise HardwareError(f"{value!r} is not known: choose from {', '.join(known)}")
    if batch_size < 1 or steps_per_execution < 0:
        raise HardwareError(
            f"batch_size {batch_size}, steps_per_execution {steps_per_execution}: take positive"
            " ones"
        )
    if num_machines < 1 or batch_size % num_machines:
        raise HardwareError(
            f"num_machines {num_machines}: a batch of {batch_size} does not divide over so many"
        )
    if accelerator == "auto":
        accelerator = "tpu" if facts.num_tpu_chips else "gpu" if facts.gpus else "cpu"
    names = {"cpu": facts.cpu, "gpu": ", ".join(facts.gpus), "tpu": f"{facts.num_tpu_chips} chips"}
    reasons = [f"{accelerator}: {names[accelerator]}"]
    num_devices = _choose_devices(facts, accelerator, num_devices)
    local = _choose_replicas(accelerator, num_devices, batch_size // num_machines)
    if local < num_devices:
        reasons.append(
            f"{local} of {num_devices} devices: a batch of {batch_size} divides over no more"
        )
    if num_machines > 1:
        reasons.append(
            f"{num_machines} machines joined by JAX, {local} devices each: each takes its part of a"
            " batch"
        )
        strategy = "DataParallel" if strategy == "auto" else strategy
    num_replicas = local * num_machines
    backend = _choose_backend(facts, accelerator, backend, strategy, reasons)
    strategy = _choose_strategy(facts, accelerator, backend, strategy, num_replicas, reasons)
    if precision == "auto":
        precision = _choose_precision(facts, accelerator, mode)
        reasons.append(f"{precision}: mode {mode} on this {accelerator}")
    else:
        reasons.append(f"{precision}: asked for")
    input = _choose_input(facts, input, data_gib, reasons)
    jit = backend == "jax"
    plan = Plan(
        accelerator,
        backend,
        strategy,
        num_machines,
        num_replicas,
        precision,
        jit,
        1,
        input,
        False,
        (),
    )
    if mode != "paper":
        plan = _speed_up(facts, plan, data_gib, may_keep and num_machines == 1, reasons)
    if steps_per_execution:
        plan = plan._replace(steps_per_execution=steps_per_execution)
        reasons.append(f"{steps_per_execution} steps per call of the device: asked for")
    if plan.steps_per_execution > 1 and strategy in ("MirroredStrategy", "TPUStrategy"):
        raise HardwareError(
            f"several steps per call fail under {strategy}: ask for steps_per_execution=1"
        )
    return plan._replace(reasons=tuple(reasons))


def _choose_devices(facts: Facts, accelerator: str, asked: int) -> int:
    there = {"cpu": asked or 1, "gpu": len(facts.gpus), "tpu": facts.num_tpu_chips}[accelerator]
    if not there:
        what = accelerator.upper()
        raise HardwareError(
            f"no {what} is here: switch one on in the runtime's settings, or ask for"
            " accelerator='cpu'"
        )
    # the runtime's hints may count too few chips; `activate` will see
    if accelerator == "tpu" and asked > 0:
        return asked
    if not 0 <= asked <= there:
        raise HardwareError(f"num_devices {asked}: {there} are here, 0 takes all")
    return asked or there


def _choose_replicas(accelerator: str, num_devices: int, batch_size: int) -> int:
    """The most devices that share a batch evenly; of a TPU's chips a half, a quarter, ..., as
    they are wired.
    """
    counts = [n for n in range(1, num_devices + 1) if accelerator != "tpu" or num_devices % n == 0]
    return max(n for n in counts if batch_size % n == 0)


def _choose_backend(
    facts: Facts, accelerator: str, asked: str, strategy: str, reasons: list[str]
) -> str:
    needed = {
        "MirroredStrategy": "tensorflow",
        "TPUStrategy": "tensorflow",
        "DataParallel": "jax",
    }.get(strategy)
    if accelerator == "tpu" and strategy != "TPUStrategy":
        needed = "jax"
        why = "TensorFlow cannot drive the TPUs that Colab and Kaggle lend today"
    else:
        why = (
            f"{strategy} is {needed}'s"
            if needed
            else f"installed here are {', '.join(facts.backends)}"
        )
    if needed and asked not in ("auto", needed):
        raise HardwareError(f"backend {asked!r} cannot do that: {why}; ask for backend={needed!r}")
    backend = needed or (facts.backends[0] if asked == "auto" and facts.backends else asked)
    if backend == "auto":
        install = write_install("-r", "requirements.txt")
        raise HardwareError(f"neither tensorflow nor jax is installed: {install}")
    if backend not in facts.backends:
        advice = f"{write_install(backend)}, or ask for another backend"
        raise HardwareError(f"{backend} is not installed ({why}): {advice}")
    reasons.append(f"{backend}: {why}")
    return backend


def _choose_strategy(
    facts: Facts, accelerator: str, backend: str, asked: str, num_replicas: int, reasons: list[str]
) -> str:
    if asked == "TPUStrategy":
        if accelerator != "tpu" or not facts.tensorflow_tpu:
            raise HardwareError(
                "TPUStrategy needs a TPU and the package tensorflow-tpu: ask for strategy='auto'"
            )
        reasons.append(
            "TPUStrategy: asked for by name; untried, for no TPU that TensorFlow drives could"
            " be had"
        )
        return asked
    if asked == "none" and num_replicas > 1:
        raise HardwareError(
            f"strategy 'none' trains on one device, {num_replicas} were asked for: num_devices=1"
        )
    if asked not in ("auto", "none") and num_replicas == 1:
        raise HardwareError(
            f"{asked} needs several devices that share the batch evenly: ask for strategy='auto'"
        )
    if num_replicas == 1:
        return "none"
    strategy = "MirroredStrategy" if backend == "tensorflow" else "DataParallel"
    if asked not in ("auto", strategy):
        raise HardwareError(
            f"{asked} does not run on this {accelerator} with {backend}: ask for strategy='auto'"
        )
    reasons.append(
        f"{strategy}: {num_replicas} {'virtual ' * (accelerator == 'cpu')}devices on {backend}"
    )
    return strategy


def _choose_precision(facts: Facts, accelerator: str, mode: str) -> str:
    if mode == "paper" or accelerator == "cpu":
        return "float32"
    # tensor cores take bfloat16 from compute capability 8.0 (Ampere) on
    return (
        "mixed_bfloat16"
        if accelerator == "tpu" or facts.compute_capability >= 8
        else "mixed_float16"
    )


def _choose_input(facts: Facts, asked: str, data_gib: float, reasons: list[str]) -> str:
    most = MEMORY_SHARE * facts.memory_gib
    chosen = ("memory" if data_gib <= most else "stream") if asked == "auto" else asked
    why = (
        "asked for"
        if asked != "auto"
        else f"at most {most:.1f} of {facts.memory_gib:.1f} GiB are for them"
    )
    reasons.append(f"input from {chosen}: decoded, the photographs take {data_gib:.2g} GiB; {why}")
    return chosen


def _speed_up(
    facts: Facts, plan: Plan, data_gib: float, may_keep: bool, reasons: list[str]
) -> Plan:
    """Add to a plan what its strategy can bear."""
    if plan.strategy in ("MirroredStrategy", "TPUStrategy"):
        reasons.append(
            f"one step per call, photographs on the host, no XLA: {plan.strategy} fails with them"
        )
        return plan
    memory = {"cpu": facts.memory_gib, "gpu": facts.gpu_memory_gib, "tpu": TPU_MEMORY_GIB}[
        plan.accelerator
    ]
    # the host holds copies on the way there
    fits = data_gib < min(memory / 2, facts.memory_gib / 4)
    on_device = fits and may_keep and plan.input == "memory"
    steps = STEPS_PER_EXECUTION[plan.accelerator]
    reasons.append(f"{steps} steps per call of the device")
    why = (
        f"{data_gib:.2g} of {memory:.0f} GiB"
        if may_keep
        else "there they are cached, or go to several machines"
    )
    why = "they are streamed" if plan.input == "stream" else why
    reasons.append(f"photographs on the {'device' if on_device else 'host'}: {why}")
    return plan._replace(
        jit=plan.jit or plan.accelerator == "gpu", steps_per_execution=steps, on_device=on_device
    )
