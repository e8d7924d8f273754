"""Read people's tables: text and workbooks, with their quotes, encodings, sheets and columns.

Notebooks of foreign kernels read tables of prices too: this file needs Python 3.9, and for
workbooks and columns pandas.
"""

from __future__ import annotations

import codecs
import csv
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dr_lib.data.labels.schema import COLUMNS, fold_id, fold_name, list_words, read_words
from dr_lib.errors import DrError

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = ",;\t|"
TEXTS = (".csv", ".tsv", ".txt")
WORKBOOKS = (".xlsx", ".xlsm")
OTHERS = (".xls", ".xlsb", ".ods", ".numbers")
TITLE = 10  # lines above a header, at most
NOTE = 10  # line breaks in a cell, at most
END = "\x03"  # a line behind the last one, which an open quotation mark takes in
NUMBER = re.compile(r"-?\d+([.,]\d+)?")
NAMES = {*COLUMNS, *list_words(COLUMNS)}
# Grau Dr 2, of a second reader
READER = re.compile(rf"({'|'.join(['grade', *COLUMNS['grade'].split()])})(_[a-z]+)*_?(\d)")


class Sheet(NamedTuple):
    """A table as it stands in a file: the one of a text, or one of a workbook's."""

    file: str  # its name
    title: str  # of the sheet; empty of a text
    encoding: str  # of a text; empty of a workbook, as is the next
    delimiter: str  # between cells
    header: list[str]  # an empty name where a column has none
    rows: dict[int, list[str]]  # the cells by line of the file, without blanks around them

    def __str__(self) -> str:
        """Name the table in an error."""
        return f"{self.file}, sheet {self.title}" if self.title else self.file


def read_sheets(path: Path, names: Collection[str] = NAMES, title: str = "") -> list[Sheet]:
    """Read a table, or each visible or hidden sheet of a workbook.

    A text is UTF-8, UTF-16 or Windows-1252, with commas, semicolons, tabs or bars between its
    cells. Lines above the header are left out, as are `sep=;`, empty lines and sheets without rows.
    A .txt without a header is a name and a number on each line, in the columns 1 and 2.

    Args:
        path: the file.
        names: what columns may be called, folded; a header has two of them, if there is one.
        title: of the only sheet to read; empty for all.

    Raises:
        DrError: there is no such file or sheet, it has no rows, or it is no table; the message
            names the row.
    """
    if re.match("https?:/", str(path)):
        address = str(path).replace(":/", "://", 1)  # a path has no two slashes
        raise DrError(f"{address} is a web address: download the file, and give its path")
    if path.is_dir():
        raise DrError(f"{path} is a folder: give the table in it")
    if not path.is_file():
        raise DrError(f"no such file: {path}")
    suffix = path.suffix.lower()
    if suffix in OTHERS:
        raise DrError(f"{path.name} is not read: save it as .xlsx, or as CSV in UTF-8")
    if suffix in WORKBOOKS:
        sheets = _read_workbook(path, names, title)
    else:
        sheets = [_read_text(path, names)]
    found = [sheet for sheet in sheets if sheet.rows]
    if not found:
        raise DrError(f"{path.name} is empty: it needs a header and rows below it")
    return found


def choose_sheet(sheets: Sequence[Sheet], found: Sequence[Sheet]) -> Sheet | None:
    """Choose the only one of the sheets that were found to have the columns; None if there is none.

    Raises:
        DrError: there are several, or another goes on with rows below no header.
    """
    if not found:
        return None
    first = found[0]
    row = next(iter(first.rows.values()))
    titles = []
    for sheet in sheets:
        goes_on = len(sheet.header) == len(row) and _is_alike(zip(sheet.header, row))
        if sheet in found or goes_on:
            titles.append(sheet.title)
    if len(titles) > 1:
        raise DrError(
            f"{first.file} has rows on the sheets {' and '.join(titles)}: choose one with --sheet,"
            " or put all rows on one sheet below one header"
        )
    return first


def parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    """Parse pairs such as grade=Grau Dr 1: the column of a table that is to be ours.

    Raises:
        DrError: a pair has no equals sign.
    """
    chosen = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(chosen) < len(pairs):
        raise DrError("name columns as OURS=THEIRS, each of ours once: grade=Grau Dr 1")
    return chosen


