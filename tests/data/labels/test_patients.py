"""Who is one person: by the number and not the name, in every spelling; unknown is no name."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.labels.label_files import LabelTableError
from dr_lib.data.labels.patients import number_visits, read_ids
from dr_lib.data.labels.splits import split_photographs
from dr_lib.data.labels.tables import Labels, read_labels, read_patients
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
        # spellings of a name do not matter beside a number, wherever its column is
        (
            [NAME, NUMBER],
            "Maria~Silva,1,a M.~SILVA,1,b Silva~maria,1,c João~Sá,2,d JOAO~SA,2,e",
            "aaabb",
            ["patients by Prontuário: 2"],
        ),
        ([NUMBER, "Paciente"], "1,Ana,a 1,Ana,b 2,Ana,c", "aab", ["rows 2, 3, 4: Paciente is"]),
        (
            ["patient", "MRN"],
            "Ana,1,a Ana,1,b Ana,2,c",
            "aab",
            ["rows 2, 3, 4: patient is the"],
        ),
        (
            [NAME, NUMBER],
            "Ana,1,a Rui,1,b Rui,2,c Rui,2,d",
            "aabb",
            ["rows 2, 3: Prontuário is"],
        ),
        # a number of each photograph is no patient's, an empty column neither
        (["Registro", "Paciente"], "1,A,a 2,A,b 3,B,c 4,B,d", "aabb", ["by Paciente: 2"]),
        (["Registro"], "1,a 2,b 3,c", "abc", ["by Registro: 3, each with one photograph"]),
        (["patient", "patient"], "1,1,a 1,1,b 2,2,c 3,3,d", "aabc", ["by patient: 3$"]),
        (["patient", NUMBER], ",1,a ,1,b ,2,c ,2,d", "aabb", ["by Prontuário: 2"]),
        # a missing number is that of the same name, if it has only one
        ([NAME, NUMBER], "Ana,1,a Ana,1,b ANA,,c Rui,N/A,d rui,?,e ,2,f ,2,g", "aaabbcc", []),
        (
            [NAME, "CNS"],
            "Ana,7E+14,a Ana,7E+14,b Rui,7E+14,c",
            "aab",
            ["by Nome do paciente: 2"],
        ),
        (["patient"], "4711,1_left.jpg ,1_right.jpg ,2_left.jpg ,2_right.jpg", "aabb", []),
        # one number in two spellings; a point that may part thousands makes another
        (["patient"], "007,a 7,b 7.0,c p1,d P01,e", "aaabb", ["rows 3, 4, 5: patients whom"]),
        (["patient"], "10,a 10.00,b 10.000,c 1.10,d 1.1,e", "aabcd", ["row 3: patients whom"]),
        # file names
        (
            [],
            "1_left.jpg 1_right.jpg 01_left.png 2_left.jpg",
            "aaab",
            ["rows 2, 3: patients whom"],
        ),
        ([], "1_left.jpg 2_left.jpg 3_right.jpg", "abc", ["3 of 3 photographs.*no two have"]),
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
        (["patient"], "a01b1,a a1b01,b 00ff,c 0ff,d", "abcd", ["patients by patient: 4"]),
        ([], "IMG_20240501_left.jpg IMG_20240502_left.jpg", "ab", ["2 of 2 photographs"]),
        ([], "0/1_left.jpg 2/1_right.jpg 2/2_left.jpg 0/2_right.jpg", "aabb", ["names: 2"]),
        (["patient"], "NA,a NA,b", "ab", ["2 of 2 photographs.*cells with a word.*: 2"]),
        (["patient"], "NA,1_left.jpg NA,1_right.jpg", "aa", ["patients by file names: 1"]),
    ],
)
def test_who_is_one_person(tmp_path, columns, rows, people, notices):
    """By hand: the photographs of a person have one letter; what was decided is said. `predict`
    reads the same people.
    """
    found = read(tmp_path, rows, *columns)
    assert name_people(found.table["patient"]) == people
    if columns:
        paths = list(map(Path, found.table["image"]))
        patients = read_patients(tmp_path / "labels.csv", paths)
        assert name_people(patients.where(patients != "", found.table["image"])) == people
    said = "\n".join(found.notices)
    for notice in notices:
        assert re.search(notice, said), said


@pytest.mark.parametrize(
    "word",
    "NA N/A #N/A #N/D #REF! #NOME? ? - -- *** NaN nd unknown Desconhecido ignorado 1.2E+15"
    " 1,23E+15 7e+14 Não~informado".split(),
)
def test_a_word_for_unknown_is_nobody(word):
    """However many photographs it stands for; patients with two or three photographs are known."""
    cells = pd.Series([word.replace("~", " ")] * 4 + ["12", "12", "na12", "9", "9", "12"])
    assert read_ids(cells).tolist() == [""] * 4 + ["12", "12", "na12", "9", "9", "12"]


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


def test_an_id_that_is_nobody_s_gives_way_to_another(tmp_path):
    """A name beside it, or the file's name, says who it is; `predict` reads the same people."""
    rows = " ".join(f"TBD,{number}_{eye}.jpg" for number in range(4) for eye in "LR")
    assert name_people(read(tmp_path, rows, "patient").table["patient"]) == "aabbccdd"
    rows = " ".join(f"0,{name},{name}{k}" for name in ("Ana", "Rui", "Eva") for k in range(3))
    found = read(tmp_path, rows, NUMBER, NAME).table
    assert name_people(found["patient"]) == "aaabbbccc"
    patients = read_patients(tmp_path / "labels.csv", list(map(Path, found["image"])))
    assert name_people(patients) == "aaabbbccc"


