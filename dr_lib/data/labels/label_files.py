"""Find the label files of a data set and read them in one row format."""

import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.data.labels.datasets import Part, read_parts
from dr_lib.data.labels.grades import GRADES
from dr_lib.data.labels.reader import (
    TABLES,
    Sheet,
    read_numbers,
    read_sheet,
    refuse_cells,
    refuse_rows,
    take_columns,
)
from dr_lib.data.labels.schema import FACTS, SCALE, SIDES, read_words
from dr_lib.errors import DrError
from dr_lib.files import is_foreign

PICTURES = set(".jpg .jpeg .jpe .jfif .png .tif .tiff .bmp .pgm .ppm .webp".split())
# opening one shows whether it is read
RARE_PICTURES = {".dcm", ".dicom", ".heic", ".heif", ".gif", ".jp2"}
# of a table of the user's own
OWN = {"image_id", "patient_id", "grade", "gradable", "eye", "split", *FACTS}
# of what may not be a word of one's own
ALLOWED = {"eye": ("left", "right"), "split": SIDES, "gradable": ("1", "0")}
# how a file of a picture begins, whatever its name: JPEG, PNG, TIFF, BMP, WebP, GIF, PPM, HEIC,
# JPEG 2000, DICOM
PICTURE_START = re.compile(
    rb"\xff\xd8\xff|\x89PNG|II[*+]\0|MM\0[*+]|BM.{4}\0{4}|RIFF.{4}WEBP|GIF8|P[1-6]\s"
    rb"|.{4}ftyp(hei|hev|mif|avi)|\0{3}\x0cj[Pp]|.{128}DICM",
    re.DOTALL,
)


class Source(NamedTuple):
    """A label file that was found."""

    part: Part
    path: Path
    sheet: Sheet
    photographs: list[Path]  # that it may name


def find_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """List photographs and label files below a folder, sorted; follow links and skip hidden files.

    A file is a photograph by its suffix, or whatever its suffix by its first bytes.

    Raises:
        DrError: there are no photographs.
    """
    photographs = []
    label_files = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = filterfalse(is_foreign, folders)
        for name in filterfalse(is_foreign, names):
            path = Path(parent, name)
            suffix = path.suffix.lower()
            if suffix in TABLES:
                label_files.append(path)
            elif suffix in PICTURES | RARE_PICTURES or PICTURE_START.match(read_start(path)):
                photographs.append(path)
    if not photographs:
        raise DrError(
            f"no photographs under {folder}: give the folder that holds JPEG, PNG or TIFF files"
        )
    return sorted(photographs), sorted(label_files)


def read_start(path: Path) -> bytes:
    """Read the first bytes of a file, by which pictures are known; none where it cannot be read."""
    try:
        if not path.is_file():  # a pipe would keep its reader waiting
            return b""
        with path.open("rb") as file:
            return file.read(132)
    except OSError:
        return b""


def find_sources(
    images: Path, labels: Path | None, title: str = "", columns: Sequence[str] = ()
) -> tuple[list[Source], list[str]]:
    """Recognise the data set by its label files and by the folders of its photographs.

    Args:
        images: the root, resolved.
        labels: the label file, whose photographs may lie in any folder; None looks for some.
        title, columns: of `read_sheet`; with one of them it is no public data set.

    Returns:
        Its label files, and sentences to show the user.

    Raises:
        DrError: no layout fits, or several do, or the file that was given cannot be read.
    """
    photographs, label_files = find_files(images)
    folders = {
        path: f"{path.parent.relative_to(images.parent).as_posix()}/" for path in photographs
    }
    tables = {}
    faults = []
    for path in [labels] if labels else label_files:
        try:
            tables[path] = read_sheet(path, title, columns)
        except DrError as error:  # as of a table of other things
            faults.append(error)
    *public, own = read_parts()
    for parts in ([own],) if title or columns else (public, [own]):
        fitting = [
            Source(part, path, sheet, _choose_folder(part, folders))
            for part in parts
            for path, sheet in tables.items()
            if re.search(f"(?i)(^|/){part.file}$", path.as_posix())
            and part.columns <= {*sheet.names}
        ]
        used = [source for source in fitting if source.photographs]
        if labels and not used:
            used = [source._replace(photographs=photographs) for source in fitting]
        layouts = {source.part.layout for source in used}
        if len(layouts) > 1 or len({source.part for source in used}) < len(used):
            files = ", ".join(
                f"{s.path.parent.name}/{s.path.name} ({s.part.layout})" for s in used
            )
            raise DrError(
                f"found several label tables: {files}. Choose one with --labels, or give the folder"
                " of one data set"
            )
        if used:
            said = [f"Tables beside it that cannot be read: {len(faults)}."]
            return used, said if faults else []
    if faults:
        raise faults[0]
    # of a table without one of our columns the first line may name people
    headers = [sheet.header for sheet in tables.values() if own.columns & {*sheet.names}]
    raise DrError(
        f"no label table matches the photographs; label files found: {len(tables)}. A label table "
        "needs the columns image and grade (optionally patient, eye and split): rename yours, or"
        " choose them with --labels, --column image=NAME and --column grade=NAME; or give the files"
        f" of a data set of docs/photographs.md. Headers with one of the two: {headers or 'none'}"
    )


