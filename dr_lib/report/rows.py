"""Open the rows of a paper's study, as each analysis notebook does first."""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from dr_lib.errors import DrError
from dr_lib.files import split_paths
from dr_lib.report.groups import Selection, list_pooled, select_runs
from dr_lib.runs.row import list_rows, read_runs


class Paper(NamedTuple):
    """A paper that rows are compared with; functions are named as in `load`."""

    authors: str
    notebooks: tuple[str, ...]  # that make the rows of its study
    studies: tuple[str, ...]  # their study files: together they judge each of its claims
    may_differ: tuple[str, ...] = ()  # columns in which rows of its study differ on purpose
    # one cell of its design has one level of each of these columns, of so many
    design: Mapping[str, int] = MappingProxyType({})
    derive: str = ""  # adds the columns that its claims speak of


def load(function: str) -> Callable:
    """Import a function that is named as `dr_lib.module:function`."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)


def open_rows(
    paper: Paper,
    runs: str,
    root: Path,
    *,
    default: str = "",
    pool: str = "",
    only: str = "",
    exclude: str = "",
    lang: str = "en",
) -> Selection:
    """Read the rows below the folders, and select those of a paper's study.

    Args:
        paper: of `claims.papers.PAPERS`.
        runs: folders with rows, as `join_paths` writes them.
        root: of the repository, from which folders are named.
        default: these folders may be missing: without rows an analysis shows the paper alone.
        pool: columns of the identity that tell no groups apart, separated by commas.
        only: an expression that is true for the rows, see `choose_rows`.
        exclude: marks of runs whose times do not count, separated by commas.
        lang: en or pt, of the names of groups.

    Example:
        >>> from dr_lib.claims.papers import PAPERS
        >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path("."))
        >>> len(selection.finished)
        2
    """
    folders = [root / name for name in split_paths(runs)]
    absent = [str(folder) for folder in folders if not folder.is_dir()]
    if absent and runs != default:
        raise DrError(f"{', '.join(absent)}: no such folder; runs must name folders with rows")
    folders = [folder for folder in folders if folder.is_dir()]
    table = pd.DataFrame(columns=["notebook", "status"])
    if list_rows(*folders):
        table = choose_rows(read_runs(*folders), only)
    return select_runs(
        list_paper_rows(paper, table),
        pool=list_pooled(pool, table),
        exclude=exclude.replace(",", " ").split(),
        may_differ=paper.may_differ,
        lang=lang,
    )


def choose_rows(rows: pd.DataFrame, only: str) -> pd.DataFrame:
    """Choose the rows for which an expression of pandas is true; all without one.

    Args:
        rows: one row per run.
        only: such as epochs == 20 and model == "mobilenet".

    Raises:
        DrError: it is no expression on columns of the rows, or true for none.
    """
    if not only:
        return rows
    try:
        is_chosen = rows.eval(only)
    except Exception as error:  # of a parser, or of what it calls
        raise DrError(f"only {only}: {error}") from error
    if not isinstance(is_chosen, pd.Series) or not pd.api.types.is_bool_dtype(is_chosen):
        raise DrError(f"only {only}: write what is true or false of a row, as epochs == 20")
    chosen = rows[is_chosen.fillna(False)]
    if chosen.empty:
        raise DrError(f"only {only}: true for none of {len(rows)} rows")
    return chosen.reset_index(drop=True)


def list_paper_rows(paper: Paper, table: pd.DataFrame) -> pd.DataFrame:
    """List the rows of a paper's notebooks."""
    return table[table["notebook"].isin(paper.notebooks)].reset_index(drop=True)
