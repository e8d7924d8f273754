"""Read people's tables: a text or a workbook becomes columns of text with row numbers. What could
mean two things is refused.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dr_lib.data.labels.schema import COLUMNS, fold_id, fold_name, list_words
from dr_lib.errors import DrError

if TYPE_CHECKING:  # a study that prices its runs starts without it
    import pandas as pd

TEXTS = (".csv", ".tsv", ".txt")
WORKBOOKS = (".xlsx", ".xlsm")
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
MERGED = "\x03"  # stands in the cells of a merged range, but for the first


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


def read_sheet(
    path: Path,
    title: str = "",
    columns: Sequence[str] = (),
    words: Collection[str] = NAMES,
) -> Sheet:
    """Read a table, or the only visible sheet of a workbook whose header has known words.

    A text is UTF-8, UTF-16 or Windows-1252, with commas, semicolons, tabs or bars between its
    cells. Lines above the header are left out, as is `sep=;`. A .txt without a header is a name and
    a number on each line, in the columns 1 and 2.

    Args:
        path: the file.
        title: of the sheet.
        columns: which column is ours, by its name or its number from 1: grade=Grau Dr 2, grade=6.
        words: what columns may be called, folded; of the first lines the header has most of them.

    Raises:
        DrError: there is no such file, sheet or column, or several sheets may be meant, or it is no
            table; the message names the row.
    """
    if path.is_dir():
        raise DrError(f"{path} is a folder: give the table in it")
    if not path.is_file():
        raise DrError(f"no such file: {path}")
    if path.suffix.lower() in WORKBOOKS:
        sheet = _read_workbook(path, title, words)
    else:
        sheet = _read_text(path, words)
    if not sheet:
        raise DrError(f"{path.name} is empty: it needs a header and rows below it")
    return sheet._replace(names=_name_columns(path.name, sheet.header, columns))


def take_columns(sheet: Sheet, used: Collection[str] | None = None) -> pd.DataFrame:
    """Take the columns of a table that are used, or all that have a name.

    Returns:
        A column of str for each name, in order of the table; the index is the line of the file. Of
        columns with one name, which agree, the first.

    Raises:
        DrError: a row has more cells than the header, or merged ones, or two columns of one name
            differ.
    """
    import pandas as pd

    names = [name if used is None or name in used else "" for name in sheet.names]
    width = len(names)
    is_long = pd.Series({line: any(row[width:]) for line, row in sheet.rows.items()})
    refuse_rows(
        str(sheet),
        is_long,
        f"more cells than the header, which has {width}: name each column, and put a cell with a"
        " comma or another separator in quotation marks",
    )
    # of a wide table no more is held
    taken = [place for place, name in enumerate(names) if name]
    cells = [
        [row[place] if place < len(row) else "" for place in taken]
        for row in sheet.rows.values()
    ]
    table = pd.DataFrame(cells, list(sheet.rows), taken, str)
    firsts = {name: names.index(name) for name in names if name}
    for place in taken:
        name = names[place]
        first = firsts[name]
        differs = table[first] != table[place]
        if differs.any():
            both = [f"{sheet.header[i]} (column {i + 1})" for i in (first, place)]
            raise DrError(
                f"{sheet}, row {differs.idxmax()}: {name} is in two columns that disagree,"
                f" {' and '.join(both)}: choose one, such as --column {name}={place + 1}"
            )
    table = table[list(firsts.values())].set_axis(list(firsts), axis=1)
    is_merged = (table == MERGED).any(axis=1)
    refuse_rows(str(sheet), is_merged, "merged cells: split them, and write the value in each")
    return table


def read_numbers(cells: pd.Series) -> pd.Series:
    """Read numbers with decimal points or commas; NaN where a cell is none."""
    import pandas as pd

    plain = cells.str.replace(r"^(-?\d*),(?=\d)", r"\1.", regex=True)
    return pd.to_numeric(plain, errors="coerce")


def name_rows(file: str, rows: Sequence[int]) -> str:
    """Name a file and some row numbers in an error: labels.csv, rows 2, 3, 4, 5, 6 and 1 more."""
    listed = ", ".join(map(str, rows[:5]))
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return f"{file}, row{'s'[: len(rows) > 1]} {listed}{more}"


def refuse_cells(file: str, cells: pd.Series, is_bad: pd.Series, words: str) -> None:
    """Raise a DrError that names the first wrong cells of a column, and what they must be."""
    cell = next(iter(cells[is_bad]), "")
    refuse_rows(file, is_bad, f'{cells.name} is "{cell}": it must be {words}')


def refuse_rows(file: str, is_bad: pd.Series | list[int], words: str) -> None:
    """Raise a DrError that names the first wrong rows."""
    rows = is_bad if isinstance(is_bad, list) else is_bad.index[is_bad].tolist()
    if rows:
        raise DrError(f"{name_rows(file, rows)}: {words}")


def find_spellings(ids: pd.Series) -> pd.Series:
    """Find ids of patients that `fold_id` makes equal: one person's, or two people's?"""
    return ids.str.normalize("NFC").groupby(ids.map(fold_id)).transform("nunique") > 1


def _name(column: str) -> str:
    """Name a column by COLUMNS, or by its folded name; a second doctor's grades are grades, too."""
    folded = fold_name(column)
    return "grade" if NUMBERED.fullmatch(folded) else NAMES.get(folded, folded)


