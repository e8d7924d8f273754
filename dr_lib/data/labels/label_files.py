"""Find the label files of a data set and read them all as one kind of row."""

import os
import re
import unicodedata
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels.datasets import EYES, SPLITS, Part, grade_keywords, read_names, read_parts
from dr_lib.data.labels.grades import GRADES
from dr_lib.data.labels.schema import FACTS
from dr_lib.files import read_csv

PICTURES = {".jpg", ".jpeg", ".jfif", ".png", ".tif", ".tiff", ".bmp", ".ppm", ".webp"}
# opening one tells if it is read
RARE_PICTURES = {".dcm", ".dicom", ".heic", ".heif", ".gif", ".jp2"}
LABEL_FILES = {".csv", ".txt", ".xls"}
# as DeepDRiD and mBRSET call them
FACTS_ELSEWHERE = {"quality": ("Overall quality", "final_quality")}
# its marks in the words of BRSET: elsewhere 0 is the best of quality
DEEPDRID = {"1": "Adequate", "0": "Inadequate"}


class LabelTableError(ValueError):
    """The label table or its photographs cannot be used as they are; the message says what to
    change.
    """


class Source(NamedTuple):
    """A label file that was found."""

    part: Part
    path: Path
    table: pd.DataFrame  # all its columns, as text; the index is the line in the file
    folder: str | None  # expression for its photographs' folders; None: they are not there


def find_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """List the photographs and the label files below a folder, sorted, through links, without
    hidden files.

    Raises:
        LabelTableError: there are no photographs.
    """
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__MACOSX" and not name.startswith(".")]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    photographs = sorted(path for path in files if path.suffix.lower() in PICTURES | RARE_PICTURES)
    label_files = sorted(path for path in files if path.suffix.lower() in LABEL_FILES)
    if not photographs:
        raise LabelTableError(
            f"no photographs under {folder}: they end in {', '.join(sorted(PICTURES))}"
        )
    return photographs, label_files


def find_sources(
    label_files: list[Path], folders: list[str], *, layout: str = "auto", is_given: bool = False
) -> tuple[str, list[Source], list[str]]:
    """Recognise the data set by its label files and by the folders of its photographs.

    Args:
        label_files: the CSV, TXT and XLS files under the root, or the one that the user gave.
        folders: the folders that hold photographs, from the root's name on, each ending in a slash.
        layout: name of a layout, or auto.
        is_given: the user gave the label file: photographs may then lie in any folder, and the file
            may have any name if the layout is named.

    Returns:
        The layout's name, its label files, and sentences to show the user.

    Raises:
        LabelTableError: no layout fits, several do, or the set cannot be used.
    """
    layouts = list(dict.fromkeys(part.layout for part in read_parts()))
    if layout not in ("auto", *layouts):
        raise LabelTableError(
            f"there is no layout {layout!r}: choose auto or one of {', '.join(layouts)}"
        )
    *known, own = (part for part in read_parts() if layout in ("auto", part.layout))
    steps = [known, [own]] if layout == "auto" else [[*known, own]]

    @cache  # a file fits several layouts by its name
    def read(path: Path) -> pd.DataFrame:
        with suppress(LabelTableError):
            return read_label_file(path)
        return pd.DataFrame()

    for any_name, anywhere in [(False, False)] + [
        (False, True),
        (layout != "auto", True),
    ] * is_given:
        for parts in steps:
            found = [
                Source(part, path, read(path), "" if anywhere else _find_folder(part, folders))
                for part in parts
                for path in label_files
                if (any_name or _has_name(part, path)) and part.columns <= set(read(path))
            ]
            if any(source.folder is not None for source in found):
                return _choose_layout(found[:1] if any_name else found)
    if is_given:
        read_label_file(label_files[0])  # an empty file is to be called empty
    for path in label_files:
        columns = set(read(path))
        if columns & own.columns and not any(
            part.columns and part.columns <= columns for part in read_parts()
        ):
            missing = ", ".join(sorted(own.columns - columns))
            raise LabelTableError(
                f"{path.name}: missing: {missing}; it has the columns {', '.join(read(path))}"
            )
    # names of files may be those of patients
    described = (
        "; ".join(dict.fromkeys(_describe(path, read(path)) for path in label_files[:5])) or "none"
    )
    raise LabelTableError(
        f"no label table with photographs for layout {layout}; label files found:"
        f" {len(label_files)} ({described}). Needed: the columns image and grade (patient, eye and"
        f" split where known), or the files of one of {', '.join(layouts)}"
    )