def name_columns(sheet: Sheet, chosen: Mapping[str, str] = {}) -> list[str]:  # noqa: B006
    """Name columns by COLUMNS, or as they are called, folded.

    Args:
        sheet: the table.
        chosen: for our names, what the column is called, or its number from 1.

    Returns:
        A name for each; empty where there is none, or where another column was chosen.

    Raises:
        DrError: there is no such column.
    """
    words = list_words(COLUMNS)
    folded = [fold_name(column) for column in sheet.header]
    names = [words.get(column, column) for column in folded]
    readers = {}
    for place, column in enumerate(folded):
        match = READER.fullmatch(column)
        if match:
            readers[place] = match[3]
    # grade_0 to grade_4 are no readers, and beside grade_1 and grade_2 a column grade is of both
    if "0" not in readers.values() and not ("grade" in names and "1" in readers.values()):
        for place in readers:
            names[place] = "grade"
    for name, column in chosen.items():
        ours = words.get(fold_name(name), fold_name(name))
        places = [i for i, other in enumerate(folded, 1) if other == fold_name(column)]
        if not places and column.isdecimal():
            places = [int(column)]
        if len(places) != 1 or not 0 < places[0] <= len(folded):
            columns = ", ".join(filter(None, sheet.header))
            raise DrError(f"{sheet} has not one column {column}: it has the columns {columns}")
        names = ["" if other == ours else other for other in names]
        names[places[0] - 1] = ours
    return names


def take_columns(sheet: Sheet, names: Sequence[str]) -> pd.DataFrame:
    """Take the named columns of a table.

    Args:
        sheet: the table.
        names: a name for each of its columns, or an empty one to leave it out.

    Returns:
        A column of str for each name, in order of the table; the index is the line of the file. Of
        columns with one name, which agree, the first.

    Raises:
        DrError: a row has more cells than the header, or two columns of one name disagree.
    """
    import pandas as pd

    width = len(names)
    for line, row in sheet.rows.items():
        if any(row[width:]):
            raise DrError(
                f"{sheet}, row {line}: {len(row)} cells, but the header has {width}: put a cell"
                " that holds a comma or another separator in quotation marks"
            )
    table = pd.DataFrame(index=list(sheet.rows))
    places = {}
    for place, name in enumerate(names):
        if not name:
            continue
        cells = [row[place] if place < len(row) else "" for row in sheet.rows.values()]
        column = pd.Series(cells, table.index, dtype=str)
        if name in places:
            differs = _read_same(name, column) != _read_same(name, table[name])
            if differs.any():
                both = [f"{sheet.header[i]} (column {i + 1})" for i in (places[name], place)]
                raise DrError(
                    f"{sheet}, row {differs.idxmax()}: {name} is in two columns that disagree,"
                    f" {' and '.join(both)}: choose one, such as --column {name}={place + 1}"
                )
            continue
        places[name] = place
        table[name] = column
    return table


def read_numbers(cells: pd.Series) -> pd.Series:
    """Read numbers with decimal points or commas; NaN where a cell is none."""
    import pandas as pd

    points = cells.str.replace(r"^(-?\d*),(?=\d)", r"\1.", regex=True)
    return pd.to_numeric(points, errors="coerce")


def _read_same(name: str, cells: pd.Series) -> pd.Series:
    """Read cells so that two ways of writing a thing are equal; of a photograph, with its path."""
    folded = read_words(name, cells).map(fold_id)
    is_image = name in ("image", "image_id")
    return folded.str.replace(r".*[/\\]|\.[a-z]{3,4}$", "", regex=True) if is_image else folded


def _read_workbook(path: Path, names: Collection[str], title: str) -> list[Sheet]:
    """Read the sheets of a workbook, or the one that is named."""
    try:
        import openpyxl  # noqa: F401
        import pandas as pd
    except ImportError as error:
        raise DrError(
            f"{path.name} needs the package openpyxl: install it, or save the file as CSV"
        ) from error
    try:
        with pd.ExcelFile(path, engine="openpyxl") as book:
            titles = [sheet.title for sheet in book.book.worksheets]
            tables = {
                name: pd.read_excel(book, name, header=None, dtype=str, na_filter=False)
                for name in titles
                if title in ("", name)
            }
    except Exception as error:  # of a damaged file, any
        raise DrError(
            f"{path.name} cannot be read: save it as .xlsx without a password, or as CSV in UTF-8"
        ) from error
    if title and not tables:
        raise DrError(f"{path.name} has no sheet {title}: it has {', '.join(titles)}")
    sheets = []
    for name, table in tables.items():
        lines = enumerate(table.to_numpy().tolist(), 1)
        rows = {line: [_clean(cell) for cell in row] for line, row in lines}
        rows = {line: row for line, row in rows.items() if any(row)}
        header = _find_header(list(rows.values()), names)
        sheets.append(_cut(Sheet(path.name, name, "", "", header, rows)))
    return sheets


