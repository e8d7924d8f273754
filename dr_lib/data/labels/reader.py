"""Read people's tables: a text or a workbook becomes columns of text with row numbers. What could
mean two things is refused.
"""

import csv
import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.data.labels.schema import COLUMNS, fold_id, fold_name, list_words, read_words
from dr_lib.errors import DrError

# XLS and the last three are refused where they are read, with what to do
TABLES = ".csv .tsv .txt .xlsx .xlsm .xls .xlsb .ods .numbers".split()
NAMES = {**dict(zip(COLUMNS, COLUMNS)), **list_words(COLUMNS)}  # ours by what people write
# Grau 2, Grau Dr 2: of a second doctor
NUMBERED = re.compile(
    rf"({'|'.join(['grade', *COLUMNS['grade'].split()])})(_[a-z]+)*_?[1-9]\d?"
)
TOP = 20  # lines above and of a header, at most
SPELT = (
    "ids of patients differ only in case, blanks, leading zeros or .0: write those of one person"
    " alike, and make those of two clearly different"
)
UTF8 = rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}"  # a letter that is not in ASCII
UNSEEN = "\x03"  # stands in cells of hidden rows, and of a merged range, but for the first


class Sheet(NamedTuple):
    """A table as it stands in a file."""

    name: str  # of the file, and of a workbook's sheet
    header: list[str]  # an empty name where a column has none
    names: list[str]  # by COLUMNS, or folded; empty where there is none, or another was chosen
    cells: pd.DataFrame  # texts by line of the file and number of the column


def read_sheet(path: Path, title: str = "", columns: Sequence[str] = ()) -> Sheet:
    """Read a table, or the only visible sheet of a workbook.

    A text is UTF-8, UTF-16 or Windows-1252, with commas, semicolons, tabs or bars between its
    cells. Lines above the header are left out. A .txt without a header is a name and a number on
    each line, in the columns 1 and 2.

    Args:
        path: the file.
        title: of the sheet.
        columns: which column is ours, by its name or its number from 1: grade=Grau Dr 2, grade=6.

    Raises:
        DrError: there is no such file, sheet or column, or several sheets may be meant, or it is no
            table; the message names the row.
    """
    if not path.is_file():
        raise DrError(f"{path} is no file: give a table")
    is_book = path.suffix.lower() in (".xlsx", ".xlsm")
    name, rows = _read_workbook(path, title) if is_book else (path.name, _read_text(path))
    lines = {}
    for number, row in rows:
        cells = [cell.replace("\n", " ").strip() for cell in row]
        if any(cells):
            lines[number] = cells
    top = list(lines)[:TOP]
    start = max(top, key=lambda number: _count_known(lines[number]), default=0)
    by_column = enumerate(zip_longest(*lines.values(), fillvalue=""))
    cells = pd.DataFrame(dict(by_column), list(lines), dtype=str)
    below = cells[cells.index > start]
    if below.empty:
        raise DrError(f"{name} is empty: it needs a header and rows below it")
    return Sheet(name, lines[start], _name_columns(name, lines[start], columns), below)


def take_columns(sheet: Sheet, used: Collection[str] | None = None) -> pd.DataFrame:
    """Take the columns of a table that are used, or all that have a name, in our words.

    Returns:
        A column of str for each name, in order of the table; the index is the line of the file. Of
        columns with one name, which agree, the first.

    Raises:
        DrError: a row has more cells than the header, or merged ones, or two columns of one name
            differ.
    """
    width = len(sheet.names)
    refuse_rows(
        sheet.name,
        (sheet.cells.iloc[:, width:] != "").any(axis=1),
        f"more cells than the header, which has {width}: name each column, and put a cell with a"
        " comma or another separator in quotation marks",
    )
    taken = {}
    for place, name in enumerate(sheet.names):
        if not name or (used is not None and name not in used):
            continue
        cells = sheet.cells[place]
        refuse_rows(
            sheet.name,
            cells == UNSEEN,
            "hidden, as by a filter, or merged cells: show or delete the rows, split the cells and"
            " write the value in each",
        )
        column = read_words(name, cells)
        both = f"{sheet.header[sheet.names.index(name)]} and {sheet.header[place]}"
        refuse_rows(
            sheet.name,
            column != taken.setdefault(name, column),
            f"{name} is in two columns that disagree, {both}: choose one, such as --column"
            f" {name}={place + 1}",
        )
    return pd.DataFrame(taken, sheet.cells.index)


def read_numbers(cells: pd.Series) -> pd.Series:
    """Read numbers with decimal points or commas; NaN where a cell is none."""
    plain = cells.str.replace(r"^(-?\d*),(?=\d)", r"\1.", regex=True)
    return pd.to_numeric(plain, errors="coerce")


def refuse_cells(file: str, cells: pd.Series, is_bad: pd.Series, words: str) -> None:
    """Raise a DrError that names the first wrong cells of a column, and what they must be."""
    cell = next(iter(cells[is_bad]), "")
    refuse_rows(file, is_bad, f'{cells.name} is "{cell}": it must be {words}')


def refuse_rows(file: str, is_bad: pd.Series, words: str) -> None:
    """Raise a DrError that names the first wrong rows: labels.csv, rows 2, 3, 4, 5, 6 and 1 more.

    Args:
        file: the name of the table.
        is_bad: for each row, by its line.
        words: what is wrong, and what to write.
    """
    if is_bad.any():
        raise DrError(f"{name_rows(file, is_bad.index[is_bad])}: {words}")


