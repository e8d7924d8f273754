"""Find the label files of a data set, read them all as one kind of row, and find the photographs of the rows."""

import csv
import os
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels.datasets import EYES, FOLDER, LAYOUTS, SPLITS, Layout, Part, find_eyes

PICTURES = {".jpg", ".jpeg", ".jfif", ".png", ".tif", ".tiff", ".bmp", ".ppm", ".webp"}
RARE_PICTURES = {".dcm", ".dicom", ".heic", ".heif", ".gif", ".jp2"}  # opening one tells if it is read
LABEL_FILES = {".csv", ".txt", ".xls"}


class LabelTableError(ValueError):
    """The label table or its photographs cannot be used as they are; the message says what to change."""


class Source(NamedTuple):
    """A label file that was found, and the expression for its photographs' folders (None: not there)."""

    part: Part
    labels: Path
    folder: str | None


def find_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """List the photographs and the label files below a folder, sorted, through links, without hidden files.

    Raises:
        LabelTableError: there are no photographs.
    """
    files: list[Path] = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__MACOSX" and not name.startswith(".")]
        files += [Path(parent, name) for name in names if not name.startswith(".")]
    photographs, label_files = (
        sorted(path for path in files if path.suffix.lower() in suffixes)
        for suffixes in (PICTURES | RARE_PICTURES, LABEL_FILES)
    )
    if not photographs:
        raise LabelTableError(f"no photographs under {folder}: they end in {', '.join(sorted(PICTURES))}")
    return photographs, label_files


def find_sources(
    label_files: list[Path], folders: list[str], *, layout: str = "auto", given: bool = False
) -> tuple[Layout, list[Source]]:
    """Recognise the data set by its label files and by the folders of its photographs.

    Args:
        label_files: the CSV, TXT and XLS files under the root, or the one that the user gave.
        folders: the folders that hold photographs, from the root's name on, each ending in a slash.
        layout: name of a layout, or auto.
        given: the user gave the label file: photographs may then lie in any folder, and the file may have
            any name if the layout is named.

    Returns:
        The layout (with a notice for each label file left out) and its label files.

    Raises:
        LabelTableError: no layout fits, several do, or the set cannot be used.
    """
    known = {known.name: known for known in (*LAYOUTS, FOLDER)}
    if layout not in ("auto", *known):
        raise LabelTableError(f"there is no layout {layout!r}: choose auto or one of {', '.join(known)}")
    steps = [LAYOUTS, (FOLDER,)] if layout == "auto" else [(known[layout],)]
    for any_name, anywhere in [(False, False)] + [(False, True), (layout != "auto", True)] * given:
        for layouts in steps:
            found = [(one, _find_parts(one, label_files, folders, any_name, anywhere)) for one in layouts]
            if found := [(one, sources) for one, sources in found if any(s.folder is not None for s in sources)]:
                return _the_only(found)
    if given:
        read_label_file(label_files[0])  # an empty file is to be called empty
    described = "; ".join(dict.fromkeys(map(_describe, label_files[:5])))  # without names: they may be patients'
    there = f"{len(label_files)} label file{'s'[: len(label_files) > 1]} ({described})"
    raise LabelTableError(
        f"no label table{'' if layout == 'auto' else f' of {layout}'} with photographs, only: "
        f"{there if label_files else 'no label file at all'}. Needed: the columns image and grade (patient, eye and "
        f"split where known), or the files of one of {', '.join(known)}"
    )


def _find_parts(
    layout: Layout, label_files: list[Path], folders: list[str], any_name: bool, anywhere: bool
) -> list[Source]:
    sources = []
    for part in layout.parts:
        folders_there = (f for f in part.folders if any(re.search(f, folder) for folder in folders))
        folder = "" if anywhere else next(folders_there, None)
        sources += [Source(part, path, folder) for path in label_files if _fits(part, path, any_name=any_name)]
    return sources[:1] if any_name else sources


def _describe(labels: Path) -> str:
    """List the columns, but not where the header is missing and they are a photograph's row."""
    columns = read_columns(labels) if labels.suffix.lower() != ".txt" else []
    is_row = any(re.fullmatch(r"[\d.]+", column) or _stem(column) != column.casefold() for column in columns)
    return "no header" if is_row or not columns else f"columns {', '.join(columns)}"


