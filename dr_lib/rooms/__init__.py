"""The rooms: subjects beside the suite's spine, found by name; the spine works without any.

evaluation   what predictions say about a model
serving      from a trained model to an endpoint, its load and its price (paper B)
scenarios    frameworks, their kernels, and what factors do to time (paper C)
mnist        a network in CUDA C, and its reference in Keras (paper D)
claims       what rows say about the papers' claims
remote       Colab and Kaggle from a terminal
cluster      several machines
explain      where on a photograph a model looks

Foreign kernels import this: it needs Python 3.9, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from dr_lib.errors import DrError

NAMES = "evaluation serving scenarios mnist claims remote cluster explain".split()


class Room(NamedTuple):
    """What a room adds; where a function is named, as `module:function` of the room."""

    about: str  # heading of its commands
    commands: tuple[str, ...] = ()  # functions of its module `commands`
    targets: tuple[str, ...] = ()  # of `run --on`, before the colon
    start: str = ""  # runs a study on one of them
    plan_notes: str = ""  # lists what `plan` says besides, of a study and its repetitions


def find_rooms() -> dict[str, Room]:
    """Find the rooms that this copy has, in order."""
    folder = Path(__file__).parent
    present = [name for name in NAMES if (folder / name / "room.py").is_file()]
    return {name: import_module(f"dr_lib.rooms.{name}.room").ROOM for name in present}


def find_all(what: str) -> list[Callable]:
    """Find the functions that the rooms name in one field of `Room`."""
    return [
        _load(name, getattr(room, what))
        for name, room in find_rooms().items()
        if getattr(room, what)
    ]


def find_target(name: str) -> Callable:
    """Find the function that runs a study on a target, such as colab.

    Raises:
        DrError: no room has it; the message lists the targets.
    """
    targets = []
    for room_name, room in find_rooms().items():
        if name in room.targets:
            return _load(room_name, room.start)
        targets += room.targets
    raise DrError(f"unknown target {name!r}: choose from {', '.join(targets)}")


def _load(room: str, function: str) -> Callable:
    module, _, name = function.partition(":")
    return getattr(import_module(f"dr_lib.rooms.{room}.{module}"), name)
