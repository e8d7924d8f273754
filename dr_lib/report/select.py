"""Select an analysis' rows in one place: what is timed, what is excluded and why, and what may
differ.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from dr_lib.errors import DrError
from dr_lib.runs import schema
from dr_lib.runs.row import KIND
from dr_lib.statistics.cells import AVERAGE, RATIO, Design
from dr_lib.statistics.equivalence import compare_scores, is_equivalent
from dr_lib.statistics.intervals import (
    MIN_RUNS,
    NOTHING,
    Interval,
    Measured,
    count_needed,
)

# names of levels, before the columns that follow them
LEVELS = ["data_dir", "recipe", "num_devices", "label", "gap_s", "threads"]
# what a run did: rows that are pooled, or compared, have to agree in it
WORK = [name for name in [*schema.WORK, "mode"] if name not in LEVELS]
# the software stack that did it: where it differs, or is unknown, a ratio of machines is no ratio
# of their hardware; rows of a notebook that plans none of PLANNED have no such setting
PLANNED = ["precision", "jit", "steps_per_execution", "input", "on_device"]
ARITHMETIC = ["matmul_precision", "conv_precision"]  # as detected
REQUESTED = "matmul_precision_requested"
LIBRARIES = ["tensorflow", "keras", "jax", "torch", "mxnet", "ai_edge_litert"]  # minor versions
PLACED = ["strategy", "num_replicas", "step_size", "batch_norm"]  # that follow from the devices
# rows of one environment agree in it
PLAN = [name for name in schema.STACK if name not in ("mode", "implementation", *LEVELS)]
# what tells no levels apart: rows that are allowed to differ in it are pooled
POOLED = ("commit", "code_sha256", "notebook_sha256", "split_sha256", "mode")
EXCLUSIONS = {  # mark of a row: why it bars the row from the timing
    "resumed": "resumed after a stop: its time is in two parts",
    "disturbed": "disturbed: others took more than 10 % of the CPU, or the run stood still",
}
WARMTH = {  # of a training that is not simply warm: what is said of such runs
    "apart": "cold runs, the first of their kind since the machine's boot, stand apart",
    "unsure": "runs that may have been cold do not count beside warm ones of their kind",
    "cold and warm": "cold and warm runs differ by less than 1 % in every session, and both count",
    "cold": "every run is cold, the first of its kind since the machine's boot",
    "unknown": "it is not known which runs were cold, the first since the machine's boot",
}
RUN = r"^(?P<run>\w+-r\d+)(?P<machine>.*)"  # the name of a run of a study
AUC = "metric_auc_test"
# a mode is as good as the paper's, and a machine's model as another's, if its mean is within it
AUC_MARGIN = 0.02
# whether models are equal, and what is said of a ratio of the times of others
ALIKE = "equal"
UNDECIDED = "undecided"
UNLIKE = "not comparable"
OF_MODELS = {UNDECIDED: "of models not shown to be equal", UNLIKE: "of unlike models"}
WITHIN = "within this session"  # not of the next one
UNKNOWN = "unknown"
# what a ratio of two machines is of
OF_BOTH = "of stack and hardware"
OF_FLOAT32 = "of the hardware, at equal float32"
OF_EQUAL = "of the hardware, at equal arithmetic"
OF_DEFAULTS = "of the hardware, at each device's default arithmetic"
OF_STACK = "of the stack"  # on one machine
FEW_SESSIONS = "no interval: too few sessions"
EQUAL = "no interval: all times are equal"
MANY_OUTLIERS = "no interval: a fast run, or more than one in five, is an outlier"


class UnlikeRunsError(DrError):
    """The rows come from different work; the message names the columns and their values."""


class NoRunsError(DrError):
    """No run is left to plot or tabulate; the message says why."""


class Selection(NamedTuple):
    """The rows of an analysis: tables with one row per run, or per request to a served model."""

    runs: pd.DataFrame  # all rows of the analysis's notebooks
    # status ok, with `machine`, `mode`, `environment`, `disturbed`, `timed` and `warmth`
    finished: pd.DataFrame
    timed: pd.DataFrame  # those of them whose times count
    excluded: pd.DataFrame  # `run_id` and `reason` of every other row
    # columns whose levels stand side by side: the study's own factors, and what is allowed
    factors: list[str] = []
    others: str = ""  # kinds of runs by hand that are left out, and how many of each


def select_runs(
    runs: pd.DataFrame,
    *,
    exclude: Collection[str] = (),
    may_differ: Collection[str] = (),
    allowed: Collection[str] = (),
    within: Sequence[str] = (),
) -> Selection:
    """Select the timed rows: status ok and not resumed; disturbed rows count unless excluded.

    Cold runs, the first of their kind since the machine's boot, count where all are cold, or where
    they differ little from the warm ones of each session; else they stand apart.

    Columns are added: `timed`; `machine`, such as `kaggle, 2 x Tesla T4`, with the instance type or
    the processor where that tells two apart; `mode`, paper where a row names none; `environment`,
    the machine and any mode but the paper's; `place`, the environment and the levels of the study's
    own factors; of trainings `warmth`, warm or one of WARMTH. Of runs that were made by hand, and
    differ, the newest kind is taken.

    Args:
        runs: one row per run, failed ones too, from `read_runs`; or per request, from
            `read_requests`.
        exclude: further exclusion criteria; `disturbed` is one.
        may_differ: columns of the work in which the rows may differ: the factors of the paper, and
            what follows them.
        allowed: further ones, by the user; they are factors unless POOLED.
        within: columns that tell groups apart; rows then have to agree within each group alone.

    Raises:
        UnlikeRunsError: finished rows did different work: their mean would be the mean of nothing.
    """
    unknown = ", ".join(sorted(set(exclude) - set(EXCLUSIONS)))
    if unknown:
        raise DrError(f"exclude {unknown!r}: choose from {', '.join(EXCLUSIONS)}")
    faults = _find_faults(runs)
    is_finished = (runs.get("status", pd.Series(dtype=str)) == "ok") & (faults == "")
    finished = _name_environments(runs[is_finished])
    reasons = faults.where(faults != "", runs.get("error", ""))
    excluded = [runs.assign(reason=reasons)[~is_finished]]
    levels = _write_levels(finished, within)
    factors = _find_factors(levels, may_differ, allowed)
    within = [name for name in [*within, *factors] if name in finished]
    passed = {*may_differ, *allowed, *within}
    if _is_factor(levels, "mode"):
        passed.add("mode")
    kinds = _name_kinds(levels, passed, within)
    is_other = kinds != ""
    others = "; ".join(f"{kind} ({n})" for kind, n in kinds[is_other].value_counts().items())
    excluded.append(finished[is_other].assign(reason="another kind of run: " + kinds[is_other]))
    finished = finished[~is_other].assign(
        place=finished["environment"], session=name_sessions(finished)
    )
    for name in factors:
        column = finished[name].astype(object)
        finished[name] = column.where(column.notna(), "")
        finished["place"] += f", {name} " + levels[name]
    for _, rows in _group(finished, within):
        _check_alike(rows, passed)
    finished, untimed = _find_timed(finished, exclude)
    excluded += untimed
    excluded = pd.concat(
        [rows for rows in excluded if len(rows)] or excluded, ignore_index=True
    )
    return Selection(
        runs,
        finished,
        finished[finished["timed"]].reset_index(drop=True),
        excluded.reindex(columns=["run_id", "reason"]),
        factors,
        others,
    )


def _find_timed(
    finished: pd.DataFrame, exclude: Collection[str]
) -> tuple[pd.DataFrame, list[pd.DataFrame]]:
    """Mark the rows whose times count, and list the others with the reason."""
    is_timed = pd.Series(True, finished.index)
    untimed = []
    for mark in dict.fromkeys(["resumed", *exclude]):
        is_timed = is_timed & ~finished[mark]
        untimed.append(finished[finished[mark]].assign(reason=EXCLUSIONS[mark]))
    finished = _find_warmth(finished.assign(timed=is_timed, warmth="warm"))
    for warmth in ("apart", "unsure"):
        rows = finished[finished["warmth"] == warmth]
        untimed.append(rows.assign(reason=WARMTH[warmth]))
    return finished, untimed


def _find_warmth(finished: pd.DataFrame) -> pd.DataFrame:
    """Find which trainings were cold, and time those that are alike.

    A row that does not know it counts where no run of its kind on that machine is known to be warm.
    """
    if "train_s" not in finished or finished["train_s"].isna().all():
        return finished
    is_timed = finished["timed"]
    cold = finished.reindex(columns=["cold"])["cold"].astype(object)
    warmth = cold.map({True: "cold", False: "warm"}).fillna("unknown").where(is_timed, "")
    keys = [*(name for name in KIND if name in finished), "place"]
    kind = finished.groupby(keys, dropna=False).ngroup()
    timed = finished.assign(warmth=warmth, kind=kind)[is_timed]
    means = timed.pivot_table("train_s", ["kind", "session"], "warmth")
    means = means.reindex(columns=["cold", "warm"]).dropna(subset=["cold"])
    differences = abs(means["cold"] / means["warm"] - 1)
    if len(means) and (differences < 0.01).all():  # then both count
        warmth = warmth.replace(["cold", "warm"], "cold and warm")

    is_warm = warmth.isin(["warm", "cold and warm"])
    has_warm = is_warm.groupby(kind).transform("any")
    warmth = warmth.mask((warmth == "unknown") & has_warm, "unsure")
    place = finished["place"].mask(warmth == "cold", finished["place"] + ", cold")
    if set(warmth) - {"cold", ""}:
        warmth = warmth.replace("cold", "apart")
    is_timed = is_timed & ~warmth.isin(["apart", "unsure"])
    return finished.assign(warmth=warmth, place=place, timed=is_timed)


def list_shown(finished: pd.DataFrame) -> pd.DataFrame:
    """List the rows whose times are shown: those that count, and cold ones that stand apart."""
    return finished[finished["timed"] | (finished["warmth"] == "apart")]


def list_faults(runs: pd.DataFrame) -> list[str]:
    """List the rows that do not count because they are copies, or hold impossible times."""
    faults = [fault for fault in _find_faults(runs).unique() if fault]
    return faults[:5] + [f"and {len(faults) - 5} rows more"] * (len(faults) > 5)


def _find_faults(runs: pd.DataFrame) -> pd.Series:
    """Say what is wrong with each row: it is a copy, or holds an impossible time; else empty."""
    none = pd.Series("", runs.index)
    files = runs.get("file", runs.get("run_id", none)).astype(str)
    faults = none
    for name in [name for name in ("train_s", "steady_epoch_s") if name in runs]:
        numbers = pd.to_numeric(runs[name], errors="coerce")
        words = files + f": {name} is " + numbers.map("{:g}".format) + ", which is no time"
        faults = faults.mask((numbers <= 0) & (runs["status"] == "ok"), words)
    copies = runs.get("copy_of", none).fillna("")
    words = files + " is a copy of " + copies + ", and one run counts once"
    return faults.mask(copies != "", words)


def measure(column: str, *sides: pd.DataFrame) -> Measured:
    """Estimate the mean of a time over runs of one kind, or the ratio of two kinds' means.

    It rests on sessions, as verdicts do, and leaves out the same outliers. Runs of a single session
    have bounds WITHIN it; a ratio of machines needs three sessions of each.

    Args:
        column: positive numbers; rows without one do not count.
        sides: timed rows of a `Selection`, of one kind or of two.
    """
    sides = [side.dropna(subset=[column]) for side in sides if column in side]
    if not sides or not all(map(len, sides)):
        return Measured(*NOTHING)
    rows = pd.concat(sides)
    statistic = RATIO if len(sides) > 1 else AVERAGE
    times = [[side[column]] for side in sides]
    sessions = [[side["session"]] for side in sides]
    is_one = rows["session"].nunique() == 1
    design = Design(*times, sessions=sessions)
    found = Measured(*design.estimate(statistic, within=is_one).interval())
    scopes = []
    if design.has_many_outliers:
        scopes.append(MANY_OUTLIERS)
    elif np.isnan(found.low) and len(rows) > len(sides):
        scopes.append(FEW_SESSIONS if found.n < MIN_RUNS else EQUAL)
    elif is_one and found.n > 1:
        scopes.append(WITHIN)
    if num_left_out := int(design.is_left_out.sum()):
        over_all = Design(*times, sessions=sessions, keep_all=True).estimate(statistic)
        value = over_all.interval().value
        found = found._replace(num_left_out=num_left_out, over_all=value)
    if len(sides) > 1 and "machine" in rows and rows["machine"].nunique() > 1:
        scopes += [describe_ratio(*sides), OF_MODELS.get(judge_models(*sides).verdict)]
    return found._replace(scope="; ".join(filter(None, scopes)))


def compare_stacks(*sides: pd.DataFrame) -> dict[str, str]:
    """Find where the software stacks of timed rows differ, or are unknown.

    What is unknown is like nothing between machines: one says nothing of another. On one machine it
    is like unknown.

    Returns:
        The levels by column, or UNKNOWN where a row has none; empty where the stacks are alike.
    """
    rows = pd.concat(sides)
    is_between = rows["machine"].nunique() > 1
    rows = rows.replace(["", UNKNOWN], np.nan)
    known = set(rows.columns[rows.notna().any()])
    backends = set(rows.get("backend", pd.Series(dtype=object)).dropna())
    names = [*ARITHMETIC, "environment_settings", *sorted(known & {"batch_norm", "warmth"})]
    if known & {"backend", *PLANNED}:
        names.append("backend")
    if known & {*PLANNED}:
        names += PLANNED
    if "keras" in known or backends & {"tensorflow", "jax"}:
        names.append("keras")
    if len(backends) < 2:  # else their versions do not matter
        names += [name for name in LIBRARIES if name in (backends or known)] or ["backend"]

    unlike = {}
    for name in dict.fromkeys(names):
        column = rows.get(name, pd.Series(np.nan, rows.index))
        levels = column.map(write_level, na_action="ignore")
        if name in LIBRARIES:
            levels = levels.str.extract(r"^(\d+\.\d+)", expand=False)
        if levels.nunique() > 1:
            unlike[name] = ", ".join(sorted(levels.dropna().unique()))
        elif levels.isna().any() and is_between:
            unlike[name] = UNKNOWN
    return unlike


def write_unlike(cells: Iterable[Sequence[pd.DataFrame]]) -> str:
    """Write where the software stacks of the sides of any cell differ, or are unknown, and how."""
    unlike = {}
    for sides in cells:
        unlike.update(compare_stacks(*sides))
    return ", ".join(f"{name} ({levels})" for name, levels in unlike.items())


def describe_ratio(*sides: pd.DataFrame) -> str:
    """Say what the ratio of two sides' times is of: their stacks, their hardware, or both."""
    rows = pd.concat(sides)
    unlike = compare_stacks(rows)
    if rows["machine"].nunique() == 1:
        return OF_STACK if unlike else ""
    if not unlike:
        is_float32 = rows[ARITHMETIC].eq("float32").all(axis=None)
        return OF_FLOAT32 if is_float32 else OF_EQUAL
    requests = set(rows.get(REQUESTED, pd.Series(dtype=str)).dropna())
    is_default = requests <= {"default"} and UNKNOWN not in unlike.values()
    return OF_DEFAULTS if is_default and unlike.keys() <= {*ARITHMETIC} else OF_BOTH


