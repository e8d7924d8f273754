"""Write files atomically, read CSV files of spreadsheets, and lock a file while a process lives.

Notebooks of foreign kernels use files too: this file needs Python 3.9, nothing else.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

try:
    import fcntl
except ImportError:  # Windows: nobody is kept out
    fcntl = None

DELIMITERS = ",;\t|"  # of cells
# files that Windows and macOS add, in small letters
ADDED = ("thumbs.db", "desktop.ini", "icon\r", "__macosx")


def is_foreign(name: str) -> bool:
    """Whether a file or folder is the system's or an editor's: hidden, or added by a file
    manager.
    """
    return name.startswith((".", "~$")) or name.lower() in ADDED


@contextmanager
def replace(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file, then move what was written there into the file's place.

    Whoever reads the file finds the old content or the new, after a kill and on a full disk too. A
    kill leaves `<name>.tmp` at most, which the next try overwrites; an error leaves nothing.
    """
    path = Path(path)
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


def find_encoding(path: Path) -> str:
    """Find the encoding of a text: UTF-8, or if its bytes are not UTF-8, windows-1252, which Excel
    in Brazil writes as CSV (it includes printable Latin-1).

    Raises:
        OSError: it cannot be read.
        ValueError: it is no text.
    """
    content = path.read_bytes()
    if b"\0" in content:
        raise ValueError(f"{path.name} is not a text file")
    try:
        content.decode("utf-8")
        return "utf-8-sig"
    except UnicodeDecodeError:
        content.decode("windows-1252")
        return "windows-1252"


def read_csv(path: Path, numbers: Collection[str] = ()) -> dict[int, list[str]]:
    """Read a CSV as spreadsheets write it: separated by commas, semicolons (as in Brazil), tabs or
    bars, optionally after a byte order mark, `sep=;` or a title.

    Returns:
        The cells of each line that has any, without blanks around them, by its number; the first
        are the header. Between semicolons the decimal commas of the columns `numbers` have become
        points.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no CSV, or in no encoding of `find_encoding`.
    """
    lines = path.read_text(encoding=find_encoding(path)).splitlines() or [""]
    # a title has hardly two delimiters
    tables = [line for line in lines[:10] if max(map(line.count, DELIMITERS)) > 1]
    header = next(iter(tables), lines[0])
    delimiter = max(DELIMITERS, key=header.count)
    if lines[0].lower().startswith("sep="):
        delimiter = lines[0][4:5] or delimiter
        lines[0] = ""  # lines keep their numbers
    reader = csv.reader(lines, delimiter=delimiter)
    rows = {}
    try:
        for row in reader:
            cells = [sys.intern(cell.strip()) for cell in row]
            if any(cells):
                rows[reader.line_num] = cells
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if delimiter == ";":
        names = next(iter(rows.values()), [])
        for cells in rows.values():
            for place, name in enumerate(names[: len(cells)]):
                if name in numbers:
                    cells[place] = cells[place].replace(",", ".")
    return rows


def lock(path: Path, *, wait_s: float = 0.0) -> TextIO | None:
    """Lock a file until the returned object is closed or this process ends, however it ends.

    Where the file system has no locks, nobody is kept out.

    Args:
        path: a file that is there for this alone; made if it is missing, never deleted.
        wait_s: seconds to wait for another process.

    Returns:
        The open file, or None if another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", encoding="utf-8")
    deadline = time.monotonic() + wait_s
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= deadline:
                file.close()
                return None
            time.sleep(0.1)
        except OSError:
            break
    return file
