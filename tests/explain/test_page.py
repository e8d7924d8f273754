"""The list of photographs to explain, as people save it."""

import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.explain.page import read_list

TABLE = pd.DataFrame({"image_id": ["7", "8", "7"], "file": ["é 1.jpg", "b, c.jpg", "é 1.jpg"]})
LINES = "é 1.jpg\n\nb, c.jpg\né 1.jpg\n"


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("list.csv", lambda path: TABLE.to_csv(path)),
        ("list.csv", lambda path: TABLE.to_csv(path, sep=";", encoding="cp1252")),
        ("list.txt", lambda path: TABLE.to_csv(path, sep="\t", encoding="utf-16")),
        ("list.xlsx", lambda path: TABLE.to_excel(path)),
        ("list.txt", lambda path: path.write_text(LINES, encoding="utf-8-sig")),
        ("list.csv", lambda path: TABLE.file.to_csv(path, index=False)),
        ("list", lambda path: path.write_text(LINES, encoding="cp1252")),
    ],
)
def test_a_list_names_each_file_once(tmp_path, name, save):
    """A table with a column file, of commas, semicolons or a workbook, or a file a line."""
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    save(tmp_path / name)
    assert read_list(tmp_path / name) == ["é 1.jpg", "b, c.jpg"]


def test_a_list_without_a_file_is_refused(tmp_path):
    """With the way out."""
    (tmp_path / "list.csv").write_text("file,grade\n,2\n")
    with pytest.raises(DrError, match="names no file: give a column file, or a file a line"):
        read_list(tmp_path / "list.csv")
