"""A folder to deposit with a paper: the report, the rows that it rests on, and a checksum of
each file.
"""

import hashlib
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dr_lib.files import write_bytes, write_json, write_text
from dr_lib.markdown import escape
from dr_lib.notebook.report import LISTING, ReportError, write_report
from dr_lib.runs.papermill import redact_paths
from dr_lib.runs.row import read_row, read_rows

SUMS = "SHA256SUMS"
README = """\
# {title}

| file | what it is |
| --- | --- |
{contents}

The rows were made by the notebooks of commit {commit}{dirty}. In that repository, with what its
README.md installs, and with DEPOSIT in place of this folder's path:

```sh
{again}
```

`sha256sum --check {sums}` says whether a file was changed since. Cite what CITATION.cff names. Of
an error the rows keep its kind, of a path in a study file its last part. Look at the report's
pictures and words before you publish them.
"""
CONTENTS = {
    "report.html": "the report: figures, tables, verdicts, every run; needs no other file",
    "*.png, *.pdf": "the figures",
    "*.csv, *.tex": "the tables, and all rows as runs.csv",
    "rows/": "the rows, a JSON file each, the tables that they name, the study files",
    "CITATION.cff": "what to cite",
    SUMS: "SHA-256 of each file",
}


def write_deposit(folders: Sequence[Path], out: Path, root: Path, **choice: Any) -> Path:
    """Write a folder that a reader needs nothing else to check a study by.

    Args:
        folders: of rows.
        out: folder to make; it has to be new or empty.
        root: the repository.
        choice: as for `write_report`.

    Returns:
        The path of its README.md.

    Raises:
        ReportError: the folder holds something, or as `write_report`.
        RowError: there are no rows.
    """
    if out.exists() and any(out.iterdir()):
        raise ReportError(f"{out} holds files already: give --deposit a new folder")
    try:
        for folder in folders:
            _copy_rows(folder, out / "rows")
        copies = [out / "rows" / folder.resolve().name for folder in folders]
        # of what is deposited, not of what it was made from
        page = write_report(copies, out, root, **choice)
        (out / LISTING).unlink()  # SHA256SUMS says it
        rows = read_rows(out / "rows")
        shutil.copy(root / "CITATION.cff", out)
        title = re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"))
        commits = sorted({row["commit"] for row in rows} - {""})
        about = {
            "title": title[1] if title else "Report",
            "contents": "\n".join(f"| {name} | {what} |" for name, what in CONTENTS.items()),
            "commit": escape(", ".join(commits)) or "unknown",
            "dirty": (
                ", where -dirty means: with files that were not committed"
                * any("-dirty" in c for c in commits)
            ),
            "again": _write_command(copies, out, choice),
            "sums": SUMS,
        }
        write_text(out / "README.md", README.format(**about))
        files = sorted(path for path in out.rglob("*") if path.is_file())
        sums = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}\n"
            for path in files
        ]
        write_text(out / SUMS, "".join(sums))
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # it was new or empty
        raise
    return out / "README.md"


def _write_command(folders: Sequence[Path], out: Path, choice: Mapping[str, Any]) -> str:
    """The command that makes the same report of the rows in the deposit."""
    words = [
        "python",
        "-m",
        "dr_lib",
        "report",
        *(f"DEPOSIT/{folder.relative_to(out).as_posix()}" for folder in folders),
    ]
    words += [
        "--out",
        "again",
        *(["--notebook", choice["notebook"]] if choice.get("notebook") else []),
    ]
    words += [] if choice.get("lang", "en") == "en" else ["--lang", choice["lang"]]
    words += [] if choice.get("published", True) else ["--paper", "none"]
    for name in ("allow", "exclude"):
        words += [
            word
            for value in choice.get(name, "").split(",")
            if value
            for word in (f"--{name}", value)
        ]
    others = choice.keys() - {"notebook", "lang", "published", "allow", "exclude"}
    words += [word for name in sorted(others) for word in ("-p", name, str(choice[name]))]
    return shlex.join(words)


def _copy_rows(folder: Path, out: Path) -> None:
    """Copy rows and the tables that they name, and each study file, without what names a file of
    this machine.
    """
    target = out / folder.resolve().name
    if target.exists():
        raise ReportError(f"two folders are named {target.name}: rename one")
    for path in sorted(folder.rglob("rows/*.json")):
        row = read_row(path)
        study_dir = path.parent.parent
        write_json(target / path.relative_to(folder), row | {"error": row["error"].split(":")[0]})
        for name in map(str, row.values()):
            is_inside = (
                name.endswith(".csv")
                and not Path(name).is_absolute()
                and ".." not in Path(name).parts
            )
            if is_inside and (study_dir / name).is_file():
                write_bytes(
                    target / (study_dir / name).relative_to(folder), (study_dir / name).read_bytes()
                )
    for study_dir in {path.parent.parent for path in folder.resolve().rglob("rows/*.json")}:
        if (study := study_dir.with_suffix(".yaml")).is_file():
            content = _redact(yaml.safe_load(study.read_text(encoding="utf-8")))
            relative = study_dir.relative_to(folder.resolve().parent).with_suffix(".yaml")
            write_text(out / relative, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _redact(value: Any) -> Any:
    """A study without the folders of a machine, and without who may open a URL."""
    if isinstance(value, dict):
        return {name: _redact(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_redact(item) for item in value]
    return re.sub(r"//[^/@\s]*@", "//", redact_paths(value)) if isinstance(value, str) else value
