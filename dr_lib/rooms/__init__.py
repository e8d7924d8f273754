"""The rooms: subjects beside the suite's spine, found by name; the spine works without any.

Foreign kernels import this: it needs Python 3.9, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from dr_lib.errors import DrError

NAMES = (
    "evaluation",  # what predictions say about a model
    "serving",  # from a trained model to an endpoint, its load and its price (paper B)
    "scenarios",  # frameworks, their kernels, and what factors do to time (paper C)
    "mnist",  # a network in CUDA C, and its reference in Keras (paper D)
    "claims",  # what rows say about the papers' claims
    "remote",  # Colab and Kaggle from a terminal
    "cluster",  # several machines
    "explain",  # where on a photograph a model looks
)


class Paper(NamedTuple):
    """A paper that rows are compared with; functions are named as in `load`."""

    authors: str
    notebooks: tuple[str, ...]  # that make the rows of its study
    studies: tuple[str, ...]  # their study files: together they judge each of its claims
    analysis: str = ""  # the notebook that reads these rows; none where the same one makes them
    task: str = ""  # of its rows, where its notebooks have several
    may_differ: tuple[str, ...] = ()  # columns in which rows of its study differ on purpose
    design: tuple[str, ...] = ()  # one cell of its design has one level of each
    versions: Mapping[str, str] = MappingProxyType({})  # that it names
    select: str = ""  # selects its rows otherwise than `select_runs`
    derive: str = ""  # adds the columns that its claims speak of
    add_bills: str = ""  # adds what was paid


class Room(NamedTuple):
    """What a room adds; functions are named as in `load`."""

    about: str  # heading of its commands
    own: tuple[str, ...] = ()  # what goes with it: patterns of paths, extra:NAME, make:TARGET
    commands: tuple[str, ...] = ()  # functions of its module `commands`
    targets: tuple[str, ...] = ()  # of `run --on`, before the colon
    start: str = ""  # runs a study on one of them
    map_over: str = ""  # yields a map over the workers of one, for `prepare --on`
    machines: str = ""  # the child of `hardware.machine.Machine` for several
    parameters: Mapping[str, Any] = MappingProxyType({})  # of its notebooks; each a Parameter
    papers: Mapping[str, Paper] = MappingProxyType({})  # by letter
    judge: str = ""  # judges the claims of a paper by a selection of rows
    judge_data_sets: str = ""  # judges those on a model's performance by data set
    show_claims: str = ""  # shows claims that were judged on a page
    published: str = ""  # lists the means that a paper reports
    plan_notes: str = ""  # lists what `plan` says besides, of a study and its repetitions

    def owns(self, path: str) -> bool:
        """Whether a path of the repository, or what `own` names like one, goes with the room."""
        return any(fnmatch(path, pattern) for pattern in self.own)


def find_rooms() -> dict[str, Room]:
    """Find the rooms that this copy has, in order."""
    return {name: import_module(f"{find_package(name)}.room").ROOM for name in NAMES}


def find_package(room: str) -> str:
    """Find the package of a room: here, or beside this one."""
    is_here = (Path(__file__).parent / room / "__init__.py").is_file()
    return f"dr_lib.rooms.{room}" if is_here else f"dr_lib.{room}"


def find_all(what: str) -> list[Callable]:
    """Find the functions that the rooms name in one field of `Room`."""
    return [load(getattr(room, what)) for room in find_rooms().values() if getattr(room, what)]


def find_target(on: str, what: str) -> Callable:
    """Find the function for a target, such as colab:T4, that a room names in a field of `Room`.

    Raises:
        DrError: no room has it; the message lists the targets.
    """
    name = on.partition(":")[0]
    rooms = [room for room in find_rooms().values() if getattr(room, what)]
    for room in rooms:
        if name in room.targets:
            return load(getattr(room, what))
    targets = ", ".join(target for room in rooms for target in room.targets)
    raise DrError(f"unknown target {name!r}: choose from {targets or 'none here'}")


def load(function: str) -> Callable:
    """Import a function that is named as `dr_lib.module:function`."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)
