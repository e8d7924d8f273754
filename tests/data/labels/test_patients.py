"""Who is one person: by the number and not the name, in every spelling; unknown is no name."""

import re
from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.labels.patients import number_visits
from dr_lib.data.labels.schema import read_words
from dr_lib.data.labels.tables import Labels, read_labels
from dr_lib.errors import DrError


def read(folder: Path, rows: str, *columns: str, **options) -> Labels:
    """Read a table with photographs of one byte, whose grades are 0; `rows` are parted by blanks,
    their cells by commas, the last of which is the photograph.
    """
    images = folder / "images"
    lines = [",".join([*columns, "image", "grade"])]
    for row in rows.split():
        path = images / row.rpartition(",")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8\xff")
        lines.append(f"{row},0".replace("~", " "))
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    return read_labels(images, folder / "labels.csv", **options)


def name_people(patients: pd.Series) -> str:
    """A letter for each photograph, the same for photographs of one person: aab."""
    return "".join(chr(ord("a") + code) for code in pd.factorize(patients)[0])


NAME = "Nome do paciente"
NUMBER = "Prontuário"


@pytest.mark.parametrize(
    ("columns", "rows", "people", "said"),
    [
        (["patient"], "1,a 1,b 2,c", "aab", "patients by patient: 2"),
        # a point that may part thousands makes another number, as zeros among letters do
        (["patient"], "10,a 10.000,c 1.10,d 1.1,e", "abcd", "by patient: 4"),
        (["patient"], "a01b1,a a1b01,b 00ff,c 0ff,d", "abcd", "by patient: 4"),
        (["patient"], "NA,a NA,b 7,c", "abc", "unknown for 2 of 3 photographs"),
        (["patient"], "Jos\u00e9,a Jose\u0301,b", "aa", "patient: 1"),
        # file names
        (["patient"], "NA,1_left NA,1_right", "aa", "patients by file names: 1"),
        ([], "1_left 2_left 3_right", "abc", "3 of 3 photographs.*not another for"),
        # of two parts either may be the patient; a minority that looks like a date is one
        (
            [],
            "1_1_L 1_1_R 1_2_L 1_2_R 8_L 8_R",
            "abcdee",
            "by file names: 1.*unknown for 4 of 6 photographs.*only as PATIENT_EYE",
        ),
        ([], "20240501_L 20240501_R 7_L 7_R 8_L", "aabbc", "names: 3"),
    ],
)
def test_who_is_one_person(tmp_path, columns, rows, people, said):
    """By hand: the photographs of a person have one letter; what was decided is said."""
    found = read(tmp_path, rows, *columns)
    assert name_people(found.table["patient"]) == people
    assert re.search(said, " ".join(found.said + found.notices))


SPELT = "ids of patients differ only in case, blanks, leading zeros or .0: write"


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["patient"], "007,a 8,b 7,c", f"rows 2, 4: {SPELT}"),
        (["patient"], "P1,a p1,b p2,c", f"rows 2, 3: {SPELT}"),
        (["patient"], "A~B,a a\u200b~~b,b", f"rows 2, 3: {SPELT}"),
        (["patient"], "12,a \u206812\u2069,b \u061c12,c", f"rows 2, 3, 4: {SPELT}"),
        (["patient"], "7,a 7.0,b 70,c 1.05,d 1.5,e", f"rows 2, 3: {SPELT}"),
        ([], "1_left 01_right 1_right", f"rows 2, 3, 4: {SPELT}"),
        # a name and a number, which may be of other people
        ([NAME, NUMBER], "Ana,1,a Ana,1,b", "rows 2, 3: patient_id .*--column patient_id=2"),
        # file names know whom the table does not: another number may be theirs
        (["patient"], "47,1_left ,1_right", "row 3: no patient by the column, but one"),
        # two hospitals
        ([], "a/1_left a/2_left b/1_right", "rows 2, 4: .*name the patients in a column"),
    ],
)
def test_what_could_be_one_person_or_two_is_refused(tmp_path, columns, rows, message):
    """Both eyes of a person could stand on two sides, or two people count as one."""
    with pytest.raises(DrError, match=f"labels.csv, {message}"):
        read(tmp_path, rows, *columns)


