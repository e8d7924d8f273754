"""Several readers of one photograph: spellings of their columns, rows of each, the reference."""

import pytest

from dr_lib.data.labels.reader import read_sheets
from dr_lib.data.labels.readers import combine_readers
from dr_lib.errors import DrError

WIDE = "image,{},{},{}\na,1,2,3\nb,2,2,0\nc,2,,\nd,,,\ne,0,3,\n"
# of each photograph, by hand: the median of 1, 2, 3; two of three; one alone; nobody; (0 + 3) / 2
# rounded to the worse
MAJORITY = [("2", "median"), ("2", "majority"), ("2", "one reader"), ("", ""), ("2", "median")]


def read(path, content, rule="", **options):
    """Read a table with several readers: the grade and the rule of each photograph."""
    path.write_text(content)
    sheet = combine_readers(read_sheets(path, **options)[0], rule)
    places = [sheet.names.index(name) for name in ("image_id", "grade", "reference_rule")]
    return {row[places[0]]: (row[places[1]], row[places[2]]) for row in sheet.rows.values()}


@pytest.mark.parametrize(
    "names",
    [
        ("grade_1", "grade_2", "grade_3"),
        ("Grau Dr. 1", "Grau Dr. 2", "Grau Dr. 3"),
        ("Grau RD (1)", "Grau RD (2)", "Grau RD (3)"),
        ("Avaliador 1", "leitor 2", "reader3"),
    ],
)
def test_readers_are_known_by_their_columns(tmp_path, names):
    """The majority, else the median rounded to the worse; what one graded alone is kept."""
    found = read(tmp_path / "t.csv", WIDE.format(*names))
    assert found == dict(zip("abcde", MAJORITY, strict=True))


def test_a_row_for_each_reader_is_one_for_each_photograph(tmp_path):
    """Names of readers go; a reader who could not grade leaves the others' grade."""
    rows = ["imagem;paciente;avaliador;grau;gradavel"]
    grades = {"a": "123", "b": "220", "c": "2", "d": " ", "e": "03"}
    for image, cells in grades.items():
        for reader, grade in zip(("Ana", "bia", "Caio"), cells, strict=False):
            rows.append(f"{image};7;{reader};{grade};{int(grade != ' ')}")
    path = tmp_path / "t.csv"
    assert read(path, "\n".join(rows)) == dict(zip("abcde", MAJORITY, strict=True))
    sheet = combine_readers(read_sheets(path)[0])
    assert len(sheet.rows) == 5 and "reader" not in sheet.names
    consensus = [*rows, "e;7;Consenso;4;1"]
    assert read(path, "\n".join(consensus))["e"] == ("4", "adjudicated")
    with pytest.raises(DrError, match="rows 2, 3, 4: .* different cells in patient_id"):
        read(path, "\n".join([rows[0], "a;8;Ana;1;1", *rows[2:]]))


@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        ("referable", "1,0,0,1", ""),  # each repeats the reader's grade: the reference's counts
        ("referable", "1,,0,", ""),
        ("referable", "1,1,1,1", "1"),  # by oedema, as all say
        ("referable", "1,1,0,1", None),
        ("gradable", "1,1,1,0", "1"),  # who gave no grade says it of himself
        ("gradable", "1,0,1,1", None),
        ("probability", "0.4,0.40,.4,0.4", "0.4"),
        ("probability", "0.1,0.9,0.9,0.9", None),
        ("split", "test,test,train,test", None),
        ("remark", "a,b,c,d", "a"),
    ],
)
def test_what_is_not_the_readers_own_is_one(tmp_path, column, cells, expected):
    """Grades 2, 0, 0 and none: the first row of a photograph decides nothing."""
    path = tmp_path / "t.csv"
    rows = zip("ABCD", ("2", "0", "0", ""), cells.split(","), strict=True)
    lines = [f"a,1,{','.join(row)}" for row in rows]
    path.write_text("\n".join([f"image,patient,reader,grade,{column}", *lines]))
    sheet = read_sheets(path)[0]
    if expected is None:
        with pytest.raises(DrError, match="rows 2, 3, 4.* of one photograph have different"):
            combine_readers(sheet)
        return
    joined = combine_readers(sheet)
    (row,) = joined.rows.values()
    place = next(n for n, name in enumerate(joined.names) if column in name)
    assert row[place] == expected and row[joined.names.index("grade")] == "0"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("", [("0", "adjudicated"), ("2", "majority")]),
        ("majority", [("2", "majority"), ("2", "majority")]),
        ("median", [("2", "median"), ("2", "median")]),
    ],
)
def test_the_reference_is_chosen(tmp_path, rule, expected):
    """The adjudicated grade comes first; without it, and by choice, the next rule."""
    content = "image,grau final,grade_1,grade_2,grade_3\na,0,2,2,4\nb,,2,2,0\n"
    assert list(read(tmp_path / "t.csv", content, rule).values()) == expected
    content = content.replace("grau final", "Adjudicated grade")
    assert list(read(tmp_path / "t.csv", content, rule).values()) == expected


