"""The code that runs: its SHA-256 by content, and its commit as far as git knows it.

Foreign kernels use this too: it needs Python 3.9, nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

from dr_lib.files import is_foreign

# in an archive of the repository, which git cannot ask: the commit it was made of
COMMIT = "COMMIT"
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


def read_source(content: bytes) -> bytes:
    """Return a source file's content with the line ends of Unix."""
    return content.replace(b"\r\n", b"\n")


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
    """Return what counts of a file's content, which is empty where there is no file."""
    if content and name.endswith(".ipynb"):
        return _read_cells(content, without="parameters")
    return read_source(content)


def _read_cells(content: bytes, without: str = INJECTED) -> bytes:
    """Join a notebook's code cells, except for those with a tag and papermill's own."""
    sources = []
    for cell in json.loads(content)["cells"]:
        tags = cell.get("metadata", {}).get("tags", [])
        if cell["cell_type"] == "code" and not {INJECTED, without} & set(tags):
            lines = "".join(cell["source"]).splitlines()
            sources.append("\n".join(line.rstrip() for line in lines).strip())
    return "\n\n".join(filter(None, sources)).encode()
