"""Write files atomically, read YAML, and lock a file while a process lives."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from dr_lib.errors import DrError

# files that Windows and macOS add, in small letters
ADDED = (".ds_store", ".localized", "desktop.ini", "icon\r", "thumbs.db", "__macosx")
# what a file system without locks answers
NO_LOCKS = (errno.EPERM, errno.ENOLCK, errno.EOPNOTSUPP)
LISTING = "report.sha256"  # of the files that a report wrote, as sha256sum writes and checks it


def is_foreign(name: str) -> bool:
    """Whether a file or folder is the system's or an editor's: hidden, or added by a file
    manager.
    """
    return name.startswith((".", "~$")) or name.lower() in ADDED


def is_empty(folder: Path) -> bool:
    """Whether a folder is missing, or holds nothing but what a file manager adds by itself."""
    names = os.listdir(folder) if folder.exists() else []
    return all(name.lower() in ADDED or name.startswith("._") for name in names)


def expand_home(text: str) -> str:
    """Write out ~ and variables such as $HOME in a path, or in several with commas between them.

    A shell leaves them where they stand in quotes or behind an equals sign.

    Raises:
        DrError: a path would begin with a variable that is not set.
    """
    begins = r'(?:^|(?<=[,"])|(?<=, ))'
    path = re.sub(
        begins + r"~[\w.-]*(?=/|,|$)", lambda match: os.path.expanduser(match[0]), text
    )
    path = os.path.expandvars(path)
    unset = re.search(begins + r"(\$\{?\w+\}?)(?=/|,|$)", path)
    if unset:
        raise DrError(f"{text}: the variable {unset[1]} is not set: write the whole path")
    return path


def join_paths(paths: Sequence[Path | str]) -> str:
    """Join paths into one parameter, with commas between them and quotes around one with a
    comma.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(paths)
    return text.getvalue()


def split_paths(text: str) -> list[str]:
    """Split a parameter that `join_paths` wrote into paths."""
    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]


def read_yaml(path: Path) -> Any:
    """Read a YAML file, see `parse_yaml`.

    Raises:
        DrError: it is no text, or no YAML.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise DrError(f"{path}: it is not UTF-8 text: save it as UTF-8") from error


def parse_yaml(text: str, source: str) -> Any:
    """Read a text of YAML 1.2, in which 1:10 and yes are texts and 010 is ten.

    Raises:
        DrError: the source, the line, and what is wrong there; a key that is there twice, too.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        problem = error.problem.replace("'\\t'", "tab").removeprefix("but ")
        line = error.problem_mark.line + 1
        raise DrError(f"{source}, line {line}: {problem}") from error
    except YAMLError as error:  # a character that no text has
        raise DrError(f"{source}: {error.reason}") from error


def find_line(path: Path, *keys: str) -> int:
    """Find the line of the last of nested keys in a YAML file; 0 if it is not there."""
    from ruamel.yaml import YAML

    node = YAML().load(path)
    line = 0
    for key in keys:
        if not isinstance(node, dict) or key not in node:
            return 0
        line = node.lc.data[key][0] + 1
        node = node[key]
    return line


@contextmanager
def replace(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file, then move what was written there into the file's place.

    Whoever reads the file finds the old content or the new, after a kill and on a full disk too. A
    kill leaves `<name>.tmp` at most, which the next try overwrites; an error leaves nothing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not error.filename:
            error.filename = str(path)  # a full disk names none
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one step."""
    with replace(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    """Write a text in UTF-8 in one step."""
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    """Write JSON in one step; a value that JSON cannot hold raises before the disk is touched."""
    write_text(path, json.dumps(content, indent=1))


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_listed(path: Path, content: bytes) -> None:
    """Write a file, and add it to the LISTING of its folder, which `find_listed` reads."""
    path.write_bytes(content)
    with path.with_name(LISTING).open("a", encoding="utf-8") as listing:
        listing.write(f"{hash_file(path)}  {path.name}\n")


def find_listed(folder: Path) -> list[Path]:
    """Find what an earlier report wrote in a folder, which a new one replaces: its LISTING last.

    Raises:
        DrError: a file was changed since.
    """
    listing = folder / LISTING
    lines = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    found = []
    for digest, name in (line.split("  ", 1) for line in lines):
        path = folder / Path(name).name
        if path.exists():
            found.append(path)
            if hash_file(path) != digest:
                raise DrError(
                    f"{path} was changed after a report wrote it: move it, or give another folder"
                )
    return [*found, listing] if lines else []


def lock(path: Path, *, wait_s: float = 0.0) -> AbstractContextManager | None:
    """Lock a file until the returned context ends, or this process does, however it ends.

    Where the file system has no locks, nobody is kept out. Who waits long says so.

    Args:
        path: a file that is there for this alone; made if it is missing, never deleted.
        wait_s: seconds to wait for another process.

    Returns:
        A context, or None if another process holds it.
    """
    from filelock import FileLock, Timeout  # not in the environments of other frameworks

    path.parent.mkdir(parents=True, exist_ok=True)
    held = FileLock(path)
    first_s = min(wait_s, 5.0)
    try:
        with suppress(Timeout):
            return held.acquire(timeout=first_s)
        if wait_s > first_s:
            print(f"waiting for the process that holds {path}", file=sys.stderr)
        return held.acquire(timeout=wait_s - first_s)
    except Timeout:
        return None
    except OSError as error:
        if error.errno in NO_LOCKS:
            return nullcontext()
        raise
