"""Find whether a training is cold: no run of its kind has finished since the machine's boot.

The first run of a kind reads libraries from the disk and tunes what later ones find ready. An empty
file in the temporary folder marks each kind that has finished; another user's counts too.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from dr_lib.runs.row import KIND, Row


def list_marks(boot: str) -> set[str] | None:
    """List the marks of a boot of this machine; None if it or the folder is unknown."""
    with suppress(OSError):
        if boot:
            names = os.listdir(tempfile.gettempdir())
            return {name for name in names if name.startswith(_name_marks(boot))}
    return None


def find_cold(row: Row, before: set[str] | None) -> bool | None:
    """Mark the kind of a finished run, and find whether the run was cold.

    Args:
        row: with `boot` and the columns of KIND.
        before: the marks when the run started, so that of two at the same time both are cold.

    Returns:
        None if it is unknown, or no mark can be left.
    """
    if before is None:
        return None
    kind = [row.get(name) for name in KIND]
    version = row.get(row.get("backend") or "")
    digest = hashlib.sha256(repr([*kind, version]).encode()).hexdigest()
    mark = _name_marks(row["boot"]) + digest[:16]
    path = Path(tempfile.gettempdir(), mark)
    with suppress(OSError):  # it is another user's
        path.touch()  # also one that exists: a clean-up deletes old files
    return mark not in before if os.path.exists(path) else None


def _name_marks(boot: str) -> str:
    return f"dr-lib-{boot}-"
