"""Judge claims by rows: find each side's rows, match their cells, measure, decide.

"TensorFlow takes 2 to 3 times as long as MXNet on the CPU" has two sides, the rows of TensorFlow
and those of MXNet from that machine. Their cells are data set, image side and network, eight on
each side, matched like with like. What is measured is the ratio within each cell, its mean over the
cells and the 95 % interval of that. The claim holds if the whole interval lies between 2 and 3,
does not hold if it lies wholly outside, and is undecided otherwise.
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from dr_lib.claims.claims import MACHINE, STATISTICS, Claim, read_judged
from dr_lib.claims.papers import FACTORS, PAPERS
from dr_lib.report.conditions import Condition
from dr_lib.report.rows import load
from dr_lib.report.select import (
    ALIKE,
    ARITHMETIC,
    MANY_OUTLIERS,
    PLAN,
    REQUESTED,
    UNDECIDED,
    UNLIKE,
    WARMTH,
    WORK,
    Selection,
    judge_models,
    list_runs,
    write_level,
    write_unlike,
)
from dr_lib.runs.schema import VERSIONS
from dr_lib.statistics.cells import ERROR, Design, Statistic
from dr_lib.statistics.intervals import (
    MIN_RUNS,
    NOTHING,
    BadSampleError,
    Interval,
    count_needed,
    tabulate,
    widen,
)

VERDICTS = (
    "holds",
    "does not hold",
    "undecided",
    "not comparable",
    "not measured",
)
NAMES = ["instance_type", "priced_as"]  # of a machine: SageMaker's, and the user's
IMAGES = ["num_images_train", "num_images_test"]  # too, where no data set has its own
# ends of the names of columns in which equal numbers come from a clock that rounds
CLOCKED = ("_s", "_ms", "_usd")


class Verdict(NamedTuple):
    """The judgement of a claim by our rows; `ours` is in the claim's unit, `n` the runs or
    sessions of
    the smallest cell.
    """

    id: str
    # where there are several parts, the one that is farthest from satisfying the claim
    ours: Interval
    verdict: str  # of VERDICTS
    n: int
    reason: str  # what was compared with what, in numbers and column names
    # parts, the cells or columns that were judged one by one, whose interval satisfies it
    num_satisfied: int = 0
    num_parts: int = 0
    num_missing: int = 0  # cells of the claim's design that were not run
    num_disturbed: int = 0  # of the rows that it rests on
    num_left_out: int = 0  # outliers among its runs
    over_all: float = math.nan  # the value with them
    versions: str = ""  # of those rows, with the paper's where they differ


class Sides(NamedTuple):
    """The rows that come closest to a claim's conditions."""

    rows: list[pd.DataFrame]  # of the numerator, and of the denominator where there is one
    unmet: list[str]  # conditions that no row meets


class Cells(NamedTuple):
    """The rows of a claim's sides, matched by their common columns."""

    keys: list[str]  # the columns that tell cells apart
    rows: dict[tuple, list[pd.DataFrame]]  # of each cell, on each side


