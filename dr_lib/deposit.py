"""A folder to deposit with a paper: the report, the rows that it rests on, and a checksum of each file."""

import hashlib
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dr_lib.files import write_text
from dr_lib.report import ReportError, write_report
from dr_lib.runs.papermill import redact_paths
from dr_lib.runs.row import read_row, read_rows

SUMS = "SHA256SUMS"
README = """\
# {title}

| file | what it is |
| --- | --- |
{contents}

The rows were made by the notebooks of commit {commit}. There, with what README.md of the repository installs:

```sh
python -m dr_lib report {rows} --out again   # the report, from the rows
{again}```

`sha256sum --check {sums}` says whether a file was changed since. Cite what CITATION.cff names. Rows hold no name of a
patient or of a photograph, and no path; whoever deposits them has to look at the report's pictures too.
"""
CONTENTS = {
    "report.html": "the report: figures, tables, verdicts, every run; needs no other file",
    "methods.en.md, methods.pt.md": "a methods paragraph, written from the rows, in English and Portuguese",
    "*.png, *.pdf": "the figures",
    "*.csv, *.tex": "the tables, and all rows as runs.csv",
    "rows/": "the rows as the runs left them, a JSON file each, the tables that they name, the study files",
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
    from dr_lib.figures.methods import describe_methods  # Matplotlib: a second to import

    if out.exists() and any(out.iterdir()):
        raise ReportError(f"{out} holds files already: give --deposit a new folder")
    page = write_report(folders, out, root, **choice)
    for folder in folders:
        _copy_rows(folder, out / "rows" / folder.resolve().name)
    rows = read_rows(out / "rows")
    for lang in ("en", "pt"):
        write_text(out / f"methods.{lang}.md", describe_methods(rows, lang))
    shutil.copy(root / "CITATION.cff", out)
    studies = sorted((out / "rows").glob("*.yaml"))
    about = {
        "title": re.search(r"<title>(.*?)</title>", page.read_text(encoding="utf-8"))[1],
        "contents": "\n".join(f"| {name} | {what} |" for name, what in CONTENTS.items()),
        "commit": ", ".join(sorted({row["commit"] for row in rows})) or "unknown",
        "rows": " ".join(f"rows/{folder.resolve().name}" for folder in folders),
        "again": "".join(
            f"python -m dr_lib run rows/{path.name}   # new runs, of a machine of yours\n" for path in studies
        ),
        "sums": SUMS,
    }
    write_text(out / "README.md", README.format(**about))
    files = sorted(path for path in out.rglob("*") if path.is_file())
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(out).as_posix()}\n" for path in files]
    write_text(out / SUMS, "".join(sums))
    return out / "README.md"


def _copy_rows(folder: Path, out: Path) -> None:
    """Copy rows and the tables that they name, and the study file without the folders of this machine."""
    for path in sorted(folder.rglob("rows/*.json")):
        study_dir = path.parent.parent
        named = [str(value) for value in read_row(path).values() if str(value).endswith(".csv")]
        for source in [path, *(study_dir / name for name in named if (study_dir / name).is_file())]:
            target = out / source.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    study = folder.resolve().with_suffix(".yaml")
    if study.is_file():
        write_text(out.with_suffix(".yaml"), redact_paths(study.read_text(encoding="utf-8")))
