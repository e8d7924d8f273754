"""Judge a claim by rows: find the rows of each side, match their cells, measure, decide.

"TensorFlow takes 2 to 3 times as long as MXNet on the CPU" has two sides, the rows of TensorFlow
and those of MXNet from that machine. Their cells are data set, image side and network, eight on
each side, matched like with like. What is measured is the ratio within each cell, its mean over the
cells and the 95 % interval of that. The claim holds if the whole interval lies between 2 and 3,
does not hold if it lies wholly outside, and is undecided otherwise.
"""

import itertools
from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.evidence.papers import FACTORS
from dr_lib.evidence.select import MIN_RUNS
from dr_lib.hardware.cloud import AZURE
from dr_lib.statistics import cells as over
from dr_lib.statistics.intervals import BadSampleError, Interval

VERDICTS = ("holds", "does not hold", "undecided", "not comparable", "not measured")
# by no rows
NEVER = {"input": "input, not tested", "not testable": "not testable", "withdrawn": "withdrawn"}
# what holds at least, always or in all; any other claim is of the mean over cells
EVERY = "every cell"
STATISTICS: dict[str, Callable[..., np.ndarray]] = {
    "mean": over.average,
    "sum": over.add,
    "ratio": over.divide,
    "increase": lambda a, b: 100 * over.divide(a, b) - 100,
    "saving": lambda a, b: 100 - 100 * over.divide(a, b),
    "difference": over.subtract,
    "ratio_of_sums": over.divide_sums,
    "sd_ratio": over.divide_deviations,
}
# share: of the variation, allocated to the factor of the first term; score: of a model, its
# interval is over patients
ONE_SIDED = ("mean", "sum", "share", "score")
WHOLE_DESIGN = ("sum", "ratio_of_sums", "share")  # mean nothing where cells are missing
OTHER_WORK = "model format data_kind mode batch_size epochs data_share threads_asked".split()
IMAGES = ("num_images_train", "num_images_test")  # other work, too, where no data set has its own
HARDWARE = "accelerator num_accelerators instance_type platform cpu num_cpus".split()  # as detected
MONEY = ("formula_usd", "predict_usd_per_million")
# one is all there is to know
COUNTED = ("num_parameters", "savedmodel_mib", "study_bill_usd", "formula_share_of_bill")
OF_THE_STUDY = ("study_bill_usd", "formula_share_of_bill")  # one for all of its machines
VERSIONS = (
    "tensorflow",
    "keras",
    "jax",
    "torch",
    "mxnet",
    "ai_edge_litert",
    "python",
    "cuda",
    "driver",
)
THEIRS = {  # versions that a paper names
    "C": {
        "tensorflow": "2.14.0",
        "torch": "2.2.0",
        "mxnet": "1.9.1",
        "python": "3.9",
        "cuda": "11.7",
    },
}
NOTHING = Interval(np.nan, np.nan, np.nan, 0)
# what is judged at once and its name: all cells together, or one of them; of one column
Part = tuple[str, Interval]


class Verdict(NamedTuple):
    """What our rows say of a claim; `ours` is in the claim's unit, `n` the runs of its smaller
    side.
    """

    id: str
    # where there are several parts, the one that is farthest from satisfying the claim
    ours: Interval
    verdict: str  # of VERDICTS, or of NEVER's
    n: int
    reason: str  # what was held against what, in numbers and column names
    # parts, the cells or columns that were judged one by one, whose interval satisfies it
    num_satisfied: int = 0
    num_parts: int = 0
    num_missing: int = 0  # cells of the claim's design that were not run
    num_disturbed: int = 0  # of the rows that it rests on
    versions: str = ""  # of those rows, with the paper's where they differ


