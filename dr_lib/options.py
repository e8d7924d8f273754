"""The options that several commands have, and how commands show progress."""

import math
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import click

from dr_lib.errors import DrError
from dr_lib.files import expand_home


class Suite(NamedTuple):
    """What the command line hands to its commands."""

    root: Path  # of the repository
    # of --on, before the colon: by command, the function that works there, as module:function
    targets: Mapping[str, Mapping[str, str]]

    def find_target(self, command: str, on: str) -> Callable:
        """Import a command's function for a target, such as colab:T4.

        Raises:
            DrError: there is none; the message lists the targets.
        """
        targets = self.targets[command]
        name = on.partition(":")[0]
        if name not in targets:
            raise DrError(f"unknown target {name!r}: choose from {', '.join(targets)}")
        module, _, function = targets[name].partition(":")
        return getattr(import_module(module), function)


class HomePath(click.Path):
    """A path option in which ~ and $HOME are the home directory, also behind an equals sign."""

    def convert(self, value: str | Path, *where: object) -> Path:
        """Convert the text of an option to a path."""
        return super().convert(expand_home(str(value)), *where)


PATH = HomePath(path_type=Path)


class Amount(click.FloatRange):
    """A number option; nan and inf are none."""

    def convert(self, value: str | float, *where: object) -> float:
        """Convert the text of an option to a number."""
        number = super().convert(value, *where)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", *where)
        return number


POSITIVE = Amount(min=0, min_open=True)
INSTANCE = click.option(
    "--instance",
    default="",
    help="machine whose hourly price the runs get  [default: the study's]",
)
LANG = click.option(
    "--lang",
    default="en",
    show_default=True,
    type=click.Choice(["en", "pt"]),
    help="language of the page",
)
PARAMETERS = click.option(
    "-p",
    "parameters",
    nargs=2,
    multiple=True,
    help="name and value of a notebook parameter, such as pool driver or published false",
)
SHEET = click.option(
    "--sheet", default="", help="sheet to read, where several have the columns"
)
COLUMN = click.option(
    "--column",
    "columns",
    multiple=True,
    help="column of the table to use, by name or number, such as grade=Grau or grade=3; repeatable",
)


def show_progress(title: str) -> Callable[[int, int], None]:
    """Show a progress bar, once there is progress, with photographs per second and time left."""
    from tqdm import tqdm

    bar = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            # what an earlier run has done is no part of the rate
            bar = tqdm(desc=title, initial=done, total=total, unit=" photographs")
        bar.update(done - bar.n)
        if done == total:
            bar.close()

    return show
