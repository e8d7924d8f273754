"""Several readers of one photograph: a column of grades for each, and the reference of them all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.data.labels.reader import (
    Sheet,
    read_numbers,
    read_same,
    refuse_cells,
    refuse_rows,
    take_columns,
)
from dr_lib.data.labels.schema import (
    EVALUATED,
    READING,
    REFERENCE,
    SCALE,
    fold_name,
    read_words,
)
from dr_lib.errors import DrError

RULES = ("adjudicated", "majority", "median")  # where one gives no grade, the next one does
ALONE = "one reader"
# readers whose grade is that of all
ADJUDICATORS = set("adjudicated adjudication adjudicator adjudicado adjudicador".split())
ADJUDICATORS.update(("consensus", "consenso"))


def list_readings(columns: Iterable[str]) -> list[str]:
    """List the columns of the readers' grades: grade_1, grade_2 ..., in the order of the table;
    beside grade_0 they are no readers.
    """
    columns = list(columns)
    if "grade_0" in columns:
        return []
    return [name for name in columns if READING.fullmatch(name)]


def combine_readers(sheet: Sheet, rule: str = "") -> Sheet:
    """Add the reference of several readers to a table: a grade, and the rule that gave it.

    A table with a row for each reader of a photograph gets one row per photograph first. A table
    that names the rule of its grades keeps them, unless a rule is given.

    Args:
        sheet: a table with a column reader, or several of grade_1, grade_2 ...; any other table is
            left as it is. Its column grade, if there is one, is the adjudicated one.
        rule: the first of RULES to use; empty for adjudicated.

    Raises:
        DrError: a reader's grade is none, those adjudicated are yes or no, or rows of one
            photograph disagree on what is not the reader's own: grade, reason, and referable where
            that only repeats the grade.
    """
    sheet = _join_rows(sheet)
    readings = list_readings(sheet.names)
    title = sheet.header[sheet.names.index("grade")] if "grade" in sheet.names else ""
    others = readings
    if not readings and fold_name(title) in ADJUDICATORS and "referable" in sheet.names:
        others = ["referable"]
    if not others or (REFERENCE in sheet.names and not rule):
        return sheet
    table = take_columns(sheet, {*others, "grade", REFERENCE})
    grades = pd.DataFrame({name: _read_grades(sheet, table[name]) for name in readings})
    is_referable = (grades >= REFERABLE_FROM).any(axis=None)
    if not readings:
        is_referable = (read_same("referable", table["referable"]) == "1").any()
    adjudicated = pd.Series(np.nan, table.index)
    if "grade" in table:
        adjudicated = _read_grades(sheet, table["grade"])
        is_flag = is_referable and adjudicated.max() < REFERABLE_FROM
        if is_flag and rule not in RULES[1:] and fold_name(title) in ADJUDICATORS:
            raise DrError(
                f"{sheet}: {title} has only 0 and 1, where photographs are referable: call it "
                "grade if it has grades, or remove it if it says which photographs were adjudicated"
            )
    if not readings:
        return sheet
    if REFERENCE in table:
        adjudicated = adjudicated.where(table[REFERENCE] == RULES[0])
    reference, rules = find_reference(grades, adjudicated, rule or RULES[0])
    cells = reference.map("{:.0f}".format).replace("nan", "")
    return _replace_columns(sheet, {"grade": cells, REFERENCE: rules})


def find_reference(
    grades: pd.DataFrame, adjudicated: pd.Series, rule: str
) -> tuple[pd.Series, pd.Series]:
    """Find the reference of (n, readers) grades, NaN where one gives none, and its rule.

    A majority is more than half of those who graded the photograph. The median is rounded to the
    worse grade.

    Returns:
        The grade, NaN where nobody gives one, and the rule: of RULES, ALONE, or empty.
    """
    counts = pd.DataFrame(
        {grade: (grades == grade).sum(axis=1) for grade in range(len(GRADES))}
    )
    num_readers = counts.sum(axis=1)
    is_majority = 2 * counts.max(axis=1) > num_readers
    steps = {
        "adjudicated": adjudicated,
        "majority": counts.idxmax(axis=1).where(is_majority),
        "median": np.ceil(grades.median(axis=1)),
    }
    reference = pd.Series(np.nan, grades.index)
    rules = pd.Series("", grades.index)
    for name in RULES[RULES.index(rule) :]:
        is_new = reference.isna() & steps[name].notna()
        reference = reference.where(~is_new, steps[name])
        is_alone = (num_readers == 1) & (name != "adjudicated")
        rules = rules.mask(is_new, np.where(is_alone, ALONE, name))
    return reference, rules


def count_rules(rules: pd.Series) -> dict[str, int]:
    """Count the photographs by the rule of their reference; empty where one reader graded all."""
    return rules[rules != ""].value_counts().to_dict()


def _join_rows(sheet: Sheet) -> Sheet:
    """Join the rows of one photograph, one for each reader; keep a table that has others."""
    if not {"image_id", "reader", "grade"} <= set(sheet.names):
        return sheet
    table = take_columns(sheet, {*EVALUATED, "reader"})
    image = read_same("image_id", table["image_id"])
    reader = table["reader"].map(fold_name)
    is_copy = pd.DataFrame({"image": image, "reader": reader}).duplicated()
    if is_copy.any() or image.is_unique:
        return sheet
    grades = read_words("grade", table["grade"])
    is_graded = grades != ""
    if "referable" in table:  # of a reader, where it only repeats the grade
        is_meant = read_numbers(grades) >= REFERABLE_FROM
        said = read_same("referable", table["referable"])
        is_other = is_graded & (said != "") & (is_meant != (said == "1"))
        repeats = is_graded.groupby(image).transform("any")
        repeats &= ~is_other.groupby(image).transform("any")
        table["referable"] = table["referable"].mask(repeats, "")
    for name in table.columns.drop(["image_id", "reader", "grade", "reason"], errors="ignore"):
        cells = read_same(name, table[name])
        if name.startswith("probability"):
            cells = read_numbers(table[name]).map(str)
        if name in ("gradable", "referable"):  # of those who could grade
            cells = cells[is_graded]
        differs = cells.groupby(image).transform("nunique") > 1
        refuse_rows(
            str(sheet),
            differs,
            f"rows of one photograph have different cells in {name}: correct them, or rename the "
            "column",
        )
    names = sorted(set(reader) - ADJUDICATORS)
    columns = {name: f"grade_{number}" for number, name in enumerate(names, 1)}
    column = reader.map(lambda name: columns.get(name, "grade"))
    is_first = table["grade"].eq("").groupby(image).rank(method="first") == 1
    lines = dict(zip(image[is_first], table.index[is_first], strict=True))
    wide = table["grade"].groupby([image.map(lines), column]).first().unstack(fill_value="")
    wide = wide.reindex(columns=sorted({*wide, "grade"}), fill_value="")
    wide = wide.join(table.filter(["referable"]))
    unnamed = sheet._replace(names=["" if n == "reader" else n for n in sheet.names])
    return _replace_columns(unnamed, {name: wide[name] for name in wide})


def _replace_columns(sheet: Sheet, columns: dict[str, pd.Series]) -> Sheet:
    """Put columns, by line, in the place of those of their names; other lines go."""
    width = len(sheet.header)
    lines = [line for line in sheet.rows if line in next(iter(columns.values())).index]
    rows = {}
    for line in lines:
        cells = (sheet.rows[line] + [""] * width)[:width]
        rows[line] = cells + [column[line] for column in columns.values()]
    return sheet._replace(
        header=[*sheet.header, *columns],
        names=[*("" if name in columns else name for name in sheet.names), *columns],
        rows=rows,
    )


def _read_grades(sheet: Sheet, cells: pd.Series) -> pd.Series:
    """Read the grades of one reader, NaN where there is none."""
    words = read_words("grade", cells)
    grades = read_numbers(words)
    is_bad = (words != "") & ~grades.isin(range(len(GRADES)))
    refuse_cells(str(sheet), words, is_bad, SCALE)
    return grades
