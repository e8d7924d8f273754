"""Read the label table of a folder of photographs, match it with the photographs and check it."""

import itertools
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.label_files import (
    OWN,
    PICTURES,
    LabelTableError,
    Source,
    cut_suffix,
    find_sources,
    read_rows,
    read_start,
    refuse,
)
from dr_lib.data.labels.patients import (
    FILES,
    STATED,
    find_shared,
    name_patients,
    number_visits,
)
from dr_lib.data.labels.reader import name_rows
from dr_lib.data.labels.schema import FACTS, fold_id, fold_text, read_words
from dr_lib.data.photograph.decode import is_dicom, load_reader


class Labels(NamedTuple):
    """A data set's photographs with their labels, and those that cannot be used."""

    table: pd.DataFrame
    """A row per photograph: row (line of its label file, the header being line 1), image (path),
    file (the path below the folder), patient (the file where unknown), eye (left, right or empty),
    grade (0-4), official (train, validation, test; empty where the data set ships no split), and,
    where known, camera, age, sex and quality as the label file has them, and visit (0, 1 ... of
    each patient)."""
    unusable: pd.DataFrame  # row (0: the photograph has no label), image, reason
    layout: str
    patients: str  # known, from file names, partly unknown or unknown
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
    images = Path(images)
    if not images.is_dir():
        raise LabelTableError(f"no folder {images}: give the folder that holds the photographs")
    sources, said = find_sources(images, labels, sheet, columns)
    rows = pd.concat([_match_photographs(source) for source in sources], ignore_index=True)
    is_usable = rows["reason"] == ""
    if not is_usable.any():
        raise LabelTableError(
            f"no row of {', '.join(rows['labels'].unique())} can be used:"
            f" {rows['reason'].value_counts().to_dict()}; check that the photographs are "
            f"under {images}, in the folders that the table names, and correct names with a prefix,"
            " links, and zeros that a spreadsheet dropped"
        )
    _mark_repeats(rows)
    _add_stated(rows)
    is_own = sources[0].part.layout == "folder"
    if is_own:
        _check_folders(rows)
    labelled = {*rows["image"]}
    pools = itertools.chain(*(source.photographs for source in sources))
    others = [path for path in dict.fromkeys(map(str, pools)) if path not in labelled]
    rows["image"] = rows["image"].mask(rows["image"] == "", rows["name"])
    is_usable = rows["reason"] == ""
    table = rows[is_usable].reset_index(drop=True).astype({"grade": int})
    if table["official"].nunique() == 1:  # only one part of the data set is there
        table["official"] = ""
    patients, notices = _describe_patients(table)
    table["file"] = [Path(image).relative_to(images).as_posix() for image in table["image"]]
    table["patient"] = table["patient"].mask(table["patient"] == "", table["file"])
    table["visit"] = number_visits(table)
    known = table[table["by"] != ""]
    said += [
        f"patients by {by}: {people['patient'].nunique()}"
        for by, people in known.groupby("by", sort=False)
    ]
    facts = [name for name in FACTS if table[name].any()]
    header = zip(sources[0].sheet.header, sources[0].sheet.names, strict=True)
    unused = [title for title, name in header if title and name not in OWN]
    without = pd.DataFrame({"row": 0, "image": others, "reason": "no label"})
    return Labels(
        table[["row", "image", "file", "patient", "eye", "grade", "official", *facts]],
        pd.concat([rows.loc[~is_usable, ["row", "image", "reason"]], without]),
        sources[0].part.layout,
        patients,
        notices + [*filter(None, {source.part.notice for source in sources})],
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
        by_stem[cut_suffix(path.name)].append(path.absolute())
    files = [_find_files(name, by_stem) for name in rows["name"]]
    several = pd.Series(map(len, files), rows.index) > 1
    refuse(rows, several, "several photographs have this name; add the folder and suffix")
    rows = rows.assign(image=[str(found[0]) if found else "" for found in files])
    rows.loc[(rows["image"] == "") & (rows["reason"] == ""), "reason"] = "no such file"
    return rows


def _find_files(name: str, by_stem: dict[str, list[Path]]) -> list[Path]:
    """Find the files that have a name; of another machine's path, or a link, the last part counts.

    A file of exactly the name goes before one in another case, and this before one with another
    suffix.
    """
    name = re.sub(r"[\\/]+", "/", unicodedata.normalize("NFC", name))
    name = re.sub(r"^(\.\.?/)+", "", name)
    if re.match(r"/|[A-Za-z][\w+.-]*:", name):
        name = name.rpartition("/")[2]
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


def read_stated(images: pd.Series) -> pd.DataFrame:
    """Read patient, eye and visit out of those files that are DICOM; of others they are empty, as
    is a PatientID that names nobody.

    Raises:
        UnreadableImageError: there are some, and what reads them is not installed.
    """
    stated = []
    for image in map(Path, images):
        is_rare = image.suffix.lower() not in PICTURES
        if is_rare and is_dicom(read_start(image)):
            stated.append(load_reader("dicom").read_stated(image))
        else:
            stated.append(("", "", ""))
    table = pd.DataFrame(stated, images.index, ["patient", "eye", "visit"], dtype=str)
    ids = read_words("patient_id", table["patient"])
    return table.assign(patient=ids.mask(find_shared(ids), ""))


def _add_stated(rows: pd.DataFrame) -> None:
    """Fill in patient, eye and visit from DICOM files and file names, where the table is silent.

    Raises:
        DrError: they differ. A table may have ids of its own, one for each PatientID.
    """
    is_usable = rows["reason"] == ""
    stated = read_stated(rows["image"].where(is_usable, ""))
    names = read_names(rows["name"].where(is_usable, ""))
    words = "the {} differs from that in the DICOM file or in its name: correct the cell"
    ids = stated["patient"]
    if ids[ids != ""].nunique() > 1:  # else it may be what was put in the ids' place
        both = rows[(rows["patient"] != "") & (ids != "")]
        ours = pd.factorize(both["patient"].map(fold_id))[0]
        theirs = pd.factorize(ids[both.index].map(fold_id))[0]
        refuse(both, pd.Series(ours != theirs, both.index), words.format("patient"))
    others = {STATED: ids, FILES: names["patient"]}
    rows[["patient", "by"]] = name_patients(rows, others)
    rows["patient"] = rows["patient"].map(fold_text)
    named = names["eye"].where(rows["by"].isin(["", *others]), "")
    for eye, taken in ((stated["eye"], stated["eye"]), (names["eye"], named)):
        differs = (rows["eye"] != "") & (eye != "") & (rows["eye"] != eye)
        refuse(rows, differs, words.format("eye"))
        rows["eye"] = rows["eye"].mask(rows["eye"] == "", taken)
    rows["visit"] = rows["visit"].mask(rows["visit"] == "", stated["visit"])


def _describe_patients(table: pd.DataFrame) -> tuple[str, list[str]]:
    """Describe how patients are known: a word, and a sentence where some are not."""
    is_unknown = table["by"] == ""
    if not is_unknown.any():
        return ("from file names" if (table["by"] == FILES).any() else "known"), []
    notice = (
        f"The patient is unknown for {is_unknown.sum()} of {len(table)} photographs, so fellow "
        "eyes may be on different sides of a split. Add a column patient to the label table: file "
        "names give it only as PATIENT_EYE, such as 12_left.jpg, if no date and not another for "
        "each photograph; words for unknown, rounded numbers as 1.2E+15 and a PatientID that "
        "several people share are none."
    )
    return ("unknown" if is_unknown.all() else "partly unknown"), [notice]


def _check_folders(rows: pd.DataFrame) -> None:
    """Refuse patients by file names of several folders: they may be two people."""
    named = rows[(rows["by"] == FILES) & (rows["reason"] == "")]
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
    usable = rows[rows["reason"] == ""].sort_values("image", kind="stable")
    by_image = usable.groupby("image")[["grade", "patient"]]
    refuse(
        usable,
        by_image.transform("nunique").gt(1).any(axis=1),
        "one photograph has two grades or patients; keep one row, of several readers that of one",
    )
    rows.loc[usable.index[usable["image"].duplicated()], "reason"] = "named twice"
