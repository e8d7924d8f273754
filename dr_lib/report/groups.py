"""Group rows by what they did, with what and where; list which count; measure and compare groups.

Rows of one group agree in every column of work, stack and hardware but those that are pooled.
Nothing is refused and nothing mixed: a group is named by what differs from the others.

Example:
    >>> from dr_lib import groups, open_rows
    >>> from dr_lib.claims.papers import PAPERS
    >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path("."))
    >>> groups.tabulate_groups(selection, ["train_s"])["n"].tolist()
    [2]
"""

import itertools
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
from dr_lib.numbers import write_decimals
from dr_lib.report.style import choose_words, name_column
from dr_lib.report.style import name as write_name
from dr_lib.runs import schema
from dr_lib.statistics import times
from dr_lib.statistics.equivalence import compare_scores
from dr_lib.statistics.intervals import (
    LEVEL,
    NOTHING,
    BadSampleError,
    Interval,
    Measured,
    mean_interval,
    tabulate,
)

STACK = [*schema.STACK, *schema.VERSIONS]
IDENTITY = [*schema.WORK, *STACK, *schema.HARDWARE]
NAMES = "study scenario run_id order file".split()  # of a run, and of its copy
MARKS = {  # why a row that has the mark is not timed
    "resumed": "resumed after a stop: its time is in two parts",
    "disturbed": "disturbed: others took more than 10 % of the CPU",
}
# whose levels need no word
KNOWN = "model framework dataset implementation format instance_type cpu".split()
COLD = "cold, the first run of its kind since the machine's boot: warm ones count"
COPY = "a copy of another row: one run counts once"
NO_TIME = "its time is not positive"
SCORES = [f"metric_{name}_test" for name in "auc kappa accuracy".split()]


class NoRunsError(DrError):
    """No run is left to plot or tabulate; the message says why."""


class Selection(NamedTuple):
    """The rows of an analysis, one per run."""

    # status ok, with `environment`, `place`, `work`, `group`, `session` and `pair`
    finished: pd.DataFrame
    timed: pd.DataFrame  # those of them whose times count
    excluded: pd.DataFrame  # `run_id` and `reason` of every other row
    factors: list[str]  # of the study, beside those of the paper
    varied: list[str]  # columns of the work in which groups with a ratio may differ
    pooled: list[str]  # columns of the identity that tell no groups apart
    lang: str  # en or pt, of the names of groups


def select_runs(
    runs: pd.DataFrame,
    *,
    pool: Collection[str] = (),
    exclude: Collection[str] = (),
    may_differ: Collection[str] = (),
    lang: str = "en",
) -> Selection:
    """Group the rows, and select those whose times count.

    Failed and resumed rows, copies and impossible times do not count, nor cold runs where their
    group has warm ones.

    Columns are added: `environment`, the machine, such as kaggle, 2 x Tesla T4; `place`, this and
    the levels of the study's own factors; `work`, what tells apart what they did; `group`, the
    machine, what else tells its stacks apart, and the work.

    Args:
        runs: one row per run, failed ones too, from `read_runs`.
        pool: columns of the identity that tell no groups apart.
        exclude: further marks of rows that do not count; `disturbed` is one.
        may_differ: the factors of the paper, and what follows them.
        lang: en or pt, of the names.
    """
    unknown = ", ".join(sorted(set(exclude) - set(MARKS)))
    if unknown:
        raise DrError(f"exclude {unknown!r}: choose from {', '.join(MARKS)}")
    reasons = find_faults(runs)
    finished = runs[reasons == ""].copy()
    for mark in (*MARKS, "cold"):
        marked = finished.reindex(columns=[mark])[mark]
        finished[mark] = pd.to_numeric(marked).gt(0)
    levels = write_levels(finished, [name for name in IDENTITY if name not in set(pool)])
    factors = _find_factors(finished, levels, may_differ)
    finished = _name_groups(finished, levels, factors, lang)

    why = pd.Series("", finished.index)
    for mark in dict.fromkeys(["resumed", *exclude]):
        why = why.mask(finished[mark] & (why == ""), MARKS[mark])
    is_warm = ~finished["cold"] & (why == "")
    has_warm = is_warm.groupby(finished["group"]).transform("any")
    why = why.mask(finished["cold"] & has_warm & (why == ""), COLD)
    reasons = reasons.mask(reasons == "", why)
    excluded = runs.assign(reason=reasons)[reasons != ""]
    return Selection(
        finished,
        finished[why == ""].reset_index(drop=True),
        excluded.reindex(columns=["run_id", "reason"]),
        factors,
        [*factors, *may_differ],
        [*pool],
        lang,
    )


