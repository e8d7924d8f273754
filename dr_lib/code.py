"""The code that runs: its SHA-256 by content, and its commit as far as git knows it."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from dr_lib.files import is_foreign

# in an archive of the repository, which git cannot ask: the commit it was made of
COMMIT = "COMMIT"
IMPORTED_AT = time.time()
# of dr_lib: they start runs or read rows, and change no run
READERS = {
    "__main__.py",
    "options.py",
    "commands.py",
    "report",
    # in subjects, or subjects themselves
    "claims",
    "evaluation",
    "effects.py",
    "costs.py",
    "endpoint.py",
    "epochs.py",
    "figures.py",
}
INJECTED = "injected-parameters"  # papermill's cell, which it replaces in each execution
ADDRESS = re.compile(r"(?m)^address, ref = .*\n")  # in it, where the repository is published


def hash_code(root: str | os.PathLike, notebook: str = "") -> str:
    """Compute the SHA-256 of the library or, with a notebook, of what determines its runs.

    That is its code cells without parameters, which a row has in columns, and the library without
    READERS. Outputs, metadata, line ends and files of other kinds do not count.
    """
    digest = hashlib.sha256()
    for path in [*sorted(Path(root, "dr_lib").rglob("*")), _find_notebook(root, notebook)]:
        name = path.relative_to(root).as_posix()
        if _is_code(name, notebook) and path.is_file():
            content = _read_code(name, path.read_bytes())
            digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def hash_notebook(root: str | os.PathLike, notebook: str) -> str:
    """Compute the SHA-256 of a notebook's code with its parameters; empty if it is missing."""
    path = _find_notebook(root, notebook)
    return hashlib.sha256(_read_cells(path.read_bytes())).hexdigest() if path.exists() else ""


class Cells:
    """The code cells of a notebook as its file has them now, and what else its kernel runs."""

    def __init__(self, root: str | os.PathLike, notebook: str):
        """Read the file; of a notebook that is not in the repository nothing is known."""
        path = _find_notebook(root, notebook)
        content = path.read_bytes() if path.exists() else b'{"cells": []}'
        cells = _list_cells(content, "parameters")
        self._parameters = set().union(
            *(_list_assigned(cell) for cell in _list_cells(content) if cell not in cells)
        )
        self._known = set(map(_normalise, cells))
        self._num_before = len(list_ran())

    def find_edits(self) -> list[str]:
        """Find the cells that this kernel has run so far and that are not of the file, each once.

        Parameters are no edit where they were set before the file was read; then a row has them.
        """
        ran = list_ran()
        edits = []
        for number, cell in enumerate(map(_normalise, ran)):
            assigned = _list_assigned(cell)
            is_early = number < self._num_before
            is_parameters = is_early and assigned and assigned <= self._parameters
            if cell and cell not in self._known and not is_parameters:
                edits.append(cell)
        return list(dict.fromkeys(edits)) if self._known else []


def find_changed() -> list[str]:
    """Find the modules of the library whose files have changed since this process imported it: what
    runs is not what a hash of the files says.
    """
    loaded = [
        module for name, module in sorted(sys.modules.items()) if name.startswith("dr_lib.")
    ]
    paths = [Path(module.__file__) for module in loaded if getattr(module, "__file__", None)]
    return [path.name for path in paths if path.exists() and path.stat().st_mtime > IMPORTED_AT]


