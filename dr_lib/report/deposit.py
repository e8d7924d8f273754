"""Make a folder to deposit with a paper: a report, its rows, and checksums of all files."""

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dr_lib.errors import DrError
from dr_lib.files import hash_file, is_empty, write_bytes, write_json, write_text
from dr_lib.markdown import escape
from dr_lib.report.render import write_report
from dr_lib.runs.papermill import redact_paths
from dr_lib.runs.row import list_rows, read_row
from dr_lib.runs.study import find_file, read_keys

README = """\
# {title}

report.html needs no other file. Its figures and tables are next to it, and its rows are in rows/.
They were made by the notebooks of commit {commit}; a commit that ends in -dirty had code that
was not committed. To repeat the report at that commit, replace DEPOSIT with this folder's path:

```sh
{command}
```

`sha256sum --check SHA256SUMS` shows whether a file has changed since. Check the report's pictures
and words before you publish them.
"""


def write_deposit(folders: Sequence[Path], out: Path, root: Path, **choice: Any) -> Path:
    """Write a folder with everything that a reader needs to check a study.

    Args:
        folders: of rows.
        out: folder to make; it has to be new or empty.
        root: the repository.
        choice: as for `write_report`.

    Returns:
        The path of its README.md.

    Raises:
        DrError: the folder holds something, or as `write_report`.
    """
    if not is_empty(out):
        raise DrError(f"{out} already holds files: give --deposit a new folder")
    try:
        commits = set()
        for folder in folders:
            commits.update(_copy_rows(folder, out / "rows"))
        copies = [out / "rows" / folder.resolve().name for folder in folders]
        # of what is deposited, not of what it was made from
        page = write_report(copies, out, root, **choice)
        shutil.copy(root / "CITATION.cff", out)
        readme = README.format(
            title=re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"))[1],
            commit=escape(", ".join(sorted(commits - {""}))) or "unknown",
            command=_write_command([f"DEPOSIT/rows/{copy.name}" for copy in copies], choice),
        )
        write_text(out / "README.md", readme)
        sums = ""
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            sums += f"{hash_file(path)}  {path.relative_to(out).as_posix()}\n"
        write_text(out / "SHA256SUMS", sums)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # it was new or empty
        raise
    return out / "README.md"


def _write_command(folders: Sequence[str], choice: dict[str, Any]) -> str:
    """Write the command that repeats the report from the rows in the deposit."""
    options = []
    for name, value in choice.items():
        if value not in ("", "en", True):  # what it is where nobody gives it
            options += ["-p", name, str(value)]
    return shlex.join(
        ["python", "-m", "dr_lib", "report", *folders, "--out", "again", *options]
    )


def _copy_rows(folder: Path, out: Path) -> set[str]:
    """Copy the rows, the tables that they name and the study files; return the rows' commits.

    Nothing that is copied names a file of this machine.
    """
    folder = folder.resolve()
    target = out / folder.name
    if target.exists():
        raise DrError(f"two folders are named {target.name}: rename one")
    commits = set()
    for path in list_rows(folder):
        row = read_row(path)
        commits.add(row["commit"])
        row["error"] = row["error"].split(":")[0]
        write_json(target / path.relative_to(folder), row)
        study_dir = path.parent.parent
        for name in [str(value) for value in row.values() if str(value).endswith(".csv")]:
            table = (study_dir / name).resolve()
            if study_dir in table.parents and table.is_file():
                write_bytes(target / table.relative_to(folder), table.read_bytes())
        study = find_file(study_dir)
        if study:
            text = yaml.safe_dump(
                _redact(read_keys(study)), sort_keys=False, allow_unicode=True
            )
            write_text(out / study.relative_to(folder.parent), text)
    return commits


def _redact(value: Any) -> Any:
    """Remove a machine's folders and the credentials in URLs from a study."""
    if isinstance(value, dict):
        return {name: _redact(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_redact(item) for item in value]
    return (
        re.sub(r"//[^/@\s]*@", "//", redact_paths(value)) if isinstance(value, str) else value
    )