def _find_folder(part: Part, folders: list[str]) -> str | None:
    """Find the best of the part's expressions that some folder of photographs fits."""
    return next(
        (
            one
            for one in part.folders.split(";")
            if any(re.search(one, folder) for folder in folders)
        ),
        None,
    )


def _has_name(part: Part, path: Path) -> bool:
    """Whether the file can be this part by its name and its neighbours."""
    is_named = re.search(f"(?i)(^|/){part.file}$", path.as_posix())
    return bool(is_named) and all((path.parent / name).exists() for name in part.beside.split(";"))


def _describe(path: Path, table: pd.DataFrame) -> str:
    """List the columns, but not where the header is missing and they are a photograph's row."""
    columns = list(table) if path.suffix.lower() != ".txt" else []
    is_row = any(
        re.fullmatch(r"[\d.]+", column) or cut_suffix(column) != column.casefold()
        for column in columns
    )
    return "no header" if is_row or not columns else f"columns {', '.join(columns)}"


def _choose_layout(found: list[Source]) -> tuple[str, list[Source], list[str]]:
    """See that the label files with photographs are those of one data set, each of them once."""
    used = [source for source in found if source.folder is not None]
    layout, *others = dict.fromkeys(source.part.layout for source in used)
    if others:
        raise LabelTableError(
            f"found the data sets {' and '.join([layout, *others])}: say which one with layout="
        )
    if used[0].part.refusal:
        raise LabelTableError(used[0].part.refusal)
    if len({source.part for source in used}) < len(used):
        files = ", ".join(f"{s.path.parent.name}/{s.path.name}" for s in used)
        raise LabelTableError(
            f"found several label tables of {layout}: {files}. Say which with labels="
        )
    missing = [s for s in found if s.part.layout == layout and s.folder is None]
    notices = [*dict.fromkeys(s.part.notice for s in used if s.part.notice)]
    return (
        layout,
        used,
        notices + [f"{s.path.name} is not used: its photographs are not there." for s in missing],
    )


