"""Group rows by what they did, with what and where; list which count; measure and compare groups.

Rows of one group agree in every column of work, stack and hardware but those that are pooled.
Nothing is refused and nothing mixed: a group is named by what differs from the others.

Example:
    >>> from dr_lib import groups, open_rows
    >>> from dr_lib.claims.papers import PAPERS
    >>> selection = open_rows(PAPERS["A"], "papermill_runs/demo", Path(".")).selection
    >>> groups.tabulate_groups(selection, ["train_s"])["n"].tolist()
    [2]
"""

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
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
COLD = "cold, the first run of its kind since the machine's boot: warm ones count"
COPY = "a copy of another row: one run counts once"
NO_TIME = "its time is not positive"
METRICS = "auc kappa sensitivity specificity accuracy".split()


class NoRunsError(DrError):
    """No run is left to plot or tabulate; the message says why."""


class Selection(NamedTuple):
    """The rows of an analysis, one per run."""

    runs: pd.DataFrame  # all rows
    # status ok, with `machine`, `environment`, `system`, `work`, `group`, `session` and `pair`
    finished: pd.DataFrame
    timed: pd.DataFrame  # those of them whose times count
    excluded: pd.DataFrame  # `run_id` and `reason` of every other row
    factors: list[str]  # of the study, beside those of the paper
    varied: list[str]  # columns of the work in which groups with a ratio may differ
    pooled: list[str]  # columns of the identity that tell no groups apart


def select_runs(
    runs: pd.DataFrame,
    *,
    pool: Collection[str] = (),
    exclude: Collection[str] = (),
    may_differ: Collection[str] = (),
) -> Selection:
    """Group the rows, and select those whose times count.

    Failed and resumed rows, copies and impossible times do not count, nor cold runs where their
    group has warm ones.

    Columns are added: `machine`, such as kaggle, 2 x Tesla T4; `environment`, the machine and any
    mode but the paper's; `place`, this and the levels of the study's own factors; `system`, the
    machine and what else of stack and hardware tells groups apart; `work`, what they did; `group`,
    both.

    Args:
        runs: one row per run, failed ones too, from `read_runs`.
        pool: columns of the identity that tell no groups apart.
        exclude: further marks of rows that do not count; `disturbed` is one.
        may_differ: the factors of the paper, and what follows them.
    """
    unknown = ", ".join(sorted(set(exclude) - set(MARKS)))
    if unknown:
        raise DrError(f"exclude {unknown!r}: choose from {', '.join(MARKS)}")
    reasons = find_faults(runs)
    finished = runs[reasons == ""]
    for mark in MARKS:
        marked = finished.reindex(columns=[mark])[mark]
        finished = finished.assign(**{mark: pd.to_numeric(marked).gt(0)})
    levels = write_levels(finished, [name for name in IDENTITY if name not in set(pool)])
    factors = _find_factors(finished, levels, may_differ)
    finished = _name_groups(finished, levels, factors)

    why = pd.Series("", finished.index)
    for mark in dict.fromkeys(["resumed", *exclude]):
        why = why.mask(finished[mark] & (why == ""), MARKS[mark])
    is_cold = finished.reindex(columns=["cold"])["cold"].eq(True)
    has_warm = (~is_cold & (why == "")).groupby(finished["group"]).transform("any")
    why = why.mask(is_cold & has_warm & (why == ""), COLD)
    reasons = reasons.mask(reasons == "", why)
    excluded = runs.assign(reason=reasons)[reasons != ""]
    return Selection(
        runs,
        finished,
        finished[why == ""].reset_index(drop=True),
        excluded.reindex(columns=["run_id", "reason"]).reset_index(drop=True),
        factors,
        [*factors, *may_differ],
        [*pool],
    )


def find_faults(runs: pd.DataFrame) -> pd.Series:
    """Say why each row cannot count: it failed, is a copy, or its time is none; else empty."""
    texts = runs.drop(columns=NAMES, errors="ignore").astype(str)
    is_ok = runs.get("status", pd.Series("", runs.index)) == "ok"
    faults = runs.get("error", pd.Series("", runs.index)).where(~is_ok, "")
    faults = faults.mask(~is_ok & (faults == ""), "failed")
    is_copy = texts.duplicated() & ("started_at" in runs)
    faults = faults.mask(is_ok & is_copy, COPY)
    seconds = runs.reindex(columns=["train_s", "steady_epoch_s"]).astype(float)
    return faults.mask(is_ok & (seconds <= 0).any(axis=1), NO_TIME)


def list_pooled(names: str, runs: pd.DataFrame) -> list[str]:
    """List the columns that a user pools, separated by commas; each has to be one of the rows."""
    columns = [name.strip() for name in names.split(",") if name.strip()]
    known = {*IDENTITY, "commit"} & set(runs)
    unknown = [name for name in columns if name not in known]
    if unknown and len(runs):
        choices = ", ".join(sorted(known))
        raise DrError(f"pool {', '.join(unknown)}: no row has it, choose from {choices}")
    return columns


