"""Write constraints/NAME.txt, all packages of each runtime that `make runtimes` builds, by uv.

A cloud runtime keeps what it ships; what it lacks of requirements.txt is added. Colab's TPU runtime
gets no TensorFlow.
"""

import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.bench import ROOT
from tools.runtimes import LISTS, RUNTIMES

CONSTRAINTS = ROOT / "constraints"
REQUIREMENTS = ROOT / "requirements.txt"


def read_list(path: Path) -> dict[str, Requirement]:
    """The requirements of a file by the names of their packages."""
    lines = re.sub(r"(?m)\s*#.*", "", path.read_text(encoding="utf-8")).split("\n")
    listed = [Requirement(line) for line in lines if line]
    return {canonicalize_name(entry.name): entry for entry in listed}


def list_all(runtime: str) -> list[Requirement]:
    """What a cloud runtime ships, and what it lacks of requirements.txt."""
    shipped = read_list(LISTS / f"{runtime}.txt")
    needed = read_list(REQUIREMENTS)
    del needed["tensorflow"]  # the lists have the build for CPUs, or none
    return [*shipped.values(), *(needed[name] for name in needed.keys() - shipped.keys())]


def write(name: str, python: str, requirements: list[Requirement], resolution: str) -> None:
    """Resolve requirements for a Python, and write every package with its version."""
    path = CONSTRAINTS / f"{name}.txt"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
        listed.write("\n".join(map(str, requirements)))
        listed.flush()
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header"]
        command += ["--no-annotate", "--python-version", python, "--resolution", resolution]
        resolved = subprocess.check_output([*command, listed.name], text=True)
    head = f"# {name}, Python {python}, Linux on x86-64, as resolved on {date.today()}\n"
    path.write_text(head + resolved, encoding="utf-8")


if __name__ == "__main__":
    for runtime in RUNTIMES:
        write(runtime.name, runtime.python, list_all(runtime.name), "highest")
    for name, resolution in {"oldest": "lowest-direct", "newest": "highest"}.items():
        write(name, "3.11", list(read_list(REQUIREMENTS).values()), resolution)
