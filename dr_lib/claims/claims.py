"""The papers' claims from claims.yaml, each entry checked when it is read."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.files import read_yaml
from dr_lib.report.conditions import Condition
from dr_lib.runs.schema import HARDWARE

MACHINE = (*HARDWARE, "priced_as")  # columns that tell machines apart; the user names the last
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


def _list_sides(sides: list[Mapping[str, Any]]) -> list[tuple[Condition, ...]]:
    return [_list_conditions(side) for side in sides]


Conditions = Annotated[tuple[Condition, ...], BeforeValidator(_list_conditions)]
Columns = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: [names] if isinstance(names, str) else names)
]
Sides = Annotated[list[tuple[Condition, ...]], BeforeValidator(_list_sides)]


class Claim(BaseModel):
    """A claim: the paper's words, and the mean or ratio over rows that must meet a bound."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern="^[A-E][1-9][0-9]*$")]
    source: str  # of its number, an entry of sources.yaml
    wording: Literal["quoted", "paraphrase", "derived", "reading"] = "paraphrase"
    place: str = "text"  # in the paper
    reads: str = ""  # the claims of which it is our reading
    words: str
    words_pt: str

    columns: Columns = Field(alias="column")  # each of several has to meet the bound
    # filters: the mean of one, the ratio of two
    sides: Sides = Field(alias="rows", min_length=1, max_length=2)
    conditions: Conditions = ()  # the work of both
    machines: tuple[str, ...] = ()  # of the paper, in words; none where it holds for any
    every_cell: bool = False  # what holds in each cell of the design; else of their mean
    counted: bool = False  # one count is all there is to know
    by_seed: bool = False  # no matter of the machine: n counts runs, whatever their session

    published: Annotated[str, Field(pattern=f"^{PUBLISHED.pattern}$")]
    written_as: Literal["", "saving", "increase"] = ""  # per cent less, or more, for a ratio
    not_testable: str = ""  # why no row can judge it

    @property
    def paper(self) -> str:
        """The claim's paper, a key of PAPERS."""
        return self.id[0]

    @property
    def is_anywhere(self) -> bool:
        """Whether the claim holds for any machine."""
        return not self.machines

    @property
    def value(self) -> float:
        """The number that the paper states."""
        return float(PUBLISHED.match(self.published)[2].replace(",", ""))

    @property
    def tolerance(self) -> float:
        """By how much a result may differ from it."""
        return float(PUBLISHED.match(self.published)[3] or 0)

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds between which the claim's quantity must lie."""
        sign = self.published[:1]
        low = -np.inf if sign == "≤" else self.value - self.tolerance
        high = np.inf if sign == "≥" else self.value + self.tolerance
        return low, high

    def list_varied(self, *, is_hardware: bool) -> set[str]:
        """List the columns of hardware, or all else that both sides name, in which they differ."""
        first, last = (
            {term.column: term for term in side if (term.column in MACHINE) == is_hardware}
            for side in (self.sides[0], self.sides[-1])
        )
        names = first.keys() | last.keys() if is_hardware else first.keys() & last.keys()
        return {name for name in names if first.get(name) != last.get(name)}


@cache
def _read_entries(path: Path) -> tuple[Claim, ...]:
    table = read_yaml(path)
    claims = []
    for block in table["claims"]:
        shared = {name: value for name, value in block.items() if name != "entries"}
        for name, entry in block["entries"].items():
            fields = {"source": name[0], **shared, **entry}
            if "reads" in fields:
                fields["wording"] = "reading"
            fields["rows"], fields["machines"] = _name_machines(
                fields.get("rows", []), table["machines"]
            )
            try:
                claims.append(Claim(id=name, **fields))
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(map(str, first["loc"]))
                raise DrError(f"{path.name}, claim {name}, {field}: {first['msg']}") from error
    return tuple(sorted(claims, key=lambda claim: (claim.paper, int(claim.id[1:]))))


def _name_machines(
    sides: list[Mapping[str, Any]], machines: Mapping[str, Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Write out the conditions of the machines that filters name."""
    named = [side["machine"] for side in sides if "machine" in side]
    written = []
    for side in sides:
        others = {column: level for column, level in side.items() if column != "machine"}
        written.append({**machines[side["machine"]], **others} if "machine" in side else others)
    return written, tuple(dict.fromkeys(named))


def read_claims(paper: str = "", *, path: Path = ENTRIES) -> list[Claim]:
    """Read the claims of a paper, or of all papers.

    Raises:
        DrError: an entry is wrong; the sentence names it and its field.
    """
    papers = (paper,) if paper else PAPERS
    return [claim for claim in _read_entries(path) if claim.paper in papers]


def list_printed(paper: str) -> pd.DataFrame:
    """List the means that a paper reports.

    Returns:
        A row per number: its `column`, `value` and `tolerance`, the `hardware` in words, the
        paper's `authors`, and under the columns of its conditions what it speaks of.
    """
    rows = []
    for claim in read_claims(paper):
        if len(claim.sides) == 1:
            terms = (*claim.conditions, *claim.sides[0])
            row = {term.column: term.patterns[0] for term in terms}
            row["column"] = claim.columns[0]
            row["value"] = claim.value
            row["tolerance"] = claim.tolerance
            row["hardware"] = "; ".join(claim.machines) or "any"
            row["authors"] = PAPERS[paper].authors
            rows.append(row)
    return pd.DataFrame(rows)