def judge(claim: Any, timed: pd.DataFrame) -> Verdict:
    """Say whether a claim, a row of `read_published`, holds.

    Args:
        claim: a row of `read_published`.
        timed: one row per independent run, of a `Selection`.
    """
    if claim.judged in NEVER:
        return Verdict(claim.id, NOTHING, NEVER[claim.judged], 0, claim.why)
    sides, unmet, num_unknown = find_sides(claim, timed)
    if not all(map(len, sides)):
        sought = " against ".join(filter(None, (claim.numerator, claim.denominator)))
        kind = "undisturbed rows" if "cpu_percent_mean" in claim.column else "rows"
        return Verdict(
            claim.id,
            NOTHING,
            "not measured",
            0,
            f"no {kind} with {claim.column}, {sought}".rstrip(", "),
        )
    keys, cells = match_cells(claim, sides)
    unmet += (
        ["priced_as=instance_type"]
        if claim.column in MONEY and any(map(_is_mispriced, sides))
        else []
    )
    used = pd.concat([rows for cell in cells.values() for rows in cell]) if cells else sides[0][:0]
    is_mixed = "environment" not in keys and any(
        side["environment"].nunique() > 1 for side in sides
    )
    is_mean_of_unlike = bool(unmet) and len(sides) == 1 and len(cells) > 1
    can_measure = cells and not is_mixed and not is_mean_of_unlike and not used.index.has_duplicates
    try:
        parts = measure(claim, keys, cells) if can_measure else []
        num_missing = _count_missing(claim, keys, cells, sides)
        partial = _find_partial(claim, keys, cells) if can_measure else set()
        found = decide(claim, parts, num_missing=num_missing, partial=partial)
    except BadSampleError as error:
        found = Verdict(claim.id, NOTHING, "undecided", 0, str(error))
    if not cells:
        levels = [{key: set(side[key].astype(str)) for key in keys} for side in sides]
        unlike = [key for key in keys if not levels[0][key] & levels[-1][key]]
        reason = f"nothing was run alike on both sides: they differ in {', '.join(unlike or keys)}"
        found = found._replace(verdict="not measured", reason=reason)
    elif (
        claim.statistic in WHOLE_DESIGN and claim.environments != "any" and len(cells) > claim.cells
    ):
        reason = (
            f"{len(cells)} cells for {claim.cells} of the design: several machines or kinds of work"
        )
        found = found._replace(verdict="not comparable", reason=reason)
    elif unmet or is_mixed:
        places = "; ".join(sorted(set(used["environment"])))
        found = found._replace(
            verdict="not comparable", reason=f"{places} vs {', '.join(unmet) or claim.environments}"
        )
    if num_unknown:
        reason = f"{found.reason}; of {num_unknown} further rows no instance type was detected"
        found = found._replace(reason=reason)
    # the same rows on both sides, where each gave up what tells them apart
    once = used[~used.index.duplicated()]
    disturbed = (
        int(once["disturbed"].sum()) if "disturbed" in once and claim.column not in COUNTED else 0
    )
    return found._replace(num_disturbed=disturbed, versions=_describe_versions(claim.paper, used))


def find_sides(claim: Any, timed: pd.DataFrame) -> tuple[list[pd.DataFrame], list[str], int]:
    """Find the rows of each side that are nearest to what a claim speaks of, and the terms that
    none of them meets.

    Hardware, then conditions, narrow the rows term by term; a term that none meets is given up. On
    a laptop `accelerator=TPU*` with `epochs=200` finds the laptop's rows of 200 epochs, and the TPU
    as unmet.

    Returns:
        The rows of each side; the unmet terms; and, if the instance type of some rows is met, how
        many others lack nothing but theirs.
    """
    columns = claim.column.split()
    timed = timed.dropna(subset=columns) if set(columns) <= set(timed) else timed[:0]
    # how busy others kept the machine is no claim's matter
    if "disturbed" in timed and "cpu_percent_mean" in columns:
        timed = timed[~timed["disturbed"].astype(bool)]
    sides = []
    unmet = []
    unknown = set()
    is_detected = False
    conditions = [term for term in claim.conditions.split(";") if term]
    for selector in (
        [claim.numerator] if claim.statistic in ONE_SIDED else [claim.numerator, claim.denominator]
    ):
        terms = selector.split(";") if selector else []
        loose = [t for t in terms if t.split("=")[0] in HARDWARE] + conditions
        rows = timed[_meets(timed, [term for term in terms if term not in loose])]
        for term in loose:
            nearer = rows[_meets(rows, [term])]
            if term.startswith("instance_type="):
                unknown.update(rows.index[_meets(rows, ["instance_type=", *conditions])])
                is_detected = is_detected or not nearer.empty
            rows, missed = (rows, [term]) if nearer.empty else (nearer, [])
            unmet += missed
        sides.append(rows)
    unmet = sorted(set(unmet)) if all(map(len, sides)) else []
    return sides, unmet, len(unknown) if is_detected else 0