class Models(NamedTuple):
    """Whether two sides' models are equal enough for their times to be compared."""

    verdict: str  # equal, undecided or not comparable
    words: str  # how they compare, in numbers
    difference: Interval = NOTHING  # of their mean test scores, 90 %


def judge_models(a: pd.DataFrame, b: pd.DataFrame) -> Models:
    """Compare what two machines trained, or served: a time counts between equal models alone.

    Trained models are equal if their mean test AUC, or accuracy for paper C's frameworks, is
    equivalent within AUC_MARGIN, see `compare_scores`; served ones if they are the same exported
    file.

    Args:
        a: rows of one side, one a run, of one kind of work.
        b: those of the other.
    """
    known = {name for side in (a, b) for name in side.columns[side.notna().any()]}
    if "predict_ms" in known:
        versions = [side.get("model_version", pd.Series([""])) for side in (a, b)]
        files = [sorted(set(column.fillna("").astype(str))) for column in versions]
        if all(files[0]) and files[0] == files[1]:
            return Models(ALIKE, "the same exported file")
        named = [", ".join(name or UNKNOWN for name in names) for names in files]
        return Models(UNLIKE, f"other exported files: {' against '.join(named)}")
    name = "accuracy" if "framework" in known else "AUC"
    column = f"metric_{name.lower()}_test"
    sides = [side.reindex(columns=["seed", column]).set_index("seed") for side in (a, b)]
    scores = [side[column] for side in sides]
    difference = compare_scores(*scores)
    if not difference.n:
        return Models(UNLIKE, f"test {name} not measured")
    value, low, high, n = difference
    words = f"test {name} differs by {value:.3f} [{low:.3f}, {high:.3f}], 90 %, n = {n}"
    if n > min(side.index.nunique() for side in scores):
        words += ", seeds unknown"
    if num_missing := sum(side.isna().sum() for side in scores):
        return Models(UNDECIDED, f"{words}: {num_missing} runs have none", difference)
    is_shown = is_equivalent(difference, AUC_MARGIN)
    if is_shown is None:
        needed = count_needed(difference, -AUC_MARGIN, AUC_MARGIN)
        words += f": n near {needed} might show whether the models are equal"
        return Models(UNDECIDED, words, difference)
    return Models(ALIKE if is_shown else UNLIKE, words, difference)