class Part(NamedTuple):
    """A unit that is judged: all cells together, or one of them, for one column."""

    name: str
    ours: Interval
    together: Interval  # wider: right in 95 of 100 studies for all parts at once
    is_partial: bool = False  # of a machine that made a part of the design
    num_left_out: int = 0  # outliers among its runs
    no_interval: str = ""  # the reason, where it has none


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge the claims of a paper by the timed rows of a selection.

    Returns:
        A row per claim that rows can judge, those with a verdict of our own first, then what is not
        comparable or not measured: its `id`, `paper`, `wording`, `place`, `words`, `words_pt`,
        `published` and `unit`, and the fields of `Verdict`.
    """
    return _judge_all(paper, list_judged_rows(selection.timed), selection.factors)


def judge_data_sets(
    table: pd.DataFrame, trainings: Mapping[str, Mapping[str, Any]]
) -> pd.DataFrame:
    """Judge the claims of paper E by the rows of `evaluation.compare_data_sets`, and how each
    model was trained, of `read_trainings`; n is patients. See `judge_claims`.
    """
    rows = table.drop_duplicates(["model", "trained_on", "tested_on"])
    known = [trainings.get(name, {}) for name in rows["model"]]
    asked = {term.column for claim in read_judged("E") for term in claim.conditions}
    rows = rows.join(pd.DataFrame(known, rows.index).filter(sorted(asked - set(rows))))
    return _judge_all(
        "E", rows.assign(environment=rows["trained_on"] + " → " + rows["tested_on"])
    )


def _judge_all(paper: str, timed: pd.DataFrame, factors: Sequence[str] = ()) -> pd.DataFrame:
    shown = "id paper wording place words words_pt published unit".split()
    rows = []
    for claim in read_judged(paper):
        verdict = judge(claim, timed, factors)
        row = {name: getattr(claim, name) for name in shown}
        rows.append(row | verdict._asdict())
    judged = tabulate(rows)
    order = judged["verdict"].map(VERDICTS.index).clip(lower=2)
    return judged.loc[order.sort_values(kind="stable").index]


def list_judged_rows(timed: pd.DataFrame) -> pd.DataFrame:
    """List the rows that judge claims: the timed rows of a selection, one per run and machine.

    Returns:
        The rows with the columns that papers derive, and `percent_train`, the
        rounded share of the photographs that are on the side of training.
    """
    rows = list_runs(timed)
    for paper in PAPERS.values():
        if paper.derive:
            rows = load(paper.derive)(rows)
    sides = rows.reindex(
        columns=[f"num_images_{side}" for side in ("train", "validation", "test")]
    )
    percent = 100 * sides["num_images_train"] / sides.sum(axis=1)
    rows["percent_train"] = percent.astype(float).round()
    return rows


def judge(claim: Claim, timed: pd.DataFrame, factors: Sequence[str] = ()) -> Verdict:
    """Judge whether a claim holds.

    Args:
        claim: one that rows can judge.
        timed: one row per independent run, of `list_judged_rows`.
        factors: of the study, whose levels are cells: a mean of several levels decides nothing.
    """
    sides = find_sides(claim, timed)
    if not all(map(len, sides.rows)):
        kind = "undisturbed rows" if claim.undisturbed else "rows"
        sought = " against ".join(";".join(map(str, side)) for side in claim.sides)
        reason = f"no {kind} with {' '.join(claim.columns)}, {sought}".rstrip(", ")
        return Verdict(claim.id, NOTHING, "not measured", 0, reason)
    cells = match_cells(claim, sides.rows, factors)
    used = sides.rows[0][:0]
    if cells.rows:
        used = pd.concat([rows for cell in cells.rows.values() for rows in cell])
    is_mixed = "environment" not in cells.keys and any(
        side["environment"].nunique() > 1 for side in sides.rows
    )
    is_countable = len(used) > 0 and not is_mixed and not used.index.has_duplicates
    found = _estimate(claim, sides, cells, factors, is_countable)
    if reason := _find_obstacle(claim, sides, cells, used, is_mixed):
        is_compared = len(used) > 0 or claim.compares_machines
        verdict = "not comparable" if is_compared else "not measured"
        found = found._replace(verdict=verdict, reason=reason)
    # the time to an accuracy compares equal models as it is
    is_between = claim.compares_machines and not claim.columns[0].startswith("to_")
    if is_between and found.verdict not in VERDICTS[3:]:
        found = _weigh_models(found, cells)
    if found.verdict in VERDICTS[:2]:
        found = _weigh_warmth(claim, found, used)
    num_disturbed = 0
    if "disturbed" in used and not claim.counted:
        # the same rows on both sides, where each gave up what tells them apart
        num_disturbed = int(used.loc[~used.index.duplicated(), "disturbed"].sum())
    versions = _describe_versions(claim.paper, used)
    return found._replace(num_disturbed=num_disturbed, versions=versions)


def _estimate(
    claim: Claim, sides: Sides, cells: Cells, factors: Sequence[str], is_countable: bool
) -> Verdict:
    """Measure a claim and decide; undecided where its rows have no one value."""
    nothing = Verdict(claim.id, NOTHING, "undecided", 0, "")
    if len(sides.rows) == 1 and len(cells.rows) > 1:
        levels = [name for name in factors if name in cells.keys and name not in FACTORS]
        if levels and (sides.unmet or not claim.every_cell):
            reason = f"a mean over several levels of {', '.join(levels)}: choose one with only"
            return nothing._replace(reason=reason)
        is_countable = is_countable and not sides.unmet
    if not is_countable:
        return nothing
    num_missing = _count_missing(claim, cells, sides.rows)
    try:
        parts = measure(claim, cells)
        found = decide(claim, parts, num_missing=num_missing)
        if num_left_out := max(part.num_left_out for part in parts):
            over_all = measure(claim, cells, keep_all=True)
            over_all = decide(claim, over_all, num_missing=num_missing)
            found = _weigh_outliers(found, over_all, num_left_out)
    except BadSampleError as error:
        return nothing._replace(reason=str(error))
    return found


def _find_obstacle(
    claim: Claim, sides: Sides, cells: Cells, used: pd.DataFrame, is_mixed: bool
) -> str:
    """Find what keeps the rows from judging a claim; empty if nothing does."""
    unlike = ""
    if claim.compares_machines:
        unlike = _list_unlike_work(claim, cells)
    if claim.is_of_hardware:
        unlike = unlike or write_unlike(cells.rows.values() or [sides.rows])
    if not cells.rows:
        first, last = (side[cells.keys].astype(str) for side in (sides.rows[0], sides.rows[-1]))
        keys = [key for key in cells.keys if not set(first[key]) & set(last[key])]
        differing = unlike or ", ".join(keys or cells.keys)
        return f"no cell was run on both sides: they differ in {differing}"
    if claim.is_of_design and len(cells.rows) > claim.cells:
        number = f"{len(cells.rows)} cells for {claim.cells} of the design"
        return f"{number}: several machines or kinds of work"
    if sides.unmet or is_mixed:
        places = "; ".join(sorted(set(used["environment"])))
        return f"{places} vs {', '.join(sides.unmet) or claim.hardware}"
    if unlike:
        return f"the machines' software or work differs, or is unknown, in {unlike}"
    return ""


def find_sides(claim: Claim, timed: pd.DataFrame) -> Sides:
    """Find the rows of each side that come closest to a claim's conditions.

    Hardware, then stack and conditions, narrow the rows one by one; a condition that none meets is
    given up.
    On a laptop `accelerator=TPU*` with `epochs=200` finds the laptop's rows of 200 epochs, and the
    TPU as unmet.
    """
    columns = list(claim.columns)
    timed = timed.dropna(subset=columns) if set(columns) <= set(timed) else timed[:0]
    if claim.undisturbed and "disturbed" in timed:
        timed = timed[~timed["disturbed"].astype(bool)]
    sides = []
    unmet = set()
    for terms in claim.sides:
        loose = [term for term in terms if term.column in MACHINE]
        loose += [term for term in terms if term.column in PLAN]
        strict = [term for term in terms if term not in loose]
        rows = _narrow(timed, strict)
        for term in [*loose, *claim.conditions]:
            nearer = _narrow(rows, [term])
            if nearer.empty:
                unmet.add(str(term))
            else:
                rows = nearer
        sides.append(rows)
    given_up = sorted(unmet)
    if claim.priced and any(map(_is_mispriced, sides)):
        given_up.append("priced_as=instance_type")
    return Sides(sides, given_up)


def _narrow(rows: pd.DataFrame, conditions: Sequence[Condition]) -> pd.DataFrame:
    for condition in conditions:
        rows = rows[condition.test(rows)]
    return rows


def match_cells(
    claim: Claim, sides: Sequence[pd.DataFrame], factors: Sequence[str] = ()
) -> Cells:
    """Match equal cells of the sides; drop cells without a match.

    A cell is one level of every factor, and of whatever other work a side did several of, on one
    machine unless the claim compares machines. Two frameworks with two networks each are compared
    in two cells, network by network.
    """
    terms = [*claim.numerator, *claim.denominator]
    fixed = {term.column for term in terms if term.patterns != ("*",)}
    both = pd.concat(sides)
    # beside the factors of the papers' designs
    work = "model format data_kind mode batch_size epochs data_share threads_asked".split()
    columns = [*dict.fromkeys([*FACTORS, *work, *factors])]
    if claim.is_of_hardware and REQUESTED in columns:  # alike is what was done
        columns = [name for name in columns if name != REQUESTED] + ARITHMETIC
    if "dataset" not in both or both["dataset"].isna().all():
        columns += IMAGES
    if not claim.compares_machines:
        columns += ["threads", "environment"]
    keys = [
        name
        for name in columns
        if name in both and name not in fixed and both[name].nunique(dropna=False) > 1
    ]
    if not keys:
        return Cells([], {(): list(sides)})
    # of two notebooks the one has no format, say
    groups = [
        dict(list(side.groupby([side[key].astype(str).fillna("") for key in keys])))
        for side in sides
    ]
    matched = [key for key in groups[0] if all(key in group for group in groups)]
    return Cells(keys, {key: [group[key] for group in groups] for key in matched})


def _list_unlike_work(claim: Claim, cells: Cells) -> str:
    """List in what work two machines differ, beside what the claim or its paper varies."""
    varied = {"code_sha256", *PAPERS[claim.paper].may_differ, *cells.keys}
    varied.update(term.column for side in claim.sides for term in side)
    unlike = []
    for name in [name for name in WORK if name not in varied]:
        for sides in cells.rows.values():
            levels = [set(side.get(name, pd.Series("")).map(write_level)) for side in sides]
            if levels[0] != levels[-1]:
                names = ", ".join(sorted(set.union(*levels)))
                unlike.append(f"{name} ({names})")
                break
    return ", ".join(unlike)


def measure(claim: Claim, cells: Cells, *, keep_all: bool = False) -> list[Part]:
    """Measure the claim's statistic in its unit, over all cells or in each, for each of its
    columns; with `keep_all` outliers count, too.

    What is said of machines is said of each: each is measured alone, unless the claim adds them up.
    What is counted, and always came out the same, needs no interval.

    Raises:
        BadSampleError: a number is zero, negative or infinite.
    """
    if claim.statistic == "score":
        return _read_scores(claim, cells)
    machines = _part_machines(claim, cells)
    num_parts = len(claim.columns) * len(machines)
    if claim.every_cell:
        num_parts *= max(map(len, machines.values()))
    parts = []
    for column, (machine, rows) in itertools.product(claim.columns, machines.items()):
        name = ", ".join(filter(None, [column, machine]))
        is_partial = claim.is_anywhere and len(machines) > 1 and len(rows) < claim.cells
        sides = list(zip(*rows.values(), strict=True))
        values = {value for side in sides for cell in side for value in cell[column]}
        if np.inf in values:
            raise BadSampleError(f"{column} was not reached in every run")

        if claim.counted and len(values) == 1:
            (value,) = values
            count = Interval(value, value, value, sum(map(len, sides[0])))
            parts.append(Part(name, count, count, is_partial))
            continue
        design = _fit_design(claim, column, sides, keep_all=keep_all)
        num_left_out = int(design.is_left_out.sum())
        reason = MANY_OUTLIERS if design.has_many_outliers else ""
        if claim.statistic == "sd_ratio":
            side = np.searchsorted(design.ends, design.cell, side="right")
            means = pd.Series(design.times).groupby([side, design.session]).mean()
            ours = divide_deviations(*(each for _, each in means.groupby(level=0)))
            if reason:
                ours = ours._replace(low=np.nan, high=np.nan)
            parts.append(Part(name, ours, ours, False, num_left_out, reason))
        else:
            for part, statistic in _list_statistics(claim, name, rows).items():
                found = design.estimate(statistic)
                ours = _scale(claim, found.interval())
                together = _scale(claim, found.interval(ERROR / num_parts))
                part_is_partial = is_partial and not claim.every_cell
                parts.append(Part(part, ours, together, part_is_partial, num_left_out, reason))
    return parts


def divide_deviations(a: ArrayLike, b: ArrayLike, error: float = ERROR) -> Interval:
    """Compute the ratio of the standard deviations of `a` and `b`.

    The interval is F's, of the deviations of the logarithms, and Welch's of their means, added in
    squares (MOVER; Zou and Donner 2008, Stat. Med. 27).

    Args:
        a: positive times, (n,).
        b: the reference's, in the same unit.
        error: chance that the interval misses.
    """
    a = np.asarray(a)
    b = np.asarray(b)
    n = min(a.size, b.size)
    if n < 2 or not np.ptp(a) or not np.ptp(b):  # times that a clock rounded have no spread
        return NOTHING._replace(n=n)
    value = np.log(a.std(ddof=1) / b.std(ddof=1))
    ends = 0.5 * np.log(stats.f.ppf([1 - error / 2, error / 2], a.size - 1, b.size - 1))
    parts = [(np.log(side).var(ddof=1) / side.size, side.size - 1) for side in (a, b)]
    half = np.hypot(ends, widen(parts, error))
    return Interval(*map(float, np.exp([value, value - half[0], value + half[1]])), n)


def _read_scores(claim: Claim, cells: Cells) -> list[Part]:
    """Read a model's scores, which already have intervals: one per cell."""
    (column,) = claim.columns
    parts = []
    for (rows,) in cells.rows.values():
        row = rows.iloc[0]
        ours = Interval(*row[[column, f"{column}_low", f"{column}_high"]], row["num_patients"])
        parts.append(Part(row["environment"], ours, ours))
    return parts