@pytest.mark.parametrize(
    ("cells", "is_unknown"),
    [
        ("NA N/A #N/D #REF! ? -- s/i NaN nd Desconhecido 1.2E+15 1,23E+15", True),
        ("0 999 1E5 3e10 #12 P-1 na12 none", False),
    ],
)
def test_a_word_for_unknown_is_nobody(cells, is_unknown):
    """However many photographs it stands for; a number of a patient is one."""
    found = read_words("patient_id", pd.Series(cells.split()))
    assert (found == "").eq(is_unknown).all()


def list_shared(number: int, all_photographs: int) -> str:
    """Rows of photographs f2, f3 ..., named by their row: a number of ANON, then of two each."""
    ids = ["ANON"] * number + [f"P{row // 2}" for row in range(all_photographs - number)]
    return " ".join(f"{id},f{row}" for row, id in enumerate(ids, 2))


@pytest.mark.parametrize(("most", "all_photographs"), [(6, 139), (7, 140)])
def test_an_id_of_more_photographs_than_a_person_has_is_refused(
    tmp_path, most, all_photographs
):
    """Six, or a twentieth of all where that is more: whatever the id is, which is not said."""
    assert not read(tmp_path, list_shared(most, all_photographs), "patient").notices
    message = (
        f"^labels.csv, rows 2, 3, 4, 5, 6 and {most - 4} more: one patient has more than {most} of"
        f" {all_photographs} photographs.*leave the cell empty.*keep at most {most} photographs"
    )
    with pytest.raises(DrError, match=message) as error:
        read(tmp_path, list_shared(most + 1, all_photographs), "patient")
    assert "ANON" not in str(error.value)


@pytest.mark.parametrize(
    ("cells", "visits"),
    [
        ("2024-05-01~10:08 2024-05-01T11:30 2023-12-31 2024-05-02", "1 1 0 0"),
        ("03/04/2024 05/03/2024 04/04/2024 01/01/2024", "1 0 2 0"),  # the day first
        ("03/04/2024 03/13/2024 04/04/2024 01/01/2024", "0 1 2 0"),  # the month first
        ("10 9 10 3", "1 0 1 0"),
        ("03/13/2024 13/03/2024 04/04/2024 03/14/2024", "labels.csv, row 3: visit is no"),
        ("before after before after", "rows 2, 3, 4, 5: visit is no number, or no date"),
    ],
)
def test_visits_are_numbered_by_day(cells, visits):
    """Three photographs of one patient and one of another; their dates stay private."""
    texts = [cell.replace("~", " ").replace(".", "") for cell in cells.split()]
    table = pd.DataFrame({"visit": texts, "patient": [*"pppq"], "row": [2, 3, 4, 5]})
    table["labels"] = "labels.csv"
    if "row" in visits:
        with pytest.raises(DrError, match=visits):
            number_visits(table)
    else:
        assert number_visits(table).tolist() == visits.replace(".", "").split(" ")


def test_an_eye_with_two_grades_is_named_unless_the_visits_are(tmp_path):
    """What an evaluation refuses later is known before the training."""
    (tmp_path / "images").mkdir()
    for name in "ab":
        (tmp_path / "images" / f"{name}.jpg").touch()
    path = tmp_path / "labels.csv"
    rows = "p,OD,01/02/2024,a,0\np,OD,02/02/2024,b,3\n"
    for header, number in (("x", 1), ("Data do exame", 0)):
        path.write_text(f"patient,eye,{header},image,grade\n{rows}")
        said = " ".join(read_labels(tmp_path / "images", path).said)
        assert said.count("labels.csv, rows 2, 3: an eye of a patient has two grades") == number
