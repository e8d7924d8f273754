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
        row += "" if "." in row.rpartition(",")[2] else ".jpg"
        path = images / row.rpartition(",")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        lines.append(f"{row},0".replace("~", " "))
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    return read_labels(images, folder / "labels.csv", **options)


def name_people(patients: pd.Series) -> str:
    """A letter for each photograph, the same for photographs of one person: aab."""
    return "".join(chr(ord("a") + code) for code in pd.factorize(patients)[0])


NAME = "Nome do paciente"
NUMBER = "Prontuário"


@pytest.mark.parametrize(
    ("columns", "rows", "people", "notices"),
    [
        (["patient"], "1,a 1,b 2,c", "aab", ["patients by patient: 2$"]),
        (["patient", "patient"], "1,1,a 1,1,b 2,2,c 3,3,d", "aabc", ["by patient: 3$"]),
        ([NUMBER], "1,a 2,b 3,c", "abc", ["by Prontuário: 3$"]),
        # a point that may part thousands makes another number, as zeros among letters do
        (["patient"], "10,a 10.000,c 1.10,d 1.1,e", "abcd", []),
        (["patient"], "a01b1,a a1b01,b 00ff,c 0ff,d", "abcd", ["patients by patient: 4"]),
        # file names
        ([], "1_left.jpg 1_right.jpg 2_left.jpg", "aab", ["patients by file names: 2"]),
        (
            [],
            "1_left.jpg 2_left.jpg 3_right.jpg",
            "abc",
            ["3 of 3 photographs.*not another for"],
        ),
        (
            [],
            "20240501_1008_left.jpg 20240501_1009_right.jpg 20240502_left.jpg 20240502_right.jpg",
            "abcd",
            ["unknown for 4 of 4 photographs.*only as PATIENT_EYE"],
        ),
        # of two parts either may be the patient; a minority that looks like a date is one
        (
            [],
            "1_1_L.jpg 1_1_R.jpg 1_2_L.jpg 1_2_R.jpg 8_L.jpg 8_R.jpg",
            "abcdee",
            ["by file names: 1", "unknown for 4 of 6 photographs.*only as PATIENT_EYE"],
        ),
        ([], "20240501_L.jpg 20240501_R.jpg 7_L.jpg 7_R.jpg 8_L.jpg", "aabbc", ["names: 3"]),
        ([], "IMG_20240501_left.jpg IMG_20240502_left.jpg", "ab", ["2 of 2 photographs"]),
        (["patient"], "NA,a NA,b 7,c", "abc", ["by patient: 1", "2 of 3 photographs"]),
        (["patient"], "NA,1_left.jpg NA,1_right.jpg", "aa", ["patients by file names: 1"]),
    ],
)
def test_who_is_one_person(tmp_path, columns, rows, people, notices):
    """By hand: the photographs of a person have one letter; what was decided is said."""
    found = read(tmp_path, rows, *columns)
    assert name_people(found.table["patient"]) == people
    said = "\n".join(found.said + found.notices)
    for notice in notices:
        assert re.search(notice, said), said


SPELT = "ids of patients differ only in case, blanks, leading zeros or .0: write"


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["patient"], "007,a 8,b 7,c", f"rows 2, 4: {SPELT}"),
        (["patient"], "7,a 7.0,b", f"rows 2, 3: {SPELT}"),
        (["patient"], "P1,a p1,b p2,c", f"rows 2, 3: {SPELT}"),
        (["patient"], "Ana~Sá,a Ana~~Sá,b", f"rows 2, 3: {SPELT}"),
        ([], "1_left.jpg 01_right.jpg", f"rows 2, 3: {SPELT}"),
        # a name and a number, which may be of other people
        ([NAME, NUMBER], "Ana,1,a Ana,1,b", "row 2: patient_id .*--column patient_id=2"),
        # file names know whom the table does not: another number may be theirs
        (
            ["patient"],
            "4711,1_left.jpg ,1_right.jpg",
            "row 3: no patient, but one by file names",
        ),
    ],
)
def test_what_could_be_one_person_or_two_is_refused(tmp_path, columns, rows, message):
    """Both eyes of a person could stand on two sides, or two people count as one."""
    with pytest.raises(DrError, match=f"labels.csv, {message}"):
        read(tmp_path, rows, *columns)


def test_a_column_of_patients_is_chosen(tmp_path):
    """By the option, and the others do not count then."""
    rows = "Ana,1,a ANA~S,1,b Rui,2,c"
    found = read(tmp_path, rows, NAME, NUMBER, columns=[f"patient={NUMBER}"])
    assert name_people(found.table["patient"]) == "aab"
    assert (found.said, found.unused) == ([f"patients by {NUMBER}: 2"], [NAME])


@pytest.mark.parametrize(
    "word",
    "NA N/A #N/A #N/D #REF! #NOME? ? - -- *** NaN nd unknown Desconhecido ignorado 1.2E+15"
    " 1,23E+15 7e+14 Não~informado".split(),
)
def test_a_word_for_unknown_is_nobody(word):
    """However many photographs it stands for."""
    assert read_words("patient_id", pd.Series([word.replace("~", " ")])).tolist() == [""]


def list_shared(number: int, all_photographs: int) -> str:
    """Rows of photographs f2, f3 ..., named by their row: a number of ANON, then of two each."""
    ids = ["ANON"] * number + [f"P{row // 2}" for row in range(all_photographs - number)]
    return " ".join(f"{id},f{row}" for row, id in enumerate(ids, 2))


