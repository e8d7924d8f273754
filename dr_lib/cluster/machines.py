"""Several machines that train as one: which machine this is, how they connect, and the values
    that all must agree on.

Each machine starts the training for itself, as one process; Keras runs on JAX, whose distributed
runtime joins them.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dr_lib.command import write_command
from dr_lib.hardware.cloud import find_tpu_worker
from dr_lib.hardware.facts import HardwareError
from dr_lib.hardware.machine import Machine, Place

if TYPE_CHECKING:
    from dr_lib.runs.backlog import Backlog

COORDINATOR = "DR_LIB_COORDINATOR"
COUNT = "DR_LIB_NUM_MACHINES"
RANK = "DR_LIB_MACHINE"
# by the names of JAX's own detection of clusters: a step of Slurm, and TPUs under Kubernetes
SLURM = ("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID")
TPU_RANK = "TPU_WORKER_ID"
NUM_SLICES = "MEGASCALE_NUM_SLICES"
PORT = "JAX_COORDINATOR_PORT"  # which JAX takes for the one that it would choose
PORTS = range(61440, 65536)  # of which JAX chooses one by the job alone
MEET_S = (
    300  # until all have to be there: machines boot, and kernels start, at different speeds
)


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
        is_rehearsed = coordinator.startswith(("127.", "localhost:", "[::1]:"))
        return Place(int(rank), int(count), is_rehearsed)
    if all(name in environment for name in SLURM):
        return Place(int(environment["SLURM_PROCID"]), int(environment["SLURM_NTASKS"]))
    # on Kaggle a warning may stand in place of the hosts
    names = ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES")
    named = [environment.get(name, "") for name in names]
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


def find_port(environment: Mapping[str, str]) -> int:
    """Find the port on which the machines of a Slurm step connect; steps of a job differ."""
    number = int(environment["SLURM_JOB_ID"]) + 257 * int(environment.get("SLURM_STEP_ID", 0))
    return PORTS[number % len(PORTS)]


class Several(Machine):
    """One of several machines that train as one."""

    @cached_property
    def place(self) -> Place:
        """The position of this machine, see `find_place`."""
        return find_place()

    def find_fault(self, number: int) -> str:
        """Explain why a run on so many machines cannot be made; empty if it can."""
        if number in (1, self.place.count):
            return ""
        plan = write_command("plan", "STUDY", "--commands")
        return (
            f"it trains on {number} machines, and this process was started as one of"
            f" {self.place.count}; {plan} prints the command for each"
        )

    def list_commands(self, command: str, number: int) -> list[str]:
        """List the shell commands that start a run, one for each of its machines."""
        coordinator = f'{COORDINATOR}="${{{COORDINATOR}:?HOST:PORT of machine 0}}"'
        start = f"{coordinator} {COUNT}={number} {RANK}"
        return [f"{start}={rank} {command}" for rank in range(number)]

    def take_part(self, backlog: Backlog, only: str, root: Path) -> list[str] | None:
        """Make what another machine than the first does of a study; None on the first one.

        It executes the notebook of the run for itself, and writes only the notebook and its log.

        Returns:
            The error, if it failed, as one line.

        Raises:
            HardwareError: the machines have no run to share.
        """
        place = self.place
        if place.count == 1:
            return None
        run = backlog.runs[0]
        if not only or run.num_machines != place.count:
            fault = f"{place.count} machines must share one run"
            raise HardwareError(f"{fault}: name the run with --only")
        backlog.study.retries = 0  # no machine makes a run alone once more
        if not place.rank:
            return None
        if not backlog.list_left():  # as machine 0 decides, too
            return []
        from dr_lib.runs import papermill
        from dr_lib.runs.run import RunIdentity

        of_machine = run._replace(run_id=f"{run.run_id}-machine-{place.rank}")
        with tempfile.TemporaryDirectory(prefix="dr-machine-") as scratch:
            identity = RunIdentity(run.run_id, scratch)
            with papermill.start_papermill(
                of_machine, root, backlog.study.notebook, backlog.folder, identity
            ) as execution:
                returncode = execution.process.wait()
        if not returncode:
            return []
        error = papermill.find_error(execution.output, execution.log, returncode)
        return [] if error.startswith(papermill.OUT_OF_TIME) else [f"{run.run_id}: {error}"]

    def join(self, number: int, accelerator: str, num_gpus: int) -> None:
        """Join the machines into one JAX runtime, with this many GPUs of each; call it before JAX
        computes anything.

        Raises:
            HardwareError: this process is not one of so many, or the others do not come.
        """
        place = self.place
        if fault := self.find_fault(number):
            raise HardwareError(fault)
        if num_gpus and place.is_rehearsed:
            raise HardwareError(
                "several processes on one machine would share its GPUs: set accelerator='cpu'"
            )
        if all(name in os.environ for name in SLURM):
            os.environ.setdefault(PORT, str(find_port(os.environ)))
        import jax

        if jax.distributed.is_initialized():
            return
        if accelerator == "cpu":
            jax.config.update("jax_platforms", "cpu")
            jax.config.update("jax_cpu_collectives_implementation", "gloo")
        coordinator = os.environ.get(COORDINATOR)  # else JAX finds it by itself
        try:
            jax.distributed.initialize(
                coordinator_address=coordinator,
                num_processes=place.count if coordinator else None,
                process_id=place.rank if coordinator else None,
                # under Slurm JAX would take one
                local_device_ids=list(range(num_gpus)) or None,
                initialization_timeout=MEET_S,
                heartbeat_timeout_seconds=20,  # without a word from one, the others end
            )
        except (RuntimeError, ValueError, OSError) as error:
            is_late = "before any JAX" in str(error)  # or after the machines have parted
            why = "restart the kernel" if is_late else f"each waits {MEET_S} s for the others"
            proxies = [
                name for name in os.environ if name.lower() in ("http_proxy", "https_proxy")
            ]
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

    def take(self, devices: list[Any], number: int) -> list[Any]:
        """Take this many devices of each machine, or all it has, in the order in which the machines
        hold a batch's parts.
        """
        of_each: dict[int, list[Any]] = {}
        for device in sorted(devices, key=lambda device: device.id):
            of_each.setdefault(device.process_index, []).append(device)
        return [device for rank in sorted(of_each) for device in of_each[rank][:number]]

    def check_alike(self, values: Mapping[str, Any]) -> None:
        """Raise a HardwareError unless machine 0 has the same values."""
        first = json.loads(self.broadcast(json.dumps(values).encode()))
        unlike = [name for name in values if first.get(name) != values[name]]
        # all of them end, for the others would wait for one that has
        if is_any(bool(unlike)):
            difference = "a machine differs from this one"
            if unlike:
                names = ", ".join(unlike)
                difference = f"machine {self.place.rank} and machine 0 differ in {names}"
            raise HardwareError(f"{difference}: make them equal")

    def broadcast(self, content: bytes) -> bytes:
        """Return the values of machine 0 on all machines, which call this at the same point."""
        import numpy as np
        from jax.experimental import multihost_utils

        size = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
        if not size:
            return b""
        own = np.frombuffer(content[:size].ljust(size, b"\0"), np.uint8)
        return np.asarray(multihost_utils.broadcast_one_to_all(own), np.uint8).tobytes()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Compute on this machine's devices alone: what another's compute cannot be read here."""
        import keras

        distribution = keras.distribution.distribution()
        keras.distribution.set_distribution(None)
        yield
        keras.distribution.set_distribution(distribution)

    @contextmanager
    def losing_one(self) -> Iterator[None]:
        """Report in one sentence that a machine was lost, which JAX reports as an error of its
        collectives.
        """
        try:
            yield
        except (RuntimeError, ValueError) as error:
            lost = "gloo|nccl|heartbeat|coordination|unavailable:|connection|barrier"
            if not re.search(lost, str(error), re.IGNORECASE):
                raise
            raise HardwareError(
                f"one of {self.place.count} machines ended or cannot be reached; start the "
                f"training again to resume from its last checkpoint ({first_line(error)})"
            ) from error

    def leave(self) -> bool:
        """Disconnect from the others once all have reached this point; the network is to be loaded
        again.
        """
        import jax
        import keras

        with self.losing_one():
            jax.distributed.shutdown()
        keras.distribution.set_distribution(None)
        return True


def is_any(value: bool) -> bool:
    """Whether the value is true on any machine; all machines must call this at the same point."""
    import numpy as np
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array([value]))))


def first_line(error: Exception) -> str:
    """Return the beginning of a runtime's long message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
