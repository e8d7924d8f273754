"""Hold our rows against the papers: read what they claim, judge each claim."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.evidence.select import MIN_RUNS, Selection, list_runs
from dr_lib.statistics.effects import paired_ratio_interval
from dr_lib.statistics.intervals import BadSampleError, Interval, mean_interval, ratio_interval, sd_ratio_interval

PUBLISHED = Path(__file__).with_name("published.csv")
SCALES = {"mean": (1, 0), "ratio": (1, 0), "sd_ratio": (1, 0), "increase": (100, -100), "saving": (-100, 100)}
RELATIONS = (">=", "<=", "within")
FACTORS = "framework dataset image_size network".split()  # of paper C; one cell has one level of each
OTHER_WORK = (
    "model format data_kind mode batch_size epochs data_share threads_asked".split()
)  # tells cells apart where a side did several
COUNTED = ("num_parameters", "savedmodel_mib", "usd_per_hour")  # not measured: one row is all there is to know
HARDWARE = ("accelerator", "num_accelerators", "instance", "platform")


class PublishedError(ValueError):
    """The table of claims cannot be used; the message names the claim."""


class Verdict(NamedTuple):
    """What our rows say of a claim; `ours` is in the claim's unit, `n` the runs of its smaller side."""

    id: str
    ours: Interval
    verdict: str  # holds, does not hold, undecided, not comparable, not measured
    n: int
    reason: str  # what was held against what, in numbers and column names
    num_disturbed: int = 0  # of the rows that it rests on


