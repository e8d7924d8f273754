"""Judge claims by rows: filter each side, match equal work, measure, compare with the bounds.

"TensorFlow takes 2 to 3 times as long as MXNet on the CPU" has two filters, the rows of TensorFlow
and those of MXNet from that machine. Their cells are data set, image side and network, eight on
each side, matched like with like; what is measured, by the rules of all tables, is the ratio. Rows
of several groups are judged one by one: a claim holds if it does in each.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.claims.claims import MACHINE, Claim, read_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.report.groups import (
    STACK,
    Selection,
    choose_metric,
    compare_models,
    measure,
    write_levels,
)
from dr_lib.report.rows import load
from dr_lib.runs import schema
from dr_lib.statistics.equivalence import is_equivalent
from dr_lib.statistics.intervals import (
    LEVEL,
    MIN_RUNS,
    NOTHING,
    BadSampleError,
    Interval,
    Measured,
    has_learned,
    tabulate,
)

VERDICTS = (
    "holds",
    "does not hold",
    "undecided",
    "not comparable",
    "not measured",
    "not testable",
)
NAMES = ["instance_type", "priced_as", "accelerator"]  # of a machine that a claim names
ARITHMETIC = ["matmul_precision", "conv_precision"]  # unknown ones are like nothing
# what follows from the devices, or is not what computes
DEVICES = (
    "strategy num_replicas step_size threads cuda python numpy implementation"
    " matmul_precision_requested batch_norm_requested"
).split()


class Verdict(NamedTuple):
    """The judgement of a claim by our rows; `ours` is in the claim's unit, of the part that is
    farthest from satisfying it.
    """

    id: str
    verdict: str  # of VERDICTS
    reason: str  # what was compared with what, in numbers and column names
    ours: Measured | Interval = NOTHING


class Part(NamedTuple):
    """Rows of one group on each side, with the name of their `cell`."""

    sides: list[pd.DataFrame]
    name: str
    num_missing: int = 0  # cells of the paper's design that were not run


class Keys(NamedTuple):
    """Columns that tell apart the rows of two sides."""

    cells: list[str]  # of the paper's design, over which a mean goes
    parts: list[str]  # in which both sides agree
    own: list[str]  # of one side
    unlike: list[str]  # of the work, in which they differ although the claim does not name it


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge the claims of a paper by the timed rows of a selection.

    Returns:
        A row per claim, those with a verdict of our own first: its `id`, `paper`, `wording`,
        `place`, `reads`, `words`, `words_pt`, `published`, and the fields of `Verdict`, with `n`.
    """
    return _judge_all(paper, list_judged_rows(selection.timed))


