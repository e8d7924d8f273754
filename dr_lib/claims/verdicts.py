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
    compare_models,
    measure,
    write_level,
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
    """The judgement of a claim by our rows, in the claim's unit."""

    id: str
    # where there are several parts, the one that is farthest from satisfying the claim
    ours: Measured
    verdict: str  # of VERDICTS
    n: int
    reason: str  # what was compared with what, in numbers and column names
    num_satisfied: int = 0  # parts whose interval satisfies it
    num_parts: int = 0
    num_missing: int = 0  # cells of the claim's design that were not run
    num_disturbed: int = 0  # of the rows that it rests on


class Part(NamedTuple):
    """Rows of one group on each side, and the cells over which they are averaged."""

    sides: list[pd.DataFrame]
    name: str
    cells: list[str]
    num_missing: int


class Matching(NamedTuple):
    """How the rows of two sides are matched."""

    matched: list[str]  # columns in which both sides have to agree
    own: list[str]  # columns that tell apart groups of one side
    unlike: list[str]  # of the work, in which they differ although the claim does not name it


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge the claims of a paper by the timed rows of a selection.

    Returns:
        A row per claim, those with a verdict of our own first: its `id`, `paper`, `wording`,
        `place`, `reads`, `words`, `words_pt`, `published`, and the fields of `Verdict`.
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
        row = {name: getattr(claim, name) for name in shown}
        rows.append({**row, **judge(claim, timed)._asdict()})
    judged = tabulate(rows)
    order = judged["verdict"].map(VERDICTS.index).clip(lower=2)
    return judged.loc[order.sort_values(kind="stable").index]


def list_judged_rows(timed: pd.DataFrame) -> pd.DataFrame:
    """List the rows that judge claims: the timed rows of a selection, one per run, with the columns
    that papers derive, and `percent_train`, the rounded share of photographs trained on.
    """
    rows = timed
    for paper in PAPERS.values():
        if paper.derive:
            rows = load(paper.derive)(rows)
    sides = [f"num_images_{side}" for side in ("train", "validation", "test")]
    number = rows.reindex(columns=sides).astype(float)
    return rows.assign(
        percent_train=(100 * number["num_images_train"] / number.sum(axis=1)).round()
    )


def judge(claim: Claim, timed: pd.DataFrame) -> Verdict:
    """Judge whether a claim holds.

    Args:
        claim: of `read_claims`.
        timed: one row per independent run, of `list_judged_rows`.
    """
    if claim.not_testable:
        return Verdict(claim.id, NOTHING, "not testable", 0, claim.not_testable)
    sides, unmet = find_sides(claim, timed)
    if not all(map(len, sides)):
        sought = " against ".join(";".join(map(str, side)) for side in claim.sides)
        reason = f"no rows with {' '.join(claim.columns)}, {sought}"
        return Verdict(claim.id, NOTHING, "not measured", 0, reason)
    matching = match_columns(claim, sides)
    parts = list_parts(claim, sides, matching)
    found = Verdict(claim.id, NOTHING, "undecided", 0, "")
    if parts:
        found = decide(claim, parts)
    unlike = [*unmet, *matching.unlike]
    if not parts:
        unlike = unlike or matching.matched
    if unlike:
        reason = f"it differs in {', '.join(unlike)}"
        return found._replace(verdict="not comparable", reason=reason)
    compares_machines = bool(claim.list_varied(is_hardware=True))
    if compares_machines and not claim.columns[0].startswith("to_"):
        found = _compare_machines(claim, found, parts)
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
    unmet = []
    for terms in claim.sides:
        loose = [term for term in terms if term.column in (*MACHINE, *STACK)]
        rows = timed
        for term in [term for term in terms if term not in loose]:
            rows = rows[term.test(rows)]
        for term in [*loose, *claim.conditions] if len(rows) else ():
            nearer = rows[term.test(rows)]
            if nearer.empty:
                unmet.append(str(term))
            else:
                rows = nearer
        sides.append(rows)
    return sides, sorted(set(unmet))