def _read_text(path: Path, names: Collection[str]) -> Sheet:
    """Read the table of a text."""
    text, encoding = _decode(path)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    separator = re.match('"?sep=(.)', lines[0], re.IGNORECASE)  # of Excel
    delimiters = separator[1] if separator else DELIMITERS
    lines[0] = "" if separator else lines[0]  # lines keep their numbers
    headers = {}
    for delimiter in delimiters:
        reader = csv.reader((f"{line}\n" for line in lines[: 2 * TITLE]), delimiter=delimiter)
        headers[delimiter] = _find_header([list(map(_clean, row)) for row in reader], names)
    delimiter = max(headers, key=lambda one: (_count(headers[one], names), len(headers[one])))
    header = headers[delimiter]
    if path.suffix.lower() == ".txt" and _count(header, names) < 2:
        cells = {line: text.rsplit(maxsplit=1) for line, text in enumerate(lines, 1)}
        rows = {line: row for line, row in cells.items() if row}
        return Sheet(path.name, "", encoding, " ", ["1", "2"], rows)
    rows = _parse(path.name, lines, delimiter, len(header))
    return _cut(Sheet(path.name, "", encoding, delimiter, header, rows))


def _decode(path: Path) -> tuple[str, str]:
    """Decode a text; return its encoding, too."""
    content = path.read_bytes()
    encoding = "utf-8-sig"
    nulls = [content[side::2].count(0) for side in (0, 1)]
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif max(nulls) > len(content) / 5:
        encoding = "utf-16-be" if nulls[0] > nulls[1] else "utf-16-le"
    elif not _is_utf8(content):
        marked = [line for line in content.split(b"\n") if not line.isascii()]
        if not any(map(_is_utf8, marked)):
            encoding = "windows-1252"  # of Excel in Brazil; it includes printable Latin-1
    try:
        text = content.decode(encoding)
        place = text.find("\0")
    except UnicodeDecodeError as error:
        text = content[: error.start].decode(encoding, "replace")
        place = len(text)
    if place >= 0:
        row = len(re.findall("\r\n|\r|\n", text[:place])) + 1
        raise DrError(
            f"{path.name}, row {row}: a character is in none of UTF-8, UTF-16 and Windows-1252, or"
            " not in that of the other rows: save the table as CSV in UTF-8"
        )
    return text, encoding


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parse(name: str, lines: list[str], delimiter: str, width: int) -> dict[int, list[str]]:
    """Parse lines into cells, by the last line of each row.

    Raises:
        DrError: a quotation mark is open; the message names the line where it stands.
    """
    rows = {}
    last = 0  # line of the row before

    def feed():
        for number, line in enumerate([*lines, END]):
            if number - last > 2 * NOTE:
                return
            yield f"{line}\n"

    reader = csv.reader(feed(), delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if reader.line_num - last > 1:
                _check_breaks(name, row, last + 1, delimiter, width)
            last = reader.line_num
            cells = [_clean(cell) for cell in row]
            if any(cells) and cells != [END]:
                rows[last] = cells
    except csv.Error as error:
        raise DrError(f"{name}, row {last + 1} cannot be read: {error}") from error
    return rows


def _check_breaks(name: str, row: list[str], line: int, delimiter: str, width: int) -> None:
    """Check that a cell of several lines is a note, and has not taken in other rows."""
    for place, cell in enumerate(row):
        head, *others = cell.split("\n")
        taken = [other for other in others if other.strip()]
        is_open = END in cell or len(others) > NOTE
        if taken and cell.count(delimiter) >= len(taken) * max(width - 1, 1):
            before = zip(taken[0].split(delimiter), row[:place])
            after = zip(head.split(delimiter)[1:], row[place + 1 :])
            is_open = is_open or _is_alike([*before, *after])
        if is_open:
            raise DrError(
                f'{name}, row {line}: a quotation mark (") begins a cell that takes in the rows'
                " below: remove it, or write the mark that ends the cell"
            )
        line += len(others)


def _is_alike(pairs) -> bool:
    """Whether cells are numbers where the others are."""
    return all(
        bool(NUMBER.fullmatch(a)) == bool(NUMBER.fullmatch(b)) for a, b in pairs if a and b
    )


def _clean(cell: str) -> str:
    """Drop blanks around a cell and line breaks in it."""
    return sys.intern(cell.replace("\n", " ").strip())


def _count(header: Sequence[str], names: Collection[str]) -> int:
    """Count the names that are known."""
    return sum(fold_name(column) in names for column in header)


def _find_header(rows: Sequence[list[str]], names: Collection[str]) -> list[str]:
    """Find the first row with two known names, or else with two cells, or else the first."""
    top = [row for row in rows if any(row)][: TITLE + 1]
    known = [row for row in top if _count(row, names) > 1]
    several = [row for row in top if sum(map(bool, row)) > 1]
    return next(iter(known + several + top), [])


def _cut(sheet: Sheet) -> Sheet:
    """Cut the header and what is above it."""
    rows = dict(sheet.rows)
    for line, row in sheet.rows.items():
        del rows[line]
        if row == sheet.header:
            break
    return sheet._replace(rows=rows)
