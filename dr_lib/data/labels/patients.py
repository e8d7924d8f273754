"""Find who is one person, by a column, a DICOM file or a file's name, and on which visit."""

from collections.abc import Mapping

import pandas as pd

from dr_lib.data.labels.label_files import refuse
from dr_lib.data.labels.reader import SPELT, find_spellings

FILES = "file names"  # by which patients are found
STATED = "PatientID"
DAYS = ("ISO8601", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%d-%m-%Y", "%d.%m.%Y")  # 31/05/2024


def name_patients(rows: pd.DataFrame, others: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Name the patient of each photograph by what comes first of a column, PatientID and names.

    Args:
        rows: labels, row, and patient and by (the title of its column), as the table has them.
        others: patients by PatientID, and by file names; empty where they give none.

    Returns:
        patient, empty where it is unknown, and by.

    Raises:
        DrError: one patient has more photographs than a person can have, ids may be one person's,
            or what comes first says nothing of a photograph of which another says something.
    """
    most = limit_photographs(len(rows))
    refuse(
        rows,
        find_shared(rows["patient"]),
        f"one patient has more than {most} of {len(rows)} photographs, and no person has so many:"
        " leave the cell empty where the patient is unknown; of one person keep at most"
        f" {most} photographs",
    )
    patient = pd.Series("", rows.index)
    by = patient
    for name, found in {"": rows["patient"], **others}.items():
        if (patient != "").any():
            refuse(
                rows,
                (patient == "") & (found != ""),
                f"no patient, but one by {name}: name the patients of all photographs in a column"
                " patient, or of none",
            )
        else:
            patient = found
            by = rows["by"] if name == "" else pd.Series(name, rows.index)
    refuse(rows, find_spellings(patient), SPELT)
    return pd.DataFrame({"patient": patient, "by": by.where(patient != "", "")})


def find_shared(ids: pd.Series) -> pd.Series:
    """Find the ids that more photographs have than a person can have: whatever they say (None,
    ANON, 999), they name nobody.
    """
    counts = ids.groupby(ids).transform("size")
    return (ids != "") & (counts > limit_photographs(len(ids)))


def limit_photographs(number: int) -> int:
    """How many of a number of photographs one person can have: six, or a twentieth."""
    return max(6, number // 20)


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