def _fits(part: Part, labels: Path, *, any_name: bool) -> bool:
    """Whether that file can be this part, by its name, its neighbours and its columns."""
    if not any_name and not re.search(f"(?i)(^|/){part.file}$", labels.as_posix()):
        return False
    columns = set(part.needs) if part.rewrite else {part.image, part.grade, *part.needs} - {""}
    return columns <= set(read_columns(labels)) and all((labels.parent / b).exists() for b in part.beside)


def _the_only(found: list[tuple[Layout, list[Source]]]) -> tuple[Layout, list[Source]]:
    if len(found) > 1:
        names = " and ".join(layout.name for layout, _ in found)
        raise LabelTableError(f"found the data sets {names}: say which one with layout=")
    layout, sources = found[0]
    if layout.refusal:
        raise LabelTableError(layout.refusal)
    used = [source for source in sources if source.folder is not None]
    if len({source.part.file for source in used}) < len(used):
        files = ", ".join(f"{s.labels.parent.name}/{s.labels.name}" for s in used)
        raise LabelTableError(f"found several label tables of {layout.name}: {files}. Say which with labels=")
    left_out = [f"{s.labels.name} was left out: its photographs are not there." for s in sources if s not in used]
    return layout._replace(notices=(*layout.notices, *left_out)), used


def read_rows(source: Source) -> pd.DataFrame:
    """Read a label file of any known layout as one kind of row.

    Returns:
        labels (the file's name), row (its line), name, patient, eye, grade, split, reason (empty, or why the row
        cannot be used) and from_names (patient and eye were read out of the names, for the file has no patients
        and all names have the form).

    Raises:
        LabelTableError: a row names no photograph, or an eye or split that there is not.
    """
    part, table = source.part, read_label_file(source.labels)
    table = part.rewrite(table) if part.rewrite else table.drop(columns="reason", errors="ignore")
    columns = {"name": part.image, "patient": part.patient, "eye": part.eye, "grade": part.grade}
    _refuse_other_patients(part.patient, list(table.columns))
    rows = pd.DataFrame({new: table.get(old, "") for new, old in columns.items()}, index=table.index)
    rows["split"] = part.split if part.split in SPLITS else table.get(part.split, "")
    rows["reason"] = table.get("reason", "")
    rows.insert(0, "row", table.index)
    rows.insert(0, "labels", source.labels.name)
    if not rows["name"].all():
        raise LabelTableError(f"{name_rows(rows[rows['name'] == ''])}: name the photograph, or take the row out")
    for column, words in (("eye", EYES), ("split", SPLITS)):
        plain = rows[column].str.lower().map(words)
        if plain.isna().any():
            choice = ", ".join(filter(None, dict.fromkeys(words.values())))
            raise LabelTableError(f"{name_rows(rows[plain.isna()])}: {column} must be {choice} or empty")
        rows[column] = plain
    if part.ungradable:
        column, number = part.ungradable
        rows.loc[pd.to_numeric(table[column], errors="coerce") == number, "reason"] = "ungradable"
    rows.loc[rows["grade"].str.lower().isin(["", "na", "nan"]) & (rows["reason"] == ""), "reason"] = "no grade"
    grades = pd.to_numeric(rows["grade"], errors="coerce")
    bad = rows[~grades.isin(range(5)) & (rows["reason"] == "")]
    if len(bad):
        raise LabelTableError(f"{name_rows(bad)}: the grade must be 0, 1, 2, 3 or 4, or empty where there is none")
    eyes = find_eyes(rows["name"])
    from_names = not rows["patient"].any() and bool(eyes["patient"].all())
    rows = rows.assign(grade=grades, from_names=from_names, **(eyes if from_names else {})).reset_index(drop=True)
    return rows.assign(patient=rows["patient"].map(_fold_name))


