"""People's tables: what prepare takes evaluate takes, and no table ends early."""

import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.labels.reader import read_sheet, take_columns
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
        (TEXT.encode("utf-16"), 2),
        (b"\xef\xbb\xbf" + TEXT.encode(), 2),
        (TEXT.replace(",", ";").replace("\n", "\r\n"), 2),
        ("sep=;\n" + TEXT.replace(",", ";"), 3),
        ("Dr. A, of 2026, in all, of both eyes\n\n" + TEXT, 4),
        (TEXT.replace("notes", "“manhã”, É").encode("windows-1252"), 2),
        (TEXT.replace("grade", '"grade\n(ICDR)"'), 3),
        ('"' + TEXT.replace(",", '", "').replace("\n", '"\n"')[:-1], 2),
        # a note may have quotation marks, lines or commas
        (TEXT.replace(",x", ',"x\nnext"'), 3),
        (TEXT.replace(",x", ',5" wide'), 2),
        (TEXT.replace(",x", ',"5"" wide, round"'), 2),
    ],
)
def test_a_table_is_read_however_it_was_saved(tmp_path, content, first_line):
    """The same cells, by the lines of the file."""
    table = read(tmp_path / "t.csv", content)
    assert table.iloc[:, :2].to_numpy().tolist() == [row[:2] for row in ROWS]
    assert table.index[0] == first_line


MARK = 'row {}: a quotation mark \\("\\) is open'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT.replace(",x", ',"x'), MARK.format(2)),  # to the end of the file
        (TEXT.replace(",x", ',"seen, perhaps\nbefore"'), MARK.format(2)),  # as if taken in
        (TEXT.replace("b.jpg", '"b".jpg'), MARK.format(3)),  # behind a mark that closes
        (b"image,grade\nJo\x81o.jpg,1\n", "is no text in UTF-8"),  # nothing in Windows-1252
        ("image,grade\nJoão.jpg,0\n".encode() + b"Jos\xe9.jpg,1\n", "is no text"),  # both
        ("image,grade\na,1,2\n", "row 2: more cells than the header, which has 2"),
    ],
)
def test_what_could_lose_rows_or_letters_is_refused(tmp_path, content, message):
    """Never a table that is shorter, never another line, never letters of another encoding."""
    with pytest.raises(DrError, match=f"^t.csv,? {message}"):
        read(tmp_path / "t.csv", content)


@pytest.mark.parametrize(
    ("header", "cells", "chosen", "expected"),
    [
        ("image,grade,grade", "1,mild", (), "1"),
        ("image,grade,grade", "1,2", (), "row 2: grade is in two columns"),
        ("image,grade,grade", "1,2", ["grade=3"], "2"),
        ("image,Grau,Grau Dr 2", "1,2", (), "row 2: grade is in two .*--column grade=3"),
        ("image,Grau (RD),Grau (EMD),grade_0", "2,1,0", (), "2"),
        ("image,grade", "3", ["grade=Grau"], "for grade=Grau: .*it has image, grade"),
        ("image,grade,level", "1,2", ["grade=2", "grade=3"], "for grade=3: .* of ours once"),
        ("image,", "3", ["grade=2"], "3"),
        ("image,file,grade", "b.jpg,1", (), "image_id is in two columns"),
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


SEEN = "data, row 3: hidden, .* or merged cells"
TABLE = pd.DataFrame(ROWS, columns=["image", "grade", "notes"])


@pytest.mark.parametrize(
    ("title", "change", "expected"),
    [
        ("", lambda book: setattr(book["other"], "sheet_state", "hidden"), 3),
        ("other", lambda book: None, 1),
        ("", lambda book: None, "rows on 2 of the sheets .* data, empty, other with --sheet"),
        (
            "data",
            lambda book: book["data"].row_dimensions.group(3, hidden=True),
            SEEN,
        ),
        ("data", lambda book: book["data"].merge_cells("B2:B3"), SEEN),
        # a remark, which is not used
        ("data", lambda book: book["data"].merge_cells("C2:C4"), 3),
    ],
)
def test_a_workbook_is_its_only_visible_sheet(tmp_path, title, change, expected):
    """Or the one that is named. What nobody sees, or only the first cell has, is refused where it
    is used.
    """
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as writer:
        for name, table in {"data": TABLE, "empty": TABLE[:0], "other": TABLE[:1]}.items():
            table.to_excel(writer, sheet_name=name, index=False)
        writer.book["empty"].delete_rows(1)
        change(writer.book)
    if isinstance(expected, int):
        assert len(take_columns(read_sheet(path, title), ("image_id", "grade"))) == expected
        return
    with pytest.raises(DrError, match=expected):
        take_columns(read_sheet(path, title), ("image_id", "grade"))


def test_a_workbook_s_numbers_and_days_are_written_as_they_are_seen(tmp_path):
    """1 and not 1.0, a day without an hour, as texts of tables have them."""
    path = tmp_path / "t.xlsx"
    days = [pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-01 10:08"), None]
    TABLE.assign(grade=[0.0, 1.5, 4], visit=days).to_excel(path, index=False)
    table = read(path, path.read_bytes())
    assert table["grade"].tolist() == ["0", "1.5", "4"]
    assert table["visit"].tolist() == ["2024-05-01", "2024-05-01 10:08:00", ""]
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(DrError, match="^t.xlsx cannot be read: save it as"):
        read_sheet(path)


def test_prepare_chooses_a_sheet_and_a_column(tmp_path):
    """By one option each."""
    (tmp_path / "a.jpg").touch()
    TABLE.to_excel(tmp_path / "t.xlsx", sheet_name="2026", index=False)
    command = f"prepare --images {tmp_path} --labels {tmp_path}/t.xlsx --out {tmp_path}/out"
    for option, said in (
        ("--sheet=2025", "rows on 0 of"),
        ("--column=grade=Grau", "for grade=G"),
    ):
        assert said in CliRunner().invoke(main, [*command.split(), option]).output