def list_columns(names: str, runs: pd.DataFrame) -> list[str]:
    """List the columns in which the user lets rows differ.

    Args:
        names: of the columns, separated by commas.
        runs: the rows; where there are none, any name will do.
    """
    columns = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in columns if name not in runs]
    if unknown and len(runs):
        choices = ", ".join(sorted(set(runs) & {"commit", *WORK, *PLAN}))
        raise DrError(
            f"allow {', '.join(unknown)}: no row has that column, choose from {choices}"
        )
    return columns


def list_runs(rows: pd.DataFrame) -> pd.DataFrame:
    """Make one row per run; of requests, one per deployment with the means of its times.

    Requests to one server share its machine and its moment: they repeat nothing, and nor do several
    runs against one endpoint elsewhere. A run's name is unique in its study alone; what a server
    calls its `deployment` is everywhere.
    """
    if "request" not in rows:
        return rows
    names = name_deployments(rows)
    times = ["round_trip_ms", "decode_ms", "predict_ms", "predict_usd_per_million"]
    times = rows.columns.intersection(times)
    means = rows.groupby(names)[times].transform("mean")
    return rows.assign(**means)[~names.duplicated()]


def name_deployments(rows: pd.DataFrame) -> pd.Series:
    """Name deployments by the server's own id, or else by the run, which had its own server."""
    told = rows.reindex(columns=["deployment", "study", "run_id"]).astype(object).fillna("")
    name = told["deployment"].astype(str)
    return name.mask(name == "", told["study"] + "/" + told["run_id"])


