"""What DICOM files say of patient, eye and day, beside a label table."""

import numpy as np
import pytest

from dr_lib.data.labels.tables import read_labels
from dr_lib.errors import DrError
from tests.data.photograph.dicoms import write_dicom

pytestmark = pytest.mark.slow


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a label table of DICOM files 0, 1_left, 2 ..., each of which has
    a PatientID, a laterality and a day; of "" it has none.
    """

    def read(rows: str, *stated: tuple[str, str, str], columns: str = ""):
        (tmp_path / "labels.csv").write_text(f"image,grade{columns}\n{rows}\n")
        for number, (patient, eye, day) in enumerate(stated):
            content = write_dicom(
                np.zeros((8, 8), np.uint8),
                "MONOCHROME2",
                PatientID=patient,
                ImageLaterality=eye,
                StudyDate=day,
            )
            name = f"{number}_left.dcm" if number in (1, 3) else f"{number}"
            (tmp_path / name).write_bytes(content)
        return read_labels(tmp_path, tmp_path / "labels.csv")

    return read


def test_the_table_comes_first(read):
    """Ids of a study, one for each PatientID; one PatientID in all files is none."""
    rows = "0,0,s1,2\n1_left,1,s2,1\n2,2,s1,1"
    for patients in ("12 13 12", "REMOVED REMOVED REMOVED"):
        stated = [(patient, "", "") for patient in patients.split()]
        found = read(rows, *stated, columns=",patient,visit").table
        assert found["patient"].tolist() == ["s1", "s2", "s1"]
        assert found["visit"].tolist() == ["1", "0", "0"]


def test_one_id_in_more_files_than_a_person_has_is_nobody(read):
    """Of 24 photographs seven have it: they are unknown and counted; the id is not said."""
    names = [f"{k}_left" if k in (1, 3) else f"{k}" for k in range(24)]
    rows = "\n".join(f"{name},1," for name in names)
    stated = [("ANON", "", "")] * 7 + [(f"7{k // 2}", "", "") for k in range(7, 24)]
    found = read(rows, *stated, columns=",patient")
    assert found.table["patient"].nunique() == 7 + 9
    said = " ".join(found.said + found.notices)
    assert "unknown for 7 of 24 photographs" in said and "anon" not in said.casefold()


@pytest.mark.parametrize(
    ("columns", "rows", "reason"),
    [
        (",patient", "0,0,a\n1_left,1,a\n2,1,a", "row 3: the patient differs"),
        (",patient", "0,0,a\n1_left,1,b\n2,1,", "row 4: no patient by the column, but one"),
        (",eye", "0,0,R\n1_left,1,L\n2,1,R", "row 4: the eye differs"),
        ("", "0,0\n4,1", "rows 2, 3: ids of patients differ only"),
    ],
)
def test_where_they_differ_the_row_is_named(read, columns, rows, reason):
    """Another patient, two for one and one for two, and another eye; what they say is not."""
    stated = [
        ("12", "R", ""),
        ("13", "", ""),
        ("12", "L", ""),
        ("12", "R", ""),
        ("012", "", ""),
    ]
    with pytest.raises(DrError, match=f"labels.csv, {reason}") as error:
        read(rows, *stated, columns=columns)
    assert "12" not in str(error.value)
