"""The code that runs: its SHA-256 by content, and its commit as far as git knows it.

Foreign kernels use this too: it needs Python 3.9, nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from dr_lib.files import is_foreign

# in an archive of the repository, which git cannot ask: the commit it was made of
COMMIT = "COMMIT"
SUFFIXES = (".py", ".cu", ".cuh")
# of dr_lib: they start runs or read rows, and change no run
READERS = ("__main__.py", "evidence", "figures", "notebook")
INJECTED = "injected-parameters"  # papermill's cell, which it replaces in each execution


def hash_code(root: str | os.PathLike, notebook: str = "") -> str:
    """Compute the SHA-256 of the library or, with a notebook, of what determines its runs.

    That is its code cells without parameters, which a row has in columns, and the library without
    READERS. Outputs, metadata, line ends and files of other kinds do not count.
    """
    return _digest(_read_files(Path(root), notebook))


def hash_notebook(root: str | os.PathLike, notebook: str) -> str:
    """Compute the SHA-256 of a notebook's code with its parameters; empty if it is missing."""
    path = Path(root, "notebooks", f"{notebook}.ipynb")
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
    commit = _ask_git(root, "rev-parse", "HEAD").stdout.decode().strip()
    if not commit:
        return ""
    paths = ["dr_lib", f"notebooks/{notebook}.ipynb"] if notebook else ["dr_lib"]
    changed = _ask_git(root, "status", "--porcelain", "-uall", "--", *paths)
    is_same = not changed.returncode and not changed.stdout
    if not is_same:  # in bytes, perhaps not in code
        packed = _ask_git(root, "archive", "HEAD", "--", *paths).stdout
        is_same = _digest(_unpack(packed, notebook)) == hash_code(root, notebook)
    return commit if is_same else f"{commit}-dirty"


def explain_commit(root: str | os.PathLike) -> str:
    """Explain in git's words why it does not know the commit; empty if it does, and outside a
    repository.
    """
    if Path(root, COMMIT).is_file():
        return ""
    return " ".join(_ask_git(root, "rev-parse", "HEAD").stderr.decode(errors="replace").split())


def shorten_commit(commit: str) -> str:
    """Shorten a commit to its first digits, keeping -dirty; `unknown` if there is none."""
    digits, _, dirty = commit.partition("-")
    return "-".join(filter(None, [digits[:12], dirty])) or "unknown"


def _ask_git(root: str | os.PathLike, *words: str) -> subprocess.CompletedProcess:
    """Ask git about this repository, whatever repository the environment names."""
    command = ["git", *words]
    nothing = subprocess.CompletedProcess(command, 1, b"", b"")
    if not Path(root, ".git").exists():  # an unpacked archive may lie inside another clone
        return nothing
    others = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        return subprocess.run(command, cwd=root, env=environment, capture_output=True)
    except OSError as error:
        nothing.stderr = f"git cannot be started: {error.strerror}".encode()
        return nothing


def _is_code(name: str, notebook: str) -> bool:
    """Whether a file of the repository counts, by its path from the root."""
    parts = name.split("/")
    if notebook and name == f"notebooks/{notebook}.ipynb":
        return True
    if parts[0] != "dr_lib" or any(map(is_foreign, parts)):
        return False
    return name.endswith(SUFFIXES) and not (notebook and parts[1] in READERS)


def _unpack(packed: bytes, notebook: str) -> dict[str, bytes]:
    """Read the code in an archive, which is empty where git made none."""
    if not packed:
        return {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            member.name: archive.extractfile(member).read()
            for member in archive
            if member.isfile() and _is_code(member.name, notebook)
        }


def _read_files(root: Path, notebook: str) -> dict[str, bytes]:
    paths = [root / "notebooks" / f"{notebook}.ipynb", *(root / "dr_lib").rglob("*")]
    names = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if _is_code(name, notebook)}


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(files):
        content = read_source(files[name])
        if name.endswith(".ipynb"):
            content = _read_cells(content, without="parameters")
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _read_cells(content: bytes, without: str = INJECTED) -> bytes:
    """Join a notebook's code cells, except for those with a tag and papermill's own."""
    sources = []
    for cell in json.loads(content)["cells"]:
        tags = cell.get("metadata", {}).get("tags", [])
        if cell["cell_type"] == "code" and not {INJECTED, without} & set(tags):
            lines = "".join(cell["source"]).splitlines()
            sources.append("\n".join(line.rstrip() for line in lines).strip())
    return "\n\n".join(filter(None, sources)).encode()