def name_sessions(rows: pd.DataFrame) -> pd.Series:
    """Name sessions, whose runs share a host and its state: the machine's boot and the cloud
    service's session.

    A server elsewhere has a machine of its own for each deployment. Rows that tell neither are of
    one session for each `machine`.
    """
    told = rows.reindex(columns=["session", "boot", "endpoint"]).astype(object).fillna("")
    name = told["session"].astype(str) + "/" + told["boot"].astype(str)
    name = name.mask(name == "/", rows["machine"])
    return name.mask(told["endpoint"] == "remote", name_deployments(rows))


def _name_environments(finished: pd.DataFrame) -> pd.DataFrame:
    columns = [*schema.HARDWARE, "mode", *EXCLUSIONS]
    rows = finished.reindex(columns=columns).astype(object)
    count = rows["num_accelerators"].map(lambda count: f"{count:.0f} x " if count > 1 else "")
    machine = rows["platform"] + ", " + (count + rows["accelerator"]).replace("cpu", "CPU")
    machine = _tell_apart(machine, rows["instance_type"].fillna("").astype(str))
    # two machines without accelerators may have unlike processors
    cpus = rows["cpu_quota"].where(rows["cpu_quota"].notna(), rows["num_cpus"])
    cores = (" x " + cpus.astype(str)).where(cpus.notna(), "")
    machine = _tell_apart(machine, rows["cpu"].astype(str) + cores)
    mode = rows["mode"].fillna("paper")
    return finished.assign(
        machine=machine,
        mode=mode,
        environment=machine.where(mode == "paper", machine + ", " + mode),
        **{mark: pd.to_numeric(rows[mark]).gt(0) for mark in EXCLUSIONS},
    )


