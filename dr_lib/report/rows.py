"""Open the rows of a paper's study, as each analysis notebook does first."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.errors import DrError
from dr_lib.parameters import parse_number, split_paths
from dr_lib.report.conditions import Condition
from dr_lib.report.papers import PAPERS
from dr_lib.report.select import Selection, list_columns, select_runs, write_level
from dr_lib.rooms import find_all, load
from dr_lib.runs.row import read_rows, read_runs


class Rows(NamedTuple):
    """The rows of a paper's notebooks below some folders, and the selection for an analysis."""

    folders: list[Path]
    table: pd.DataFrame
    exclude: list[str]
    may_differ: list[str]
    selection: Selection
    num_others: int  # rows of the paper's notebooks that are of another task
    paper: str = ""

    def judge(self, selection: Selection | None = None) -> pd.DataFrame:
        """Judge the paper's claims by these rows, or by them with prices: see `judge_claims` of the
        room claims; empty where that room is absent.
        """
        for judge in find_all("judge"):
            return judge(self.paper, selection or self.selection)
        return pd.DataFrame()


def open_rows(
    paper: str,
    runs: str,
    root: Path,
    *,
    default: str = "",
    allow: str = "",
    only: str = "",
    exclude: str = "",
) -> Rows:
    """Read the rows below the folders, and select those of a paper's study.

    Args:
        paper: a key of PAPERS.
        runs: folders with rows, as `join_paths` writes them.
        root: of the repository, from which folders are named.
        default: these folders may be missing: without rows an analysis shows the paper alone.
        allow: columns in which rows may differ beside the paper's factors, separated by commas.
        only: values that rows must have, such as epochs=20,model=mobilenet.
        exclude: marks of runs whose times do not count, separated by commas.

    Example:
        >>> rows = open_rows("A", "papermill_runs/demo", Path("."))
        >>> len(rows.selection.finished)
        2
    """
    folders = [root / name for name in split_paths(runs)]
    absent = [str(folder) for folder in folders if not folder.is_dir()]
    if absent and runs != default:
        raise DrError(f"{', '.join(absent)}: no such folder; runs must name folders with rows")
    folders = [folder for folder in folders if folder.is_dir()]
    table = pd.DataFrame(columns=["notebook", "status"])
    if read_rows(*folders):
        table = choose_rows(read_runs(*folders), only)
    rows = list_paper_rows(paper, table)
    if rows.empty:  # the paper's, else its notebooks' other task
        rows = list_paper_rows(paper, table, task="")
    excluded = [name.strip() for name in exclude.split(",") if name.strip()]
    allowed = list_columns(allow, table)
    selection = select_paper(paper, rows, folders, exclude=excluded, allowed=allowed)
    num_others = len(list_paper_rows(paper, table, task="")) - len(rows)
    may_differ = [*PAPERS[paper].may_differ, *allowed]
    return Rows(folders, rows, excluded, may_differ, selection, num_others, paper)


def choose_rows(rows: pd.DataFrame, only: str) -> pd.DataFrame:
    """Choose the rows that have the values named, one of those of a column that is named twice.

    Args:
        rows: one row per run.
        only: such as epochs=20,model=mobilenet; * stands for any text.

    Raises:
        DrError: no row has such a value; the message names those that rows have.
    """
    chosen = {}
    for term in filter(None, map(str.strip, only.split(","))):
        column, _, text = map(str.strip, term.partition("="))
        number = parse_number(text)
        pattern = text if number is None else f"{number:g}"
        chosen[column] = (*chosen.get(column, ()), pattern)
    for column, patterns in chosen.items():
        condition = Condition(column, patterns)
        is_met = condition.test(rows)
        if not is_met.any():
            values = rows.get(column, pd.Series(["no such column"])).map(write_level)
            choices = ", ".join(sorted(set(values)))
            raise DrError(f"only {condition}: no row has it, choose from {choices}")
        rows = rows[is_met]
    return rows.reset_index(drop=True)


def list_paper_rows(paper: str, table: pd.DataFrame, task: str | None = None) -> pd.DataFrame:
    """List the rows of a paper's notebooks, of the paper's task unless another is named."""
    if task is None:
        task = PAPERS[paper].task
    rows = table[table["notebook"].isin(PAPERS[paper].notebooks)]
    if task and "task" in rows:
        rows = rows[rows["task"].fillna(task) == task]
    return rows.reset_index(drop=True)


def select_paper(
    paper: str,
    rows: pd.DataFrame,
    folders: Sequence[Path],
    *,
    exclude: Collection[str] = (),
    allowed: Collection[str] = (),
) -> Selection:
    """Select the rows of a paper's study, see `select_runs`, or in the paper's own way."""
    may_differ = PAPERS[paper].may_differ
    if function := PAPERS[paper].select:
        select = load(function)
        return select(rows, *folders, exclude=exclude, may_differ=[*may_differ, *allowed])
    return select_runs(rows, exclude=exclude, may_differ=may_differ, allowed=allowed)
