"""Pack the upload: the code, the study file and its inputs, as an archive in parts."""

import hashlib
import json
import re
import zipfile
from pathlib import Path

import pandas as pd

from dr_lib.code import COMMIT, ask_git, read_commit, shorten_commit
from dr_lib.data.prepared.folder import format_table, parse_table, verify, write_manifest
from dr_lib.errors import DrError
from dr_lib.remote.remote_script import PART
from dr_lib.runs.prices import find_price
from dr_lib.runs.study import Study, check_paths, list_cells

PART_BYTES = 32 * 2**20  # Colab takes a file in one request, a third larger than it is
LABELS = ["image_id", "content_id", "row", "patient_id", "grade", "referable"]


def pack_up(path: Path, study: Study, root: Path, folder: Path) -> str:
    """Pack everything that a machine needs for the study's runs; return what that is, in words.

    The code is that of the working files which git does not ignore, with the study's notebook, and
    says of which commit. Of data, only the prepared folders and the single files that the study's
    parameters name go along, cut by `share_folder`; never another folder.

    Args:
        path: the study file.
        study: its content.
        root: the repository.
        folder: gets the parts.

    Raises:
        DrError: an input or a network of one's own lies outside the repository, or the study's
            instance has no price.
    """
    files = {name: root / name for name in _list_code(root)}
    keys = study.model_dump(exclude_defaults=True, exclude={"report"})
    files[f"papermill_runs/{path.name}"] = json.dumps(keys, ensure_ascii=False).encode()
    notebook = f"notebooks/{study.notebook}.ipynb"
    content = json.loads((root / notebook).read_bytes())
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []  # they may show photographs
    files[notebook] = json.dumps(content).encode()
    files["requirements.txt"] = root / "requirements.txt"  # which versions are installed there
    commit = read_commit(root, study.notebook)
    files[COMMIT] = commit.encode()
    contents = [f"the code of commit {shorten_commit(commit)}"]
    if study.instance:  # of your prices only this one
        price = pd.DataFrame([dict(find_price(study.instance))])
        files["dr_lib/runs/prices.csv"] = format_table(price).encode()
        contents.append(f"the price of {study.instance}")

    for name in _list_networks(study, root):
        files[name] = root / name
        contents.append(name)
    inputs = [value for _, value in check_paths(study, path, root)]
    tables = {values.get("split", "") for values in list_cells(study)} - {""}
    for value in [*inputs, *tables]:
        if Path(value).is_absolute() or ".." in Path(value).parts:
            fault = f"{path}: {value!r} is outside the repository"
            raise DrError(f"{fault}: link it into data/, and name the link in the study")
    for value in inputs:
        source = root / value
        if source.is_file():
            files[value] = source
            contents.append(value)
            continue
        for name, content in share_folder(source).items():
            files[f"{value}/{name}"] = content
        contents.append(f"crops of {value} with pseudonyms, grades and split, no file names")
    size = _write_parts(files, folder)
    return f"{size / 2**20:.1f} MiB: {'; '.join(contents)}"


def share_folder(data_dir: Path) -> dict[str, Path | bytes]:
    """List the files that training elsewhere needs: paths, or contents of reduced tables.

    Of labels.csv the pseudonyms, grades and row numbers stay. What the data set knows beside that
    (age, sex, camera), the private folder, what names the label tables and files that the manifest
    does not name are left behind.

    Args:
        data_dir: a folder that `prepare` wrote.

    Returns:
        Files by their name. They make a prepared folder again, whose rows name the labels as this
        one's do.

    Raises:
        ShardError: the folder is not prepared, or was altered.
    """
    manifest = verify(data_dir)
    written = manifest["files"]
    files = {name: data_dir / name for name in written}
    labels = parse_table(data_dir / "labels.csv").filter(LABELS)
    files["labels.csv"] = format_table(labels).encode()
    written["labels.csv"] = hashlib.sha256(files["labels.csv"]).hexdigest()
    return files | {"manifest.json": write_manifest(manifest)}


def _list_networks(study: Study, root: Path) -> list[str]:
    """List the files with networks of one's own that the study trains, from the root."""
    models = {str(values.get("model", "")) for values in list_cells(study)}
    names = []
    for module in sorted({model.partition(":")[0] for model in models if ":" in model}):
        name = f"{module.replace('.', '/')}.py"
        if not (root / name).is_file():
            raise DrError(
                f"{module}, which has a network of the study, is not sent: put it into the"
                f" repository, as {name}"
            )
        names += [] if name.startswith("dr_lib/") else [name]
    return names


def _list_code(root: Path) -> list[str]:
    """List the library's files that git does not ignore; without git, those that are not hidden."""
    listed, _ = ask_git(root, "ls-files", "-co", "--exclude-standard", "dr_lib")
    names = listed.decode().splitlines()
    names = names or [str(path.relative_to(root)) for path in root.glob("dr_lib/**/*")]
    hidden = re.compile(r"/\.|__pycache__")
    return sorted(name for name in names if (root / name).is_file() and not hidden.search(name))


def _write_parts(files: dict[str, Path | bytes], folder: Path) -> int:
    """Write a zip archive in pieces of at most PART_BYTES, without owners; return its size."""
    whole = folder / "whole"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in files.items():
            archive.writestr(name, source if isinstance(source, bytes) else source.read_bytes())
    with whole.open("rb") as stream:
        pieces = iter(lambda: stream.read(PART_BYTES), b"")
        for number, piece in enumerate(pieces):
            (folder / f"{PART}{number:03d}").write_bytes(piece)
    size = whole.stat().st_size
    whole.unlink()
    return size