def match_columns(claim: Claim, sides: Sequence[pd.DataFrame]) -> Matching:
    """Find the columns in which the sides have to agree, and those that tell groups apart.

    The stack follows from a framework or from a machine, where the claim compares these.
    """
    varied = claim.list_varied(is_hardware=True) | claim.list_varied(is_hardware=False)
    allowed = {"code_sha256", *PAPERS[claim.paper].may_differ, *varied}
    if varied & {"framework", *STACK, *MACHINE}:
        allowed |= {*STACK}
    if varied & {*MACHINE}:
        allowed |= {*MACHINE}
    hardware = schema.HARDWARE if claim.is_anywhere else NAMES
    columns = dict.fromkeys([*schema.WORK, *STACK, *hardware])
    if "predict_ms" in sides[0] and sides[0]["predict_ms"].notna().any():
        columns = dict.fromkeys([*columns, "model_version"])
    found = Matching([], [], [])
    for name in write_levels(pd.concat(sides), columns):
        levels = [set(write_levels(side, [name]).get(name, [""])) for side in sides]
        if len(set.union(*levels)) == 1:
            continue
        follows = name in allowed and name not in PAPERS[claim.paper].may_differ
        if set.intersection(*levels) and not (len(sides) > 1 and follows):
            found.matched.append(name)
        elif name in allowed:
            found.own.append(name)
        else:
            found.unlike.append(f"{name} ({', '.join(sorted(set.union(*levels)))})")
    return found


def list_parts(claim: Claim, sides: Sequence[pd.DataFrame], matching: Matching) -> list[Part]:
    """List the groups that are judged one by one, each with the cells that both sides ran."""
    design = PAPERS[claim.paper].design
    cells = [name for name in matching.matched if name in design]
    keys = [name for name in matching.matched if name not in design]
    groups = [_group(side, keys) for side in sides]
    parts = []
    for key in [key for key in groups[0] if all(key in group for group in groups)]:
        matched = _keep_common([group[key] for group in groups], cells)
        own = [_group(side, matching.own).items() for side in matched]
        for pairs in itertools.product(*own):
            rows = _keep_common([side for _, side in pairs], cells)
            if all(map(len, rows)):
                names = dict.fromkeys([*key, *(level for each, _ in pairs for level in each)])
                num_missing = _count_missing(claim, rows[0])
                parts.append(Part(rows, ", ".join(filter(None, names)), cells, num_missing))
    if not claim.is_anywhere and parts:  # the machines that it names are of the design
        num_missing = _count_missing(claim, pd.concat([part.sides[0] for part in parts]))
        parts = [part._replace(num_missing=num_missing) for part in parts]
    return parts


def _group(rows: pd.DataFrame, columns: Sequence[str]) -> dict[tuple, pd.DataFrame]:
    """Group rows by the levels of columns; without any, all are one group."""
    if not columns:
        return {(): rows}
    levels = write_levels(rows.reindex(columns=columns), columns)
    return dict(list(rows.groupby([levels[name] for name in columns])))


def _keep_common(sides: Sequence[pd.DataFrame], cells: Sequence[str]) -> list[pd.DataFrame]:
    """Keep the cells that every side ran."""
    if not cells:
        return list(sides)
    named = [side[cells].map(write_level).agg("/".join, axis=1) for side in sides]
    common = set.intersection(*map(set, named))
    return [side[name.isin(common)] for side, name in zip(sides, named, strict=True)]


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
    nothing = Verdict(claim.id, NOTHING, "undecided", 0, "")
    cases = [case for part in parts for case in _list_cases(claim, part)]
    try:
        found = [measure_case(claim, column, part) for column, part in cases]
        level = 1 - (1 - LEVEL) / len(cases)
        together = [measure_case(claim, column, part, level) for column, part in cases]
    except BadSampleError as error:
        return nothing._replace(reason=str(error))
    is_whole = [not part.num_missing for _, part in cases]
    is_inside = [low <= each.low and each.high <= high for each in found]
    is_outside = [each.high < low or each.low > high for each in together]
    rooms = [min(each.low - low, high - each.high) for each in found]
    worst = int(np.nanargmin(rooms)) if np.isfinite(rooms).any() else 0
    ours = found[worst]

    verdict = "undecided"
    if all(is_inside) and all(is_whole):
        verdict = "holds"
    elif any(out and whole for out, whole in zip(is_outside, is_whole, strict=True)):
        verdict = "does not hold"
    reason = f"[{ours.low:.4g}, {ours.high:.4g}] vs [{low:.4g}, {high:.4g}]"
    if np.isnan(ours.low):
        reason = ours.scope or "no interval: no repetition ran every cell"
    if len(cases) > 1:
        reason += f" in {cases[worst][1].name}; {sum(is_inside)} of {len(cases)} satisfy it"
    num_missing = max(part.num_missing for part in parts)
    if num_missing:
        reason += f"; {num_missing} cells of the design were not run"
    used = pd.concat([side for part in parts for side in part.sides])
    used = used[~used.index.duplicated()]
    return Verdict(
        claim.id,
        ours,
        verdict,
        ours.n,
        reason,
        num_satisfied=sum(is_inside),
        num_parts=len(cases),
        num_missing=num_missing,
        num_disturbed=int(used["disturbed"].sum()) if "disturbed" in used else 0,
    )


