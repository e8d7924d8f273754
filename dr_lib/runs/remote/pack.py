"""What is uploaded: one archive of the code, the study file and the inputs that the study names,
in parts.
"""

import gzip
import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from dr_lib.runs.run import COMMIT, read_commit
from dr_lib.runs.study import Study, StudyError, check_paths

PART_BYTES = 32 * 2**20  # Colab takes a file in one request, a third larger than it is
NAME = "dr-lib.part"  # Kaggle would unpack what is called tar or zip

Share = Callable[[Path, Collection[str]], dict[str, Path | bytes]]


class Pack(NamedTuple):
    """An archive in parts."""

    folder: Path  # that holds nothing else
    parts: list[Path]
    study: str  # the study file in it
    contents: list[str]  # in words, what it holds

    def describe(self) -> str:
        """What would be uploaded, in one sentence."""
        mib = sum(part.stat().st_size for part in self.parts) / 2**20
        return (
            f"{mib:.1f} MiB in {len(self.parts)} file{'s' * (len(self.parts) > 1)}:"
            f" {'; '.join(self.contents)}"
        )


def pack_up(
    path: Path,
    study: Study,
    root: Path,
    folder: Path,
    share: Share,
    describe: Callable[[Path], str],
) -> Pack:
    """Pack what a machine needs to make the study's runs into a folder.

    The code is that of the working files which git does not ignore, with the study's notebook and
    its report, and says of which commit; only the prepared folders and the single files that the
    study's parameters name go along, cut by `share`, and never another folder.

    Args:
        path: the study file.
        study: its content.
        root: the repository.
        folder: gets the parts.
        share: the files of a prepared folder that may leave, given the folder and names of split
            tables.
        describe: says what they are.

    Raises:
        StudyError: an input lies outside the repository, or a notebook holds outputs.
    """
    files: dict[str, Path | bytes] = {name: root / name for name in _list_code(root)}
    files |= {
        f"notebooks/{name}.ipynb": _check_outputs(root, name)
        for name in (study.notebook, study.report)
        if name
    }
    commit = read_commit(root)
    study_file = f"papermill_runs/{path.name}"
    files |= {study_file: path, COMMIT: commit.encode()}
    contents = [
        f"the code of commit {commit[:12] or 'unknown'}{'-dirty' * commit.endswith('-dirty')}"
    ]
    values = [
        value for levels in (study.parameters, study.factors) for value in _flatten(levels) if value
    ]
    inputs = dict.fromkeys(check_paths(study, path, root))
    for name, value in [*inputs, *(("split", value) for value in values if value.endswith(".csv"))]:
        if Path(value).is_absolute() or ".." in Path(value).parts:
            raise StudyError(
                f"{path}: {name} {value!r} is outside the repository: link it into data/, and name"
                " that"
            )
    for _, value in inputs:
        if (root / value).is_file():
            files[value] = root / value
            contents.append(value)
            continue
        splits = [
            name for name in values if name.endswith(".csv") and (root / value / name).is_file()
        ]
        files |= {
            f"{value}/{name}": content for name, content in share(root / value, splits).items()
        }
        contents.append(f"of {value} {describe(root / value)}")
    return Pack(folder, _write_parts(files, folder), study_file, contents)


def _list_code(root: Path) -> list[str]:
    """The library's files: those that git knows or does not ignore; without git, those in no
    hidden folder.
    """
    command = [
        "git",
        "-C",
        str(root),
        "ls-files",
        "-z",
        "-co",
        "--exclude-standard",
        "--",
        "dr_lib",
    ]
    listed = ""
    with suppress(OSError):
        listed = subprocess.run(command, capture_output=True, text=True).stdout
    names = (
        listed.split("\0")
        if listed
        else [str(path.relative_to(root)) for path in root.glob("dr_lib/**/*")]
    )
    shown = [
        name
        for name in names
        if not any(part[:1] == "." or part == "__pycache__" for part in Path(name).parts)
    ]
    return sorted(name for name in shown if (root / name).is_file())


def _check_outputs(root: Path, name: str) -> Path:
    """The notebook's file, whose outputs may show photographs and so have to be none."""
    path = root / "notebooks" / f"{name}.ipynb"
    if any(cell.get("outputs") for cell in json.loads(path.read_bytes())["cells"]):
        raise StudyError(
            f"{path} holds outputs, which may show photographs: clear them before it is uploaded"
        )
    return path


def _flatten(levels: dict) -> list[str]:
    values = [
        item
        for value in levels.values()
        for item in (value if isinstance(value, list) else [value])
    ]
    return [value for value in values if isinstance(value, str)]


def _write_parts(files: dict[str, Path | bytes], folder: Path) -> list[Path]:
    """Write a tar.gz in pieces of at most PART_BYTES, without owners and times."""
    whole = folder / "whole"
    parts = []
    with (
        gzip.open(whole, "wb", compresslevel=3) as stream,
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