def find_faults(runs: pd.DataFrame) -> pd.Series:
    """Say why each row cannot count: it failed, is a copy, or its time is none; else empty."""
    known = runs.reindex(columns=["status", "error", "train_s", "steady_epoch_s"])
    texts = runs.drop(columns=NAMES, errors="ignore").astype(str)
    is_fault = [
        known["status"] != "ok",
        texts.duplicated() & ("started_at" in runs),
        (known[["train_s", "steady_epoch_s"]].astype(float) <= 0).any(axis=1),
    ]
    errors = known["error"].map(write_level).replace("", "failed")
    return pd.Series(np.select(is_fault, [errors, COPY, NO_TIME], ""), runs.index)


def list_pooled(names: str, runs: pd.DataFrame) -> list[str]:
    """List the columns that a user pools, separated by commas; each has to be one of the rows."""
    columns = names.replace(",", " ").split()
    known = {*IDENTITY, "commit"} & set(runs)
    unknown = ", ".join(sorted(set(columns) - known))
    if unknown and len(runs):
        choices = ", ".join(sorted(known))
        raise DrError(f"pool {unknown}: no row has it, choose from {choices}")
    return columns


def write_level(value: object) -> str:
    """Write a level of a column: 0.001, or nothing where it is unknown."""
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_levels(rows: pd.DataFrame, columns: Collection[str]) -> pd.DataFrame:
    """Write as text what rows did, with what and where; memory to the GiB."""
    names = [name for name in columns if name in rows]
    levels = rows[names].map(write_level).astype(object)
    if "memory_gib" in levels:
        levels["memory_gib"] = rows["memory_gib"].astype(float).round().map(write_level)
    return levels


def describe_difference(levels: pd.DataFrame, lang: str) -> str:
    """Describe in what groups differ: hardware, versions, else columns with their levels.

    Args:
        levels: of the columns in which they differ, of `write_levels`.
        lang: en or pt.
    """
    say = choose_words(lang)
    words = []
    for name in levels:
        if name in schema.HARDWARE:
            words.append(say("hardware"))
        elif name in schema.VERSIONS:
            words.append(say("versions"))
        elif name.endswith("sha256"):
            words.append(name_column(name, say))
        else:
            each = [_name_level(name, level, lang) for level in sorted(set(levels[name]))]
            words.append(f"{name_column(name, say)} ({', '.join(each)})")
    return "; ".join(dict.fromkeys(words))


def measure(
    column: str, *sides: pd.DataFrame, cells: Sequence[str] = (), level: float = LEVEL
) -> Measured:
    """Estimate the mean of a time over a group's runs, or the ratio of two groups'.

    Groups that share a session were run by one machine, and are compared by pairs.

    Args:
        column: positive numbers; rows without one do not count.
        sides: timed rows of a `Selection`.
        cells: columns whose levels count equally; only repetitions, or sessions, that ran all of
            them count.
        level: of the interval.

    Raises:
        BadSampleError: a number is zero, negative or infinite.
    """
    tables = [_list_blocks(column, side, list(cells)) for side in sides]
    if any(table.empty for table in tables):
        return Measured(*NOTHING)
    sessions = [set(table.index.get_level_values("session")) for table in tables]
    if len(tables) == 2 and set.intersection(*sessions):
        logs = np.log(tables[0]) - np.log(tables[1])
        if logs.shape[1] > 1:  # whatever session each cell was run in
            logs = logs.groupby(level="pair").mean()
        logs = logs.dropna().mean(axis=1)
        if len(logs):  # else no repetition is of both
            return times.compare_pairs(logs, level)
    for place, table in enumerate(tables):
        if table.shape[1] > 1 and len(sessions[place]) > 1:
            tables[place] = table.groupby(level="session").median()
    if len(tables) == 1:
        return times.bound_mean(np.log(tables[0].dropna().mean(axis=1)), level)
    return times.compare_machines(
        *(np.log(table).dropna().mean(axis=1) for table in tables), level
    )


