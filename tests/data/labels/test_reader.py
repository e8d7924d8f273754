"""People's tables: what prepare takes evaluate takes, and no table ends early."""

import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.labels.reader import read_sheet, take_columns
from dr_lib.data.labels.schema import fold_id, is_unknown
from dr_lib.errors import DrError

ROWS = [["a.jpg", "0", "x"], ["b.jpg", "3", "y"], ["c.jpg", "4", "z"]]
TEXT = "image,grade,notes\na.jpg,0,x\nb.jpg,3,y\nc.jpg,4,z\n"


def read(path, content, **options):
    """Write a table, and read its only sheet: the cells of the named columns by line."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return take_columns(read_sheet(path, **options))


@pytest.mark.parametrize(
    ("content", "first_line"),
    [
        (TEXT, 2),
        (TEXT.encode("utf-16"), 2),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), 2),
        (b"\xef\xbb\xbf" + TEXT.encode(), 2),
        (TEXT.replace(",", "\t"), 2),
        (TEXT.replace(",", ";").replace("\n", "\r\n"), 2),
        (TEXT.replace("\n", "\r"), 2),
        ("sep=;\n" + TEXT.replace(",", ";"), 3),
        ('"sep=,"\n' + TEXT, 3),
        ("Dr. A, of 2026, in all, of both eyes\n\n" + TEXT, 4),
        (TEXT.replace("\n", ",,\n"), 2),
        (TEXT.replace("notes", "“manhã”, É").encode("windows-1252"), 2),
        (TEXT.replace("grade", '"grade\n(ICDR)"'), 3),
        ('"' + TEXT.replace(",", '", "').replace("\n", '"\n"')[:-1], 2),
    ],
    ids="plain le be bom tabs windows mac sep sep2 title trailing curly header blanks".split(),
)
def test_a_table_is_read_however_it_was_saved(tmp_path, content, first_line):
    """The same cells, by the lines of the file."""
    table = read(tmp_path / "t.csv", content)
    assert table.iloc[:, :3].to_numpy().tolist() == ROWS and table.index[0] == first_line


@pytest.mark.parametrize(
    "note", ['"x\nnext"', '"' + "x\n" * 12 + '"', '5" wide', '"5"" wide"', '"red, round"']
)
def test_a_note_may_have_quotation_marks_lines_and_commas(tmp_path, note):
    """No row is taken in."""
    names = read(tmp_path / "t.csv", TEXT.replace(",x", f",{note}"))["image_id"].tolist()
    assert names == ["a.jpg", "b.jpg", "c.jpg"]


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (TEXT.replace(",x", ',"x'), 2),  # to the end of the file
        (TEXT.replace(",x", ',"x').replace(",y", ',"y'), 2),  # two marks in two rows
        (TEXT.replace(",x", ',"x').replace(",y", ',5"'), 2),  # closed by an inch mark
        (TEXT.replace(",x", ',"seen, perhaps\nbefore"'), 2),  # as if a row were taken in
        (TEXT.replace("b.jpg", '"b.jpg'), 3),
        (TEXT.replace("c.jpg", '"c.jpg'), 4),
        (TEXT.replace("notes", '"notes'), 1),
        (TEXT.replace("b.jpg", '"b".jpg'), 3),  # something behind a mark that closes
    ],
)
def test_a_quotation_mark_too_many_is_an_error_where_it_stands(tmp_path, content, row):
    """Never a table that is shorter, and never another line."""
    with pytest.raises(DrError, match=f'^t.csv, row {row}: a quotation mark \\("\\) is open'):
        read(tmp_path / "t.csv", content)


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (b"image,grade\na.jpg,0\nJo\x81o.jpg,1\n", 3),  # nothing in Windows-1252
        ("image,grade\nJoão.jpg,0\n".encode() + b"Jos\xe9.jpg,1\n", 3),  # two encodings
        (b"image,grade\na.jpg,0\0\n", 2),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", 1),
        ("image,grade\na.jpg,0\n".encode("utf-16") + b"x", 3),
    ],
)
def test_bytes_of_no_encoding_are_named_by_their_row(tmp_path, content, row):
    """Never letters of another encoding."""
    with pytest.raises(DrError, match=f"^t.csv, row {row}: a character is in none of UTF-8"):
        read(tmp_path / "t.csv", content)


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("runs/*/p.csv", None, r"^no such file: .*runs/\*/p.csv$"),
        (".", None, " is a folder: give the table in it$"),
        ("t.csv", "", "^t.csv is empty: it needs a header and rows below it$"),
        ("t.xlsx", "PK", "^t.xlsx cannot be read: save it as|needs the package openpyxl"),
    ],
)
def test_what_is_no_table_is_said(tmp_path, path, content, words):
    """With its path as given, and what to do."""
    if content is not None:
        (tmp_path / path).write_text(content)
    with pytest.raises(DrError, match=words):
        read_sheet(tmp_path / path)


@pytest.mark.parametrize(
    ("header", "cells", "chosen", "expected"),
    [
        ("image,grade,grade", "1,1", (), "1"),
        ("image,grade,grade", "1,1.0", (), "row 2: grade is in two columns"),
        (
            "image,grade,grade",
            "1,2",
            (),
            "row 2: grade is in two columns .* grade .column 2. and",
        ),
        ("image,grade,grade", "1,2", ["grade=3"], "2"),
        ("image,grade,grade", "1,2", ["grade=grade"], "no or several columns for grade=grade"),
        ("image,Grau,DR_grade", "leve,1", (), "grade is in two columns"),
        ("image,Grau Dr 1,Grau Dr 2", "1,2", ["grade=Grau Dr 2"], "2"),
        ("image,Grau,Grau Dr 2", "1,2", ["grade=grau dr 2"], "2"),
        ("image,Grau,Grau Dr 2", "1,2", (), "row 2: grade is in two .*--column grade=3"),
        ("image,Grau (RD),Grau (EMD),grade_0", "2,1,0", (), "2"),
        ("image,diagnosis", "3", ["grade=diagnosis"], "3"),
        ("image,grade", "3", ["grade=Grau"], "for grade=Grau: it has image, grade"),
        ("image,grade,Nota", "1,3", ["grde=Nota"], "^grde=Nota: write .* ours are image_id, "),
        ("image,grade", "3", ["grade=grade", "grau=2"], "each column of ours once"),
        ("image,grade,", "3,", ["grade="], "write each column of ours once, as grade=Grau"),
        ("image,file,grade", "b.jpg,1", (), "image_id is in two columns"),
        ("image,grade", "1,2", (), "row 2: more cells than the header, which has 2"),
    ],
)
def test_a_thing_in_two_columns_is_used_if_they_agree(
    tmp_path, header, cells, chosen, expected
):
    """Else the error names both, and the option that chooses."""
    content = f"{header}\na,{cells}\n"
    if len(expected) > 4:
        with pytest.raises(DrError, match=expected):
            read(tmp_path / "t.csv", content, columns=chosen)
    else:
        table = read(tmp_path / "t.csv", content, columns=chosen)
        assert table["grade"].tolist() == [expected] and table["image_id"].tolist() == ["a"]


TABLE = pd.DataFrame(ROWS, columns=["image", "grade", "notes"])
COVER = pd.DataFrame({"Study": ["Screening"], "By": ["Dr. A"]})


def write_book(path, sheets, change=lambda book: None):
    """Write a workbook, and change it as a person does in a spreadsheet."""
    with pd.ExcelWriter(path) as writer:
        for name, table in sheets.items():
            table.to_excel(writer, sheet_name=name, index=False)
        change(writer.book)


@pytest.mark.parametrize(
    ("sheets", "title", "expected"),
    [
        ({"About": COVER, "data": TABLE}, "", 3),
        ({"data": TABLE, "empty": TABLE[:0]}, "", 3),
        (
            {"test": TABLE[:2], "validation": TABLE[2:]},
            "",
            "sheets test and validation: choose",
        ),
        ({"test": TABLE[:2], "validation": TABLE[2:]}, "test", 2),
        ({"test": TABLE}, "train", "has no sheet train: it has test"),
        ({"1": TABLE.set_axis(["a", "b", "c"], axis=1), "2": TABLE}, "", "sheets 1 and 2"),
    ],
)
def test_a_workbook_is_its_only_sheet_with_the_columns(tmp_path, sheets, title, expected):
    """Several are an error that names them and the option."""
    path = tmp_path / "t.xlsx"
    write_book(path, sheets)
    if isinstance(expected, int):
        assert len(read(path, path.read_bytes(), title=title)) == expected
        return
    with pytest.raises(DrError, match=expected):
        read(path, path.read_bytes(), title=title)


def test_hidden_sheets_are_not_read_and_hidden_rows_are_refused(tmp_path):
    """As a filter hides them: nobody sees whether they belong to the table. A hidden sheet is read
    where it is named.
    """
    path = tmp_path / "t.xlsx"

    def hide_sheet(book):
        book["old"].sheet_state = "hidden"

    write_book(path, {"old": TABLE, "new": TABLE[:1]}, hide_sheet)
    assert len(read(path, path.read_bytes())) == 1
    assert len(read(path, path.read_bytes(), title="old")) == 3

    def hide_row(book):
        book["About"].row_dimensions[2].hidden = True  # a sheet that is not read
        for row in (3, 9):  # the second is below the table
            book["new"].row_dimensions[row].hidden = True

    write_book(path, {"About": COVER, "new": TABLE}, hide_row)
    with pytest.raises(DrError, match="t.xlsx, sheet new, row 3: hidden, as by a filter"):
        read(path, path.read_bytes())


@pytest.mark.parametrize(
    ("cells", "is_read"), [("B2:B3", False), ("C2:C4", True), ("D1:E1", True)]
)
def test_merged_cells_are_refused_where_they_are_used(tmp_path, cells, is_read):
    """Only the first of them has a value; a title or a remark may be merged."""
    path = tmp_path / "t.xlsx"
    write_book(path, {"data": TABLE}, lambda book: book["data"].merge_cells(cells))
    sheet = read_sheet(path)
    if is_read:
        assert len(take_columns(sheet, ("image_id", "grade"))) == 3
        return
    with pytest.raises(DrError, match="t.xlsx, sheet data, row 3: merged cells: split them"):
        take_columns(sheet, ("image_id", "grade"))


def test_a_workbook_s_numbers_and_days_are_written_as_they_are_seen(tmp_path):
    """1 and not 1.0, a day without an hour, as texts of tables have them."""
    path = tmp_path / "t.xlsx"
    days = [pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-01 10:08"), None]
    write_book(path, {"data": TABLE.assign(grade=[0.0, 1.5, 4], visit=days)})
    table = read(path, path.read_bytes())
    assert table["grade"].tolist() == ["0", "1.5", "4"]
    assert table["visit"].tolist() == ["2024-05-01", "2024-05-01 10:08:00", ""]


def test_two_commands_choose_alike(tmp_path):
    """By one option each, for a sheet and for a column."""
    (tmp_path / "a.jpg").touch()
    path = tmp_path / "t.xlsx"
    TABLE.to_excel(path, sheet_name="2026", index=False)
    prepare = ["prepare", "--images", str(tmp_path), "--labels", str(path)]
    for command in (prepare, ["evaluate", str(path)]):
        command += ["--out", str(tmp_path / "out")]
        said = CliRunner().invoke(main, [*command, "--sheet", "2025"]).output
        assert said == "Error: t.xlsx has no sheet 2025: it has 2026\n"
        said = CliRunner().invoke(main, [*command, "--column", "grade=Grau"]).output
        assert "for grade=Grau: it has image, grade, notes" in said


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("7", "07"),
        ("7", "7.0"),
        ("7", "7,0"),
        ("pt1", " PT01"),
        ("pt1", "PT 1"),
        ("Jos\u00e9  Alves", "Jose\u0301 Alves "),
        ("Jos\u00e9  Alves", "JOS\u00c9\u00a0ALVES"),
        ("Jos\u00e9  Alves", "Jos\u00e9\u200b \uff21lves"),  # invisible, full-width
    ],
)
def test_one_number_in_two_ways_is_one_id(one, other):
    """A spreadsheet drops zeros or adds decimals; 10 stays 10, and 1.05 another than 1.5."""
    assert fold_id(one) == fold_id(other)
    assert len({fold_id(name) for name in ("7", "70", "10", "1", "1.05", "1.5", "105")}) == 7


@pytest.mark.parametrize(
    "cell", "NA #N/D #N/A #VALOR! #REF! n/d . ? -- s/i".split() + ["", "–"]
)
def test_a_cell_that_says_nothing_is_unknown(cell):
    """Signs, errors of spreadsheets and words, in both languages; a number or a name is none."""
    assert is_unknown(cell) and is_unknown("não informado") and is_unknown("Desconhecido")
    assert not any(map(is_unknown, ["0", "-1", "Ana", "none", "#7", "7?"]))
