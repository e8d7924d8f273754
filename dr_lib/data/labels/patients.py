"""Find who is one person, by a column, a DICOM file or a file's name, and on which visit."""

from pathlib import Path

import pandas as pd

from dr_lib.data.labels.datasets import read_names
from dr_lib.data.labels.label_files import PICTURES, read_start, refuse
from dr_lib.data.labels.reader import SPELT, find_spellings
from dr_lib.data.labels.schema import fold_id, fold_text, read_words
from dr_lib.data.photograph.decode import is_dicom, load_reader

# by which patients are found, the first that names some
COLUMN = "the column"
STATED = "PatientID"
FILES = "file names"
DAYS = ("ISO8601", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%d-%m-%Y", "%d.%m.%Y")  # 31/05/2024


def add_people(rows: pd.DataFrame) -> str:
    """Add patient, eye and visit where the table is silent: of DICOM files, or else patient and eye
    of file names. An id of more photographs than a person can have names nobody, whatever it is:
    None, ANON, 999.

    Args:
        rows: of the label files, of different files where they can be used; see `read_rows`.

    Returns:
        By which of the three patients are known, if some are.

    Raises:
        DrError: one id of a table has more photographs than a person can have, ids may be one
            person's, what names some is silent of a photograph of which another says something, or
            the three differ. A table may have ids of its own, one for each PatientID.
        UnreadableImageError: there are DICOM files, and what reads them is not installed.
    """
    is_usable = rows["reason"] == ""
    stated = _read_stated(rows["image"].where(is_usable, ""))
    named = read_names(rows["name"].where(is_usable, ""))
    found = pd.DataFrame(
        {COLUMN: rows["patient"], STATED: stated["patient"], FILES: named["patient"]}
    )
    most = max(6, len(rows) // 20)
    is_shared = found.apply(lambda ids: ids.map(ids[ids != ""].value_counts()) > most)
    refuse(
        rows,
        is_shared[COLUMN],
        f"one patient has more than {most} of {len(rows)} photographs, and no person has so many:"
        " leave the cell empty where the patient is unknown; of one person keep at most"
        f" {most} photographs",
    )
    found = found.mask(is_shared, "")
    says = found != ""
    words = "the {} differs from that in the DICOM file or in its name: correct the cell"
    if found.loc[says[STATED], STATED].nunique() > 1:  # else it may be what stands for ids
        both = found[says[COLUMN] & says[STATED]].map(fold_id)
        is_other = both[COLUMN].factorize()[0] != both[STATED].factorize()[0]
        refuse(rows.loc[both.index], pd.Series(is_other, both.index), words.format("patient"))
    by = says.any().idxmax()
    refuse(
        rows,
        ~says[by] & says.any(axis=1),
        f"no patient by {by}, but one by its DICOM file or name: name the patients of all"
        " photographs in a column patient, or of none",
    )
    refuse(rows, find_spellings(found[by]), SPELT)
    rows["patient"] = found[by].map(fold_text)
    # an e or a d at the end of a name may number the photographs of a patient
    taken = named["eye"].mask(says[COLUMN], "")
    for eye, fill in ((stated["eye"], stated["eye"]), (named["eye"], taken)):
        differs = (rows["eye"] != "") & (eye != "") & (rows["eye"] != eye)
        refuse(rows, differs, words.format("eye"))
        rows["eye"] = rows["eye"].mask(rows["eye"] == "", fill)
    rows["visit"] = rows["visit"].mask(rows["visit"] == "", stated["visit"])
    return by


def _read_stated(images: pd.Series) -> pd.DataFrame:
    """Read patient, eye and visit out of those files that are DICOM; of others they are empty."""
    stated = []
    for image in map(Path, images):
        is_rare = image.suffix.lower() not in PICTURES
        if is_rare and is_dicom(read_start(image)):
            stated.append(load_reader("dicom").read_stated(image))
        else:
            stated.append(("", "", ""))
    table = pd.DataFrame(stated, images.index, ["patient", "eye", "visit"], dtype=str)
    return table.assign(patient=read_words("patient_id", table["patient"]))


def number_visits(rows: pd.DataFrame) -> pd.Series:
    """Number the visits of each patient from 0, by number or by day.

    Args:
        rows: labels, row, patient, and visit: all numbers, or dates of one form; empty where
            unknown.

    Returns:
        Texts, which hold no date.

    Raises:
        DrError: some are none of these.
    """
    known = rows[rows["visit"] != ""]
    days = known["visit"].str.replace(r"[T ].*", "", regex=True)
    orders = [pd.to_numeric(days, errors="coerce")]
    orders += [pd.to_datetime(days, format=form, errors="coerce") for form in DAYS]
    best = max(orders, key=pd.Series.count)  # the first of several
    words = (
        "visit is no number, or no date like those of the other rows: write all as 2024-05-31"
    )
    refuse(known, best.isna(), words)
    visits = best.groupby(known["patient"]).rank("dense") - 1
    return visits.astype(int).astype(str).reindex(rows.index, fill_value="")
