"""Read people's tables: texts and workbooks, with their quotes, encodings, sheets and columns."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dr_lib.data.labels.schema import (
    COLUMNS,
    fold_id,
    fold_name,
    list_words,
    read_words,
)
from dr_lib.errors import DrError

if TYPE_CHECKING:
    import pandas as pd

TEXTS = (".csv", ".tsv", ".txt")
WORKBOOKS = (".xlsx", ".xlsm")
NAMES = {**dict(zip(COLUMNS, COLUMNS)), **list_words(COLUMNS)}  # ours by what people write
NUMBER = re.compile(r"-?\d+([.,]\d+)?")
# Grau Dr 2, of a second doctor
NUMBERED = re.compile(
    rf"({'|'.join(['grade', *COLUMNS['grade'].split()])})(_[a-z]+)*_?\d{{1,2}}"
)
TOP = 20  # lines above and of a header, at most
END = "\x03"  # a line behind the last one, which an open quotation mark takes in


class Sheet(NamedTuple):
    """A table as it stands in a file: the one of a text, or one of a workbook's."""

    file: str  # its name
    title: str  # of the sheet; empty of a text
    encoding: str  # of a text
    delimiter: str  # between the cells of a text
    header: list[str]  # an empty name where a column has none
    names: list[str]  # by COLUMNS, or folded; empty where there is none, or another was chosen
    rows: dict[int, list[str]]  # the cells by line of the file, without blanks around them

    def __str__(self) -> str:
        """Name the table in an error."""
        return f"{self.file}, sheet {self.title}" if self.title else self.file


def read_sheets(
    path: Path,
    title: str = "",
    columns: Sequence[str] = (),
    words: Collection[str] = NAMES,
) -> list[Sheet]:
    """Read a table, or each sheet of a workbook that has one, be it hidden.

    A text is UTF-8, UTF-16 or Windows-1252, with commas, semicolons, tabs or bars between its
    cells. Lines above the header are left out, as is `sep=;`. A .txt without a header is a name and
    a number on each line, in the columns 1 and 2.

    Args:
        path: the file.
        title: of the only sheet to read; empty for all.
        columns: which column is ours, by its name or its number from 1: grade=Grau Dr 2, grade=6.
        words: what columns may be called, folded; a header has two of them, or is the first row.

    Raises:
        DrError: there is no such file, sheet or column, or it is no table; the message names the
            row.
    """
    if re.match("https?:/", str(path)):
        address = str(path).replace(":/", "://", 1)  # a path has no two slashes
        raise DrError(f"{address} is a web address: download the file, and give its path")
    if path.is_dir():
        raise DrError(f"{path} is a folder: give the table in it")
    if not path.is_file():
        raise DrError(f"no such file: {path}")
    encoding = delimiter = ""
    if path.suffix.lower() in WORKBOOKS:
        tables = _read_workbook(path)
        if title and title not in tables:
            raise DrError(f"{path.name} has no sheet {title}: it has {', '.join(tables)}")
        tables = {title: tables[title]} if title else tables
    else:
        rows, encoding, delimiter = _read_text(path, words)
        tables = {"": rows}
    sheets = []
    for name, rows in tables.items():
        line = _find_header(rows, words)
        below = {number: row for number, row in rows.items() if number > line}
        header = rows.get(line, [])
        names = _name_columns(header, columns)
        sheets.append(Sheet(path.name, name, encoding, delimiter, header, names, below))
    if not any(sheet.rows for sheet in sheets):
        raise DrError(f"{path.name} is empty: it needs a header and rows below it")
    for pair in columns:
        if not any(_name(pair.split("=")[0]) in sheet.names for sheet in sheets):
            named = ", ".join(filter(None, sheets[0].header))
            raise DrError(f"{path.name} has no or several columns for {pair}: it has {named}")
    return sheets


def choose_sheet(sheets: Sequence[Sheet], found: Sequence[Sheet]) -> Sheet | None:
    """Choose the only one of the sheets that were found to have the columns; None if there is none.

    Raises:
        DrError: there are several, or another goes on with rows below no header.
    """
    found = [sheet for sheet in found if sheet.rows]
    if not found:
        return None
    row = next(iter(found[0].rows.values()))
    titles = []
    for sheet in sheets:
        goes_on = len(sheet.header) == len(row) and _is_alike(zip(sheet.header, row))
        if sheet in found or goes_on:
            titles.append(sheet.title)
    if len(titles) > 1:
        raise DrError(
            f"{found[0].file} has rows on the sheets {' and '.join(titles)}: choose one with"
            " --sheet, or put all rows on one sheet below one header"
        )
    return found[0]