def _tell_apart(machine: pd.Series, names: pd.Series) -> pd.Series:
    is_several = names.groupby(machine).transform("nunique") > 1
    return machine.mask(is_several, machine + ", " + names)


def write_level(value: object) -> str:
    """Write a level of a factor: 0.001, or the first digits of a hash."""
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]


def _write_levels(finished: pd.DataFrame, within: Sequence[str]) -> pd.DataFrame:
    """Write what a run did, where and when as texts, unknown ones as nan."""
    known = [*within, *LEVELS, *WORK, *PLAN, *schema.VERSIONS]
    known += ["commit", "environment", "mode", "study", "scenario", "framework"]
    names = [name for name in dict.fromkeys(known) if name in finished]
    is_known = finished[names].notna()
    levels = finished[names].map(write_level).where(is_known, "nan")  # None, too
    about = finished.reindex(columns=["run_id", "started_at"]).astype(str)
    is_by_hand = about["run_id"].str.fullmatch("[0-9a-f]{12}").astype(bool)
    return levels.assign(is_by_hand=is_by_hand, started_at=about["started_at"])


def _find_factors(
    levels: pd.DataFrame, may_differ: Collection[str], allowed: Collection[str]
) -> list[str]:
    """Find the columns by which rows stand side by side: what a study varies by itself, without
    what follows from mode or another factor, and what the user allows to differ.
    """
    planned = levels[~levels["is_by_hand"]]
    before = [name for name in {"mode", *may_differ} if name in levels]
    factors = []
    for column in dict.fromkeys([*LEVELS, *WORK, *PLAN]):
        if column not in levels or column in {*before, *POOLED}:
            continue
        by = [*before, *factors, *(["environment"] if column in PLACED else [])]
        follows = planned.groupby(by)[column].nunique().le(1).all()
        is_own = _is_factor(planned, column) and not follows
        if is_own or (column in allowed and levels[column].nunique() > 1):
            factors.append(column)
    return factors


