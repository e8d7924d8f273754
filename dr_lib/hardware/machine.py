"""What a run asks of the machines that share it: by default there is this one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple


class Place(NamedTuple):
    """The position of this machine among all."""

    rank: int = 0  # machine 0 writes the row and the checkpoints
    count: int = 1
    is_rehearsed: bool = False  # the machines are processes on a single one


class Machine:
    """This machine, which trains alone; the cluster has a child for several."""

    place = Place()

    def find_fault(self, number: int) -> str:
        """Explain why a run on so many machines cannot be made; empty if it can."""
        return ""

    def list_commands(self, command: str, number: int) -> list[str]:
        """List the shell commands that start a run, one for each of its machines."""
        return [command]

    def take_part(self, *study: Any) -> list[str] | None:
        """Make what another machine than the first does of a study; None on the first one."""

    def join(self, number: int, accelerator: str, num_gpus: int) -> None:
        """Connect to the other machines, before JAX computes anything."""

    def take(self, devices: list[Any], number: int) -> list[Any]:
        """Take so many JAX devices of each machine."""
        return sorted(devices, key=lambda device: device.id)[:number]

    def check_alike(self, values: Mapping[str, Any]) -> None:
        """Raise a HardwareError unless machine 0 has the same values."""

    def broadcast(self, content: bytes) -> bytes:
        """Return the content that machine 0 has."""
        return content

    def alone(self) -> AbstractContextManager:
        """Compute on this machine's devices alone."""
        return nullcontext()

    def losing_one(self) -> AbstractContextManager:
        """Report in one sentence that another machine was lost."""
        return nullcontext()

    def leave(self) -> bool:
        """Disconnect from the others; whether the network is to be loaded again afterwards."""
        return False


def find_machine(number: int) -> Machine:
    """Find this machine as one of so many that share a run."""
    if number == 1:
        return Machine()
    from dr_lib.cluster.machines import Several

    return Several()