def take_columns(sheet: Sheet, used: Collection[str] | None = None) -> pd.DataFrame:
    """Take the columns of a table that are used, or all that have a name.

    Returns:
        A column of str for each name, in order of the table; the index is the line of the file. Of
        columns with one name, which agree, the first.

    Raises:
        DrError: a row has more cells than the header, or two columns of one name disagree.
    """
    import pandas as pd

    names = [name if used is None or name in used else "" for name in sheet.names]
    width = len(names)
    taken = [place for place, name in enumerate(names) if name]
    rows = []
    for line, row in sheet.rows.items():
        if any(row[width:]):
            raise DrError(
                f"{sheet}, row {line}: {len(row)} cells, but the header has {width}: name each"
                " column, and put a cell with a comma or another separator in quotation marks"
            )
        rows.append([row[place] if place < len(row) else "" for place in taken])
    table = pd.DataFrame(rows, list(sheet.rows), taken, str)
    places = {}
    for place, name in enumerate(names):
        first = places.setdefault(name, place)
        if name and first < place:
            differs = read_same(name, table[first]) != read_same(name, table[place])
            if differs.any():
                both = [f"{sheet.header[i]} (column {i + 1})" for i in (first, place)]
                raise DrError(
                    f"{sheet}, row {differs.idxmax()}: {name} is in two columns that disagree,"
                    f" {' and '.join(both)}: choose one, such as --column {name}={place + 1}"
                )
    places.pop("", None)
    return table[list(places.values())].set_axis(list(places), axis=1)


def read_numbers(cells: pd.Series) -> pd.Series:
    """Read numbers with decimal points or commas; NaN where a cell is none."""
    import pandas as pd

    numbers = pd.to_numeric(cells, errors="coerce")
    rest = cells[numbers.isna()].str.replace(r"^(-?\d*),(?=\d)", r"\1.", regex=True)
    return numbers.fillna(pd.to_numeric(rest, errors="coerce"))


def name_rows(file: str, rows: Sequence[int], limit: int | None = 5) -> str:
    """Name a file and some row numbers in an error: labels.csv, rows 2, 3, 4, 5, 6 and 1 more."""
    listed = ", ".join(map(str, rows[:limit]))
    more = f" and {len(rows) - limit} more" if limit and len(rows) > limit else ""
    return f"{file}, row{'s'[: len(rows) > 1]} {listed}{more}"


def refuse_cells(file: str, cells: pd.Series, is_bad: pd.Series, words: str) -> None:
    """Raise a DrError that names the first wrong cells of a column, and what they must be."""
    cell = next(iter(cells[is_bad]), "")
    refuse_rows(file, is_bad, f'{cells.name} is "{cell}": it must be {words}')


def refuse_rows(file: str, is_bad: pd.Series, words: str) -> None:
    """Raise a DrError that names the first wrong rows."""
    rows = is_bad.index[is_bad].tolist()
    if rows:
        raise DrError(f"{name_rows(file, rows)}: {words}")


def read_same(name: str, cells: pd.Series) -> pd.Series:
    """Read cells so that two ways of writing a thing are equal; of a photograph, with its path."""
    folded = read_words(name, cells).map(fold_id)
    is_image = name in ("image", "image_id")
    return folded.str.replace(r".*[/\\]|\.[a-z]{3,4}$", "", regex=True) if is_image else folded


def _fold(column: str) -> str:
    """Fold a column's name, without what is in brackets if COLUMNS has it so."""
    short = fold_name(re.sub(r"\(.*\)", "", column))
    return short if short in NAMES else fold_name(column)


def _name(column: str) -> str:
    """Name a column by COLUMNS; the grades of a second doctor are grades, too."""
    folded = _fold(column)
    return "grade" if NUMBERED.fullmatch(folded) else NAMES.get(folded, folded)


