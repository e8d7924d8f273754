"""Read the label table of a folder of photographs, match it with the photographs and check it."""

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels.label_files import (
    OWN,
    Source,
    count_sample,
    cut_suffix,
    find_sources,
    read_rows,
    refuse,
)
from dr_lib.data.labels.patients import COLUMN, FILES, add_people, number_visits
from dr_lib.data.labels.reader import name_rows
from dr_lib.data.labels.schema import FACTS
from dr_lib.errors import DrError

UNKNOWN = (
    "The patient is unknown for {} of {} photographs, so fellow eyes may be on different sides of a"
    " split. Add a column patient to the label table: file names give it only as PATIENT_EYE, such"
    " as 12_left.jpg, if no date and not another for each photograph; words for unknown, rounded"
    " numbers as 1.2E+15 and a PatientID that several people share are none."
)


class Labels(NamedTuple):
    """A data set's photographs with their labels, and those that cannot be used.

    The table has a row per photograph: row (line of its label file, the header being line 1), image
    (path), file (the path below the folder), patient (the file where unknown), eye (left, right or
    empty), grade (0-4), official (train, validation, test; empty where the data set ships no
    split), and, where known, camera, age, sex and quality as the label file has them, and visit (0,
    1 ... of each patient).
    """

    table: pd.DataFrame
    unusable: pd.DataFrame  # row (0: the photograph has no label), image, reason
    layout: str  # of `datasets`, or sample
    notices: list[str]  # sentences that the prepared folder may keep: they name nothing
    said: list[str]  # sentences for the user alone
    unused: list[str]  # titles of columns of the user's own table, which may name people


def read_labels(
    images: Path,
    labels: Path | None = None,
    *,
    sheet: str = "",
    columns: Sequence[str] = (),
) -> Labels:
    """Read the labels of a folder of photographs or of a known data set; no pixels are read.

    A CSV has the columns image and grade, and patient, eye and split where known; `image` may lack
    its suffix or its folder, and differ in suffix and case from the file. What it lacks of patient,
    eye and visit comes from DICOM files; or patient and eye from file names that are like
    10_left.jpg.

    Args:
        images: folder of the photographs, or root of a data set; photographs may lie in subfolders.
        labels: the label file; None looks for those of a known data set, or a table as above, under
            `images`.
        sheet: the sheet of a workbook, where several have the columns.
        columns: which column of the table is ours, by its name or its number from 1: grade=Grau.

    Returns:
        The labels; photographs in them are in the order of the label file.

    Raises:
        DrError: something does not fit; the message names label file and rows, never a photograph.
    """
    images = Path(images).resolve()
    if not images.is_dir():
        raise DrError(f"no folder {images}: give the folder that holds the photographs")
    sources, said = find_sources(images, labels, sheet, columns)
    part, path, first, _ = sources[0]
    is_own = part.layout == "folder"
    rows = pd.concat([_match_photographs(source) for source in sources], ignore_index=True)
    if (rows["reason"] != "").all():
        raise DrError(
            f"no row of {', '.join(rows['labels'].unique())} can be used:"
            f" {rows['reason'].value_counts().to_dict()}; check that the photographs are "
            f"under {images}, in the folders that the table names, and correct names with a prefix,"
            " links, and zeros that a spreadsheet dropped"
        )
    _mark_repeats(rows)
    by = add_people(rows)
    if is_own and by == FILES:
        _check_folders(rows)
    photographs = {str(path) for source in sources for path in source.photographs}
    others = sorted(photographs - {*rows["image"]})
    without = pd.DataFrame({"row": 0, "image": others, "reason": "no label"})
    rows["image"] = rows["image"].mask(rows["image"] == "", rows["name"])
    is_usable = rows["reason"] == ""
    table = rows[is_usable].reset_index(drop=True).astype({"grade": int})
    patients = table["patient"][table["patient"] != ""]
    if len(patients):
        sheets = [source.sheet for source in sources if "patient_id" in source.sheet.names]
        titles = [sheet.header[sheet.names.index("patient_id")] for sheet in sheets]
        name = titles[0] if by == COLUMN else by
        said.append(f"patients by {name}: {patients.nunique()}")
    notices = {source.part.notice for source in sources}
    if len(patients) < len(table):
        notices.add(UNKNOWN.format(len(table) - len(patients), len(table)))
    table["file"] = [Path(image).relative_to(images).as_posix() for image in table["image"]]
    table["patient"] = patients.reindex(table.index).fillna(table["file"])
    table["visit"] = number_visits(table)
    facts = [name for name in FACTS if table[name].any()]
    titles = zip(first.header, first.names, strict=True)
    unused = [title for title, name in titles if title and name not in OWN]
    is_sample = len(first.cells) == count_sample(path.parent)
    return Labels(
        table[["row", "image", "file", "patient", "eye", "grade", "official", *facts]],
        pd.concat([rows.loc[~is_usable, ["row", "image", "reason"]], without]),
        "sample" if is_sample else part.layout,
        sorted(filter(None, notices)),
        said + _find_unlike_eyes(table),
        unused if is_own else [],
    )


