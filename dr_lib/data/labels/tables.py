"""Read the label table of a folder of photographs, match it with the photographs and check it."""

import itertools
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pandas as pd

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.label_files import (
    PICTURES,
    LabelTableError,
    Source,
    cut_suffix,
    find_files,
    find_sources,
    name_rows,
    read_rows,
    read_start,
)
from dr_lib.data.labels.patients import (
    FILES,
    PATIENTS,
    fill,
    name_patients,
    number_visits,
    read_ids,
)
from dr_lib.data.labels.reader import choose_sheet, read_sheets, take_columns
from dr_lib.data.labels.schema import (
    FACTS,
    fold_id,
    fold_text,
    read_words,
    unite_spellings,
)
from dr_lib.data.photograph.decode import is_dicom, load_reader


class Labels(NamedTuple):
    """A data set's photographs with their labels, and those that cannot be used."""

    table: pd.DataFrame
    """A row per photograph: row (line of its label file, the header being line 1), image (path),
    patient, eye (left, right or empty), grade (0-4), official (train, validation, test; empty where
    the data set ships no split), and, where known, camera, age, sex and quality as the label file
    has them, and visit (0, 1 ... of each patient)."""
    unusable: pd.DataFrame  # row (0: the photograph has no label), image, reason
    layout: str
    patients: str  # known, from file names, partly unknown or unknown
    notices: list[str]  # sentences to show the user