def name_rows(file: str, rows: Sequence[int]) -> str:
    """Name a file and some row numbers: labels.csv, rows 2, 3, 4, 5, 6 and 1 more."""
    listed = ", ".join(map(str, rows[:5]))
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"{file}, row{'s'[: len(rows) > 1]} {listed}{more}"


def find_spellings(ids: pd.Series) -> pd.Series:
    """Find ids of patients that `fold_id` makes equal: one person's, or two people's?"""
    return ids.str.normalize("NFC").groupby(ids.map(fold_id)).transform("nunique") > 1


def _name(column: str) -> str:
    """Name a column by COLUMNS, or by its folded name; a second doctor's grades are grades, too."""
    folded = fold_name(column)
    return "grade" if NUMBERED.fullmatch(folded) else NAMES.get(folded, folded)


def _name_columns(file: str, header: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Name all columns; one that is chosen takes the name of others."""
    names = [_name(column) for column in header]
    chosen = set()
    for pair in columns:
        ours, _, theirs = pair.partition("=")
        ours = _name(ours)
        wanted = fold_name(theirs)
        places = [
            place
            for place, title in enumerate(header)
            if wanted == str(place + 1) or (title and wanted == fold_name(title))
        ]
        if ours not in COLUMNS or ours in chosen or len(places) != 1:
            raise DrError(
                f"{file} has no or several columns for {pair}: write a column of ours once, and one"
                f" of the table, as grade=Grau; ours are {', '.join(COLUMNS)}; it has"
                f" {', '.join(filter(None, header))}"
            )
        chosen.add(ours)
        names = ["" if name == ours else name for name in names]
        names[places[0]] = ours
    return names


def _read_workbook(path: Path, title: str) -> tuple[str, Iterable[tuple[int, list[str]]]]:
    """Name the only visible sheet that has rows, or the one that is named, and read its rows."""
    try:
        import openpyxl  # needed by workbooks alone

        book = openpyxl.load_workbook(path, data_only=True, keep_links=False)
    except Exception as error:  # of a damaged file, any
        raise DrError(
            f"{path.name} cannot be read: save it as .xlsx without a password, or as CSV in UTF-8"
        ) from error
    found = {}
    for sheet in book.worksheets:
        if sheet.title == title or (not title and sheet.sheet_state == "visible"):
            lines = sheet.row_dimensions
            rows = [
                [_write_cell(cell, is_hidden=lines[number].hidden) for cell in row]
                for number, row in enumerate(sheet.iter_rows(), 1)
            ]
            if any(map(any, rows)):
                found[f"{path.name}, sheet {sheet.title}"] = rows
    if len(found) != 1:
        raise DrError(
            f"{path.name} has rows on {len(found)} of the sheets that may be meant: choose one of"
            f" {', '.join(book.sheetnames)} with --sheet, or put all rows on one sheet below one"
            " header"
        )
    ((name, rows),) = found.items()
    return name, enumerate(rows, 1)


def _write_cell(cell, *, is_hidden: bool) -> str:
    """Write the value of a workbook's cell as text."""
    value = cell.value
    if type(cell).__name__ == "MergedCell" or (is_hidden and value is not None):
        return UNSEEN
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    return "" if value is None else str(value)


def _read_text(path: Path) -> Iterable[tuple[int, list[str]]]:
    """Read the rows of a text, each with its last line's number.

    Raises:
        DrError: a quotation mark stands where none may, or a cell of several lines may have taken
            in other rows.
    """
    lines = [f"{line}\n" for line in re.sub("\r\n?", "\n", _decode(path)).split("\n")]
    last = 0  # line of the row before
    try:
        known, _, delimiter = max(
            (_count_known(row), len(row), delimiter)
            for delimiter in ",;\t|"
            for row in csv.reader(lines[:TOP], delimiter=delimiter)
        )
        if path.suffix.lower() == ".txt" and known < 2:
            yield from enumerate([["1", "2"], *(line.rsplit(maxsplit=1) for line in lines)])
            return
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
        for row in reader:
            if any("\n" in cell and delimiter in cell for cell in row):
                raise csv.Error
            last = reader.line_num
            yield last, row
    except csv.Error as error:
        raise DrError(
            f'{path.name}, row {last + 1}: a quotation mark (") is open or too many, or stands'
            f" around line breaks beside {delimiter!r}: correct the cell, or save the table as"
            " .xlsx"
        ) from error


def _decode(path: Path) -> str:
    """Decode a text."""
    content = path.read_bytes()
    encodings = ["utf-8-sig"]
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    elif not re.search(UTF8, content):  # letters of UTF-8 beside others are no text
        encodings.append("windows-1252")  # of Excel in Brazil, which includes printable Latin-1
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            text = content.decode(encoding)
            if "\0" not in text:
                return text
    raise DrError(
        f"{path.name} is no text in UTF-8, UTF-16 or Windows-1252 alone: save the table as .xlsx,"
        " or as CSV in UTF-8"
    )


def _count_known(row: Sequence[str]) -> int:
    """Count the cells that are names of columns."""
    return sum(fold_name(cell) in NAMES for cell in row)