def _fit_design(
    claim: Claim, column: str, sides: Sequence[Sequence[pd.DataFrame]], *, keep_all: bool
) -> Design:
    """Fit the cells of each side and their sessions."""
    runs = [[cell[column] for cell in side] for side in sides]
    sessions = [[cell["session"] for cell in side] for side in sides]
    is_exact = not column.endswith(CLOCKED)
    if claim.statistic == "bill":  # one number, of however many runs and sessions
        bills = np.unique(np.concatenate(runs[0]))
        return Design([bills], sessions=[[bills]], is_exact=is_exact)
    if claim.by_seed:
        sessions = None
    return Design(*runs, sessions=sessions, keep_all=keep_all, is_exact=is_exact)


def _list_statistics(claim: Claim, name: str, keys: Collection[tuple]) -> dict[str, Statistic]:
    """List a design's statistics by name: one over all its cells, or one for each."""
    statistic = STATISTICS[claim.statistic]
    if not claim.every_cell:
        return {name: statistic}
    return {", ".join(map(str, key)): statistic.of_cell(k) for k, key in enumerate(keys)}


def decide(claim: Claim, parts: Sequence[Part], *, num_missing: int = 0) -> Verdict:
    """Compare each part with the claim's bounds.

    It holds if the interval of every part lies between the bounds: each has to, so each is asked
    with its own error (Berger 1982, Technometrics 24). It does not hold if that of one lies
    outside that is not partial, by intervals that are right together. Without all cells that it
    speaks of on a machine, and three runs of each, or sessions, it is undecided there.
    """
    low, high = claim.bounds
    enough = [part for part in parts if claim.counted or part.ours.n >= MIN_RUNS]
    repeated = [part for part in enough if np.isfinite(part.ours.low)]
    shown = repeated or parts
    # of each interval, before it leaves the bounds
    room = [min(part.ours.low - low, high - part.ours.high) for part in shown]
    worst = shown[int(np.nanargmin(room)) if np.isfinite(room).any() else 0]
    num_satisfied = sum(low <= part.ours.low and part.ours.high <= high for part in repeated)
    violated = [
        part
        for part in repeated
        if (part.together.high < low or part.together.low > high) and not part.is_partial
    ]

    ours = worst.ours
    reason = f"[{ours.low:.4g}, {ours.high:.4g}] vs [{low:.4g}, {high:.4g}]"
    if len(parts) > 1:
        reason += f" in {worst.name}; {num_satisfied} of {len(parts)} satisfy it"
    if num_missing:
        reason += f"; {num_missing} cells of the design were not run"
    verdict = "undecided"
    needed = count_needed(ours, low, high)
    if not enough:
        reason = f"n = {ours.n} < {MIN_RUNS}"
        if ours.n == 1:
            reason = f"one run, or one session: at least {needed} are needed to decide"
    elif not repeated:
        reasons = [part.no_interval for part in parts if part.no_interval]
        reason = (reasons or ["no interval: nothing was repeated"])[0]
    elif violated and (not num_missing or any(part.is_partial for part in parts)):
        verdict = "does not hold"
    elif num_satisfied == len(parts) and not num_missing:
        verdict = "holds"
    elif not num_missing:
        reason += f"; n near {needed} might decide"
    return Verdict(
        claim.id,
        ours,
        verdict,
        ours.n,
        reason,
        num_satisfied=num_satisfied,
        num_parts=len(parts),
        num_missing=num_missing,
    )