def _name_kinds(
    levels: pd.DataFrame, passed: Collection[str], within: Sequence[str]
) -> pd.Series:
    """Name the kinds of runs, where some were made by hand, by what differs from the newest, whose
    kind is empty; the plan and the versions are those of the newest on the same machine.
    """
    kinds = pd.Series("", levels.index)
    if not levels["is_by_hand"].any():
        return kinds
    for columns, keys in _list_agreements(levels):
        like = levels[kinds == ""].sort_values("started_at", kind="stable")
        groups = _group(like, [*keys, *within])
        for column in [name for name in columns if name in like and name not in passed]:
            is_unlike = like[column] != groups[column].transform("last")
            words = f" {column}=" + like.loc[is_unlike, column].str[:12]
            kinds = kinds + words.reindex(kinds.index, fill_value="")
    return kinds.str.strip()


def _group(rows: pd.DataFrame, keys: Sequence[str]):
    """Group rows by columns; without any, all are one group."""
    return rows.assign(all="").groupby(["all", *keys], dropna=False)


def _list_agreements(rows: pd.DataFrame) -> list[tuple[list[str], list[str]]]:
    """List columns in which rows agree, with those that tell apart the groups within which they do.

    Precision and the like are one in each environment, and the versions of its software for each
    framework there.
    """
    frameworks = [name for name in ("framework",) if name in rows]
    return [
        ([*WORK], []),
        (PLAN, ["environment"]),
        ([*schema.VERSIONS], ["environment", *frameworks]),
    ]


def _check_alike(finished: pd.DataFrame, may_differ: Collection[str]) -> None:
    """Check that all rows did the same work, except for what mode, environment or factors set.

    Where the split is a factor, each table that it names is one.
    """
    unlike = {}
    agreements = _list_agreements(finished)
    if _is_factor(finished, "split"):
        agreements[0][0].remove("split_sha256")
        agreements.append((["split_sha256"], ["split"]))
    groups = [
        (columns, rows) for columns, keys in agreements for _, rows in _group(finished, keys)
    ]
    for columns, rows in groups:
        for column in set(columns) & set(rows) - set(may_differ):
            if rows[column].nunique(dropna=column in schema.VERSIONS) > 1:
                digits = 12 if column.endswith("_sha256") else None
                names = {str(value)[:digits] for value in rows[column].dropna()}
                names.update(["none"] * rows[column].hasnans)
                unlike[column] = ", ".join(sorted(names))
    if unlike:
        named = "; ".join(f"{column} ({values})" for column, values in sorted(unlike.items()))
        first = min(unlike)
        end = "*" if first.endswith("_sha256") else ""
        example = f"{first}={unlike[first].split(', ')[0]}{end}"
        advice = f"choose one value of each (-p only {example}), or compare them"
        advice += f" (-p allow {','.join(sorted(unlike))})"
        raise UnlikeRunsError(f"rows differ in {named}: {advice}")


def _is_factor(finished: pd.DataFrame, column: str) -> bool:
    """Whether every study of these rows varies a parameter between scenarios."""
    if finished.empty or not {"study", "scenario", column} <= set(finished):
        return False
    varies = finished.groupby("study")[column].nunique() > 1
    by_scenario = finished.groupby(["study", "scenario"])[column].nunique()
    return bool(varies.all() and by_scenario.eq(1).all())