def match_cells(
    claim: Any, sides: list[pd.DataFrame]
) -> tuple[list[str], dict[tuple, list[pd.DataFrame]]]:
    """Match the cells of the sides, like with like; what has no like on the other side is dropped.

    A cell is one level of every factor, and of whatever other work a side did several of, on one
    machine unless the claim compares machines. Two frameworks with two networks each are compared
    in two cells, network by network.

    Returns:
        The columns that tell cells apart, and for each cell its rows on each side.
    """
    terms = [term for term in f"{claim.numerator};{claim.denominator}".split(";") if term]
    fixed = {term.split("=")[0] for term in terms if not term.endswith("=*")}
    hardware = [
        [t for t in side.split(";") if t.split("=")[0] in HARDWARE]
        for side in (claim.numerator, claim.denominator)
    ]
    both = pd.concat(sides)
    compares_machines = claim.denominator != "" and hardware[0] != hardware[1]
    keys = [name for name in FACTORS if name in both and both[name].nunique(dropna=False) > 1]
    others = list(OTHER_WORK)
    others += [] if "dataset" in both else IMAGES
    others += [] if compares_machines else ["threads", "environment"]
    keys += [name for name in others if name in both and both[name].nunique(dropna=False) > 1]
    keys = [name for name in keys if name not in fixed]
    if not keys:
        return [], {(): sides}
    groups = [dict(list(side.groupby([side[key].astype(str) for key in keys]))) for side in sides]
    matched = [key for key in groups[0] if all(key in group for group in groups)]
    return keys, {key: [group[key] for group in groups] for key in matched}


def measure(claim: Any, keys: list[str], cells: dict[tuple, list[pd.DataFrame]]) -> list[Part]:
    """Measure the claim's statistic, in its unit: over all cells, or in each of them; of each of
    its columns.

    What is said of machines is said of each: each is measured alone, unless the claim adds them up.
    Intervals have 95 % together where there are several. What is counted, and always came out the
    same, needs none.

    Raises:
        BadSampleError: a number is zero, negative or infinite.
    """
    columns = claim.column.split()
    parts = []
    if claim.statistic == "score":
        rows = [rows.iloc[0] for (rows,) in cells.values()]
        ends = [claim.column + end for end in ("", "_low", "_high")]
        return [(row["environment"], Interval(*row[ends], row["num_patients"])) for row in rows]
    machines = _part_machines(claim, keys, cells)
    error = over.ERROR / len(columns) / len(machines)
    for column, (machine, here) in itertools.product(columns, machines.items()):
        statistic = _choose_statistic(claim, keys, here)
        sides = [[rows[column] for rows in side] for side in zip(*here.values(), strict=True)]
        values = {value for side in sides for cell in side for value in cell}
        if np.inf in values:
            raise BadSampleError(f"{column} was not reached in every run")
        name = ", ".join(filter(None, [column, machine]))
        if column in COUNTED and len(values) == 1:
            parts.append((name, Interval(*values, *values, *values, sum(map(len, sides[0])))))
        elif claim.judged == EVERY:
            found = over.bound_each(statistic, *sides, error=error)
            names = [", ".join(map(str, key)) for key in here]
            parts += zip(names, found, strict=True)
        else:
            parts.append((name, over.bound(statistic, *sides, error=error)))
    return parts


def decide(
    claim: Any,
    parts: list[Part],
    *,
    num_missing: int = 0,
    partial: Collection[str] = (),
) -> Verdict:
    """Hold each part against the claim's bounds.

    It holds if the whole interval of every part lies between the bounds, and does not if that of
    one lies outside, unless it is `partial`, of a machine that made a part of the design.
    What was claimed of every cell, or of all together, is undecided while cells of the design are
    missing.
    """
    if not parts:
        return Verdict(claim.id, NOTHING, "undecided", 0, "")
    low = -np.inf if claim.relation == "<=" else claim.value - claim.tolerance
    high = np.inf if claim.relation == ">=" else claim.value + claim.tolerance
    is_counted = claim.column in COUNTED
    enough = [(name, ours) for name, ours in parts if is_counted or ours.n >= MIN_RUNS]
    repeated = [(name, ours) for name, ours in enough if np.isfinite(ours.low)]
    shown = repeated or parts
    # of each interval, before it leaves the bounds
    room = [min(ours.low - low, high - ours.high) for _, ours in shown]
    name, worst = shown[int(np.nanargmin(room)) if np.isfinite(room).any() else 0]
    satisfied = sum(low <= ours.low and ours.high <= high for _, ours in repeated)
    violated = sum(
        ours.high < low or ours.low > high for name, ours in repeated if name not in partial
    )
    reason = f"[{worst.low:.4g}, {worst.high:.4g}] vs [{low:.4g}, {high:.4g}]"
    reason += f" in {name}; {satisfied} of {len(parts)} satisfy it" if len(parts) > 1 else ""
    reason += f"; {num_missing} cells of the design were not run" if num_missing else ""
    is_of_all = claim.judged == EVERY or claim.statistic in WHOLE_DESIGN or is_counted
    if not enough:
        verdict = "undecided"
        reason = f"n = {worst.n} < {MIN_RUNS}"
    elif not repeated:
        verdict = "undecided"
        reason = "no interval: nothing was repeated"
    elif num_missing and is_of_all:
        verdict = "undecided"
    elif violated:
        verdict = "does not hold"
    else:
        verdict = "holds" if satisfied == len(parts) else "undecided"
    return Verdict(claim.id, worst, verdict, worst.n, reason, satisfied, len(parts), num_missing)


