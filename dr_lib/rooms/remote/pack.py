"""Pack the upload: the code, the study file and its inputs, as an archive in parts."""

import io
import json
import re
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path

import pandas as pd

from dr_lib.code import COMMIT, read_commit, shorten_commit
from dr_lib.errors import DrError
from dr_lib.rooms.remote.remote_script import PART
from dr_lib.rooms.remote.share import share_folder
from dr_lib.runs.prices import find_price
from dr_lib.runs.study import Study, check_paths

PART_BYTES = 32 * 2**20  # Colab takes a file in one request, a third larger than it is


def pack_up(path: Path, study: Study, root: Path, folder: Path) -> str:
    """Pack everything that a machine needs for the study's runs; return what that is, in words.

    The code is that of the working files which git does not ignore, with the study's notebook and
    its report, and says of which commit. Of data, only the prepared folders and the single files
    that the study's parameters name go along, cut by `share_folder`; never another folder.

    Args:
        path: the study file.
        study: its content.
        root: the repository.
        folder: gets the parts.

    Raises:
        DrError: an input lies outside the repository, or the study's instance has no price.
    """
    files: dict[str, Path | bytes] = {name: root / name for name in _list_code(root)}
    files[f"papermill_runs/{path.name}"] = path
    for notebook in filter(None, (study.notebook, study.report)):
        name = f"notebooks/{notebook}.ipynb"
        content = json.loads((root / name).read_bytes())
        for cell in content["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = []  # they may show photographs
        files[name] = json.dumps(content).encode()
    if (root / "requirements.txt").exists():  # which versions are installed there
        files["requirements.txt"] = root / "requirements.txt"
    commit = read_commit(root, study.notebook)
    files[COMMIT] = commit.encode()
    contents = [f"the code of commit {shorten_commit(commit)}"]
    if study.instance:  # of your prices only this one
        price = pd.DataFrame([find_price(study.instance)])
        files["prices.csv"] = price.to_csv(index=False).encode()
        contents.append(f"the price of {study.instance}")

    # split tables are parameters or levels of a factor
    values = [*study.parameters.values(), *sum(study.factors.values(), [])]
    tables = [name for name in values if isinstance(name, str) and name.endswith(".csv")]
    inputs = dict.fromkeys(check_paths(study, path, root))
    for name, value in [*inputs, *(("split", table) for table in tables)]:
        if Path(value).is_absolute() or ".." in Path(value).parts:
            fault = f"{path}: {name} {value!r} is outside the repository"
            raise DrError(f"{fault}: link it into data/, and name the link in the study")
    for _, value in inputs:
        source = root / value
        if source.is_file():
            files[value] = source
            contents.append(value)
            continue
        splits = [table for table in tables if (source / table).is_file()]
        for name, content in share_folder(source, splits).items():
            files[f"{value}/{name}"] = content
        contents.append(f"crops of {value} with pseudonyms, grades and split, no file names")
    _write_parts(files, folder)
    sizes = [part.stat().st_size for part in folder.iterdir()]
    return f"{sum(sizes) / 2**20:.1f} MiB: {'; '.join(contents)}"


def _list_code(root: Path) -> list[str]:
    """List the library's files that git does not ignore; without git, those that are not hidden."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "dr_lib"]
    names = ""
    with suppress(OSError):
        names = subprocess.run(command, capture_output=True, text=True).stdout
    names = names.splitlines() or [str(p.relative_to(root)) for p in root.glob("dr_lib/**/*")]
    hidden = re.compile(r"/\.|__pycache__")
    return sorted(name for name in names if (root / name).is_file() and not hidden.search(name))


def _write_parts(files: dict[str, Path | bytes], folder: Path) -> None:
    """Write a tar.gz in pieces of at most PART_BYTES, without owners and times."""
    whole = folder / "whole"
    with tarfile.open(whole, "w:gz", compresslevel=3) as archive:
        for name, source in files.items():
            content = source if isinstance(source, bytes) else source.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    number = 0
    with whole.open("rb") as stream:
        while piece := stream.read(PART_BYTES):
            (folder / f"{PART}{number:03d}").write_bytes(piece)
            number += 1
    whole.unlink()