def _name_columns(file: str, header: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Name all columns, or those that were chosen, which take the names of others."""
    names = [_name(column) for column in header]
    pairs = {pair: pair.partition("=")[::2] for pair in columns}
    taken = [_name(ours) for ours, _ in pairs.values()]
    is_known = all(theirs and _name(ours) in COLUMNS for ours, theirs in pairs.values())
    if not is_known or len(set(taken)) < len(columns):
        raise DrError(
            f"{', '.join(columns)}: write each column of ours once, as grade=Grau; ours are"
            f" {', '.join(COLUMNS)}"
        )
    for pair, (ours, theirs) in pairs.items():
        chosen = [fold_name(theirs) in (fold_name(c), str(n)) for n, c in enumerate(header, 1)]
        if sum(chosen) != 1:
            named = ", ".join(filter(None, header))
            raise DrError(f"{file} has no or several columns for {pair}: it has {named}")
        names = ["" if name == _name(ours) else name for name in names]
        names[chosen.index(True)] = _name(ours)
    return names


def _read_workbook(path: Path, title: str, words: Collection[str]) -> Sheet | None:
    """Read the only visible sheet of which the header is known, or the one that is named; None if
    it has no rows.
    """
    try:
        import openpyxl  # needed by workbooks alone

        book = openpyxl.load_workbook(path, data_only=True, keep_links=False)
    except Exception as error:  # of a damaged file, any
        raise DrError(
            f"{path.name} cannot be read: save it as .xlsx without a password, or as CSV in UTF-8"
        ) from error
    if title and title not in book.sheetnames:
        raise DrError(f"{path.name} has no sheet {title}: it has {', '.join(book.sheetnames)}")
    found = []
    for sheet in book.worksheets:
        if sheet.title == title or (not title and sheet.sheet_state == "visible"):
            cells = ([_write_cell(cell) for cell in row] for row in sheet.iter_rows())
            read = _split_header(enumerate(cells, 1), words)
            found.append(Sheet(path.name, sheet.title, "", "", *read))
    found = [sheet for sheet in found if sheet.rows]
    known = [sheet for sheet in found if _count(sheet.header, words) > 1] or found[:1]
    # another one as wide may go on with the rows, or have newer ones in other words
    widths = {len(sheet.header) for sheet in known}
    titles = [one.title for one in found if one in known or len(one.header) in widths]
    if len(titles) > 1:
        raise DrError(
            f"{path.name} has rows on the sheets {' and '.join(titles)}: choose one with --sheet,"
            " or put all rows on one sheet below one header"
        )
    for sheet in known:
        lines = book[sheet.title].row_dimensions
        hidden = [line for line in sheet.rows if lines[line].hidden]
        refuse_rows(str(sheet), hidden, "hidden, as by a filter: show them, or delete them")
        return sheet
    return None


def _write_cell(cell) -> str:
    """Write the value of a workbook's cell as text."""
    value = cell.value
    if type(cell).__name__ == "MergedCell":
        return MERGED
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime):
        return str(value).removesuffix(" 00:00:00")
    return "" if value is None else str(value)