def list_ran() -> list[str]:
    """List the code cells that the kernel of this process has run, the present one among them; none
    outside a kernel.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return list(shell.history_manager.input_hist_raw) if shell else []


def mark_edited(columns: dict[str, Any], edits: list[str]) -> dict[str, Any]:
    """Mark the columns that name a run's code where the kernel ran cells that are not the
    notebook's: the commit ends in -edited, and the hashes are of these cells too.
    """
    if not edits:
        return columns
    marked = {"commit": f"{columns['commit']}-edited".lstrip("-")}
    for name in ("notebook_sha256", "code_sha256"):
        content = "\n\n".join([columns[name], *edits])
        marked[name] = hashlib.sha256(content.encode()).hexdigest()
    return {**columns, **marked}


def read_commit(root: str | os.PathLike, notebook: str = "") -> str:
    """Read the commit of a repository, with -dirty if the code of `hash_code` is not the commit's;
    empty where git knows none, see `explain_commit`.
    """
    archived = Path(root, COMMIT)
    if archived.is_file():
        return archived.read_text(encoding="utf-8").strip()
    commit = ask_git(root, "rev-parse", "HEAD")[0].decode().strip()
    if not commit:
        return ""
    options = ("--porcelain", "-z", "-uall", "--no-renames", "--", "dr_lib", "notebooks")
    changed, refusal = ask_git(root, "status", *options)
    is_same = not refusal
    for name in [os.fsdecode(entry[3:]) for entry in changed.split(b"\0")]:
        if _is_code(name, notebook):  # changed in bytes, perhaps not in code
            path = Path(root, name)
            now = path.read_bytes() if path.is_file() else b""
            before = ask_git(root, "show", f"HEAD:{name}")[0]
            is_same = is_same and _read_code(name, now) == _read_code(name, before)
    return commit if is_same else f"{commit}-dirty"


def explain_commit(root: str | os.PathLike) -> str:
    """Explain in git's words why it does not know the commit; empty if it does, and outside a
    repository.
    """
    return "" if Path(root, COMMIT).is_file() else ask_git(root, "rev-parse", "HEAD")[1]


def shorten_commit(commit: str) -> str:
    """Shorten a commit to its first digits, keeping -dirty; `unknown` if there is none."""
    digits, _, dirty = commit.partition("-")
    return "-".join(filter(None, [digits[:12], dirty])) or "unknown"


def ask_git(root: str | os.PathLike, *words: str) -> tuple[bytes, str]:
    """Ask git about this repository, whatever repository the environment names.

    Returns:
        What it printed, and where it refused, its reason.
    """
    if not Path(root, ".git").exists():  # an unpacked archive may lie inside another clone
        return b"", ""
    others = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    try:
        asked = subprocess.run(["git", *words], cwd=root, env=environment, capture_output=True)
    except OSError as error:
        return b"", f"git cannot be started: {error.strerror}"
    reason = " ".join(asked.stderr.decode(errors="replace").split())
    return (b"", reason) if asked.returncode else (asked.stdout, "")


def _find_notebook(root: str | os.PathLike, notebook: str) -> Path:
    return Path(root, "notebooks", f"{notebook}.ipynb")


def _is_code(name: str, notebook: str) -> bool:
    """Whether a file of the repository counts, by its path from the root."""
    parts = name.split("/")
    if parts[0] != "dr_lib" or any(map(is_foreign, parts)):
        return bool(notebook) and name == f"notebooks/{notebook}.ipynb"
    return name.endswith((".py", ".cu", ".cuh")) and not (notebook and READERS & set(parts))


def _read_code(name: str, content: bytes) -> bytes:
    """Return what counts of a file's content, which is empty where there is no file; line ends of
    Windows do not.
    """
    if content and name.endswith(".ipynb"):
        return _read_cells(content, without="parameters")
    return content.replace(b"\r\n", b"\n")


def _read_cells(content: bytes, without: str = INJECTED) -> bytes:
    """Join a notebook's code cells, except for those with a tag and papermill's own."""
    cells = map(_normalise, _list_cells(content, without))
    return "\n\n".join(filter(None, cells)).encode()


def _list_cells(content: bytes, without: str = INJECTED) -> list[str]:
    """List a notebook's code cells, except for those with a tag and papermill's own."""
    return [
        "".join(cell["source"])
        for cell in json.loads(content)["cells"]
        if cell["cell_type"] == "code"
        and not {INJECTED, without} & set(cell.get("metadata", {}).get("tags", []))
    ]


def _normalise(cell: str) -> str:
    """Write a code cell without what editors change, and without the repository's address."""
    lines = "\n".join(line.rstrip() for line in cell.splitlines()).strip()
    return ADDRESS.sub("", lines)


def _list_assigned(cell: str) -> set[str]:
    """List the names that a cell assigns to; none if it does anything else."""
    try:
        lines = ast.parse(cell).body
    except SyntaxError:  # IPython's own commands
        return set()
    if not all(isinstance(line, (ast.Assign, ast.AnnAssign)) for line in lines):
        return set()
    targets = [
        line.target if isinstance(line, ast.AnnAssign) else line.targets[0] for line in lines
    ]
    return set(map(ast.unparse, targets))