def read_published(paper: str | None = None, *, path: str | Path = PUBLISHED) -> pd.DataFrame:
    """Read the claims of one paper, or of all; `path` takes another table.

    A selector (`numerator`, `denominator`; `conditions` is the work of both sides) joins column=value by
    semicolons, * standing for any text.

    Raises:
        PublishedError: a row could not be judged, or no row is of that paper.
    """
    claims = pd.read_csv(path, keep_default_na=False)
    numbers = claims[["value", "tolerance"]].apply(pd.to_numeric, errors="coerce")
    terms = claims["numerator"] + ";" + claims["denominator"] + ";" + claims["conditions"]
    for fault, bad in {
        "stands there twice": claims["id"].duplicated(),
        f"statistic is none of {', '.join(SCALES)}": ~claims["statistic"].isin(SCALES),
        f"relation is none of {', '.join(RELATIONS)}": ~claims["relation"].isin(RELATIONS),
        "only a mean has no denominator": (claims["statistic"] == "mean") != (claims["denominator"] == ""),
        "value or tolerance is no number": ~(np.isfinite(numbers).all(axis=1) & (numbers["tolerance"] >= 0)),
        "a selector is not column=value;...": ~terms.str.fullmatch(r"(;*[a-z_0-9]+=[^=;]+)*;*"),
    }.items():
        if bad.any():
            raise PublishedError(f"claim {claims['id'][bad].iloc[0]}: {fault}")
    if paper is not None and paper not in set(claims["paper"]):
        raise PublishedError(f"no claim of paper {paper!r}: choose one of {sorted(set(claims['paper']))}")
    return claims if paper is None else claims[claims["paper"] == paper].reset_index(drop=True)


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge all claims of a paper by the timed rows of a selection.

    Returns:
        The claims of `read_published` with `ours`, `ours_low`, `ours_high` (in the claim's unit), `n`, `verdict`,
        `reason` and `num_disturbed`; those with a verdict of our own first, then what is not comparable or measured.
    """
    claims = read_published(paper)
    verdicts = pd.DataFrame([judge(claim, selection.timed) for claim in claims.itertuples()])
    ours = pd.DataFrame(verdicts.pop("ours").tolist(), columns=["ours", "ours_low", "ours_high", "_"]).drop(columns="_")
    judged = pd.concat([claims, ours, verdicts.drop(columns="id")], axis=1)
    order = judged["verdict"].map(["holds", "does not hold", "undecided", "not comparable", "not measured"].index)
    return judged.assign(_order=order.clip(lower=2)).sort_values("_order", kind="stable").drop(columns="_order")


def judge(claim: Any, timed: pd.DataFrame) -> Verdict:
    """Say whether a claim, a row of `read_published`, holds: only if the whole 95 % interval satisfies it.

    Rows from its hardware that did its work decide. Where there are none, the nearest are shown as not
    comparable: hardware, then conditions, narrow the rows term by term, and a term that none of them meets is
    given up. What is counted and always came out the same needs no repetition. Formats of a model have no mean.

    Args:
        claim: a row of `read_published`.
        timed: the rows of a `Selection` whose times count.
    """
    timed = timed[timed[claim.column].notna()] if claim.column in timed else timed[:0]
    timed = list_runs(timed) if claim.column in COUNTED else timed  # the requests of a run count its parameters once
    selectors = [claim.numerator] if claim.statistic == "mean" else [claim.numerator, claim.denominator]
    sides, unmet = zip(*[_find_rows(timed, s, claim.conditions) for s in selectors], strict=True)
    rows, differing = pd.concat(sides), ", ".join(sorted(set(sum(unmet, []))))
    several = claim.environments != "any" and any(side["environment"].nunique() > 1 for side in sides)
    ours, is_known = Interval(np.nan, np.nan, np.nan, 0), min(map(len, sides)) > 0
    is_counted = is_known and claim.column in COUNTED and all(side[claim.column].nunique() == 1 for side in sides)
    several |= claim.statistic == "mean" and "format" in rows and rows["format"].nunique() > 1 and not is_counted
    low = -np.inf if claim.relation == "<=" else claim.value - claim.tolerance
    high = np.inf if claim.relation == ">=" else claim.value + claim.tolerance
    cells, pairs = _pair(claim, sides) if is_known else ([[] for _ in sides], "")
    try:
        if is_known and not several and not rows.index.has_duplicates:
            ours = _measure(claim, cells)
            ours = ours._replace(low=ours.value, high=ours.value) if is_counted else ours
    except BadSampleError as error:
        return Verdict(claim.id, ours, "not measured", 0, str(error))
    reason = f"[{ours.low:.4g}, {ours.high:.4g}] vs [{low:.4g}, {high:.4g}]{pairs}"
    if not is_known or not cells[0]:
        verdict, reason = "not measured", f"no rows with {claim.column} and {' against '.join(selectors)}{pairs}"
    elif differing or several:
        places = "; ".join(sorted(set(rows["environment"])))
        verdict, reason = "not comparable", f"{places} vs {differing or claim.environments}"
    elif ours.n < MIN_RUNS and not is_counted:
        verdict, reason = "undecided", f"n = {ours.n} < {MIN_RUNS}"
    elif np.isnan(ours.low):
        verdict, reason = "undecided", f"no interval: nothing was repeated, or nothing varies{pairs}"
    elif low <= ours.low and ours.high <= high:
        verdict = "holds"
    else:
        verdict = "does not hold" if ours.high < low or ours.low > high else "undecided"
    used = {index for side in cells for values in side for index in values.index}
    own = rows[~rows.index.duplicated()].filter(items=used, axis=0)
    disturbed = int(own["disturbed"].sum()) if "disturbed" in own and not is_counted else 0
    return Verdict(claim.id, ours, verdict, ours.n, reason, disturbed)


def _find_rows(timed: pd.DataFrame, selector: str, conditions: str) -> tuple[pd.DataFrame, list[str]]:
    """The rows nearest to what a claim speaks of, and the terms that none of them meets.

    On a laptop `accelerator=TPU*;platform=colab` with `epochs=200` finds no row for the first two terms, so it gives
    the laptop's rows of 200 epochs, if there are any, and both terms as unmet.
    """
    terms = selector.split(";") if selector else []
    loose = [t for t in terms if t.split("=")[0] in HARDWARE] + (conditions.split(";") if conditions else [])
    rows, unmet = timed[_meets(timed, [term for term in terms if term not in loose])], []
    for term in loose:
        nearer = rows[_meets(rows, [term])]
        if nearer.empty:
            unmet.append(term)
        else:
            rows = nearer
    return rows, unmet


def _meets(rows: pd.DataFrame, terms: list[str]) -> np.ndarray:
    met = np.full(len(rows), True)
    for column, wanted in (term.split("=") for term in terms):
        values = rows[column] if column in rows else [""] * len(rows)
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        met &= np.array([fnmatchcase(text, wanted) for text in texts], dtype=bool)
    return met


def _pair(claim: Any, sides: Sequence[pd.DataFrame]) -> tuple[list[list[pd.Series]], str]:
    """The values of each side, cell by cell where there are several, and what to say of that.

    What differs between cells says nothing of the claim: like is held against like, what has no like is dropped. Two
    frameworks with two networks each are compared in two cells, network by network.
    """
    named, everything = f"{claim.numerator};{claim.denominator}", [[side[claim.column]] for side in sides]
    if len(sides) == 1 or claim.statistic == "sd_ratio":
        return everything, ""
    keys = [name for name in FACTORS if name in sides[0] and pd.concat(sides)[name].nunique(dropna=False) > 1]
    single = OTHER_WORK + ["environment"] * (claim.environments == "any")
    keys += [name for name in single if any(name in side and side[name].nunique(dropna=False) > 1 for side in sides)]
    keys = [name for name in keys if f"{name}=" not in named]
    if not keys:
        return everything, ""
    cells = [dict(list(side.groupby([side[key].astype(str) for key in keys])[claim.column])) for side in sides]
    both = [key for key in cells[0] if key in cells[1]]
    return [[side[key] for key in both] for side in cells], f"; like scenarios paired: {len(both)}"


def _measure(claim: Any, cells: list[list[pd.Series]]) -> Interval:
    """The claim's statistic in its unit: a mean of 1,800 s is 30 min, a ratio of 0.7 a saving of 30 %."""
    if not cells[0]:
        return Interval(np.nan, np.nan, np.nan, 0)
    if len(cells[0]) > 1:
        *measured, n = paired_ratio_interval(*cells)
    else:
        interval = {"mean": mean_interval, "sd_ratio": sd_ratio_interval}.get(claim.statistic, ratio_interval)
        *measured, n = interval(*(side[0] for side in cells))
    scale, shift = SCALES[claim.statistic]
    value, *bounds = (scale * x / (60 if claim.unit == "min" else 1) + shift for x in measured)
    return Interval(value, *(bounds if scale > 0 else bounds[::-1]), n)