def _choose_folder(part: Part, folders: Mapping[Path, str]) -> list[Path]:
    """Choose the photographs in folders of the first of the part's expressions that has some."""
    for expression in part.folders.split(";"):
        found = [path for path, folder in folders.items() if re.search(expression, folder)]
        if found:
            return found
    return []


def count_sample(folder: Path) -> int:
    """Count the photographs that `synthetic.draw_sample` draws into a folder; 0 if it is another's.

    A file sample.json of somebody else must not make photographs synthetic.
    """
    try:
        note = json.loads((folder / "sample.json").read_text(encoding="utf-8"))
        is_ours = note["data_kind"] == "synthetic" and note["seed"] is not None
        return 2 * int(note["num_patients"]) * is_ours
    except (OSError, ValueError, TypeError, KeyError):
        return 0


def read_rows(source: Source) -> pd.DataFrame:
    """Read a label file of any known data set in one row format.

    Returns:
        labels (the file's name), row (its line), name, patient, eye, grade, official, camera, age,
        sex, quality, visit, and reason (empty, or why the row cannot be used).

    Raises:
        DrError: a row holds what it may not hold.
    """
    part, path, sheet, _ = source
    used = [*part.columns | OWN]
    table = take_columns(sheet, used).reindex(columns=used, fill_value="")
    names = table[part.image]
    if part.eye:
        table["eye"] = names.str.contains(part.eye).map({True: "left", False: "right"})
    if part.split:
        table["split"] = part.split
    for column, allowed in ALLOWED.items():
        is_bad = ~table[column].isin([*allowed, ""])
        refuse_cells(path.name, table[column], is_bad, f"{', '.join(allowed)} or empty")
    left, _, right = part.grade.partition(";")
    other = table[right or left]
    grade = table[left].where(table["eye"] == "left", other).rename("grade")
    is_other = (grade == "") & (table[left] != other)
    grade = read_words("grade", grade)
    numbers = read_numbers(grade)
    is_ungradable = (table["gradable"] == "0") | (numbers == float(part.ungradable or "nan"))
    is_bad = ~numbers.isin(range(len(GRADES))) & (grade != "") & ~is_ungradable
    refuse_cells(path.name, grade, is_bad, SCALE)
    reasons = ["ungradable", "the name is of one eye, the grade of the other", "no grade"]
    return table[[*FACTS, "eye"]].assign(
        labels=path.name,
        row=table.index,
        name=names,
        patient=table["patient_id"],
        grade=numbers,
        official=table["split"],
        reason=np.select([is_ungradable, is_other, grade == ""], reasons, ""),
    )


def refuse(rows: pd.DataFrame, is_bad: pd.Series, words: str) -> None:
    """Raise a DrError that names the first wrong rows, but no photograph."""
    refuse_rows(", ".join(rows["labels"].unique()), is_bad.set_axis(rows["row"]), words)


def cut_suffix(name: str) -> str:
    """Lower a name's case, compose its letters and cut a picture's suffix; 1.2 is not name 1 with
    suffix 2.
    """
    base, suffix = os.path.splitext(name)
    name = base if suffix.lower() in PICTURES | RARE_PICTURES else name
    return unicodedata.normalize("NFC", name).casefold().strip()