def read_rows(source: Source) -> pd.DataFrame:
    """Read a label file of any known data set as one kind of row; what a row may not hold is a
    LabelTableError.

    Returns:
        labels (the file's name), row (its line), name, patient, eye, grade, official, camera, age,
        sex, quality, reason (empty, or why the row cannot be used) and from_names (patient and eye
        were read from the name, for the row names no patient and the name has the form).
    """
    part = source.part
    table = source.table
    others = [
        c
        for c in table
        if re.fullmatch(r"(?i)(patient|paciente|subject)s?([ _-]?(id|name|nome))?", c)
    ]
    if others and not part.patient and "patient" not in table:  # not passed over
        raise LabelTableError(
            f"the column {others[0]} is not read: call it patient, so that no one is in two splits"
        )
    rows = pd.DataFrame(
        {"labels": source.path.name, "row": table.index, "name": table[part.image]}, table.index
    )
    rows["patient"] = table.get(part.patient or "patient", "")
    rows["eye"] = table.get(part.eye or "eye", "")
    if part.eye.startswith("~"):
        rows["eye"] = rows["name"].str.contains(part.eye[1:]).map({True: "left", False: "right"})
    left, _, right = part.grade.partition(";")
    rows["grade"] = table[left].where(rows["eye"] == "left", table[right]) if right else table[left]
    rows["official"], rows["reason"] = part.split or table.get("split", ""), ""
    for fact in FACTS:
        names = (fact, f"patient_{fact}", *FACTS_ELSEWHERE.get(fact, ()))
        found = next((name for name in names if name in table), "")
        rows[fact] = (
            table[found].replace(DEEPDRID if found == "Overall quality" else {}) if found else ""
        )
    if not rows["name"].all():
        raise LabelTableError(
            f"{name_rows(rows[rows['name'] == ''])}: name the photograph, or take the row out"
        )
    for column, words in (("eye", EYES), ("official", SPLITS)):
        plain = rows[column].str.lower().map(words)
        if plain.isna().any():
            choice = ", ".join(filter(None, dict.fromkeys(words.values())))
            raise LabelTableError(
                f"{name_rows(rows[plain.isna()])}: {column.replace('official', 'split')} must be"
                f" {choice} or empty"
            )
        rows[column] = plain
    if "Keywords" in part.grade:
        rows[["grade", "reason"]] = [grade_keywords(keywords) for keywords in rows["grade"]]
    if part.ungradable:
        column, _, number = part.ungradable.rpartition("=")
        marks = pd.to_numeric(table[column] if column else rows["grade"], errors="coerce")
        rows.loc[marks == int(number), "reason"] = "ungradable"
    rows.loc[
        rows["grade"].str.lower().isin(["", "na", "nan"]) & (rows["reason"] == ""), "reason"
    ] = "no grade"
    grades = pd.to_numeric(rows["grade"], errors="coerce")
    bad = rows[~grades.isin(range(5)) & (rows["reason"] == "")]
    if len(bad):
        scale = ", ".join(f"{number} {name}" for number, name in enumerate(GRADES))
        raise LabelTableError(
            f"{name_rows(bad)}: the grade must be a number ({scale}), or empty where there is none"
        )
    named = read_names(rows["name"])
    from_names = (named["patient"] != "") & (rows["patient"] == "")
    rows["patient"] = rows["patient"].mask(from_names, named["patient"]).map(_fold_name)
    rows["eye"] = rows["eye"].mask(from_names, named["eye"])
    return rows.assign(grade=grades, from_names=from_names).reset_index(drop=True)


def read_label_file(labels: Path) -> pd.DataFrame:
    """Read a label file as text, without byte order mark, empty rows and unnamed columns.

    Args:
        labels: CSV with commas or semicolons and a header, or TXT with a name and a grade on each
            line.

    Returns:
        One column of str for each named column; the index is the line in the file, from 1.

    Raises:
        LabelTableError: the file has no rows, or is no text in UTF-8.
    """
    try:
        if labels.suffix.lower() == ".txt":
            lines = labels.read_text(encoding="utf-8-sig").splitlines()
            rows = {n: line.rsplit(maxsplit=1) for n, line in enumerate(lines, 1)}
            rows = {0: ["image", "grade"]} | {n: row for n, row in rows.items() if row}
        else:
            rows = read_csv(labels)
    except (OSError, ValueError) as error:
        raise LabelTableError(f"{labels.name} cannot be read: save it as CSV in UTF-8") from error
    if len(rows) < 2:
        raise LabelTableError(
            f"{labels.name} is empty: it needs a header and a row for each photograph"
        )
    header, *cells = rows.values()
    columns = {name: i for i, name in enumerate(header) if name and name not in header[:i]}
    cells = [[row[i] if i < len(row) else "" for i in columns.values()] for row in cells]
    return pd.DataFrame(cells, columns=list(columns), index=list(rows)[1:], dtype=str)


def name_rows(rows: pd.DataFrame, limit: int | None = 5) -> str:
    """Name the label file and so many row numbers, of the columns labels and row, and never a
    photograph.
    """
    listed = ", ".join(str(row) for row in rows["row"][:limit])
    more = f" and {len(rows) - limit} more" if limit and len(rows) > limit else ""
    return f"{', '.join(rows['labels'].unique())}, row{'s'[: len(rows) > 1]} {listed}{more}"


def cut_suffix(name: str) -> str:
    """Give the name in lower case and without a picture's suffix; 1.2 is not suffix 2 of name 1."""
    base, suffix = os.path.splitext(name)
    return (base if suffix.lower() in PICTURES | RARE_PICTURES else name).casefold()


def _fold_name(name: str) -> str:
    """One patient written in two ways is one patient: case, blanks, invisible and composed
    characters do not count.
    """
    letters = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join("".join(c for c in letters if unicodedata.category(c) != "Cf").split())