def _list_blocks(column: str, rows: pd.DataFrame, cells: list[str]) -> pd.DataFrame:
    """List a time by session and pair, and by cell as columns."""
    if column not in rows:
        return pd.DataFrame()
    rows = rows.dropna(subset=[column])
    values = rows[column].astype(float)
    if not (np.isfinite(values) & (values > 0)).all():
        raise BadSampleError(f"{column} is not positive and finite in every run")
    keys = [rows["session"], rows["pair"]]
    keys += [rows[name].map(write_level) for name in cells]
    table = values.groupby(keys).mean()
    return table.unstack(cells) if cells else table.to_frame()


def tabulate_groups(selection: Selection, columns: Sequence[str]) -> pd.DataFrame:
    """Tabulate the groups, the slowest first.

    Args:
        selection: of rows.
        columns: times to measure, of which the first orders the groups.

    Returns:
        A row per group: its name, `n` timed runs in so many `sessions`, `disturbed` ones among
        them, each time and test score with bounds in _low and _high. Scores are of all finished
        runs: those of one that was resumed are as good; of a single run they are its own.
    """
    lines = []
    for name, rows in selection.finished.groupby("group"):
        timed = selection.timed[selection.timed["group"] == name]
        line = {
            "group": name,
            "n": len(timed),
            "sessions": timed["session"].nunique(),
            "disturbed": int(timed["disturbed"].sum()),
        }
        for column in columns:
            line[column] = measure(column, timed)
        for column in [name for name in SCORES if name in rows]:
            line[column] = _score(rows, column)
        lines.append(line)
    return _sort(tabulate(lines), columns[0])


