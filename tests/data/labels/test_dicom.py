"""What DICOM files say of patient, eye and day, beside a label table."""

import numpy as np
import pytest

from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.tables import read_labels
from tests.data.photograph.dicoms import write_dicom

pytestmark = pytest.mark.slow


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a label table of DICOM files, each of which has a PatientID, a
    laterality and a day; of "" it has none.
    """

    def read(csv: str, *stated: tuple[str, str, str]):
        (tmp_path / "labels.csv").write_text(csv)
        for number, (patient, eye, day) in enumerate(stated):
            content = write_dicom(
                np.zeros((8, 8), np.uint8),
                "MONOCHROME2",
                PatientID=patient,
                ImageLaterality=eye,
                StudyDate=day,
            )
            name = f"{number}_left.dcm" if number % 2 else f"IM{number}"
            (tmp_path / name).write_bytes(content)
        return read_labels(tmp_path, tmp_path / "labels.csv")

    return read


def test_the_file_says_what_the_table_does_not(read):
    """The number before the name of the file, an eye that neither cell nor name has, and visits in
    the order of days, of which none is left.
    """
    found = read(
        "image,grade\nIM0,0\n1_left,1\nIM2,2\n3_left,3\n",
        ("0012", "R", "20240301"),
        ("UNKNOWN", "", "20240101"),
        ("12", "R", "20231231"),
        ("12", "L", "20240301"),
    )
    rows = found.table[["patient", "eye", "visit", "grade"]]
    assert rows.values.tolist() == [
        ["0012", "right", "1", 0],
        ["1", "left", "0", 1],
        ["0012", "right", "0", 2],
        ["0012", "left", "1", 3],
    ]
    assert "20240301" not in str(found.notices)


def test_the_table_comes_first_and_names_whom_it_does_not(read):
    """Ids of a study, one for each PatientID; a photograph without one is of whom the others with
    its PatientID are of. One PatientID in all files is none.
    """
    found = read(
        "image,grade,patient,visit\nIM0,0,s1,2\n1_left,1,s2,1\nIM2,2,,1\n",
        ("12", "R", "20240301"),
        ("13", "", ""),
        ("12", "R", "20231231"),
    )
    assert found.table["patient"].tolist() == ["s1", "s2", "s1"]
    assert found.table["visit"].tolist() == ["1", "0", "0"]
    stated = [("REMOVED", eye, "") for eye in "RLLRR"]
    found = read("image,grade,patient\nIM0,0,s1\n1_left,1,s2\nIM2,1,s1\n", *stated[:3])
    assert found.table["patient"].tolist() == ["s1", "s2", "s1"]
    found = read("image,grade,patient\nIM0,0,s1\n1_left,1,s2\nIM2,1,\nIM4,1,\n", *stated)
    assert found.table["patient"].tolist() == ["s1", "s2", "IM2", "IM4"]
    assert found.patients == "partly unknown"


@pytest.mark.parametrize("word", ["ANON", "REMOVED", "0"])
def test_one_id_in_more_files_than_a_person_has_is_nobody(read, word):
    """Of 24 photographs seven have it: they are unknown and counted; the id is not said."""
    names = [f"{k}_left" if k % 2 else f"IM{k}" for k in range(24)]
    csv = "image,grade,patient\n" + "".join(f"{name},1,\n" for name in names)
    stated = [(word, "", "")] * 7 + [(f"7{k // 2}", "", "") for k in range(7, 24)]
    found = read(csv, *stated)
    patients = found.table["patient"].tolist()
    assert patients[:7] == ["IM0", "1", "IM2", "3", "IM4", "5", "IM6"]
    assert patients[7:] == [stated[k][0] for k in range(7, 24)]
    said = " ".join(found.notices)
    assert "unknown for 7 of 24 photographs" in said
    assert ": 7 have a PatientID that several people share. Add" in said
    assert word.casefold() not in said.casefold().split()
    six = read(csv, *stated[:6], *[("8", "", "")], *stated[7:])
    assert six.table["patient"].tolist()[:6] == [word.casefold()] * 6


@pytest.mark.parametrize(
    ("csv", "reason"),
    [
        ("image,grade,patient\nIM0,0,12\n1_left,1,13\nIM2,1,14\n", "row 4: the patient"),
        ("image,grade,patient\nIM0,0,a\n1_left,1,b\nIM2,1,c\n", "rows 2, 4: the patient"),
        ("image,grade,patient\nIM0,0,a\n1_left,1,a\nIM2,1,a\n", "rows 2, 3: the patient"),
        ("image,grade,patient\nIM0,0,a\n1_left,1,\nIM2,1,c\n", "rows 2, 4: the patient"),
        ("image,grade,eye\nIM0,0,R\n1_left,1,L\nIM2,1,R\n", "row 4: the eye"),
        ("image,grade\nIM0,0\n3_left,1\n", "row 3: the eye"),
    ],
)
def test_where_they_differ_the_row_is_named(read, csv, reason):
    """Another patient, two for one and one for two, and another eye; what they say is not."""
    stated = [("12", "R", ""), ("13", "", ""), ("12", "L", ""), ("12", "R", "")]
    with pytest.raises(LabelTableError, match=f"labels.csv, {reason} differs") as error:
        read(csv, *stated)
    assert "12" not in str(error.value).replace("labels.csv", "")