def write_level(value: object) -> str:
    """Write a level of a column: 0.001, or nothing where it is unknown."""
    if value is None or value != value:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_levels(rows: pd.DataFrame, columns: Collection[str] = IDENTITY) -> pd.DataFrame:
    """Write as text what rows did, with what and where; memory to the GiB."""
    names = [name for name in columns if name in rows]
    levels = rows[names].map(write_level).astype(object)
    if "memory_gib" in levels:
        levels["memory_gib"] = rows["memory_gib"].astype(float).round().map(write_level)
    return levels


def list_different(*sides: pd.DataFrame) -> list[str]:
    """List the columns of the identity in which rows differ."""
    levels = write_levels(pd.concat(sides))
    return [name for name in levels if levels[name].nunique() > 1]


def describe_difference(*sides: pd.DataFrame) -> str:
    """Describe in what groups differ: hardware, versions, else columns with their levels."""
    levels = write_levels(pd.concat(sides))
    words = []
    for name in list_different(*sides):
        if name in schema.HARDWARE:
            words.append("hardware")
        elif name in schema.VERSIONS:
            words.append("versions")
        elif name.endswith("sha256"):
            words.append(_write_column(name))
        else:
            each = sorted(level or "–" for level in levels[name].unique())
            words.append(f"{_write_column(name)} ({', '.join(each)})")
    if pd.concat(sides).reindex(columns=["cold"])["cold"].eq(True).nunique() > 1:
        words.append("cold")
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
        return times.compare_pairs(logs.dropna().mean(axis=1), level)
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
    pair = rows.get("pair", pd.Series(range(len(rows)), rows.index, name="pair"))
    keys = [rows["session"], pair, *(rows[name].map(write_level) for name in cells)]
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
    timed = dict(list(selection.timed.groupby("group")))
    lines = []
    for name, rows in selection.finished.groupby("group"):
        counted = timed.get(name, rows[:0])
        line = {
            "group": name,
            "n": len(counted),
            "sessions": counted["session"].nunique(),
            "disturbed": int(counted["disturbed"].sum()),
        }
        for column in columns:
            line[column] = measure(column, counted)
        for metric in METRICS:
            column = f"metric_{metric}_test"
            if rows.reindex(columns=[column])[column].notna().any():
                line[column] = _score(rows, column)
        lines.append(line)
    if not lines:
        return pd.DataFrame()
    return tabulate(lines).sort_values(columns[0], ascending=False, ignore_index=True)


def _score(rows: pd.DataFrame, column: str) -> Interval:
    """Average a score over runs; of a single one, over its patients."""
    rows = rows.dropna(subset=[column])
    if len(rows) == 1:
        names = [f"{column}{end}" for end in ("", "_low", "_high")]
        return Interval(*rows.reindex(columns=names).astype(float).iloc[0], 1)
    mean = mean_interval(rows[column])
    return mean._replace(high=min(mean.high, 1.0))


def compare_groups(selection: Selection, column: str) -> pd.DataFrame:
    """Compare the times of each two groups that did the same work, or differ in one factor alone.

    Returns:
        A row per pair, the most unlike first: the `slower`, the `faster` one, `n` of what the ratio
        rests on, `times_as_long` with bounds, `differs_in`, and `score_difference` of their models
        with the bounds of its 90 % interval.
    """
    if column not in selection.timed:
        return pd.DataFrame()
    known = selection.timed.dropna(subset=[column])
    by_time = known.groupby("group")[column].median().sort_values(ascending=False)
    groups = [known[known["group"] == name] for name in by_time.index]
    lines = []
    for slow, fast in itertools.combinations(groups, 2):
        different = list_different(slow, fast)
        work = [name for name in different if name in schema.WORK]
        is_factor = set(work) <= set(selection.varied)
        # a framework brings its own stack, but no machine
        is_framework = "framework" in work and not {"platform", "cpu"} & set(different)
        is_alone = not work or len(different) == len(work) or is_framework
        if not (is_factor and is_alone):
            continue
        ratio = measure(column, slow, fast)
        line = {
            "slower": slow["group"].iloc[0],
            "faster": fast["group"].iloc[0],
            "n": ratio.n,
            "times_as_long": ratio,
            "differs_in": describe_difference(slow, fast),
            "score_difference": compare_models(slow, fast),
        }
        lines.append(line)
    if not lines:
        return pd.DataFrame()
    table = tabulate(lines)
    return table.sort_values("times_as_long", ascending=False, ignore_index=True, kind="stable")


def compare_models(a: pd.DataFrame, b: pd.DataFrame) -> Interval:
    """Estimate the difference of two groups' mean test scores with its 90 % interval: of the AUC,
    or of the accuracy of papers C and D.
    """
    column = f"metric_{choose_metric(a)}_test"
    sides = [
        side.reindex(columns=["seed", column]).set_index("seed")[column] for side in (a, b)
    ]
    return compare_scores(*sides)


