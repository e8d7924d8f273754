"""The papers' claims from claims.yaml, each entry checked when it is read."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.files import read_yaml
from dr_lib.parameters import Checked
from dr_lib.report.conditions import Condition
from dr_lib.runs.schema import HARDWARE

MACHINE = {*HARDWARE, "priced_as"}  # columns that tell machines apart; the user names the last
ENTRIES = Path(__file__).with_name("claims.yaml")
PUBLISHED = re.compile(r"(≥ |≤ )?([\d,.]+)(?: ± ([\d.]+))?(?: (\S+))?")


def _list_conditions(terms: Mapping[str, Any]) -> tuple[Condition, ...]:
    """List the conditions of a mapping."""
    conditions = []
    for column, levels in terms.items():
        is_met = not isinstance(levels, Mapping)
        levels = levels if is_met else levels["not"]
        patterns = levels if isinstance(levels, list) else [levels]
        conditions.append(Condition(column, tuple(map(str, patterns)), is_met))
    return tuple(conditions)


Conditions = Annotated[tuple[Condition, ...], BeforeValidator(_list_conditions)]


class Claim(Checked):
    """A claim: the paper's words, and the mean or ratio over rows that must meet a bound."""

    id: Annotated[str, Field(pattern="^[A-E][1-9][0-9]*$")]
    source: str = ""  # of its number, an entry of sources.yaml; else the paper's
    wording: Literal["quoted", "paraphrase", "derived"] = "paraphrase"
    place: str = "text"  # in the paper
    reads: str = ""  # the claims of which it is our reading
    words: str
    words_pt: str

    columns: Annotated[list[str], Field(min_length=1)]  # each has to meet the bound
    # filters: the mean of one, the ratio of two
    rows: Annotated[list[Conditions], Field(min_length=1, max_length=2)]
    hardware: str = ""  # of the rows, in words
    conditions: Conditions = ()  # the work of both
    every_cell: bool = False  # what holds in each cell of the design; else of their mean
    counted: bool = False  # one count is all there is to know

    published: Annotated[str, Field(pattern=f"^{PUBLISHED.pattern}$")]
    written_as: Literal["", "saving", "increase"] = ""  # per cent less, or more, for a ratio
    not_testable: str = ""  # why no row can judge it

    @property
    def value(self) -> float:
        """The number that the paper states."""
        return float(PUBLISHED.match(self.published)[2].replace(",", ""))

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds between which the claim's quantity must lie."""
        tolerance = float(PUBLISHED.match(self.published)[3] or 0)
        low = -np.inf if "≤" in self.published else self.value - tolerance
        high = np.inf if "≥" in self.published else self.value + tolerance
        return low, high

    def list_varied(self) -> set[str]:
        """List the columns that the sides compare: those of hardware, and all that both name, in
        which they differ.
        """
        named = [{term.column for term in side} for side in self.rows]
        differ = {term.column for term in {*self.rows[0]} ^ {*self.rows[-1]}}
        return differ & (set.intersection(*named) | MACHINE)


@cache
def _read_entries(path: Path) -> list[Claim]:
    claims = []
    for block in read_yaml(path)["claims"]:
        shared = {name: value for name, value in block.items() if name != "entries"}
        for name, entry in block["entries"].items():
            try:
                claims.append(Claim(id=name, **{**shared, **entry}))
            except DrError as error:
                raise DrError(f"{path.name}, claim {name}, {error}") from error
    return sorted(claims, key=lambda claim: (len(claim.id), claim.id))


def read_claims(paper: str = "", *, path: Path = ENTRIES) -> list[Claim]:
    """Read the claims of a paper, or of all papers.

    Raises:
        DrError: an entry is wrong; the sentence names it and its field.
    """
    return [claim for claim in _read_entries(path) if claim.id.startswith(paper)]


def list_printed(paper: str) -> pd.DataFrame:
    """List the means that a paper reports.

    Returns:
        A row per number: its `column`, `value` and `tolerance`, the `hardware` in words, the
        paper's `authors`, and under the columns of its conditions what it speaks of.
    """
    rows = []
    for claim in read_claims(paper):
        if len(claim.rows) == 1:
            row = {
                term.column: term.patterns[0] for term in (*claim.conditions, *claim.rows[0])
            }
            row["column"] = claim.columns[0]
            row["value"] = claim.value
            row["tolerance"] = claim.bounds[1] - claim.value
            row["hardware"] = claim.hardware or row.get("instance_type", "any")
            row["authors"] = PAPERS[paper].authors
            rows.append(row)
    return pd.DataFrame(rows)
