"""Several machines that train as one: which machine this is, how they connect, and the values
    that all must agree on.

Each machine starts the training for itself, as one process; Keras runs on JAX, whose distributed
runtime joins them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from dr_lib.command import write_command
from dr_lib.hardware.cloud import find_tpu_worker
from dr_lib.hardware.facts import HardwareError

COORDINATOR = "DR_LIB_COORDINATOR"
COUNT = "DR_LIB_NUM_MACHINES"
RANK = "DR_LIB_MACHINE"
LOOPBACK = ("127.", "localhost:", "[::1]:")  # addresses of this machine for itself
# by the names of JAX's own detection of clusters: a step of Slurm, and TPUs under Kubernetes
SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
TPU_HOSTS = (
    "TPU_PROCESS_ADDRESSES",
    "TPU_WORKER_HOSTNAMES",
)  # the first goes before the second
TPU_RANK = "TPU_WORKER_ID"
NUM_SLICES = "MEGASCALE_NUM_SLICES"
PORT = "JAX_COORDINATOR_PORT"  # which JAX takes for the one that it would choose
PORTS = range(61440, 65536)  # of which JAX chooses one by the job alone
MEET_S = (
    300  # until all have to be there: machines boot, and kernels start, at different speeds
)
HEARTBEAT_S = 20  # without a word from one, the others end
# in the errors of its collectives
LOST = "gloo nccl heartbeat coordination unavailable: connection barrier".split()


class Place(NamedTuple):
    """The position of this machine among all."""

    rank: int = 0  # machine 0 writes the row and the checkpoints
    count: int = 1
    coordinator: str = ""  # HOST:PORT of machine 0; empty where JAX finds it by itself

    @property
    def is_rehearsed(self) -> bool:
        """Whether the machines are processes on a single machine."""
        return self.coordinator.startswith(LOOPBACK)


def find_place(environment: Mapping[str, str] = os.environ) -> Place:
    """Find this machine's place from DR_LIB_*, Slurm, Kubernetes or Cloud TPU; else it is alone.

    Raises:
        HardwareError: what was given is incomplete, or no number.
    """
    coordinator = environment.get(COORDINATOR, "")
    count = environment.get(COUNT, "")
    rank = environment.get(RANK, "")
    if coordinator or count or rank:
        if not (coordinator and count.isdigit() and rank.isdigit() and int(rank) < int(count)):
            raise HardwareError(
                f"set {COORDINATOR}=HOST:PORT of machine 0, {COUNT} and {RANK}, which counts "
                f"from 0; they are now {coordinator!r}, {count!r}, {rank!r}"
            )
        return Place(int(rank), int(count), coordinator)
    if all(name in environment for name in SLURM):
        return Place(int(environment["SLURM_PROCID"]), int(environment["SLURM_NTASKS"]))
    # on Kaggle a warning may stand in place of the hosts
    named = [environment.get(name, "") for name in TPU_HOSTS]
    hosts = next((text for text in named if text and " " not in text), "")
    if hosts and TPU_RANK in environment:
        rank = environment[TPU_RANK]
        if not rank.isdigit() or environment.get(NUM_SLICES, "1") != "1":
            slices = environment.get(NUM_SLICES, "1")
            raise HardwareError(
                f"there are {slices} TPU slices, and this is machine {rank!r} of one: set "
                f"{COORDINATOR}, {COUNT} and {RANK} to count the machines of all slices"
            )
        return Place(int(rank), len(hosts.split(",")))
    return Place(*find_tpu_worker())


def join(num_machines: int, accelerator: str, num_gpus: int = 0) -> Place:
    """Join the machines into one JAX runtime, with this many GPUs of each; call it before JAX
    computes anything.

    Raises:
        HardwareError: this process was not started as one of so many, or the others do not come.
    """
    place = find_place()
    if place.count != num_machines:
        raise HardwareError(f"num_machines {num_machines}: {say_how(place)}")
    if num_gpus and place.is_rehearsed:
        raise HardwareError(
            "several processes on one machine would share its GPUs: set accelerator='cpu'"
        )
    if all(name in os.environ for name in SLURM):
        os.environ.setdefault(PORT, str(find_port(os.environ)))
    import jax

    if jax.distributed.is_initialized():
        return place
    if accelerator == "cpu":
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator_address=place.coordinator or None,
            num_processes=place.count if place.coordinator else None,
            process_id=place.rank if place.coordinator else None,
            # under Slurm JAX would take one
            local_device_ids=list(range(num_gpus)) or None,
            initialization_timeout=MEET_S,
            heartbeat_timeout_seconds=HEARTBEAT_S,
        )
    except (RuntimeError, ValueError, OSError) as error:
        is_late = "before any JAX" in str(error)  # or after the machines have parted
        why = "restart the kernel" if is_late else f"each waits {MEET_S} s for the others"
        proxies = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy")]
        if proxies and not is_late:
            why += f", and {' and '.join(proxies)} may block the connection: unset it"
        raise HardwareError(
            f"machine {place.rank} of {place.count} cannot connect to the others: {why}"
            f" ({first_line(error)})"
        ) from error
    if (jax.process_index(), jax.process_count()) != (place.rank, place.count):
        raise HardwareError(
            f"this is machine {place.rank} of {place.count}, but for JAX "
            f"{jax.process_index()} of"
            f" {jax.process_count()}: set {COORDINATOR}, {COUNT} and {RANK}"
        )
    return place


def find_port(environment: Mapping[str, str]) -> int:
    """Find the port on which the machines of a Slurm step connect; steps of a job differ."""
    number = int(environment["SLURM_JOB_ID"]) + 257 * int(environment.get("SLURM_STEP_ID", 0))
    return PORTS[number % len(PORTS)]


def say_how(place: Place) -> str:
    """Explain how to start the machines of a training run."""
    plan = write_command("plan", "STUDY", "--commands")
    return (
        f"this process was started as one of {place.count}; {plan} prints the command for each"
    )


def take_evenly(devices: list[Any], number: int) -> list[Any]:
    """Take this many devices of each machine, or all it has, in the order in which the machines
    hold
    a batch's parts.
    """
    of_each: dict[int, list[Any]] = {}
    for device in sorted(devices, key=lambda device: device.id):
        of_each.setdefault(device.process_index, []).append(device)
    return [device for rank in sorted(of_each) for device in of_each[rank][:number]]


def distribute(devices: list[Any]) -> Any:
    """Set up Keras to train on these JAX devices, each with its part of every batch."""
    import keras

    names = [f"{device.platform}:{device.id}" for device in devices]
    # each machine feeds its own part
    return keras.distribution.DataParallel(devices=names, auto_shard_dataset=False)


def broadcast(content: bytes) -> bytes:
    """Return the values of machine 0 on all machines, which must call this at the same point."""
    import numpy as np
    from jax.experimental import multihost_utils

    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
    if not size:
        return b""
    own = np.frombuffer(content[:size].ljust(size, b"\0"), np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(own), np.uint8).tobytes()


def is_any(value: bool) -> bool:
    """Whether the value is true on any machine; all machines must call this at the same point."""
    import numpy as np
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array([value]))))


@contextmanager
def losing_one(num_machines: int) -> Iterator[None]:
    """Report in one sentence that a machine was lost, which JAX reports as an error of its
    collectives.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if num_machines == 1 or not any(word in str(error).lower() for word in LOST):
            raise
        raise HardwareError(
            f"one of {num_machines} machines ended or cannot be reached; start the training "
            f"again to resume from its last checkpoint ({first_line(error)})"
        ) from error


def leave(num_machines: int) -> None:
    """Disconnect from the other machines once all have reached this point; afterwards each is
    alone.
    """
    import jax

    with losing_one(num_machines):
        jax.distributed.shutdown()


def first_line(error: Exception) -> str:
    """Return the beginning of a runtime's long message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
