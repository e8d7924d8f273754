"""The papers' claims from claims.yaml, each entry checked when it is read."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.files import read_yaml
from dr_lib.report.conditions import Condition
from dr_lib.runs.schema import HARDWARE
from dr_lib.statistics.cells import AVERAGE, DIFFERENCE, RATIO, RATIO_OF_SUMS, SUM

MACHINE = (*HARDWARE, "priced_as")  # columns that tell machines apart; the user names the last
ENTRIES = Path(__file__).with_name("claims.yaml")
# how a claim sums up its runs; besides them sd_ratio, and score: of a model, over patients
STATISTICS = {
    "mean": AVERAGE,
    "sum": SUM,
    "bill": AVERAGE,  # one number of all runs and machines
    "ratio": RATIO,
    "increase": RATIO,
    "saving": RATIO,
    "difference": DIFFERENCE,
    "ratio_of_sums": RATIO_OF_SUMS,
}


def _list_conditions(terms: Mapping[str, Any]) -> list[Condition]:
    """List the conditions of a mapping, those on hardware last."""
    conditions = []
    for column, levels in terms.items():
        is_met = not isinstance(levels, Mapping)
        levels = levels if is_met else levels["not"]
        patterns = levels if isinstance(levels, list) else [levels]
        conditions.append(Condition(column, tuple(map(str, patterns)), is_met))
    return sorted(conditions, key=lambda condition: condition.column in MACHINE)


Conditions = Annotated[tuple[Condition, ...], BeforeValidator(_list_conditions)]
Columns = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: [names] if isinstance(names, str) else names)
]


class Claim(BaseModel):
    """A claim: the paper's words, and the quantity over rows that must meet a bound."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern="^[A-E][1-9][0-9]*$")]
    source: str  # of its number, an entry of sources.yaml
    wording: Literal["quoted", "paraphrase", "derived", "reading"] = "paraphrase"
    place: str = "text"  # in the paper; of a reading the claims that it reads
    words: str
    words_pt: str

    # the quantity: a statistic of one column, or of each of several
    columns: Columns = Field(alias="column")
    statistic: Literal[(*STATISTICS, "sd_ratio", "score")] = "mean"
    numerator: Conditions
    denominator: Conditions = ()
    conditions: Conditions = ()  # the work of both sides
    every_cell: bool = (
        False  # what holds at least, always or in all; else of the mean over cells
    )
    cells: PositiveInt = 1  # of the paper's design
    hardware: str = "any"  # or the paper's, in words
    counted: bool = False  # one count is all there is to know
    by_seed: bool = False  # no matter of the machine: n counts runs, whatever their session
    priced: bool = False  # money, at the price of the machine that was used
    undisturbed: bool = False  # how busy others kept the machine is no matter of the claim

    relation: Literal["within", ">=", "<="] = "within"
    value: float
    tolerance: Annotated[float, Field(ge=0)] = 0.0
    unit: str = ""

    # of a number that the analyses show, and that no row can judge
    never: Literal["", "input, not tested", "not testable", "withdrawn"] = ""
    reason: str = ""

    @property
    def paper(self) -> str:
        """The claim's paper, a key of PAPERS."""
        return self.id[0]

    @property
    def sides(self) -> list[tuple[Condition, ...]]:
        """Conditions of each side: the numerator, and the denominator if there is one."""
        return [self.numerator, self.denominator] if self.denominator else [self.numerator]

    @property
    def compares_machines(self) -> bool:
        """Whether its sides are different hardware."""
        first, last = self._list_terms(is_hardware=True)
        return first != last

    @property
    def is_of_hardware(self) -> bool:
        """Whether its sides are different machines that do the same by the same software."""
        first, last = self._list_terms(is_hardware=False)
        is_same = all(first[column] == last[column] for column in first.keys() & last.keys())
        return is_same and self.compares_machines

    def _list_terms(self, *, is_hardware: bool) -> list[dict[str, Condition]]:
        """List the conditions of the first and the last side, on hardware or on all else."""
        return [
            {term.column: term for term in side if (term.column in MACHINE) == is_hardware}
            for side in (self.sides[0], self.sides[-1])
        ]

    @property
    def is_anywhere(self) -> bool:
        """Whether the claim holds for any machine."""
        return self.hardware == "any"

    @property
    def is_of_design(self) -> bool:
        """Whether the claim sums the whole design on the paper's machines."""
        return self.statistic in ("sum", "bill", "ratio_of_sums") and not self.is_anywhere

    @property
    def published(self) -> str:
        """What the claim states, ≥ 10 % or 36 ± 5 %."""
        spread = f" ± {self.tolerance:g}" if self.tolerance else ""
        sign = {"within": "", ">=": "≥ ", "<=": "≤ "}[self.relation]
        return f"{sign}{self.value:,.10g}{spread} {self.unit}".rstrip()

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds between which the claim's quantity must lie."""
        low = -np.inf if self.relation == "<=" else self.value - self.tolerance
        high = np.inf if self.relation == ">=" else self.value + self.tolerance
        return low, high

    @model_validator(mode="after")
    def _check(self) -> "Claim":
        is_one_sided = self.statistic in ("mean", "sum", "bill", "score")
        if is_one_sided == bool(self.denominator):
            raise ValueError(f"denominator: {self.statistic} needs one side or two")
        if bool(self.never) != bool(self.reason):
            raise ValueError("reason: say why no row can judge the claim")
        return self