@pytest.mark.parametrize(("most", "all_photographs"), [(6, 24), (6, 139), (7, 140)])
def test_an_id_of_more_photographs_than_a_person_has_is_refused(
    tmp_path, most, all_photographs
):
    """Six, or a twentieth of all where that is more: whatever the id is, which is not said."""
    found = read(tmp_path, list_shared(most, all_photographs), "patient")
    assert found.patients == "known"
    assert found.table["patient"].nunique() == 1 + (all_photographs - most + 1) // 2
    message = (
        f"^labels.csv, rows 2, 3, 4, 5, 6 and {most - 4} more: one patient has more than {most} of"
        f" {all_photographs} photographs.*leave the cell empty.*keep at most {most} photographs"
    )
    with pytest.raises(DrError, match=message) as error:
        read(tmp_path, list_shared(most + 1, all_photographs), "patient")
    assert "ANON" not in str(error.value)


@pytest.mark.parametrize("number", ["0", "999", "1E5", "3e10", "#12", "P-1", "na12"])
def test_a_number_of_a_patient_is_one(number):
    """0 and 999 count patients in research tables: with as many photographs as others, they are."""
    assert read_words("patient_id", pd.Series([number])).tolist() == [number]


def test_two_sites_with_one_number(tmp_path):
    """Refused, for a name cannot say whether a/1 and b/1 are one person; a column can."""
    rows = "a/1_left.jpg a/2_right.jpg b/1_right.jpg b/3_right.jpg"
    with pytest.raises(DrError, match="labels.csv, rows 2, 4: .*name the patients in a column"):
        read(tmp_path, rows)
    found = read(tmp_path, "1,a/x.jpg 1,a/y.jpg 1,b/x.jpg", "patient")
    assert name_people(found.table["patient"]) == "aaa"


@pytest.mark.parametrize(
    ("cells", "visits"),
    [
        ("2024-05-01~10:08 2024-05-01T11:30 2023-12-31 2024-05-02", "1 1 0 0"),
        ("03/04/2024 05/03/2024 04/04/2024 01/01/2024", "1 0 2 0"),  # the day first
        ("03/04/2024 03/13/2024 04/04/2024 01/01/2024", "0 1 2 0"),  # the month first
        ("03-04-2024 05-03-2024 04-04-2024 01-01-2024", "1 0 2 0"),
        ("03/13/2024 13/03/2024 04/04/2024 ?", "labels.csv, rows 2, 5: visit is no date"),
        ("10/05/2024 2024-05-01 01/06/2023 2024-05-01", "2 1 0 0"),
        ("10 9 10 3", "1 0 1 0"),
        ("before after before after", "0 1 0 0"),
        ("1 . 2 .", "0 . 1 ."),
    ],
)
def test_visits_are_numbered_by_day(cells, visits):
    """Three photographs of one patient and one of another; their dates stay private."""
    texts = [cell.replace("~", " ").replace(".", "") for cell in cells.split()]
    table = pd.DataFrame({"visit": texts, "patient": ["p", "p", "p", "q"], "row": [2, 3, 4, 5]})
    table["labels"] = "labels.csv"
    if "row" in visits:
        with pytest.raises(DrError, match=visits):
            number_visits(table)
        return
    expected = [visit.replace(".", "") for visit in visits.split()]
    assert number_visits(table).tolist() == expected


def test_an_eye_with_two_grades_is_named_unless_the_visits_are(tmp_path):
    """What an evaluation refuses later is known before the training; of two columns that name a
    visit, one is chosen.
    """
    (tmp_path / "images").mkdir()
    for name in "abcd":
        (tmp_path / "images" / f"{name}.jpg").write_bytes(b"x")
    rows = ["p,OD,1,01/02/2024,a,0", "p,OD,2,02/02/2024,b,3", "p,OE,1,,c,0", "q,OD,1,,d,2"]
    path = tmp_path / "labels.csv"
    for header, named, visits in (
        ("x,y", ["labels.csv, rows 2, 3"], None),
        ("x,Data do exame", [], ["0", "1", "", ""]),
    ):
        path.write_text("\n".join([f"patient,eye,{header},image,grade", *rows]))
        found = read_labels(tmp_path / "images", path)
        notices = [notice for notice in found.said if "has two grades" in notice]
        assert [notice.partition(":")[0] for notice in notices] == named
        assert visits is None or found.table["visit"].tolist() == visits
        assert ("visit" in found.table) == (visits is not None)
    path.write_text("\n".join(["patient,eye,visita,Data do exame,image,grade", *rows]))
    with pytest.raises(DrError, match="row 2: visit is in two columns.*--column visit=4"):
        read_labels(tmp_path / "images", path)


def test_an_eye_that_the_file_s_name_contradicts_is_refused(tmp_path):
    """Whatever gives the patient."""
    for columns, rows in (
        (["eye"], "OE,7_left.jpg OE,7_right.jpg"),
        (["patient", "eye"], "a,OE,7_left.jpg b,OE,8_right.jpg"),
    ):
        with pytest.raises(DrError, match="row 3: the eye differs"):
            read(tmp_path, rows, *columns)


def test_the_eye_of_the_table_stays_where_the_patient_is_unknown(tmp_path):
    """Only a file's name that gives the patient gives the eye."""
    found = read(tmp_path, "OD,a OE,b ,7_left.jpg ,7_right.jpg", "eye").table
    assert found["eye"].tolist() == ["right", "left", "left", "right"]
    assert found["patient"].tolist() == ["a.jpg", "b.jpg", "7", "7"]