def _part_machines(claim: Any, keys: list[str], cells: dict) -> dict[str, dict]:
    """The cells of each machine by its name; all together for a claim that adds its machines up.

    A machine that a claim names is one whatever processor it had: a cloud gives several for a type.
    """
    is_added_up = claim.statistic in WHOLE_DESIGN and claim.environments != "any"
    if "environment" not in keys or is_added_up or claim.column in OF_THE_STUDY:
        return {"": cells}
    machines = {}
    place = keys.index("environment")
    for key, sides in cells.items():
        name = key[place]
        if claim.environments != "any":
            name = str(sides[0].iloc[0].get("instance_type"))
        machines.setdefault(name, {})[key] = sides
    return machines


def _find_partial(claim: Any, keys: list[str], cells: dict) -> set[str]:
    """The parts of machines that made some cells of the design alone, where each has a design of
    its own.
    """
    machines = _part_machines(claim, keys, cells)
    if len(machines) == 1 or claim.environments != "any":
        return set()
    names = [name for name, here in machines.items() if len(here) < claim.cells]
    return {", ".join([column, name]) for column in claim.column.split() for name in names}


def _choose_statistic(claim: Any, keys: list[str], cells: dict) -> over.Statistic:
    if claim.statistic != "share":
        return STATISTICS[claim.statistic]
    factor = claim.numerator.split("=")[0]
    if factor not in keys:
        raise BadSampleError(f"{factor} has one level: there is nothing to allocate")
    share = over.share_of_variation([key[keys.index(factor)] for key in cells])
    return lambda side: 100 * share(side)


def _count_missing(claim: Any, keys: list[str], cells: dict, sides: list[pd.DataFrame]) -> int:
    """The cells of the claim's design without rows; no other work or second processor fills one.

    What is said of any machine has its design on each.
    """
    design = list(FACTORS) if claim.paper == "C" else ["model"]
    is_on_each = "environment" in keys and claim.environments == "any"
    num_machines = pd.concat(sides)["environment"].nunique() if is_on_each else 1
    place = "environment" if is_on_each else "instance_type"
    rows = [cell[0].reindex(columns=[*design, place]).astype(str) for cell in cells.values()]
    num_run = len(pd.concat(rows).drop_duplicates()) if rows else 0
    return max(0, claim.cells * num_machines - num_run)


def _is_mispriced(rows: pd.DataFrame) -> bool:
    """Whether a row has the price of another machine than the one that the cloud says it ran on."""
    known = rows.reindex(columns=["instance_type", "priced_as"]).fillna("").astype(str)
    pairs = known[(known != "").all(axis=1)].itertuples(index=False)
    return not all(detected == label.removeprefix(AZURE) for detected, label in pairs)


def _meets(rows: pd.DataFrame, terms: list[str]) -> np.ndarray:
    """Whether each row meets all terms; a pattern may be one of several, a|b, or none of them,
    !a.
    """
    met = np.full(len(rows), True)
    for column, wanted in (term.split("=") for term in terms):
        values = rows[column] if column in rows else [""] * len(rows)
        values = ["" if pd.isna(value) else value for value in values]
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        patterns = wanted.removeprefix("!").split("|")
        is_met = not wanted.startswith("!")
        met &= np.array(
            [any(fnmatchcase(t, p) for p in patterns) == is_met for t in texts], dtype=bool
        )
    return met


def _describe_versions(paper: str, used: pd.DataFrame) -> str:
    theirs = THEIRS.get(paper, {})
    told = []
    for name in VERSIONS:
        ours = sorted({str(v) for v in used[name].dropna()} - {""}) if name in used else []
        named = theirs.get(name)
        differs = (
            f" (theirs {named})" if named and not all(v.startswith(named) for v in ours) else ""
        )
        told += [f"{name} {', '.join(ours)}{differs}"] if ours else []
    return "; ".join(told)