@cache
def _read_entries(path: Path) -> tuple[Claim, ...]:
    claims = []
    for entry in read_yaml(path)["claims"]:
        try:
            claims.append(Claim(**entry))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            where = f"{path.name}, claim {entry.get('id', len(claims) + 1)}, {field}"
            raise DrError(f"{where.rstrip(', ')}: {first['msg']}") from error
    return tuple(claims)


def read_claims(paper: str = "", *, path: Path = ENTRIES) -> list[Claim]:
    """Read the claims of a paper, or of all papers.

    Raises:
        DrError: an entry is wrong; the sentence names it and its field.
    """
    papers = (paper,) if paper else PAPERS
    return [claim for claim in _read_entries(path) if claim.paper in papers]


def read_judged(paper: str = "") -> list[Claim]:
    """Read the claims that rows can judge; docs/papers.md has the others, and why."""
    return [claim for claim in read_claims(paper) if not claim.never]


def list_printed(paper: str) -> pd.DataFrame:
    """List the means that a paper reports.

    Returns:
        A row per number: its `column`, `value` and `tolerance`, the `hardware` in words, the
        paper's `authors`, and under the columns of its conditions what it speaks of.
    """
    rows = []
    for claim in read_claims(paper):
        if claim.statistic == "mean":
            terms = (*claim.conditions, *claim.numerator)
            row = {term.column: term.patterns[0] for term in terms}
            row["column"] = claim.columns[0]
            row["value"] = claim.value
            row["tolerance"] = claim.tolerance
            row["hardware"] = claim.hardware
            row["authors"] = PAPERS[paper].authors
            rows.append(row)
    return pd.DataFrame(rows)


def count_claims() -> pd.DataFrame:
    """Count the claims that rows can judge.

    Returns:
        A row per `paper` and hardware: `judged_by`, the notebooks whose rows do, `studies`, which
        make them, `on`, any hardware or the paper's, and `claims`.
    """
    lines = []
    for claim in read_judged():
        numbers = ", ".join(name[:2] for name in PAPERS[claim.paper].notebooks)
        on = "any hardware" if claim.is_anywhere else "the paper's hardware"
        studies = ", ".join(PAPERS[claim.paper].studies)
        lines.append((claim.paper, numbers, studies, on))
    table = pd.DataFrame(lines, columns=["paper", "judged_by", "studies", "on"])
    return table.value_counts(sort=False).rename("claims").sort_index().reset_index()