def _list_cases(claim: Claim, part: Part) -> list[tuple[str, Part]]:
    """List what has to meet the bound: each column, and each cell where the claim is about each."""
    parts = [part]
    if claim.every_cell and part.cells:
        groups = [_group(side, part.cells) for side in part.sides]
        parts = []
        for key in groups[0]:
            sides = [group[key] for group in groups]
            name = ", ".join(filter(None, [part.name, *key]))
            parts.append(Part(sides, name, [], part.num_missing))
    return [(column, each) for column in claim.columns for each in parts]


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
    found = measure(column, *sides, cells=part.cells, level=level)
    if not claim.written_as:
        return found
    ends = [100 * end - 100 for end in found[:3]]
    if claim.written_as == "saving":
        ends = [-ends[0], -ends[2], -ends[1]]
    return found._replace(value=ends[0], low=ends[1], high=ends[2])


def _compare_machines(claim: Claim, found: Verdict, parts: Sequence[Part]) -> Verdict:
    """Ask more of a comparison of machines: the same stack where the claim is of hardware alone,
    and models that have learned, and are equal.
    """
    if not claim.list_varied(is_hardware=False):
        unlike = sorted({name for part in parts for name in list_unlike(*part.sides)})
        if unlike:
            reason = f"the machines differ in {', '.join(unlike)}"
            return found._replace(verdict="not comparable", reason=reason)
    for part in parts:
        groups = [_group(side, part.cells) for side in part.sides]
        for key in groups[0]:
            verdict, reason = judge_models(*(group[key] for group in groups))
            is_decided = found.verdict in VERDICTS[:2]
            if verdict == "not comparable" or (verdict and is_decided):
                found = found._replace(verdict=verdict, reason=f"{found.reason}; {reason}")
    return found


def list_unlike(*sides: pd.DataFrame) -> list[str]:
    """List where the stacks of two machines differ, or are unknown, with the levels; of versions
    the minor one of what computes.
    """
    backends = set(pd.concat(sides).get("backend", pd.Series(dtype=str)).dropna())
    names = [name for name in schema.STACK if name not in DEVICES]
    libraries = [name for name in schema.VERSIONS if name not in DEVICES]
    names += [name for name in libraries if not backends or name in (*backends, "keras")]
    unlike = []
    for name in names:
        levels = [
            {
                ".".join(level.split(".")[:2])
                for level in side.get(name, pd.Series("")).map(write_level)
            }
            for side in sides
        ]
        is_unknown = name in ARITHMETIC and "" in levels[0] and "train_s" in sides[0]
        if levels[0] != levels[1] or is_unknown:
            each = sorted(level or "unknown" for level in set.union(*levels))
            unlike.append(f"{name} ({', '.join(each)})")
    colds = [side.get("cold", pd.Series(dtype=object)).eq(True).any() for side in sides]
    return [*unlike, "cold"] if colds[0] != colds[1] else unlike


def judge_models(a: pd.DataFrame, b: pd.DataFrame) -> tuple[str, str]:
    """Say whether what two machines trained is not comparable or undecided, and how it compares;
    nothing of equal models, which alone have times to compare, and of served ones.
    """
    if "predict_ms" in a and a["predict_ms"].notna().any():
        return "", ""
    metric = "accuracy" if "framework" in a and a["framework"].notna().any() else "auc"
    difference = compare_models(a, b, metric)
    if not difference.n:
        return "not comparable", f"test {metric} not measured"
    value, low, high, n = difference
    words = f"test {metric} differs by {value:.3f} [{low:.3f}, {high:.3f}], 90 %, n = {n}"
    is_equal = is_equivalent(difference)
    if is_equal is False:
        return "not comparable", words
    if is_equal is None:
        return "undecided", words
    lows = pd.concat([a, b]).get("metric_auc_test_low", pd.Series(dtype=float)).dropna()
    if len(lows) and not all(map(has_learned, lows)):
        return "undecided", "a model has not been shown to be better than chance"
    return "", ""