@pytest.mark.parametrize("number", ["0", "999", "1E5", "3e10", "#12", "P-1"])
def test_a_number_of_a_patient_is_one(number):
    """0 and 999 count patients in research tables: with as many photographs as others, they are."""
    assert read_ids(pd.Series([number, number, "7", "7"])).iloc[0] == number.casefold()


def test_two_sites_with_one_number(tmp_path):
    """Refused, for a name cannot say whether a/1 and b/1 are one person; either answer is taken."""
    rows = "a/1_left.jpg a/1_right.jpg b/1_left.jpg b/2_right.jpg"
    with pytest.raises(LabelTableError, match="labels.csv, rows 2, 4: .*--patients-by folder"):
        read(tmp_path, rows)
    assert name_people(read(tmp_path, rows, patients_by="folder").table["patient"]) == "aabc"
    assert name_people(read(tmp_path, rows, patients_by="name").table["patient"]) == "aaab"
    rows = "1,a/x.jpg 1,a/y.jpg 1,b/x.jpg"  # a table may say so: a notice has the option
    found = read(tmp_path, rows, "patient")
    assert name_people(found.table["patient"]) == "aaa"
    assert "labels.csv, rows 2, 3, 4: patients have" in found.notices[0]
    found = read(tmp_path, rows, "patient", patients_by="folder")
    assert name_people(found.table["patient"]) == "aab"


@pytest.mark.parametrize(
    ("cells", "visits"),
    [
        ("2024-05-01~10:08 2024-05-01T11:30 2023-12-31 2024-05-02", "1 1 0 0"),
        ("03/04/2024 05/03/2024 04/04/2024 01/01/2024", "1 0 2 0"),  # the day first
        ("03/04/2024 03/13/2024 04/04/2024 01/01/2024", "0 1 2 0"),  # the month first
        ("10/05/2024 2024-05-01 01/06/2023 2024-05-01", "2 1 0 0"),
        ("10 9 10 3", "1 0 1 0"),
        ("before after before after", "0 1 0 0"),
        ("1 . 2 .", "0 . 1 ."),
    ],
)
def test_visits_are_numbered_by_day(cells, visits):
    """Three photographs of one patient and one of another; their dates stay private."""
    texts = [cell.replace("~", " ").replace(".", "") for cell in cells.split()]
    patients = pd.Series(["p", "p", "p", "q"])
    expected = [visit.replace(".", "") for visit in visits.split()]
    assert number_visits(pd.Series(texts), patients).tolist() == expected


def test_an_eye_with_two_grades_is_named_unless_the_visits_are(tmp_path):
    """What an evaluation refuses later is known before the training; of columns that name a visit,
    the first is read.
    """
    (tmp_path / "images").mkdir()
    for name in "abcd":
        (tmp_path / "images" / f"{name}.jpg").write_bytes(b"x")
    rows = ["p,OD,1,01/02/2024,a,0", "p,OD,2,02/02/2024,b,3", "p,OE,1,,c,0", "q,OD,1,,d,2"]
    for header, named, visits in (
        ("x,y", ["labels.csv, rows 2, 3"], None),
        ("visita,Data do exame", [], ["0", "1", "0", "0"]),
    ):
        lines = [f"patient,eye,{header},image,grade", *rows]
        (tmp_path / "labels.csv").write_text("\n".join(lines))
        found = read_labels(tmp_path / "images", tmp_path / "labels.csv")
        notices = [notice for notice in found.notices if "has two grades" in notice]
        assert [notice.partition(":")[0] for notice in notices] == named
        assert visits is None or found.table["visit"].tolist() == visits
        assert ("visit" in found.table) == (visits is not None)


def test_the_eye_of_the_table_stays_where_the_patient_is_unknown(tmp_path):
    """Only a file's name that gives the patient gives the eye."""
    found = read(tmp_path, "OD,a OE,b ,7_left.jpg ,7_right.jpg", "eye").table
    assert found["eye"].tolist() == ["right", "left", "left", "right"]
    assert found["patient"].tolist() == ["a.jpg", "b.jpg", "7", "7"]


def test_no_person_is_on_two_sides(tmp_path):
    """120 people with a name and a number, of which some are missing or spelt differently, on up
    to three visits: by who they are, nobody crosses, whatever the table says.
    """
    rng = np.random.default_rng(5)
    rows = []
    people = []
    for person in range(120):
        for eye in range(rng.integers(2, 5)):
            number = [f"{person:04d}", str(person), f"{person}.0"][rng.integers(3)]
            name = [f"Ana~S{person}~Melo", f"ANA~S{person}~MELO", f"A.~S{person}~Melo"][eye % 3]
            # what is missing is known by the full name
            number, name = ("#N/D", f"ana~s{person}~melo") if eye == 3 else (number, name)
            rows.append(f"{name},{number},0{rng.integers(1, 9)}/01/2024,f{len(rows)}")
            people.append(person)
    table = read(tmp_path, " ".join(rows), NAME, NUMBER, "Data do exame").table
    grades = rng.integers(0, 5, len(table))
    numbers = table.index.astype(str)
    table = table.assign(grade=grades, image_id=numbers, content_id=numbers)
    table = table.rename(columns={"patient": "patient_id"})
    (parts,) = split_photographs(table, np.empty((0, 2), int))
    assert parts["split"].groupby(people).nunique().max() == 1
    assert table["patient_id"].nunique() == 120