def _sort(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Sort a table by a column, the largest first."""
    if table.empty:
        return table
    return table.sort_values(column, ascending=False, ignore_index=True, kind="stable")


def _score(rows: pd.DataFrame, column: str) -> Interval:
    """Average a score over runs; of a single one, over its patients."""
    rows = rows.dropna(subset=[column])
    if len(rows) == 1:
        bounds = rows.reindex(columns=[column, f"{column}_low", f"{column}_high"])
        return Interval(*bounds.astype(float).iloc[0], 1)
    mean = mean_interval(rows[column])
    return mean._replace(high=min(mean.high, 1.0))


def compare_groups(selection: Selection, column: str) -> pd.DataFrame:
    """Compare the times of each two groups that did the same work, or differ in one factor alone.

    Returns:
        A row per pair, the most unlike first: the `slower`, the `faster` one, `n` of what the ratio
        rests on, `times_as_long` with bounds, `differs_in`, and `score_difference` of their models
        with the bounds of its 90 % interval.
    """
    timed = selection.timed
    if column not in timed:
        return pd.DataFrame()
    known = timed.dropna(subset=[column])
    by_time = known.groupby("group")[column].median().sort_values(ascending=False)
    lines = []
    for names in itertools.combinations(by_time.index, 2):
        slow, fast = (known[known["group"] == name] for name in names)
        levels = write_levels(pd.concat([slow, fast]), [*IDENTITY, "cold"])
        levels = levels.loc[:, levels.nunique() > 1]
        different = {*levels} - {"cold"}
        work = different & {*schema.WORK}
        # a framework brings its own stack, but no machine
        is_framework = "framework" in work and not {"platform", "cpu"} & different
        if not work <= {*selection.varied} or not (work in (set(), different) or is_framework):
            continue
        ratio = measure(column, slow, fast)
        if ratio.value < 1:  # a slow run of few changes the mean, and no median
            names = names[::-1]
            slow, fast = fast, slow
            ratio = measure(column, slow, fast)
        line = {
            "slower": names[0],
            "faster": names[1],
            "n": ratio.n,
            "times_as_long": ratio,
            "differs_in": describe_difference(levels, selection.lang),
            "score_difference": compare_models(slow, fast),
        }
        lines.append(line)
    return _sort(tabulate(lines), "times_as_long")


def compare_models(a: pd.DataFrame, b: pd.DataFrame) -> Interval:
    """Estimate the difference of two groups' mean test scores with its 90 % interval: of the AUC,
    or of the accuracy of papers C and D, which have frameworks.
    """
    is_framework = "framework" in a and a["framework"].notna().any()
    column = "metric_accuracy_test" if is_framework else "metric_auc_test"
    sides = [side.set_index("seed").reindex(columns=[column])[column] for side in (a, b)]
    return compare_scores(*sides)


def name_sessions(rows: pd.DataFrame) -> pd.Series:
    """Name sessions, whose runs share a host and its state: the machine's boot and the cloud
    service's session; of a server elsewhere a load test. Rows that know neither are of one session
    for each `environment`.
    """
    columns = ["session", "boot", "endpoint", "study", "run_id"]
    known = rows.reindex(columns=columns).map(write_level)
    known = known.astype(object)
    name = known["session"] + "/" + known["boot"]
    name = name.mask(name == "/", rows["environment"])
    return name.mask(known["endpoint"] == "remote", known["study"] + "/" + known["run_id"])


def _name_groups(
    finished: pd.DataFrame, levels: pd.DataFrame, factors: Sequence[str], lang: str
) -> pd.DataFrame:
    """Add the names of groups and sessions, and the number by which runs are paired."""
    tell_apart = partial(_tell_apart, levels, lang)
    nothing = pd.Series("", finished.index)
    machine = tell_apart(
        _name_machines(levels), ["instance_type", "cpu", "num_cpus", "cpu_quota"]
    )
    work = tell_apart(nothing, schema.WORK)
    group = machine + tell_apart(nothing, ["mode"]) + work
    finished = finished.assign(
        environment=machine,
        place=tell_apart(machine, factors),
        work=work.str.removeprefix(", "),
        group=tell_apart(group, [*STACK, *schema.HARDWARE]),
    )
    finished["session"] = name_sessions(finished)
    repetition = finished.reindex(columns=["repetition"])["repetition"].map(write_level)
    order = finished.reindex(columns=["started_at"])["started_at"].map(write_level)
    keys = [finished["group"], finished["session"], repetition]
    number = order.sort_values(kind="stable").groupby(keys).cumcount()
    return finished.assign(pair=repetition.astype(str) + "/" + number.astype(str))


def _tell_apart(
    levels: pd.DataFrame, lang: str, names: pd.Series, columns: Collection[str]
) -> pd.Series:
    """Add to names the levels that still tell apart rows of one name."""
    for column in [name for name in columns if name in levels]:
        shown = levels[column]
        is_several = shown.groupby(names).transform("nunique") > 1
        if column.endswith("sha256"):  # nobody reads a hash: code 1, code 2
            shown = map(str, shown.factorize(sort=True)[0] + 1)
        if is_several.any():
            labels = [f", {_label(column, level, lang)}" * bool(level) for level in shown]
            names = names.mask(is_several, names + labels)
    return names


def _label(column: str, level: str, lang: str) -> str:
    """Write a level as a name does: MobileNet, but batch 32."""
    words = _name_level(column, level, lang)
    return words if column in KNOWN else f"{name_column(column, choose_words(lang))} {words}"


def _name_level(column: str, level: str, lang: str) -> str:
    """Write a level as people do, with the language's words and, in numbers, its decimal sign."""
    words = {"True": "yes", "False": "no", "": "–"}.get(level, write_name(level))
    if column in schema.WORK:
        words = write_decimals(words, lang)
    return choose_words(lang)(words)


def _name_machines(levels: pd.DataFrame) -> pd.Series:
    """Name machines by platform and device."""
    known = levels.reindex(columns=[*schema.HARDWARE], fill_value="")
    count = (known["num_accelerators"] + " x ").replace({"0 x ": "", "1 x ": "", " x ": ""})
    platform = (known["platform"].map(write_name) + ", ").replace("local, ", "")
    return platform + (count + known["accelerator"]).replace("cpu", "CPU")


def _find_factors(
    finished: pd.DataFrame, levels: pd.DataFrame, may_differ: Collection[str]
) -> list[str]:
    """Find the work that a study varies by scenario, but what follows from the paper's factors."""
    if finished.empty or not {"study", "scenario"} <= set(finished):
        return []
    by = [finished[name] for name in ("study", "platform", "accelerator")]
    by += [levels[name] for name in may_differ if name in levels]
    factors = []
    for name in [name for name in schema.WORK if name in levels and name not in may_differ]:
        level = levels[name]
        is_own = level.groupby([finished["study"], finished["scenario"]]).nunique().eq(1).all()
        if is_own and level.groupby(by).nunique().gt(1).any():
            factors.append(name)
            by.append(level)
    return factors
