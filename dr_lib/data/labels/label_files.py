"""Find the label files of a data set and read them in one row format."""

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels import reader
from dr_lib.data.labels.datasets import Part, read_names, read_parts
from dr_lib.data.labels.patients import (
    FILES,
    PATIENTS,
    find_shared,
    limit_photographs,
    name_patients,
)
from dr_lib.data.labels.reader import (
    TEXTS,
    WORKBOOKS,
    Sheet,
    choose_sheet,
    read_numbers,
    read_sheets,
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
OWN = {"image", "grade", "gradable", "eye", "split", *FACTS, *PATIENTS}
# how a file of a picture begins, whatever its name: JPEG, PNG, TIFF, BMP, WebP, GIF, PPM, HEIC,
# JPEG 2000, DICOM
PICTURE_START = re.compile(
    rb"\xff\xd8\xff|\x89PNG|II[*+]\0|MM\0[*+]|BM.{4}\0{4}|RIFF.{4}WEBP|GIF8|P[1-6]\s"
    rb"|.{4}ftyp(hei|hev|mif|avi)|\0{3}\x0cj[Pp]|.{128}DICM",
    re.DOTALL,
)


class LabelTableError(DrError):
    """The label table or its photographs are unusable; the message says what to change."""


class Source(NamedTuple):
    """A label file that was found."""

    part: Part
    path: Path
    sheet: Sheet  # with the names that are used
    folder: str | None  # expression for its photographs' folders; None: they are not there


def find_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """List photographs and label files below a folder, sorted; follow links and skip hidden files.

    A file is a photograph by its suffix, or whatever its suffix by its first bytes.

    Raises:
        LabelTableError: there are no photographs.
    """
    photographs = []
    label_files = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = filterfalse(is_foreign, folders)
        for path in [Path(parent, name) for name in filterfalse(is_foreign, names)]:
            if path.suffix.lower() in PICTURES | RARE_PICTURES:
                photographs.append(path)
            elif path.suffix.lower() in TEXTS + WORKBOOKS:
                label_files.append(path)
            elif PICTURE_START.match(read_start(path)):
                photographs.append(path)
    if not photographs:
        raise LabelTableError(
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
    label_files: list[Path],
    folders: Iterable[str],
    *,
    is_given: bool = False,
    title: str = "",
    columns: Sequence[str] = (),
) -> tuple[list[Source], list[str]]:
    """Recognise the data set by its label files and by the folders of its photographs.

    A CSV of the user's own comes before other texts and workbooks.

    Args:
        label_files: the texts and workbooks under the root, or the one that the user gave.
        folders: the folders that hold photographs, from the root's name on, each ending in a slash.
        is_given: the user gave the label file: photographs may then lie in any folder.
        title: of the sheet to read, of a workbook.
        columns: of the user's own table, of `read_sheets`; it is then no public data set.

    Returns:
        Its label files, and sentences to show the user.

    Raises:
        DrError: no layout fits, or several do, or the file that was given cannot be read.
    """
    tables = {}
    faults = []
    for path in label_files:
        try:
            tables[path] = read_sheets(path, title, columns)
        except DrError as error:
            faults.append(error)
    if faults and is_given:
        raise faults[0]
    *public, csv, others = read_parts()
    stages = [[] if title or columns else public, [csv], [others]]
    # of a file that the user gave, with photographs anywhere, too
    for anywhere in (False, True)[: 1 + is_given]:
        for parts in stages:
            found = [
                _find_table(part, path, sheets, "" if anywhere else _find_folder(part, folders))
                for part in parts
                for path, sheets in tables.items()
            ]
            sources = [source for source in found if source]
            if any(source.folder is not None for source in sources):
                used, notices = _choose_layout(sources)
                if faults:
                    notices.append(f"Tables beside it that cannot be read: {len(faults)}.")
                return used, notices
    raise LabelTableError(_explain(tables, faults))


def _find_table(
    part: Part, path: Path, sheets: list[Sheet], folder: str | None
) -> Source | None:
    """Find the table of a file that has the name and the columns of a part."""
    if not re.search(f"(?i)(^|/){part.file}$", path.as_posix()):
        return None
    sheets = [sheet._replace(names=_name(sheet, part)) for sheet in sheets]
    found = [sheet for sheet in sheets if part.columns <= set(sheet.names)]
    if part.layout == "sample":  # all its photographs
        found = [sheet for sheet in found if len(sheet.rows) == count_sample(path.parent)]
    sheet = choose_sheet(sheets, found)
    return Source(part, path, sheet, folder) if sheet else None


def _name(sheet: Sheet, part: Part) -> list[str]:
    """Name the columns that are used: of a public data set as they are, else by our words."""
    names = sheet.header
    if part.layout == "folder":
        names = ["image" if name == "image_id" else name for name in sheet.names]
    used = {*part.columns, *OWN, *(f"patient_{fact}" for fact in FACTS)}
    return [name if name in used else "" for name in names]


def _find_folder(part: Part, folders: Iterable[str]) -> str | None:
    """Find the first of the part's expressions that a folder of photographs matches."""
    for expression in part.folders.split(";"):
        if any(re.search(expression, folder) for folder in folders):
            return expression
    return None


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


def _explain(tables: Mapping[Path, list[Sheet]], faults: list[DrError]) -> str:
    """Explain why no label file is usable; quote only a file whose header has one of our
    columns, as it stands there.
    """
    *public, own = read_parts()
    for sheet in [sheet for sheets in tables.values() for sheet in sheets]:
        missing = sorted(own.columns - set(_name(sheet, own)))
        if len(missing) == 1:
            columns = ", ".join(filter(None, sheet.header))
            return (
                f"{sheet}: missing: {missing[0]}; it has the columns {columns}: rename one, or"
                f" choose it, such as --column {missing[0]}=NAME"
            )
    if faults:
        return str(faults[0])
    layouts = ", ".join(dict.fromkeys(part.layout for part in public))
    return (
        f"no label table matches the photographs; label files found: {len(tables)}. A label "
        "table needs the columns image and grade (optionally patient, eye and split); or "
        f"give the files of one of {layouts}"
    )


def _choose_layout(sources: list[Source]) -> tuple[list[Source], list[str]]:
    """Check that the label files with photographs belong to one data set, each found once."""
    used = [source for source in sources if source.folder is not None]
    layouts = list(dict.fromkeys(source.part.layout for source in used))
    if len(layouts) > 1:
        raise LabelTableError(
            f"found the data sets {' and '.join(layouts)}: give the folder of one of them, or "
            "--labels"
        )
    if len({source.part for source in used}) < len(used):
        files = ", ".join(f"{s.path.parent.name}/{s.path.name}" for s in used)
        raise LabelTableError(
            f"found several label tables of {layouts[0]}: {files}. Choose one with --labels"
        )
    notices = [*dict.fromkeys(source.part.notice for source in used if source.part.notice)]
    for source in sources:
        if source.part.layout == layouts[0] and source.folder is None:
            notices.append(f"{source.path.name} is not used: its photographs are missing.")
    for source in used:
        if source.sheet.encoding not in ("", "utf-8-sig"):
            notices.append(
                f"{source.sheet} is not UTF-8 and was read as {source.sheet.encoding}."
            )
    return used, notices


def read_rows(source: Source) -> tuple[pd.DataFrame, list[str]]:
    """Read a label file of any known data set in one row format.

    Returns:
        labels (the file's name), row (its line), name, patient, eye, grade, official, camera, age,
        sex, quality, visit, reason (empty, or why the row cannot be used), and those of
        `patients.name_patients`; and sentences to show the user.

    Raises:
        LabelTableError: a row holds what it may not hold.
    """
    part = source.part
    file = source.path.name
    table = take_columns(source.sheet)
    rows = pd.DataFrame(
        {
            "labels": file,
            "row": table.index,
            "name": table[part.image],
            "eye": table.get(part.eye or "eye", ""),
            "official": part.split or table.get("split", ""),
            "reason": "",
        },
        table.index,
    )
    if part.eye.startswith("~"):
        is_left = rows["name"].str.contains(part.eye[1:])
        rows["eye"] = is_left.map({True: "left", False: "right"})
    left, _, right = part.grade.partition(";")
    rows["grade"] = table[left].where(rows["eye"] == "left", table[right or left])
    is_other = (rows["grade"] == "") & (table[left] != table[right or left])
    rows.loc[is_other, "reason"] = "the name is of one eye, the grade of the other"
    for fact in FACTS:
        rows[fact] = table.get(fact, table.get(f"patient_{fact}", ""))
    refuse_rows(file, rows["name"] == "", "name the photograph, or remove the row")
    for name, column, ours in (("eye", "eye", ("left", "right")), ("split", "official", SIDES)):
        cells = read_words(name, rows[column].rename(name))
        is_bad = ~cells.isin([*ours, ""])
        refuse_cells(file, cells, is_bad, f"{', '.join(ours)} or empty")
        rows[column] = cells
    if part.ungradable:
        column, _, number = part.ungradable.rpartition("=")
        marks = pd.to_numeric(table[column] if column else rows["grade"], errors="coerce")
        rows.loc[marks == int(number), "reason"] = "ungradable"
    if "gradable" in table:
        cells = read_words("gradable", table["gradable"])
        marks = read_numbers(cells)
        refuse_cells(file, cells, (cells != "") & ~marks.isin((0, 1)), "1, 0 or empty")
        rows["reason"] = rows["reason"].mask(marks == 0, "ungradable")
    cells = read_words("grade", rows["grade"])
    rows.loc[(cells == "") & (rows["reason"] == ""), "reason"] = "no grade"
    rows["grade"] = read_numbers(cells)
    is_bad = ~rows["grade"].isin(range(5)) & (rows["reason"] == "")
    refuse_cells(file, cells, is_bad, SCALE)
    names = read_names(rows["name"])
    titles = dict(zip(source.sheet.names, source.sheet.header, strict=True))
    patients, doubts = name_patients(table, names["patient"], titles)
    most = limit_photographs(len(rows))
    refuse_rows(
        file,
        find_shared(patients["cell"]) & (patients["patient"] == ""),
        f"one patient has more than {most} of {len(rows)} photographs, and no person has so many:"
        " leave the cell empty where the patient is unknown; of one person keep at most"
        f" {most} photographs",
    )
    notices = [
        f"{reader.name_rows(file, places.tolist())}: {doubt}."
        for doubt, places in doubts.items()
        if len(places)
    ]
    rows["eye"] = rows["eye"].mask(patients["by"] == FILES, names["eye"])
    return rows.join(patients).reset_index(drop=True), notices


def name_rows(rows: pd.DataFrame, limit: int | None = 5) -> str:
    """Name the label file and some row numbers (columns labels and row), but no photograph."""
    return reader.name_rows(", ".join(rows["labels"].unique()), rows["row"].tolist(), limit)


def cut_suffix(name: str) -> str:
    """Lower a name's case, compose its letters and cut a picture's suffix; 1.2 is not name 1 with
    suffix 2.
    """
    base, suffix = os.path.splitext(name.strip())
    name = base if suffix.lower() in PICTURES | RARE_PICTURES else name
    return unicodedata.normalize("NFC", name).casefold().strip()
