"""Pack the upload: the code, the study file and its inputs, as an archive in parts."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dr_lib.code import COMMIT, read_commit, shorten_commit
from dr_lib.errors import DrError
from dr_lib.rooms.remote.share import describe_shared, share_folder
from dr_lib.runs.study import Study, check_paths

PART_BYTES = 32 * 2**20  # Colab takes a file in one request, a third larger than it is
NAME = "dr-lib.part"  # Kaggle would unpack what is called tar or zip


class Pack(NamedTuple):
    """An archive in parts."""

    folder: Path  # that holds nothing else
    parts: list[Path]
    study: str  # the study file in it
    contents: list[str]  # in words, what it holds

    def hash(self) -> str:
        """Compute the SHA-256 of all parts, which is equal for equal content."""
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(part.read_bytes())
        return digest.hexdigest()

    def describe(self) -> str:
        """Describe the upload in one sentence."""
        mib = sum(part.stat().st_size for part in self.parts) / 2**20
        files = "file" if len(self.parts) == 1 else "files"
        return f"{mib:.1f} MiB in {len(self.parts)} {files}: {'; '.join(self.contents)}"


def pack_up(path: Path, study: Study, root: Path, folder: Path) -> Pack:
    """Pack everything that a machine needs for the study's runs into a folder.

    The code is that of the working files which git does not ignore, with the study's notebook and
    its report, and says of which commit. Of data, only the prepared folders and the single files
    that the study's parameters name go along, cut by `share_folder`; never another folder.

    Args:
        path: the study file.
        study: its content.
        root: the repository.
        folder: gets the parts.

    Raises:
        DrError: an input lies outside the repository.
    """
    study_file = f"papermill_runs/{path.name}"
    requirements = root / "requirements.txt"
    commit = read_commit(root, study.notebook)
    files: dict[str, Path | bytes] = {name: root / name for name in _list_code(root)}
    for notebook in filter(None, (study.notebook, study.report)):
        name = f"notebooks/{notebook}.ipynb"
        files[name] = _clear_outputs(root / name)
    files[study_file] = path
    if requirements.exists():  # which versions are installed there
        files[requirements.name] = requirements
    files[COMMIT] = commit.encode()
    contents = [f"the code of commit {shorten_commit(commit)}"]

    tables = _list_split_tables(study)
    inputs = dict.fromkeys(check_paths(study, path, root))
    for name, value in [*inputs, *(("split", table) for table in tables)]:
        if Path(value).is_absolute() or ".." in Path(value).parts:
            fault = f"{name} {value!r} is outside the repository"
            raise DrError(
                f"{path}: {fault}: link it into data/, and name the link in the study"
            )
    for _, value in inputs:
        source = root / value
        if source.is_file():
            files[value] = source
            contents.append(value)
            continue
        splits = [table for table in tables if (source / table).is_file()]
        for name, content in share_folder(source, splits).items():
            files[f"{value}/{name}"] = content
        contents.append(f"of {value} {describe_shared(source)}")
    return Pack(folder, _write_parts(files, folder), study_file, contents)


def _list_split_tables(study: Study) -> list[str]:
    """List the split tables that a study names, in its parameters or as levels of a factor."""
    values = list(study.parameters.values())
    for levels in study.factors.values():
        values += levels
    return [value for value in values if isinstance(value, str) and value.endswith(".csv")]


def _list_code(root: Path) -> list[str]:
    """List the library's files that git does not ignore; without git, those that are not hidden."""
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard", "dr_lib"]
    listed = ""
    with suppress(OSError):
        listed = subprocess.run(command, capture_output=True, text=True).stdout
    paths = [root / name for name in listed.split("\0")] if listed else root.glob("dr_lib/**/*")
    names = [path.relative_to(root) for path in paths if path.is_file()]
    return sorted(
        str(name)
        for name in names
        if not any(part.startswith(".") or part == "__pycache__" for part in name.parts)
    )


def _clear_outputs(path: Path) -> bytes:
    """Read a notebook without outputs, which may show photographs."""
    notebook = json.loads(path.read_bytes())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
    return json.dumps(notebook).encode()


def _write_parts(files: dict[str, Path | bytes], folder: Path) -> list[Path]:
    """Write a tar.gz in pieces of at most PART_BYTES, without owners and times."""
    whole = folder / "whole"
    parts = []
    with (
        gzip.GzipFile(whole, "wb", compresslevel=3, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, source in files.items():
            content = source if isinstance(source, bytes) else source.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    with whole.open("rb") as stream:
        while piece := stream.read(PART_BYTES):
            parts.append(folder / f"{NAME}{len(parts):03d}")
            parts[-1].write_bytes(piece)
    whole.unlink()
    return parts