def _match_photographs(source: Source) -> pd.DataFrame:
    """Read a label file, and add the file that each row names; suffix and folder may be missing,
    and case may differ.
    """
    rows = read_rows(source)
    by_stem = defaultdict(list)
    for path in source.photographs:
        by_stem[cut_suffix(path.name)].append(path)
    files = [_find_files(name, by_stem) for name in rows["name"]]
    several = pd.Series(map(len, files), rows.index) > 1
    refuse(rows, several, "several photographs have this name; add the folder and suffix")
    rows["image"] = [str(found[0]) if found else "" for found in files]
    rows.loc[(rows["image"] == "") & (rows["reason"] == ""), "reason"] = "no such file"
    return rows


def _find_files(name: str, by_stem: dict[str, list[Path]]) -> list[Path]:
    """Find the files that have a name; of another machine's path, or a link, the last part counts.

    A file of exactly the name goes before one in another case, and this before one with another
    suffix.
    """
    name = re.sub(r"[\\/]+", "/", unicodedata.normalize("NFC", name))
    name = re.sub(r"^((\.\.?/)+|[A-Za-z][\w+.-]*:.*/|/(.*/)?)", "", name)
    files = by_stem.get(cut_suffix(name.rpartition("/")[2]), [])
    for form in (str, str.casefold, cut_suffix):
        end = f"/{form(name)}"
        found = [
            path
            for path in files
            if form(unicodedata.normalize("NFC", path.as_posix())).endswith(end)
        ]
        if found:
            return found
    return []


def _check_folders(rows: pd.DataFrame) -> None:
    """Refuse patients by file names of several folders: they may be two people."""
    named = rows[rows["patient"] != ""]
    folders = named["image"].map(os.path.dirname).groupby(named["patient"])
    refuse(
        named,
        folders.transform("nunique") > 1,
        "patients have photographs in several folders: name the patients in a column patient, two"
        " people by two ids",
    )


def _find_unlike_eyes(table: pd.DataFrame) -> list[str]:
    """Return a sentence on eyes with several grades at one visit."""
    eyes = table[table["eye"] != ""]
    grades = eyes.groupby(["patient", "eye", "visit"])["grade"]
    unlike = eyes[grades.transform("nunique") > 1]
    if unlike.empty:
        return []
    files = ", ".join(unlike["labels"].unique())
    return [
        f"{name_rows(files, unlike['row'].tolist())}: an eye of a patient has two grades, which"
        " `evaluate` refuses: name the visits in a column visit, or give two people different ids."
    ]


def _mark_repeats(rows: pd.DataFrame) -> None:
    """Mark the rows that name a file again; they must agree with the first."""
    usable = rows[rows["reason"] == ""]
    by_image = usable.groupby("image")[["grade", "patient"]]
    refuse(
        usable,
        by_image.transform("nunique").gt(1).any(axis=1),
        "one photograph has two grades or patients; keep one row, of several readers that of one",
    )
    rows.loc[usable.index[usable["image"].duplicated()], "reason"] = "named twice"