def _read_text(path: Path, words: Collection[str]) -> Sheet | None:
    """Read a text; None if there are no rows."""
    text, encoding = decode_text(path)
    lines = [f"{line}\n" for line in re.sub("\r\n?", "\n", text).split("\n")]
    separator = re.match('"?sep=(.)', text, re.IGNORECASE)  # of Excel
    ratings = {}
    for delimiter in separator[1] if separator else ",;\t|":
        top = enumerate(csv.reader(lines[:TOP], delimiter=delimiter))
        header = _split_header(top, words)[0]
        ratings[delimiter] = (_count(header, words), len(header))
    delimiter = max(ratings, key=ratings.get)
    if path.suffix.lower() == ".txt" and ratings[delimiter][0] < 2:
        delimiter = ""
        rows = enumerate([["1", "2"], *(line.rsplit(maxsplit=1) for line in lines)])
    else:
        rows = _parse(path.name, lines, delimiter)
    sheet = Sheet(path.name, "", encoding, delimiter, *_split_header(rows, words))
    return sheet if sheet.rows else None


def _parse(name: str, lines: list[str], delimiter: str) -> Iterable[tuple[int, list[str]]]:
    """Parse lines into rows, each with its last line's number.

    Raises:
        DrError: a quotation mark stands where none may, or a cell of several lines may have taken
            in other rows.
    """
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    last = 0  # line of the row before
    try:
        for row in reader:
            if any("\n" in cell and delimiter in cell for cell in row):
                raise csv.Error
            last = reader.line_num
            yield last, row
    except csv.Error as error:
        raise DrError(
            f'{name}, row {last + 1}: a quotation mark (") is open or too many, or stands around'
            f" line breaks beside {delimiter!r}: correct the cell, or save the table as .xlsx"
        ) from error


def decode_text(path: Path) -> tuple[str, str]:
    """Decode a text; return its encoding, too."""
    content = path.read_bytes()
    encoding = "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    text = content.decode(encoding, "replace")
    # of Excel in Brazil, which includes printable Latin-1; letters of UTF-8 beside it are no text
    if encoding == "utf-8-sig" and not re.search(UTF8, content):
        if "\ufffd" in text:
            encoding = "windows-1252"
            text = content.decode(encoding, "replace")
    if fault := re.search("[\0\ufffd]", text):
        row = len(re.findall("\r\n|\r|\n", text[: fault.start()])) + 1
        raise DrError(
            f"{path.name}, row {row}: a character is in none of UTF-8, UTF-16 and Windows-1252, or"
            " not in that of the other rows: save the table as .xlsx, or as CSV in UTF-8"
        )
    return text, encoding


def _count(row: Sequence[str], words: Collection[str]) -> int:
    """Count the cells that are known words."""
    return sum(fold_name(cell) in words for cell in row)


def _split_header(
    lines: Iterable[tuple[int, Sequence[str]]], words: Collection[str]
) -> tuple[list[str], list[str], dict[int, list[str]]]:
    """Find the header: of the lines at the top the first with the most known words.

    Returns:
        It, no names yet, and the rows below it by line, without blanks around cells and line breaks
        in them; empty ones are left out.
    """
    rows = {}
    for number, row in lines:
        cells = [cell.replace("\n", " ").strip() for cell in row]
        if any(cells):
            rows[number] = cells
    top = list(rows)[:TOP]
    at = max(top, key=lambda number: _count(rows[number], words), default=0)
    below = {number: row for number, row in rows.items() if number > at}
    return rows.get(at, []), [], below