def choose_metric(rows: pd.DataFrame) -> str:
    """Choose the score of models: the accuracy of papers C and D, which have frameworks."""
    return "accuracy" if "framework" in rows and rows["framework"].notna().any() else "auc"


def name_sessions(rows: pd.DataFrame) -> pd.Series:
    """Name sessions, whose runs share a host and its state: the machine's boot and the cloud
    service's session; of a server elsewhere a load test. Rows that know neither are of one session
    for each `machine`.
    """
    known = rows.reindex(columns=["session", "boot", "endpoint", "run_id"]).map(write_level)
    known = known.astype(object)
    name = known["session"] + "/" + known["boot"]
    name = name.mask(name == "/", rows["machine"])
    return name.mask(known["endpoint"] == "remote", known["run_id"])


def _name_groups(
    finished: pd.DataFrame, levels: pd.DataFrame, factors: Sequence[str]
) -> pd.DataFrame:
    """Add the names of groups and sessions, and the number by which runs are paired."""
    nothing = pd.Series("", finished.index)
    for column in levels.filter(like="sha256"):  # nobody reads a hash: code 1, code 2
        numbers, _ = levels[column].factorize(sort=True)
        levels = levels.assign(**{column: (numbers + 1).astype(str)})
    machine = _name_machines(levels)
    mode = finished.reindex(columns=["mode"])["mode"].astype(object)  # of trainings alone
    environment = machine.where(mode.fillna("paper") == "paper", machine + ", " + mode)
    work = _tell_apart(nothing, levels, schema.WORK, nothing)
    system = machine + _tell_apart(nothing, levels, ["mode"], nothing)
    system = _tell_apart(system, levels, [*STACK, *schema.HARDWARE], work)
    finished = finished.assign(
        machine=machine,
        mode=mode,
        environment=environment,
        place=_tell_apart(environment, levels, factors, environment),
        system=system,
        work=work.str.removeprefix(", "),
        group=system + work,
    )
    finished["session"] = name_sessions(finished)
    repetition = finished.reindex(columns=["repetition"])["repetition"].map(write_level)
    order = finished.reindex(columns=["started_at"])["started_at"].map(write_level)
    keys = [finished["group"], finished["session"], repetition]
    number = order.sort_values(kind="stable").groupby(keys).cumcount()
    return finished.assign(pair=repetition.astype(str) + "/" + number.astype(str))


def _tell_apart(
    names: pd.Series, levels: pd.DataFrame, columns: Collection[str], others: pd.Series
) -> pd.Series:
    """Add to names the levels that still tell apart rows of one name and of one other name."""
    for column in [name for name in columns if name in levels]:
        of_name = levels[column].groupby([names, others])
        label = levels[column].map(lambda level, column=column: _label(column, level))
        names = names.mask(of_name.transform("nunique") > 1, names + ", " + label)
    return names


def _label(column: str, level: str) -> str:
    """Write a level as a name does: MobileNet, but batch size 32."""
    if level.isidentifier() and level not in ("True", "False"):
        return write_name(level)
    return f"{_write_column(column)} {level or '–'}"


def _write_column(column: str) -> str:
    """Write the name of a column: batch size, and code of code_sha256."""
    return column.removesuffix("_sha256").replace("_", " ")


def _name_machines(levels: pd.DataFrame) -> pd.Series:
    """Name machines by platform and device; by instance or processor where several have these."""
    known = levels.reindex(columns=[*schema.HARDWARE], fill_value="")
    count = (known["num_accelerators"] + " x ").replace({"0 x ": "", "1 x ": "", " x ": ""})
    platform = (known["platform"].map(write_name) + ", ").replace("local, ", "")
    machine = platform + (count + known["accelerator"]).replace("cpu", "CPU")
    cpus = known["cpu_quota"].where(known["cpu_quota"] != "", known["num_cpus"])
    processor = known["cpu"] + (" x " + cpus).where(cpus != "", "")
    for names in (known["instance_type"], processor):
        is_several = names.groupby(machine).transform("nunique") > 1
        machine = machine.mask(is_several, machine + ", " + names)
    return machine


def _find_factors(
    finished: pd.DataFrame, levels: pd.DataFrame, may_differ: Collection[str]
) -> list[str]:
    """Find what every study varies by scenario, but what follows from the paper's factors."""
    if finished.empty or not {"study", "scenario"} <= set(finished):
        return []
    study = finished["study"]
    scenario = [study, finished["scenario"]]
    by = [levels[name] for name in may_differ if name in levels]
    by += [finished["platform"], finished["accelerator"]]
    factors = []
    for name in levels.columns.difference(
        [*may_differ, *schema.HARDWARE, *schema.VERSIONS], sort=False
    ):
        level = levels[name]
        is_own = level.groupby(scenario).nunique().eq(1).all()
        varies = level.groupby(study).nunique().gt(1).all()
        if is_own and varies and level.groupby(by).nunique().gt(1).any():
            factors.append(name)
            by.append(level)
    return factors
