"""Requests to a served model: written beside the row of their run, read back as one table, a row
per request.
"""

from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from dr_lib import files
from dr_lib.evidence.select import Selection, list_runs, select_runs
from dr_lib.evidence.serving.costs import usd_per_million
from dr_lib.runs.row import read_row
from dr_lib.statistics.intervals import mean_interval

# columns of every table of requests
NEEDED = ("load", "request", "round_trip_ms", "predict_ms", "status", "error")
TIMES = ("round_trip_ms", "decode_ms", "predict_ms")
TEXTS = {"error": str, "model_version": str}  # where they look like numbers too
# what tells latencies apart
KINDS = ("machine", "environment", "instance_type", "model", "format", "image_size", "threads")
CLOSED_LOOP = "closed"
OPEN_LOOP = "open"  # the load of the paper, one request after another; and one at a rate


class RequestsError(ValueError):
    """Requests cannot be read; the message names the file."""


def write_requests(path: Path, table: pd.DataFrame) -> None:
    """Write the requests of a run as CSV, in one step.

    Args:
        path: in the folder of the run; the row of the run says where, from the folder of its study
            on, as `requests`.
        table: one row per request, from `run_closed_loop` or `run_open_loop`, or several of them
            joined.
    """
    with files.replace(path) as temporary:
        table.to_csv(temporary, index=False)


def read_requests(runs: pd.DataFrame, *folders: Path, load: str = CLOSED_LOOP) -> pd.DataFrame:
    """Put the requests of a load in the place of their runs.

    Args:
        runs: one row per run, from `read_runs`; `requests` names a run's file from the folder of
            its study on.
        folders: those that were given to `read_runs`.
        load: closed or open.

    Returns:
        A row per request: the run's columns, the request's, and `predict_usd_per_million` of
        predicting alone on a machine that is never idle, where the run has a price. Of a column
        that both have the run's stays and the request's is request_NAME, but times are the
        request's, and `status` and `error` say whether it has a prediction; the server's status is
        `http_status`. Runs without requests keep their one row.

    Raises:
        RequestsError: a file is missing, lies outside its study, or is no table of requests.
    """
    runs = runs.reset_index(drop=True)
    named = (
        runs["requests"].notna() & (runs["status"] == "ok")
        if "requests" in runs
        else pd.Series(False, runs.index)
    )
    studies = _find_studies(folders) if named.any() else {}
    tables = [runs[~named]] if not named.all() else []
    for position in runs.index[named]:
        run = runs.iloc[position]
        table = _read(studies.get((run["study"], run["run_id"]), []), run["requests"], load)
        kept = (
            runs.drop(columns=[*TIMES], errors="ignore")
            .iloc[[position] * len(table)]
            .reset_index(drop=True)
        )
        marks = {"status": np.where(table["error"] == "", "ok", "failed"), "error": table["error"]}
        table = table.rename(columns={"status": "http_status"}).drop(columns="error")
        table = table.rename(columns={name: f"request_{name}" for name in table if name in kept})
        tables.append(pd.concat([kept.assign(**marks), table], axis=1))
    requests = pd.concat(tables, ignore_index=True) if tables else runs
    if {"usd_per_hour", "predict_ms"} <= set(requests):
        busy = requests[["usd_per_hour", "predict_ms"]].astype(float).dropna()
        usd = usd_per_million(busy["usd_per_hour"], busy["predict_ms"])
        requests["predict_usd_per_million"] = pd.Series(usd, busy.index)
    return requests


def select_requests(table: pd.DataFrame, *folders: Path, **choice: object) -> Selection:
    """Select requests in the place of their runs: those of one kind are pooled and have to agree.

    Args:
        table: as `runs` of `read_requests`; an export, which has no requests, stands alone.
        folders: see there.
        choice: `exclude` and `may_differ` of `select_runs`.
    """
    requests = read_requests(table, *folders)
    if "run_id" in requests:
        is_request = (
            requests["predict_ms"].notna()
            if "predict_ms" in requests
            else requests["run_id"].isna()
        )
        requests["pool"] = requests["run_id"].mask(is_request, "requests")
    return select_runs(requests, within=[*KINDS, "pool"], **choice)


def summarise_requests(timed: pd.DataFrame) -> pd.DataFrame:
    """Say how long each model takes in each format on each machine.

    Args:
        timed: requests of `read_requests` whose times count, of a `Selection`.

    Returns:
        A row for each, with as many of KINDS as there are, `n` deployments of `requests` requests,
        the run's `usd_per_hour` and `priced_as`, and for each of round_trip_ms, decode_ms and
        predict_ms the mean over deployments under that name, with _low and _high the bounds of its
        95 % interval, with _sd the deviation and with _median the median of the requests. All
        requests count, the first too: the paper left none out; the median shows what the first
        ones weigh. Requests to one deployment repeat nothing, so one alone has no interval.
    """
    if "predict_ms" not in timed or timed["predict_ms"].isna().all():
        return pd.DataFrame()
    timed, keys = timed.dropna(subset=["predict_ms"]), [name for name in KINDS if name in timed]
    lines = []
    for key, rows in timed.groupby(keys, dropna=False, sort=False):
        deployments = list_runs(rows)
        line = dict(zip(keys, key, strict=True)) | {"n": len(deployments), "requests": len(rows)}
        line |= {name: rows[name].iloc[0] for name in ("usd_per_hour", "priced_as") if name in rows}
        for name in TIMES:
            times, means = (
                table[name] if name in table else rows["predict_ms"][:0]
                for table in (rows, deployments)
            )
            times = times[times > 0]  # who sends arrays decodes nothing
            mean, low, high, _ = mean_interval(means[means > 0])
            spread = {"low": low, "high": high, "sd": times.std(), "median": times.median()}
            line |= {name: mean} | {f"{name}_{measure}": value for measure, value in spread.items()}
        lines.append(line)
    return pd.DataFrame(lines)


def _find_studies(folders: tuple[Path, ...]) -> dict[tuple[str, str], list[Path]]:
    """The folders in which each run has a row: one, or several where rows were copied."""
    found = {}
    for path in sorted(path for folder in folders for path in Path(folder).rglob("rows/*.json")):
        row = read_row(path)
        found.setdefault((row["study"], row["run_id"]), []).append(path.parents[1])
    return found


def _read(studies: list[Path], name: str, load: str) -> pd.DataFrame:
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts:
        raise RequestsError(
            f"{name} lies outside the study: a row names its requests from the study's folder on"
        )
    path = next((study / inside for study in studies if (study / inside).is_file()), None)
    if path is None:
        raise RequestsError(
            f"{name} is not below {', '.join(map(str, studies))}: copy it to where its run's row is"
        )
    try:
        table = pd.read_csv(path, dtype=TEXTS, keep_default_na=False, na_values=[""])
    except (ValueError, OSError) as error:  # pandas' own are ValueErrors, as is text that is none
        raise RequestsError(f"{path} is no table of requests: {error}") from error
    missing = [name for name in NEEDED if name not in table]
    if missing:
        raise RequestsError(
            f"{path}: the requests have no {', '.join(missing)}: dr_lib.serving.server.load has"
            " them"
        )
    return table[table["load"] == load].fillna({"error": ""}).reset_index(drop=True)