def _name_columns(header: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Name all columns, or those that were chosen, which take the names of others."""
    names = [_name(column) for column in header]
    for name in ("patient_id", "visit"):  # a name, or a date, may differ from a number
        called = {_fold(column) for column in header}
        best = next((word for word in COLUMNS[name].split() if word in called), "")
        for place, column in enumerate(map(_fold, header)):
            if names[place] == name and column != best:
                names[place] = column
    for pair in columns:
        ours, _, theirs = pair.partition("=")
        named = [fold_name(theirs) in (fold_name(c), str(n)) for n, c in enumerate(header, 1)]
        names = ["" if _name(name) == _name(ours) else name for name in names]
        if sum(named) == 1:
            names[named.index(True)] = _name(ours)
    return names


def _read_workbook(path: Path) -> dict[str, dict[int, list[str]]]:
    """Read the rows of the sheets of a workbook."""
    import pandas as pd

    try:
        tables = pd.read_excel(
            path, None, engine="openpyxl", header=None, dtype=str, na_filter=False
        )
    except Exception as error:  # of a damaged file, any
        raise DrError(
            f"{path.name} cannot be read: save it as .xlsx without a password, or as CSV in UTF-8"
        ) from error
    return {
        title: _clean(enumerate(table.to_numpy().tolist(), 1))
        for title, table in tables.items()
    }


def _read_text(path: Path, words: Collection[str]) -> tuple[dict[int, list[str]], str, str]:
    """Read the rows of a text; return its encoding and what is between cells, too."""
    text, encoding = decode_text(path)
    lines = [f"{line}\n" for line in re.sub("\r\n?", "\n", text).split("\n")]
    separator = re.match('"?sep=(.)', text, re.IGNORECASE)  # of Excel
    ratings = {}
    for delimiter in separator[1] if separator else ",;\t|":
        top = _clean(enumerate(csv.reader(lines[:TOP], delimiter=delimiter)))
        header = top.get(_find_header(top, words), [])
        ratings[delimiter] = (_count(header, words), len(header))
    delimiter = max(ratings, key=ratings.get)
    known, width = ratings[delimiter]
    if path.suffix.lower() == ".txt" and known < 2:
        cells = [["1", "2"], *(line.rsplit(maxsplit=1) for line in lines)]
        return _clean(enumerate(cells)), encoding, ""

    return _clean(_parse(path.name, lines, delimiter, width)), encoding, delimiter


def _parse(
    name: str, lines: list[str], delimiter: str, width: int
) -> Iterable[tuple[int, list[str]]]:
    """Parse lines into rows, each with its last line's number."""
    csv.field_size_limit(2**31 - 1)  # an open quotation mark takes in everything
    reader = csv.reader(
        itertools.chain(lines, [END]), delimiter=delimiter, skipinitialspace=True
    )
    last = 0  # line of the row before
    for row in reader:
        if reader.line_num - last > 1:
            _check_breaks(name, row, last + 1, delimiter, width)
        last = reader.line_num
        if row != [END]:
            yield last, row


def decode_text(path: Path) -> tuple[str, str]:
    """Decode a text; return its encoding, too."""
    content = path.read_bytes()
    marked = [line for line in content.split(b"\n") if not line.isascii()]
    encoding = "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\0" in content[:2]:
        encoding = "utf-16-be" if content[0] == 0 else "utf-16-le"
    elif marked and not any(map(_is_utf8, marked)):
        encoding = "windows-1252"  # of Excel in Brazil; it includes printable Latin-1
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        text = content[: error.start].decode(encoding, "replace") + "\0"
    if "\0" in text:
        row = len(re.findall("\r\n|\r|\n", text[: text.index("\0")])) + 1
        raise DrError(
            f"{path.name}, row {row}: a character is in none of UTF-8, UTF-16 and Windows-1252, or"
            " not in that of the other rows: save the table as .xlsx, or as CSV in UTF-8"
        )
    return text, encoding


def _is_utf8(content: bytes) -> bool:
    try:
        return bool(content.decode())
    except UnicodeDecodeError:
        return False


def _check_breaks(name: str, row: list[str], line: int, delimiter: str, width: int) -> None:
    """Check that cells of several lines are notes, and have not taken in other rows."""
    for place, cell in enumerate(row):
        head, *others = cell.split("\n")
        taken = [other for other in others if other.strip()]
        is_open = END in cell or len(others) > 10  # line breaks in a cell, at most
        if taken and cell.count(delimiter) >= len(taken) * max(width - 1, 1):
            before = zip(taken[0].split(delimiter), row[:place])
            after = zip(head.split(delimiter)[1:], row[place + 1 :])
            is_open = is_open or _is_alike([*before, *after])
        if is_open:
            raise DrError(
                f'{name}, row {line}: a quotation mark (") begins a cell that takes in what is'
                " below: remove it, or write the mark that ends the cell"
            )
        line += len(others)


def _is_alike(pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether cells are numbers where the others are."""
    return all(
        bool(NUMBER.fullmatch(a)) == bool(NUMBER.fullmatch(b)) for a, b in pairs if a and b
    )


def _clean(rows: Iterable[tuple[int, list[str]]]) -> dict[int, list[str]]:
    """Drop empty rows, and blanks around cells and line breaks in them."""
    found = {}
    for line, row in rows:
        cells = [sys.intern(cell.replace("\n", " ").strip()) for cell in row]
        if any(cells):
            found[line] = cells
    return found


def _count(row: Sequence[str], words: Collection[str]) -> int:
    """Count the cells that are known words."""
    return sum(fold_name(cell) in words for cell in row)


def _find_header(rows: dict[int, list[str]], words: Collection[str]) -> int:
    """Find the first line with two known words, or else with two cells, or else the first."""
    top = list(rows)[:TOP]
    known = [line for line in top if _count(rows[line], words) > 1]
    several = [line for line in top if sum(map(bool, rows[line])) > 1]
    return (known + several + top + [0])[0]