def test_a_reference_that_names_its_rule_is_kept(tmp_path):
    """As predictions.csv has it; another rule makes it anew from the readers' grades."""
    content = (
        "image,grade,grade_1,grade_2,reference_rule\na,3,1,2,adjudicated\nb,2,1,2,median\n"
    )
    path = tmp_path / "t.csv"
    assert read(path, content) == {"a": ("3", "adjudicated"), "b": ("2", "median")}
    assert read(path, content, "adjudicated")["a"] == ("3", "adjudicated")
    assert read(path, content, "median")["a"] == ("2", "median")


def test_whether_a_photograph_was_adjudicated_is_no_grade(tmp_path):
    """A column adjudicated of 0 and 1 beside higher grades; one that is called a grade is one, and
    none is read where another rule is chosen.
    """
    path = tmp_path / "t.csv"
    flags = "image,grade_1,grade_2,grade_3,Adjudicated\na,2,2,3,0\nb,1,2,3,1\nc,1,1,1,\n"
    with pytest.raises(DrError, match="t.csv: Adjudicated has only 0 and 1"):
        read(path, flags)
    assert read(path, flags, "majority")["a"] == ("2", "majority")
    assert read(path, flags.replace("Adjudicated", "grade"))["a"] == ("0", "adjudicated")
    assert read(path, flags.replace("b,1,2,3,1", "b,1,2,3,2"))["a"] == ("0", "adjudicated")
    beside = "image,referable,Adjudicado\na,{},0\nb,{},1\n"
    with pytest.raises(
        DrError, match="t.csv: Adjudicado has only 0 and 1, where photographs are"
    ):
        read(path, beside.format("sim", "0"))
    path.write_text(beside.format("no", "0"))
    sheet = read_sheets(path)[0]
    assert combine_readers(sheet) == sheet
    low = "image,grade_1,grade_2,Adjudicated\na,0,1,1\nb,1,0,0\n"
    assert read(path, low)["a"] == ("1", "adjudicated")


def test_what_is_no_reader_is_left(tmp_path):
    """grade_0 to grade_4 are of one answer; a single reader beside a consensus keeps the grades."""
    path = tmp_path / "t.csv"
    path.write_text("image,grade,grade_0,grade_1,grade_2\na,1,0,1,0\n")
    sheet = read_sheets(path)[0]
    assert combine_readers(sheet) == sheet
    rows = "image,reader,grade\na,Ana,1\nb,Ana,2\nb,consensus,3\n"
    assert read(path, rows) == {"a": ("1", "one reader"), "b": ("3", "adjudicated")}


def test_a_grade_that_is_none_is_named(tmp_path):
    """By its column and row, as it is of one reader alone."""
    with pytest.raises(DrError, match='t.csv, row 3: grade_2 is "7": it must be 0 no retino'):
        read(tmp_path / "t.csv", "image,grade_1,grade_2\na,1,2\nb,1,7\n")