def _weigh_warmth(claim: Claim, found: Verdict, used: pd.DataFrame) -> Verdict:
    """Say which runs a time is of, where they are not warm; cold ones decide nothing."""
    if "warmth" not in used or not claim.columns[0].endswith(CLOCKED):
        return found
    kinds = [kind for kind in WARMTH if (used["warmth"] == kind).any()]
    reason = "; ".join([found.reason, *map(WARMTH.get, kinds)])
    is_mixed = claim.compares_machines and used["warmth"].nunique() > 1
    verdict = "undecided" if "cold" in kinds or is_mixed else found.verdict
    return found._replace(verdict=verdict, reason=reason)


def _weigh_models(found: Verdict, cells: Cells) -> Verdict:
    """Say how the models of both sides compare, where they do least: only times of equal ones are
    compared.
    """
    compared = [judge_models(*sides) for sides in cells.rows.values()]
    order = [ALIKE, UNDECIDED, UNLIKE]
    worst = max(
        compared, key=lambda each: (order.index(each.verdict), abs(each.difference.value))
    )
    num_like = sum(each.verdict == worst.verdict for each in compared)
    reason = f"{found.reason}; {worst.words}"
    if len(compared) > 1:
        reason += f"; models {worst.verdict} in {num_like} of {len(compared)} cells"
    verdict = found.verdict
    is_decided = verdict in VERDICTS[:2]
    if worst.verdict == UNLIKE or (worst.verdict == UNDECIDED and is_decided):
        verdict = worst.verdict
    return found._replace(verdict=verdict, reason=reason)


