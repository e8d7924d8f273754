"""Take each room away, and see that the suite works without it: python -m tools.rooms [--quick]
[ROOM ...].

Every room has a copy of the repository without the room's folder, its tests and what its room.py
lists as its own. There all fast tests run; with --quick those that could notice.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from dr_lib.rooms import find_rooms

ROOT = Path(__file__).resolve().parents[1]
# collection imports every test and what it tests; these read code, pages, commands, words, names
NOTICING = "test_pages or test_readme or test_repository or test_command or test_style"
NOTICING += " or test_the_door"


def copy_tree(folder: Path, without: Sequence[str] = ()) -> None:
    """Copy what git tracks, or would, but for patterns of paths."""
    listed = _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        is_left_out = any(fnmatch(name, pattern) for pattern in without)
        if not is_left_out and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def copy_without(rooms: Sequence[str], folder: Path) -> None:
    """Copy all but some rooms; the copy is a repository of its own."""
    without: list[str] = []
    for room in rooms:
        without += [f"dr_lib/rooms/{room}/*", f"tests/rooms/{room}/*", *find_rooms()[room].own]
    copy_tree(folder, without)
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    identity = ("-c", "user.name=rooms", "-c", "user.email=rooms@example.org")
    _git(folder, *identity, "commit", "-q", "-m", f"without {' '.join(rooms)}")


def try_without(*rooms: str, quick: bool) -> str:
    """Test the suite without some rooms; return what went wrong, or nothing."""
    commands = [["-m", "dr_lib", "--help"]]
    # the slow marker is that of pyproject
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    commands.append(
        [*tests, "-k", NOTICING] if quick else [*tests, *"-n 2 --dist worksteal".split()]
    )
    with tempfile.TemporaryDirectory() as folder:
        copy_without(rooms, Path(folder))
        for words in commands:
            command = [sys.executable, *words]
            ran = subprocess.run(
                command,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": folder},
                capture_output=True,
                text=True,
            )
            if ran.returncode:
                return f"{' '.join(words)}\n{ran.stdout}{ran.stderr}"
    return ""


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Try each room, and end with 1 if the suite needs one."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help="all, if none is given")
    parser.add_argument("--quick", action="store_true", help="only what could notice")
    options = parser.parse_args()
    needed = []
    for room in options.rooms or find_rooms():
        wrong = try_without(room, quick=options.quick)
        print(f"without {room}: {'fails' if wrong else 'passes'}", flush=True)
        if wrong:
            print(wrong)
            needed.append(room)
    sys.exit(bool(needed))


if __name__ == "__main__":
    main()