def read_label_file(labels: Path) -> pd.DataFrame:
    """Read a label file as text, without byte order mark, empty rows and unnamed columns.

    Args:
        labels: CSV with commas or semicolons and a header, or TXT with a name and a grade on each line.

    Returns:
        One column of str for each named column; the index is the line in the file, from 1.

    Raises:
        LabelTableError: the file has no rows, or is no text in UTF-8.
    """
    try:
        lines = labels.read_text(encoding="utf-8-sig").splitlines()
        rows = _read_pairs(lines) if labels.suffix.lower() == ".txt" else _read_csv(lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LabelTableError(f"{labels.name} cannot be read: save it as CSV in UTF-8") from error
    rows = {line: [cell.strip() for cell in row] for line, row in rows.items()}
    rows = {line: row for line, row in rows.items() if any(row)}
    if len(rows) < 2:
        raise LabelTableError(f"{labels.name} is empty: it needs a header and a row for each photograph")
    header, *cells = rows.values()
    columns = {name: i for i, name in enumerate(header) if name and name not in header[:i]}
    cells = [[row[i] if i < len(row) else "" for i in columns.values()] for row in cells]
    return pd.DataFrame(cells, columns=list(columns), index=list(rows)[1:], dtype=str)


def read_columns(labels: Path) -> list[str]:
    """Name the columns of a label file; a file that is no table has none."""
    try:
        return list(read_label_file(labels).columns)
    except LabelTableError:
        return []


def name_rows(rows: pd.DataFrame) -> str:
    """Name the label file and up to five row numbers, and never a photograph.

    Args:
        rows: columns labels (name of the file) and row.
    """
    listed = ", ".join(str(row) for row in rows["row"].head(5))
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"{', '.join(rows['labels'].unique())}, row{'s'[: len(rows) > 1]} {listed}{more}"


def match_photographs(rows: pd.DataFrame, pool: list[Path]) -> pd.DataFrame:
    """Add to the rows the file that each names; suffix, case and folder may be missing or differ.

    Args:
        rows: what `read_rows` returns.
        pool: paths of the photographs among which the rows' names are looked for.

    Returns:
        The rows with the column image (path, or empty, and then the reason "no such file").

    Raises:
        LabelTableError: a name fits several photographs.
    """
    by_stem: dict[str, list[Path]] = {}
    for path in pool:
        by_stem.setdefault(_stem(path.name), []).append(path)
    found = [_find_files(name.replace("\\", "/"), by_stem) for name in rows["name"]]
    several = rows[[len(files) > 1 for files in found]]
    if len(several):
        raise LabelTableError(f"{name_rows(several)}: several photographs have this name; add folder and suffix to it")
    rows = rows.assign(image=[str(files[0]) if files else "" for files in found])
    rows.loc[(rows["image"] == "") & (rows["reason"] == ""), "reason"] = "no such file"
    return rows


def _refuse_other_patients(wanted: str, columns: list[str]) -> None:
    """A column that must name the patients, by another word than `patient`, is not passed over."""
    others = [c for c in columns if re.fullmatch(r"(?i)(patient|paciente|subject)s?([ _-]?(id|name|nome))?", c)]
    if wanted == "patient" and others and wanted not in columns:
        raise LabelTableError(f"the column {others[0]} is not read: call it patient, so that no one is in two splits")


def _fold_name(name: str) -> str:
    """One patient written in two ways is one patient: case, blanks, invisible and composed characters do not count."""
    letters = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join("".join(c for c in letters if unicodedata.category(c) != "Cf").split())


def _read_csv(lines: list[str]) -> dict[int, list[str]]:
    header = lines[0] if lines else ""
    delimiter = ";" if ";" in header and "," not in header else ","  # as spreadsheets write it in Brazil
    reader = csv.reader(lines, delimiter=delimiter)
    rows = {}
    for row in reader:
        rows[reader.line_num] = row
    return rows


def _read_pairs(lines: list[str]) -> dict[int, list[str]]:
    return {0: ["image", "grade"]} | {n: line.rsplit(maxsplit=1) for n, line in enumerate(lines, 1)}


def _stem(name: str) -> str:
    """The name without a picture's suffix, whatever its case; 1.2 is not suffix 2 of name 1."""
    base, suffix = os.path.splitext(name)
    return (base if suffix.lower() in PICTURES | RARE_PICTURES else name).casefold()


def _find_files(name: str, by_stem: dict[str, list[Path]]) -> list[Path]:
    folder, _, last = name.removeprefix("./").rpartition("/")
    files = by_stem.get(_stem(last), [])
    if folder:
        ending = "/" + _stem(name.removeprefix("./").lstrip("/"))
        files = [path for path in files if _stem(path.absolute().as_posix()).endswith(ending)]
    named = [path for path in files if path.name.casefold() == last.casefold()]
    return named or [path for path in files if path.suffix.lower() in PICTURES] or files