def _weigh_outliers(found: Verdict, over_all: Verdict, num_left_out: int) -> Verdict:
    """Say what all runs give; what they contradict is undecided."""
    if {found.verdict, over_all.verdict} == set(VERDICTS[:2]):
        found = found._replace(verdict="undecided")
    value, low, high = over_all.ours[:3]
    return found._replace(
        reason=f"{found.reason}; without {num_left_out} outliers, with them {value:.4g}"
        f" [{low:.4g}, {high:.4g}]: {over_all.verdict}",
        num_left_out=num_left_out,
        over_all=value,
    )


def _scale(claim: Claim, found: Interval) -> Interval:
    """Convert a ratio to the claim's unit."""
    value, low, high, n = found
    if claim.statistic == "increase":
        return Interval(100 * value - 100, 100 * low - 100, 100 * high - 100, n)
    if claim.statistic == "saving":
        return Interval(100 - 100 * value, 100 - 100 * high, 100 - 100 * low, n)
    return found


def _part_machines(claim: Claim, cells: Cells) -> dict[str, dict]:
    """Group cells by machine name; all together for a claim that sums its machines.

    A machine that a claim names is one whatever processor it had: a cloud gives several for a type.
    """
    if "environment" not in cells.keys or claim.is_of_design:
        return {"": cells.rows}
    machines = {}
    place = cells.keys.index("environment")
    for key, sides in cells.rows.items():
        name = key[place] if claim.is_anywhere else str([*map(sides[0].iloc[0].get, NAMES)])
        machines.setdefault(name, {})[key] = sides
    return machines


