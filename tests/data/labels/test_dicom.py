"""What DICOM files say of patient, eye and day, beside a label table."""

import numpy as np
import pytest

from dr_lib.data.labels.tables import read_labels
from dr_lib.errors import DrError
from tests.data.photograph.dicoms import write_dicom

pytestmark = pytest.mark.slow


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a label table of DICOM files, each of which has a PatientID, a
    laterality and a day; of "" it has none.
    """

    def read(csv: str, *stated: tuple[str, str, str], stem: str = ""):
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
            name = f"{stem}{number}" if stem else name
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
        ("15", "", "20240101"),
        ("0012", "R", "20231231"),
        ("0012", "L", "20240301"),
    )
    rows = found.table[["patient", "eye", "visit", "grade"]]
    assert rows.values.tolist() == [
        ["0012", "right", "1", 0],
        ["15", "left", "0", 1],
        ["0012", "right", "0", 2],
        ["0012", "left", "1", 3],
    ]
    assert found.said == ["patients by PatientID: 2"]
    assert "20240301" not in str(found.said)


def test_the_table_comes_first(read):
    """Ids of a study, one for each PatientID; one PatientID in all files is none. Where it names
    some alone, that is refused.
    """
    stated = [("12", "R", "20240301"), ("13", "", ""), ("12", "R", "20231231")]
    csv = "image,grade,patient,visit\nIM0,0,s1,2\n1_left,1,s2,1\nIM2,2,{},1\n"
    found = read(csv.format("s1"), *stated)
    assert found.table["patient"].tolist() == ["s1", "s2", "s1"]
    assert found.table["visit"].tolist() == ["1", "0", "0"]
    with pytest.raises(DrError, match="row 4: no patient, but one by PatientID: name the"):
        read(csv.format(""), *stated)
    stated = [("REMOVED", eye, "") for eye in "RLL"]
    found = read("image,grade,patient\nIM0,0,s1\n1_left,1,s2\nIM2,1,s1\n", *stated)
    assert found.table["patient"].tolist() == ["s1", "s2", "s1"]


@pytest.mark.parametrize("word", ["ANON", "REMOVED", "0"])
def test_one_id_in_more_files_than_a_person_has_is_nobody(read, word):
    """Of 24 photographs seven have it: they are unknown and counted; the id is not said."""
    names = [f"scan{k}" for k in range(24)]
    csv = "image,grade,patient\n" + "".join(f"{name},1,\n" for name in names)
    stated = [(word, "", "")] * 7 + [(f"7{k // 2}", "", "") for k in range(7, 24)]
    found = read(csv, *stated, stem="scan")
    patients = found.table["patient"].tolist()
    assert patients[:7] == [f"scan{k}" for k in range(7)]
    assert patients[7:] == [stated[k][0] for k in range(7, 24)]
    said = " ".join(found.said + found.notices)
    assert "unknown for 7 of 24 photographs" in said
    assert "a PatientID that several people share" in said
    assert word.casefold() not in said.casefold().split()
    six = read(csv, *stated[:6], *[("8", "", "")], *stated[7:], stem="scan")
    assert six.table["patient"].tolist()[:6] == [word.casefold()] * 6


@pytest.mark.parametrize(
    ("csv", "reason"),
    [
        ("image,grade,patient\nIM0,0,12\n1_left,1,13\nIM2,1,14\n", "row 4: the patient"),
        ("image,grade,patient\nIM0,0,a\n1_left,1,b\nIM2,1,c\n", "row 4: the patient"),
        ("image,grade,patient\nIM0,0,a\n1_left,1,a\nIM2,1,a\n", "row 3: the patient"),
        ("image,grade,patient\nIM0,0,a\n1_left,1,\nIM2,1,c\n", "row 4: the patient"),
        ("image,grade\nIM0,0\n5_left,1\n", "rows 2, 3: ids of patients"),
        ("image,grade,eye\nIM0,0,R\n1_left,1,L\nIM2,1,R\n", "row 4: the eye"),
        ("image,grade\nIM0,0\n3_left,1\n", "row 3: the eye"),
    ],
)
def test_where_they_differ_the_row_is_named(read, csv, reason):
    """Another patient, two for one and one for two, and another eye; what they say is not."""
    stated = [("12", "R", ""), ("13", "", ""), ("12", "L", ""), ("12", "R", "")]
    stated += [("", "", ""), ("012", "L", "")]
    with pytest.raises(DrError, match=f"labels.csv, {reason} differ") as error:
        read(csv, *stated)
    assert "12" not in str(error.value).replace("labels.csv", "")
