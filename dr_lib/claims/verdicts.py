"""Judge claims by rows: filter each side, match equal work, measure, compare with the bounds.

"TensorFlow takes 2 to 3 times as long as MXNet on the CPU" has two filters, the rows of TensorFlow
and those of MXNet from that machine. Their cells are data set, image side and network, eight on
each side, matched like with like; what is measured, by the rules of all tables, is the ratio. Rows
of several groups are judged one by one: a claim holds if it does in each.
"""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dr_lib.claims.claims import MACHINE, Claim, read_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.report.conditions import Condition
from dr_lib.report.groups import STACK, Selection, compare_models, measure, write_levels
from dr_lib.report.rows import load
from dr_lib.runs import schema
from dr_lib.statistics.equivalence import is_equivalent
from dr_lib.statistics.intervals import (
    LEVEL,
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
TRAINED = ["train_s", "steady_epoch_s"]  # by machines: compared where their models are equal
CHANCE = 0.11  # of ten classes: guesses exceed it on 10,000 pictures in 1 of 2,000 tests
# what machines that are compared have in common, beside what the rows' backend is a version of
COMPUTES = (
    "mode backend precision jit steps_per_execution input on_device batch_norm matmul_precision"
    " conv_precision environment_settings cold keras"
).split()
SERVES = ["tensorflow", "ai_edge_litert"]
LOOSE = {*MACHINE, *STACK}  # what rows may miss of a filter, and still be shown


class Verdict(NamedTuple):
    """The judgement of a claim by our rows; `ours` is in the claim's unit, of the part that is
    farthest from satisfying it.
    """

    verdict: str  # of VERDICTS
    reason: str  # what was compared with what, in numbers and column names
    ours: Measured | Interval = NOTHING


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge the claims of a paper by the timed rows of a selection.

    Returns:
        A row per claim: its `id`, `wording`, `place`, `reads`, `words`, `words_pt`, `published`,
        and the fields of `Verdict`, with `n`.
    """
    timed = list_judged_rows(paper, selection.timed)
    return tabulate_verdicts(read_claims(paper), timed, selection.pooled)


def list_judged_rows(paper: str, timed: pd.DataFrame) -> pd.DataFrame:
    """List the rows that judge a paper's claims: timed ones with the columns that it derives, and
    `percent_train`, the rounded share of photographs trained on.
    """
    if PAPERS[paper].derive:
        timed = load(PAPERS[paper].derive)(timed)
    sides = [f"num_images_{side}" for side in ("train", "validation", "test")]
    number = timed.reindex(columns=sides).astype(float)
    percent = 100 * number["num_images_train"] / number.sum(axis=1)
    return timed.assign(percent_train=percent.round())


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
    return tabulate_verdicts(read_claims("E"), rows)


def tabulate_verdicts(
    claims: Sequence[Claim], timed: pd.DataFrame, pooled: Collection[str] = ()
) -> pd.DataFrame:
    """Judge claims as `judge_claims` does by rows that have all the columns; those of `pooled` tell
    no groups apart.
    """
    columns = [*schema.HARDWARE, "priced_as", *schema.WORK, *STACK, "cold"]
    if "predict_ms" in timed:
        columns.append("model_version")
    levels = write_levels(timed, [name for name in columns if name not in pooled])
    shown = set("id wording place reads words words_pt published".split())
    rows = []
    for claim in claims:
        verdict = judge(claim, timed, levels)
        row = {**claim.model_dump(include=shown), **verdict._asdict(), "n": verdict.ours.n}
        rows.append(row)
    return tabulate(rows)


def judge(claim: Claim, timed: pd.DataFrame, levels: pd.DataFrame) -> Verdict:
    """Judge whether a claim holds.

    Args:
        claim: of `read_claims`.
        timed: one row per independent run.
        levels: of these rows, as texts, in the columns that tell groups apart.
    """
    if claim.not_testable:
        return Verdict("not testable", claim.not_testable)
    sides, unmet = find_sides(claim, timed)
    if not all(map(len, sides)):
        sought = " against ".join(";".join(map(str, side)) for side in claim.rows)
        return Verdict("not measured", f"no rows with {', '.join(claim.columns)}, {sought}")
    rows, unlike = match_sides(claim, sides, levels)
    found = Verdict("undecided", "")
    is_own = len(sides) == 2 and sides[0].index.equals(sides[1].index)
    if len(rows) and not is_own:  # rows have no ratio to themselves
        found = decide(claim, rows)
        if claim.list_varied() & MACHINE and claim.columns[0] in TRAINED:
            found = _compare_models(found, rows)
    if unmet or unlike:
        reason = f"it differs in {', '.join([*unmet, *unlike])}"
        found = found._replace(verdict="not comparable", reason=reason)
    return found


def find_sides(claim: Claim, timed: pd.DataFrame) -> tuple[list[pd.DataFrame], list[str]]:
    """Find the rows of each side that come closest to a claim's conditions, and what none meets.

    Hardware, then stack and conditions, narrow the rows one by one; a condition that none meets is
    given up. On a laptop `accelerator=TPU*` with `epochs=200` finds the laptop's rows of 200
    epochs, and the TPU as unmet.
    """
    columns = list(claim.columns)
    timed = timed.dropna(subset=columns) if {*columns} <= {*timed} else timed[:0]
    sides = []
    unmet = set()
    for terms in claim.rows:
        rows = timed
        strict = [term for term in terms if term.column not in LOOSE]
        loose = [term for term in terms if term.column in LOOSE]
        for term in [*strict, *loose, *claim.conditions]:
            nearer = rows[term.test(rows)]
            if len(nearer) or term in strict:
                rows = nearer
            elif len(rows):
                unmet.add(str(term))
        sides.append(rows)
    return sides, sorted(unmet)


def match_sides(
    claim: Claim, sides: Sequence[pd.DataFrame], levels: pd.DataFrame
) -> tuple[pd.DataFrame, list[str]]:
    """Match groups of both sides that differ in nothing but what the claim compares.

    Returns:
        The rows of each pair of groups, with the number of their `side`, the `part` that is judged
        by itself, their `cell` of the paper's design, and how many are `missing` in the part;
        without any rows also the columns in which all pairs differ.
    """
    paper = PAPERS[claim.id[0]]
    rows = pd.concat(side.assign(side=place) for place, side in enumerate(sides))
    levels = levels.loc[rows.index].reset_index(drop=True)
    rows = rows.reset_index(drop=True)
    equal, free = _list_free(claim, levels)
    varies = levels.nunique() > 1
    levels = levels.loc[:, varies]
    equal = equal.loc[:, varies]
    # column by column: pandas 2 aggregates no table without columns
    every = {name: equal[name].groupby(rows["side"]).agg(set) for name in equal}
    shared = {name for name in every if set.intersection(*every[name])}
    free |= {"code_sha256", *paper.may_differ} - {*shared, *paper.design}
    equal = equal.drop(columns=free, errors="ignore")
    design = {name: num for name, num in paper.design.items() if name not in free}
    rows["cell"] = _tell_apart(levels.filter(design))
    # a machine is told apart whichever cells it ran; what else follows from a cell is not
    rows["part"] = _tell_apart(equal.loc[:, equal.columns.isin([*MACHINE])])
    rows["part"] += _tell_apart(equal, rows["cell"], rows["part"])
    machines = levels.loc[:, levels.columns.isin([*MACHINE])]
    rows["own"] = _tell_apart(machines, rows["part"], rows["side"])
    rows["own"] += _tell_apart(levels, rows["cell"], rows["part"], rows["side"], rows["own"])
    matched = _pair_groups(claim, rows, design)
    if len(matched):
        return matched, []
    return matched, sorted({*equal} - shared) or ["the cells that were run"]


def _list_free(claim: Claim, levels: pd.DataFrame) -> tuple[pd.DataFrame, set[str]]:
    """List the columns in which sides may differ, and the levels of those in which they may not.

    The stack follows from a framework or a machine that is compared with another one; machines
    alone have one stack, to the minor version, but for what follows from the devices.
    """
    varied = claim.list_varied()
    free = {"cold", *varied}
    if varied & MACHINE:
        free |= MACHINE
    if free & {"framework", *STACK, *MACHINE}:
        free |= {*STACK}
    if varied and varied <= MACHINE:
        backends = {*levels.get("backend", ())} - {""}
        free -= {*COMPUTES, *(backends or SERVES)}
        patches = dict.fromkeys(schema.VERSIONS, r"^(\d+\.\d+).*")
        levels = levels.replace(patches, r"\1", regex=True)
    return levels, free


def _tell_apart(levels: pd.DataFrame, *by: pd.Series) -> pd.Series:
    """Join the levels that tell apart rows which all else has in common."""
    names = pd.Series("", levels.index)
    for column in levels:
        if levels[column].groupby([names, *by]).nunique().max() > 1:
            names = names + levels[column] + ", "
    return names


def _pair_groups(claim: Claim, rows: pd.DataFrame, design: Mapping[str, int]) -> pd.DataFrame:
    """Pair the groups of both sides, or list those of one, with the cells that both ran.

    Args:
        claim: whose rows they are.
        rows: with the names of their `side`, `cell`, `part` of both sides and `own` group.
        design: number of levels of each column of the paper's design.
    """
    named = {term.column: term.patterns for term in (*claim.conditions, *claim.rows[0])}
    num_cells = math.prod(len(named.get(name, range(num))) for name, num in design.items())
    matched = []
    for name, part in rows.groupby("part"):
        groups = [side.groupby("own") for _, side in part.groupby("side")]
        for pair in itertools.product(*groups):
            common = set.intersection(*(set(side["cell"]) for _, side in pair))
            if common and len(pair) == len(claim.rows):
                label = name + "".join(dict.fromkeys(own for own, _ in pair))
                both = pd.concat(side[side["cell"].isin(common)] for _, side in pair)
                matched.append(both.assign(part=label, missing=num_cells - len(common)))
    found = pd.concat(matched) if matched else rows[:0]
    # the machines that it names are of the design, each by one of its names
    machines = [Condition("priced_as", (name,)) for name in named.get("priced_as", ())]
    if not all(machine.test(found).any() for machine in machines):
        found = found.assign(missing=num_cells)
    return found


def decide(claim: Claim, rows: pd.DataFrame) -> Verdict:
    """Compare each part with the claim's bounds.

    It holds if the interval of every part lies between the bounds: each has to, so each is asked
    with its own error (Berger 1982, Technometrics 24). It does not hold if that of one lies
    outside, by intervals that are right together. A part that lacks cells decides nothing.

    Args:
        claim: of `read_claims`.
        rows: of `match_sides`.
    """
    parts = rows.groupby(["part", "cell"] if claim.every_cell else ["part"])
    cases = list(itertools.product(claim.columns, parts))
    is_whole = [part["missing"].max() <= 0 for _, (_, part) in cases]
    try:
        found, wider = (
            [measure_case(claim, column, part, level) for column, (_, part) in cases]
            for level in (LEVEL, 1 - (1 - LEVEL) / len(cases))
        )
    except BadSampleError as error:
        return Verdict("undecided", str(error))
    low, high = claim.bounds
    is_inside = [low <= each.low and each.high <= high for each in found]
    is_outside = [each.high < low or each.low > high for each in wider]
    rooms = [min(each.low - low, high - each.high) for each in found]
    worst = int(np.nan_to_num(rooms, nan=np.inf).argmin())
    verdict = "undecided"
    if all(is_inside) and all(is_whole):
        verdict = "holds"
    elif np.logical_and(is_outside, is_whole).any():
        verdict = "does not hold"
    column, (name, _) = cases[worst]
    reason = f"{''.join(name)}{column}: {sum(is_inside)} of {len(cases)} satisfy it"
    if not all(is_whole):
        reason += f"; {rows['missing'].max()} cells of the design were not run"
    return Verdict(verdict, reason, found[worst])


def measure_case(
    claim: Claim, column: str, part: pd.DataFrame, level: float
) -> Measured | Interval:
    """Measure the mean or the ratio of a part in the claim's unit.

    A score of a model has the interval of its patients; what is counted needs none.

    Raises:
        BadSampleError: a number is zero, negative or infinite.
    """
    if f"{column}_low" in part:
        names = [column, f"{column}_low", f"{column}_high", "num_patients"]
        return Interval(*part.iloc[0][names])
    if claim.counted:
        values = part[column].astype(float)
        return Interval(values.mean(), values.min(), values.max(), len(values))
    sides = [side for _, side in part.groupby("side")]
    found = measure(column, *sides, cells=["cell"], level=level)
    if not claim.written_as:
        return found
    sign = -1 if claim.written_as == "saving" else 1
    value, *ends = (sign * (100 * end - 100) for end in found[:3])
    return found._replace(value=value, low=min(ends), high=max(ends))


def _compare_models(found: Verdict, rows: pd.DataFrame) -> Verdict:
    """Ask of what machines trained whether its scores are equal, and better than chance: equal
    models alone have times to compare.
    """
    for _, cell in rows.groupby(["part", "cell"]):
        value, low, high, n = difference = compare_models(
            *(side for _, side in cell.groupby("side"))
        )
        is_equal = is_equivalent(difference)
        known = cell.reindex(columns=["metric_auc_test", "metric_auc_test_low"]).astype(float)
        has_auc = known["metric_auc_test"].notna()
        has_all_learned = all(map(has_learned, known.loc[has_auc, "metric_auc_test_low"]))
        accuracy = cell.reindex(columns=["metric_accuracy_test"])["metric_accuracy_test"]
        is_chance = accuracy.astype(float).le(CHANCE) & cell["data_kind"].eq("given")
        has_all_learned = has_all_learned and not is_chance.any()
        if is_equal and has_all_learned:
            continue
        verdict = "undecided" if n and is_equal is not False else "not comparable"
        if VERDICTS.index(verdict) > VERDICTS.index(found.verdict):
            words = f"test scores differ by {value:.3f} [{low:.3f}, {high:.3f}], 90 %, n = {n}"
            if not has_all_learned:
                words += "; a model has not been shown to be better than chance"
            found = Verdict(verdict, f"{found.reason}; {words}", found.ours)
    return found