def _count_missing(claim: Claim, cells: Cells, sides: Sequence[pd.DataFrame]) -> int:
    """Count the cells of the claim's design without rows; other work or processors do not fill one.

    What is said of any machine has its design on each.
    """
    is_on_each = "environment" in cells.keys and claim.is_anywhere
    num_machines = pd.concat(sides)["environment"].nunique() if is_on_each else 1
    columns = [
        *(PAPERS[claim.paper].design or ["model"]),
        *(["environment"] if is_on_each else NAMES),
    ]
    rows = [sides[0].reindex(columns=columns).astype(str) for sides in cells.rows.values()]
    return max(0, claim.cells * num_machines - len(pd.concat(rows).drop_duplicates()))


def _is_mispriced(rows: pd.DataFrame) -> bool:
    """Whether a row has the price of another machine than SageMaker names."""
    named = rows.reindex(columns=NAMES).fillna("").astype(str)
    named = named[(named != "").all(axis=1)]
    return bool((named[NAMES[0]] != named[NAMES[1]]).any())


def _describe_versions(paper: str, used: pd.DataFrame) -> str:
    theirs = PAPERS[paper].versions
    texts = []
    for name in [*VERSIONS, "driver"]:
        ours = sorted({str(v) for v in used[name].dropna()} - {""}) if name in used else []
        text = f"{name} {', '.join(ours)}"
        if name in theirs and not all(version.startswith(theirs[name]) for version in ours):
            text += f" (theirs {theirs[name]})"
        texts += [text] if ours else []
    return "; ".join(texts)