def read_labels(
    images: Path,
    labels: Path | None = None,
    *,
    sheet: str = "",
    columns: Sequence[str] = (),
    patients_by: str | None = None,
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
        patients_by: folder, if each folder of photographs has patients of its own, or name; needed
            where two folders have an eye of one name.

    Returns:
        The labels; photographs in them are in the order of the label file.

    Raises:
        LabelTableError: something does not fit; the message names label file and rows, never a
            photograph.
    """
    images = Path(images)
    if not images.is_dir():
        raise LabelTableError(f"no folder {images}: give the folder that holds the photographs")
    sources, pools, notices = _find_tables(images, labels, sheet, columns)
    parts = []
    for source, pool in zip(sources, pools, strict=True):
        read, doubts = read_rows(source)
        parts.append(_match_photographs(read, pool))
        notices += doubts
    rows = _fill_in_stated(pd.concat(parts, ignore_index=True))
    if not (rows["reason"] == "").any():
        raise LabelTableError(
            f"no row of {', '.join(rows['labels'].unique())} can be used:"
            f" {rows['reason'].value_counts().to_dict()}; check that the photographs are "
            f"under {images}, in the folders that the table names"
        )
    layout = sources[0].part.layout
    is_own = layout == "folder"
    if is_own:
        notices += _tell_folders_apart(rows, str(images), patients_by)
    notices += _unite_patients(rows)
    _check_repeats(rows)
    offered = dict.fromkeys(map(str, itertools.chain(*pools)))
    labelled = set(rows["image"])
    unlabelled = pd.DataFrame({"image": [path for path in offered if path not in labelled]})
    rows["image"] = rows["image"].where(rows["image"] != "", rows["name"])
    is_usable = rows["reason"] == ""
    table = rows[is_usable].reset_index(drop=True).astype({"grade": int})
    is_alone = table["patient"] == ""
    own = [Path(image).relative_to(images).as_posix() for image in table["image"]]
    table["patient"] = table["patient"].mask(is_alone, own)
    if table["official"].nunique() == 1:  # only one part of the data set is there
        table["official"] = ""
    patients, said = _describe_patients(table, is_alone, is_own)
    notices += [*said, *_number_visits(table)]
    facts = [name for name in FACTS if table[name].any()]
    unusable = [rows[~is_usable], unlabelled.assign(row=0, reason="no label")]
    return Labels(
        table[["row", "image", "patient", "eye", "grade", "official", *facts]],
        pd.concat(unusable)[["row", "image", "reason"]].astype({"row": int}),
        layout,
        patients,
        notices,
    )


def read_patients(
    labels: Path, photographs: Sequence[Path], *, sheet: str = "", columns: Sequence[str] = ()
) -> pd.Series:
    """Read who each photograph is of, from a table as `read_labels` reads it; it needs no grades.

    Args:
        labels: a table with the columns image and patient.
        photographs: files, by their whole paths.
        sheet, columns: as for `read_labels`.

    Returns:
        A patient for each photograph, as the table first writes it; empty where it has none.

    Raises:
        DrError: the table cannot be read, or does not fit; the message names rows, no photograph.
    """
    sheets = read_sheets(labels, sheet, columns)
    found = [one for one in sheets if {"image_id", "patient_id"} <= {*one.names}]
    if not found:
        header = ", ".join(filter(None, sheets[0].header))
        raise LabelTableError(
            f"{sheets[0]}: it needs the columns image and patient; it has {header}. Rename one, or"
            " choose it, such as --column patient=NAME"
        )
    table = choose_sheet(sheets, found)
    cells = take_columns(table, ("image_id", *PATIENTS))
    names = read_names(cells["image_id"])["patient"]
    patients, _ = name_patients(cells, names)
    is_cell = patients["cell"].map(fold_text) == patients["patient"]
    patient = patients["patient"].mask(is_cell, patients["cell"])
    rows = pd.DataFrame(
        {
            "labels": labels.name,
            "row": cells.index,
            "name": cells["image_id"],
            "patient": patient.groupby(patients["person"]).transform("first"),
            "grade": "",
            "reason": "",
        }
    )
    rows = _match_photographs(rows[rows["patient"] != ""], list(photographs))
    _check_repeats(rows)
    known = dict(zip(rows["image"], rows["patient"], strict=True))
    return pd.Series([known.get(str(path), "") for path in photographs], dtype=str)


def _find_tables(
    images: Path, labels: Path | None, sheet: str, columns: Sequence[str]
) -> tuple[list[Source], list[list[Path]], list[str]]:
    """Find the label files, the photographs that each may name, and sentences to show the user."""
    photographs, label_files = find_files(images)
    root = images.resolve().name
    folders = [f"{root}/{path.parent.relative_to(images).as_posix()}/" for path in photographs]
    sources, notices = find_sources(
        label_files if labels is None else [Path(labels)],
        set(folders),
        is_given=labels is not None,
        title=sheet,
        columns=columns,
    )
    pools = []
    for source in sources:
        is_offered = [re.search(source.folder, folder) for folder in folders]
        pools.append(list(itertools.compress(photographs, is_offered)))
    return sources, pools, notices


def _match_photographs(rows: pd.DataFrame, pool: list[Path]) -> pd.DataFrame:
    """Add the file that each row names; suffix and folder may be missing, and case may differ.

    Of paths of another machine the folders that all share may be missing, and any where no other
    folder is found.
    """
    by_stem = defaultdict(list)
    for path in pool:
        by_stem[cut_suffix(path.name)].append(path)
    names = [_clean_name(name) for name in rows["name"]]
    elsewhere = [name.split("/") for name in names if name.startswith("/")]
    num_shared = len(os.path.commonprefix([parts[:-1] for parts in elsewhere]))
    own = ["/".join(parts[num_shared:]) for parts in elsewhere]
    if not any("/" in name and _find_files(name, by_stem) for name in own):
        num_shared = max(map(len, elsewhere), default=0)
    matches = []
    for name in names:
        files = _find_files(name, by_stem)
        parts = name.split("/")
        for start in range(1, min(num_shared + 1, len(parts)) if parts[0] == "" else 1):
            files = files or _find_files("/".join(parts[start:]), by_stem)
        matches.append(files)
    several = rows[[len(files) > 1 for files in matches]]
    if len(several):
        raise LabelTableError(
            f"{name_rows(several)}: several photographs have this name; add the folder and "
            "suffix"
        )
    rows = rows.assign(image=[str(files[0]) if files else "" for files in matches])
    rows.loc[(rows["image"] == "") & (rows["reason"] == ""), "reason"] = "no such file"
    return rows


def read_stated(images: pd.Series) -> pd.DataFrame:
    """Read patient, eye and visit out of those files that are DICOM, and the PatientID as it is as
    cell; of others they are empty.

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
    return table.assign(patient=read_ids(table["patient"]), cell=table["patient"])


def _fill_in_stated(rows: pd.DataFrame) -> pd.DataFrame:
    """Fill in patient, eye and visit from DICOM files, where the table does not say them.

    Raises:
        LabelTableError: the two differ. A table may have ids of its own, one for each PatientID.
    """
    stated = read_stated(rows["image"].where(rows["reason"] == "", ""))
    ids = stated["patient"].map(fold_id)
    is_named = ~rows["by"].isin(["", FILES])
    both = pd.DataFrame({"own": rows["person"], "id": ids})[is_named & (ids != "")]
    is_other = both["own"] != both["id"]
    if not both["own"].isin(both["id"]).any():
        pairs = both.drop_duplicates()
        is_other = pairs["own"].duplicated(keep=False)
        if ids[ids != ""].nunique() > 1:
            is_other = is_other | pairs["id"].duplicated(keep=False)
        elif len(pairs) > 1:  # all have what was put in the ids' place
            ids[:] = ""
    eyes = rows["eye"] + stated["eye"]
    for word, unlike in (
        ("patient", is_other[is_other].index),
        ("eye", rows.index[eyes.isin(["leftright", "rightleft"])]),
    ):
        if len(unlike):
            raise LabelTableError(
                f"{name_rows(rows.loc[unlike])}: the {word} differs from that in the DICOM file: "
                "correct the cell, or leave it empty for what the file says"
            )
    patient = fill(rows["patient"].where(is_named, ""), stated["patient"], ids)
    stated = stated.assign(patient=patient, person=patient.map(fold_id), by="PatientID")
    names = [*stated]
    is_open = rows[names] == ""
    for name in ("patient", "person", "by"):
        is_open[name] = ~is_named & (ids != "")
    rows[names] = rows[names].mask(is_open, stated)
    return rows


def _describe_patients(
    table: pd.DataFrame, is_alone: pd.Series, is_own: bool
) -> tuple[str, list[str]]:
    """Describe by what the patients are known, and why some are not; in sentences, too."""
    is_named = table["by"] == FILES
    named = table["patient"][is_named]
    is_single = is_own and len(named) > 1 and named.is_unique
    is_unknown = is_alone | (is_named & is_single)
    known = table[~is_unknown]
    notices = []
    if len(known):
        columns = " and ".join(known["by"].unique())
        alone = ", each with one photograph" * known["patient"].is_unique
        notices.append(f"patients by {columns}: {known['patient'].nunique()}{alone}")
    if not is_unknown.any():
        return "from file names" if is_named.any() else "known", notices
    cells = table["cell"][is_unknown & (table["cell"] != "")]
    why = "file names give it only as PATIENT_EYE, such as 12_left.jpg"
    num_shared = (read_words("patient_id", cells) != "").sum()
    if num_shared:
        why = f"{num_shared} have a PatientID that several people share"
    elif is_single:
        why = "by their file names, no two have the same patient"
    elif len(cells):
        why = f"cells with a word for unknown or a rounded number, as 1.2E+15: {len(cells)}"
    notices.append(
        f"The patient is unknown for {is_unknown.sum()} of {len(table)} photographs, so fellow "
        f"eyes may be on different sides of a split: {why}. Add a column patient to the label "
        "table."
    )
    return "partly unknown" if len(known) else "unknown", notices


def _tell_folders_apart(rows: pd.DataFrame, images: str, patients_by: str | None) -> list[str]:
    """Put the folder before the patient, if that is chosen. If nothing is, name the patients of
    several folders, and refuse an eye that file names of two have: it is of two people, or of one.
    """
    folder = rows["image"].map(os.path.dirname).str.removeprefix(images)
    if patients_by == "folder":
        for name in ("patient", "person"):
            rows[name] = (folder + "/" + rows[name]).where(rows[name] != "", "")
    if patients_by:
        return []
    known = rows[(rows["by"] != "") & (rows["reason"] == "")]
    shared = known[folder[known.index].groupby(known["person"]).transform("nunique") > 1]
    named = shared[shared["by"] == FILES]
    eyes = folder[named.index].groupby([named["person"], named["eye"]])
    several = eyes.transform("nunique") > 1
    if several.any():
        raise LabelTableError(
            f"{name_rows(named[several])}: file names of several folders have the same patient and "
            "eye: choose --patients-by folder if each folder has patients of its own, or "
            "--patients-by name if not"
        )
    if shared.empty:
        return []
    return [
        f"{name_rows(shared)}: patients have photographs in several folders: if each folder has "
        "patients of its own, choose --patients-by folder."
    ]


def _unite_patients(rows: pd.DataFrame) -> list[str]:
    """Write each patient in one way; return a sentence on those written in several."""
    patient = unite_spellings(rows["patient"], rows["person"])
    rewritten = rows[patient != rows["patient"]]
    rows["patient"] = patient
    if rewritten.empty:
        return []
    return [
        f"{name_rows(rewritten)}: patients whom other rows write with other leading zeros, with .0 "
        "or another date count as one: if they are two, make their ids clearly different."
    ]


def _number_visits(table: pd.DataFrame) -> list[str]:
    """Number the visits; return a sentence on eyes with several grades at one."""
    table["visit"] = number_visits(table["visit"], table["patient"])
    eyes = table[table["eye"] != ""]
    is_unlike = eyes.groupby(["patient", "eye", "visit"])["grade"].transform("nunique") > 1
    if not is_unlike.any():
        return []
    return [
        f"{name_rows(eyes[is_unlike])}: an eye of a patient has two grades, which `evaluate` "
        "refuses: name the visits in a column visit, or give two people different ids."
    ]


def _check_repeats(rows: pd.DataFrame) -> None:
    """Mark the rows that name a file again; they must agree with the first."""
    usable = rows[rows["reason"] == ""]
    differing = (
        usable.groupby("image")[["grade", "patient"]].transform("nunique").gt(1).any(axis=1)
    )
    if differing.any():
        rows = name_rows(usable[differing].sort_values("image", kind="stable"), limit=None)
        raise LabelTableError(
            f"{rows}: one photograph has two grades or patients; keep one row"
        )
    rows.loc[usable.index[usable["image"].duplicated()], "reason"] = "named twice"


def _clean_name(name: str) -> str:
    """Write a path with slashes, and one of another machine from its first folder on."""
    # bytes that are no UTF-8, as `predict` writes them
    name = re.sub(r"\\udc[89a-f][0-9a-f]", lambda byte: chr(int(byte[0][2:], 16)), name)
    if name.lower().startswith("file:"):
        name = unquote(name)
    name = re.sub(r"^(\.\.?/)+", "", re.sub(r"[\\/]+", "/", name))
    return re.sub(r"(?i)^([\w+.-]+:)?/([a-z]:/)?", "/", name)


def _find_files(name: str, by_stem: dict[str, list[Path]]) -> list[Path]:
    """Find the files that have a name, those alone that are the most like it."""
    name = name.lstrip("/")
    folder, _, last = name.rpartition("/")
    files = by_stem.get(cut_suffix(last), [])
    if folder:
        ending = "/" + cut_suffix(name)
        files = [
            path for path in files if cut_suffix(path.absolute().as_posix()).endswith(ending)
        ]
    ranks = []
    for path in files:
        own = unicodedata.normalize("NFC", path.name)
        asked = unicodedata.normalize("NFC", last)
        rank = (
            path.as_posix().endswith(f"/{name}"),
            own.casefold() == asked.casefold(),
            path.suffix.lower() in PICTURES,
            own.startswith(os.path.splitext(asked)[0]),
        )
        ranks.append(rank)
    return [path for path, rank in zip(files, ranks, strict=True) if rank == max(ranks)]