def judge_data_sets(
    table: pd.DataFrame, trainings: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Judge the claims of paper E by the rows of `evaluation.compare_data_sets`, and how each
    model was trained, of `read_trainings`; n is patients. See `judge_claims`.
    """
    rows = table.drop_duplicates(["model", "trained_on", "tested_on"])
    known = [trainings.get(name, {}) for name in rows["model"]]
    asked = {term.column for claim in read_claims("E") for term in claim.conditions}
    rows = rows.join(pd.DataFrame(known, rows.index).filter(sorted(asked - set(rows))))
    return _judge_all("E", rows)


def _judge_all(paper: str, timed: pd.DataFrame) -> pd.DataFrame:
    shown = "id paper wording place reads words words_pt published".split()
    rows = []
    for claim in read_claims(paper):
        verdict = judge(claim, timed)
        row = {name: getattr(claim, name) for name in shown}
        rows.append({**row, **verdict._asdict(), "n": verdict.ours.n})
    judged = tabulate(rows)
    order = judged["verdict"].map(VERDICTS.index).clip(lower=2)
    return judged.loc[order.sort_values(kind="stable").index]


def list_judged_rows(timed: pd.DataFrame) -> pd.DataFrame:
    """List the rows that judge claims: the timed rows of a selection with the columns that papers
    derive, and `percent_train`, the rounded share of photographs trained on.
    """
    for paper in PAPERS.values():
        if paper.derive:
            timed = load(paper.derive)(timed)
    sides = [f"num_images_{side}" for side in ("train", "validation", "test")]
    number = timed.reindex(columns=sides).astype(float)
    percent = 100 * number["num_images_train"] / number.sum(axis=1)
    return timed.assign(percent_train=percent.round())


def judge(claim: Claim, timed: pd.DataFrame) -> Verdict:
    """Judge whether a claim holds.

    Args:
        claim: of `read_claims`.
        timed: one row per independent run, of `list_judged_rows`.
    """
    if claim.not_testable:
        return Verdict(claim.id, "not testable", claim.not_testable)
    sides, unlike = find_sides(claim, timed)
    if not all(map(len, sides)):
        sought = " against ".join(";".join(map(str, side)) for side in claim.sides)
        return Verdict(
            claim.id, "not measured", f"no rows with {', '.join(claim.columns)}, {sought}"
        )
    keys = find_keys(claim, sides)
    parts = list_parts(claim, sides, keys)
    unlike += keys.unlike
    found = decide(claim, parts) if parts else Verdict(claim.id, "undecided", "")
    if not parts:
        unlike = unlike or [*keys.parts, *keys.cells]
    elif not unlike and claim.list_varied(is_hardware=True):
        if not claim.list_varied(is_hardware=False):
            unlike = sorted({name for part in parts for name in list_unlike(*part.sides)})
        found = _compare_models(claim, found, parts)
    if unlike:
        reason = f"it differs in {', '.join(unlike)}"
        return found._replace(verdict="not comparable", reason=reason)
    return found


def find_sides(claim: Claim, timed: pd.DataFrame) -> tuple[list[pd.DataFrame], list[str]]:
    """Find the rows of each side that come closest to a claim's conditions, and what none meets.

    Hardware, then stack and conditions, narrow the rows one by one; a condition that none meets is
    given up. On a laptop `accelerator=TPU*` with `epochs=200` finds the laptop's rows of 200
    epochs, and the TPU as unmet.
    """
    columns = list(claim.columns)
    timed = timed.dropna(subset=columns) if set(columns) <= set(timed) else timed[:0]
    sides = []
    unmet = set()
    for terms in claim.sides:
        loose = [term for term in terms if term.column in (*MACHINE, *STACK)]
        rows = timed
        for term in [term for term in terms if term not in loose]:
            rows = rows[term.test(rows)]
        for term in [*loose, *claim.conditions] if len(rows) else ():
            nearer = rows[term.test(rows)]
            if nearer.empty:
                unmet.add(str(term))
            else:
                rows = nearer
        sides.append(rows)
    return sides, sorted(unmet)


def find_keys(claim: Claim, sides: Sequence[pd.DataFrame]) -> Keys:
    """Find the columns in which the sides have to agree, and those that tell groups apart.

    The stack follows from a framework or from a machine, where the claim compares these.
    """
    varied = claim.list_varied(is_hardware=True) | claim.list_varied(is_hardware=False)
    if varied & {"framework", *STACK, *MACHINE}:
        varied |= {*STACK}
    if varied & {*MACHINE}:
        varied |= {*MACHINE}
    paper = PAPERS[claim.paper]
    columns = [*schema.WORK, *STACK, *(schema.HARDWARE if claim.is_anywhere else NAMES)]
    if "predict_ms" in sides[0] and sides[0]["predict_ms"].notna().any():
        columns.append("model_version")
    keys = Keys([], [], [], [])
    for name in write_levels(pd.concat(sides), columns):
        levels = [set(write_levels(side, [name]).get(name, [""])) for side in sides]
        every = set.union(*levels)
        if len(every) == 1:
            continue
        if set.intersection(*levels) and (len(sides) == 1 or name not in varied):
            (keys.cells if name in paper.design else keys.parts).append(name)
        elif name in {"code_sha256", *paper.may_differ} | varied:
            keys.own.append(name)
        else:
            keys.unlike.append(f"{name} ({', '.join(sorted(every))})")
    return keys


def list_parts(claim: Claim, sides: Sequence[pd.DataFrame], keys: Keys) -> list[Part]:
    """List the groups that are judged one by one, each with the cells that all sides ran."""
    groups = []
    for side in sides:
        names = [_join(side, columns) for columns in (keys.parts, keys.own, keys.cells)]
        labelled = side.assign(cell=names[2])
        groups.append(list(labelled.groupby(names[:2])))
    parts = []
    for each in itertools.product(*groups):
        common = set.intersection(*(set(rows["cell"]) for _, rows in each))
        if len({name for (name, _), _ in each}) == 1 and common:
            rows = [rows[rows["cell"].isin(common)] for _, rows in each]
            names = dict.fromkeys(name for key, _ in each for name in key)
            name = ", ".join(filter(None, names))
            parts.append(Part(rows, name, _count_missing(claim, rows[0])))
    if claim.is_anywhere or not parts:
        return parts
    # the machines that it names are of the design
    num_missing = _count_missing(claim, pd.concat([part.sides[0] for part in parts]))
    return [part._replace(num_missing=num_missing) for part in parts]


def _join(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Join the levels of columns to a name."""
    levels = write_levels(rows.reindex(columns=columns), columns)
    names = [", ".join(filter(None, row)) for row in levels.to_numpy()]
    return pd.Series(names or "", rows.index)


def _count_missing(claim: Claim, rows: pd.DataFrame) -> int:
    """Count the cells of the paper's design, and of the machines that it names, that were not
    run.
    """
    terms = {term.column: term for term in (*claim.conditions, *claim.sides[0])}
    number = 1
    named = []
    for name, num_levels in {**PAPERS[claim.paper].design, "priced_as": 1}.items():
        patterns = terms[name].patterns if name in terms else ()
        if len(patterns) != 1 and name in rows:
            named.append(name)
            number *= len(patterns) or num_levels
    return max(0, number - len(rows[named].drop_duplicates())) if named else 0


def decide(claim: Claim, parts: Sequence[Part]) -> Verdict:
    """Compare each part with the claim's bounds.

    It holds if the interval of every part lies between the bounds: each has to, so each is asked
    with its own error (Berger 1982, Technometrics 24). It does not hold if that of one lies
    outside, by intervals that are right together. A part that lacks cells decides nothing.
    """
    low, high = claim.bounds
    if claim.every_cell:
        parts = [each for part in parts for each in _split(part)]
    cases = [(column, part) for part in parts for column in claim.columns]
    level = 1 - (1 - LEVEL) / len(cases)
    try:
        found = [measure_case(claim, *case) for case in cases]
        together = [measure_case(claim, *case, level) for case in cases]
    except BadSampleError as error:
        return Verdict(claim.id, "undecided", str(error))
    is_whole = [not part.num_missing for _, part in cases]
    is_inside = [low <= each.low and each.high <= high for each in found]
    is_outside = [each.high < low or each.low > high for each in together]
    rooms = [min(each.low - low, high - each.high) for each in found]
    worst = int(np.nanargmin(rooms)) if np.isfinite(rooms).any() else 0
    ours = found[worst]

    verdict = "undecided"
    if all(is_inside) and all(is_whole):
        verdict = "holds"
    elif any(np.logical_and(is_outside, is_whole)):
        verdict = "does not hold"
    reason = f"[{ours.low:.4g}, {ours.high:.4g}] vs [{low:.4g}, {high:.4g}]"
    if np.isnan(ours.low):
        reason = getattr(ours, "scope", "") or "no interval: no repetition ran every cell"
    if len(cases) > 1:
        reason += f" in {cases[worst][1].name}; {sum(is_inside)} of {len(cases)} satisfy it"
    if num_missing := max(part.num_missing for part in parts):
        reason += f"; {num_missing} cells of the design were not run"
    return Verdict(claim.id, verdict, reason, ours)


def _split(part: Part) -> list[Part]:
    """Split a part by cell."""
    parts = []
    for cell in sorted(set(part.sides[0]["cell"])):
        sides = [side[side["cell"] == cell] for side in part.sides]
        name = ", ".join(filter(None, [part.name, cell]))
        parts.append(Part(sides, name, part.num_missing))
    return parts


def measure_case(
    claim: Claim, column: str, part: Part, level: float = LEVEL
) -> Measured | Interval:
    """Measure the mean or the ratio of a part in the claim's unit.

    A score of a model has the interval of its patients; what is counted, and always came out the
    same, needs none.

    Raises:
        BadSampleError: a number is zero, negative or infinite.
    """
    rows = part.sides[0]
    if f"{column}_low" in rows:
        score = rows.iloc[0]
        return Interval(
            *score[[column, f"{column}_low", f"{column}_high"]], score["num_patients"]
        )
    values = rows[column].astype(float)
    is_sure = claim.by_seed and len(values) >= MIN_RUNS and values.nunique() == 1
    if claim.counted or (is_sure and np.isfinite(values).all()):
        return Interval(values.mean(), values.min(), values.max(), len(values))
    sides = part.sides
    if claim.by_seed:
        sides = [side.assign(session=side["seed"]) for side in sides]
    found = measure(column, *sides, cells=["cell"], level=level)
    if not claim.written_as:
        return found
    ends = [100 * end - 100 for end in found[:3]]
    if claim.written_as == "saving":
        ends = [-ends[0], -ends[2], -ends[1]]
    return found._replace(value=ends[0], low=ends[1], high=ends[2])


def list_unlike(*sides: pd.DataFrame) -> list[str]:
    """List where the stacks of two machines differ, or are unknown, with the levels; of versions
    the minor one of what computes.
    """
    backends = set(pd.concat(sides).get("backend", pd.Series(dtype=str)).dropna())
    names = [name for name in [*STACK, "cold"] if name not in DEVICES]
    unlike = []
    for name in names:
        if name in schema.VERSIONS and backends and name not in (*backends, "keras"):
            continue
        levels = [set(write_levels(side, [name]).get(name, [""])) for side in sides]
        levels = [{".".join(level.split(".")[:2]) for level in each} for each in levels]
        is_unknown = name in ARITHMETIC and "" in levels[0] and "train_s" in sides[0]
        if levels[0] != levels[1] or is_unknown:
            each = sorted(level or "unknown" for level in set.union(*levels))
            unlike.append(f"{name} ({', '.join(each)})")
    return unlike


def _compare_models(claim: Claim, found: Verdict, parts: Sequence[Part]) -> Verdict:
    """Ask of machines that were compared that their models have learned, and are equal."""
    is_served = claim.columns[0].endswith("_ms") or claim.columns[0].startswith("predict_")
    if is_served or claim.columns[0].startswith("to_"):
        return found
    for cell in [cell for part in parts for cell in _split(part)]:
        verdict, reason = judge_models(*cell.sides)
        if verdict == "not comparable" or (verdict and found.verdict in VERDICTS[:2]):
            found = found._replace(verdict=verdict, reason=f"{found.reason}; {reason}")
    return found


def judge_models(a: pd.DataFrame, b: pd.DataFrame) -> tuple[str, str]:
    """Say whether what two machines trained is not comparable or undecided, and how it compares;
    nothing of equal models, which alone have times to compare.
    """
    metric = choose_metric(a)
    value, low, high, n = difference = compare_models(a, b)
    if not n:
        return "not comparable", f"test {metric} not measured"
    words = f"test {metric} differs by {value:.3f} [{low:.3f}, {high:.3f}], 90 %, n = {n}"
    is_equal = is_equivalent(difference)
    if not is_equal:
        return "undecided" if is_equal is None else "not comparable", words
    lows = pd.concat([a, b]).get("metric_auc_test_low", pd.Series(dtype=float)).dropna()
    if not all(map(has_learned, lows)):
        return "undecided", "a model has not been shown to be better than chance"
    return "", ""
