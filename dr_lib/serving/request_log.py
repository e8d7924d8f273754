"""Requests to a served model: written next to their run's row, read back as one table."""

from collections.abc import Collection
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from dr_lib import files
from dr_lib.errors import DrError
from dr_lib.report.select import Selection, list_runs, measure, select_runs
from dr_lib.runs.row import list_rows, read_row
from dr_lib.serving.costs import usd_per_million
from dr_lib.statistics.intervals import tabulate

TIMES = ("round_trip_ms", "decode_ms", "predict_ms")
TEXTS = {"error": str, "model_version": str}  # where they look like numbers too
# what tells latencies apart
KINDS = ("machine", "environment", "instance_type", "model", "format", "image_size", "threads")
OPEN_LOOP = "open"  # at a rate


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


def read_requests(runs: pd.DataFrame, *folders: Path, load: str = "closed") -> pd.DataFrame:
    """Replace runs with the requests of their load tests.

    Args:
        runs: one row per run, from `read_runs`; `requests` names a run's file from the folder of
            its study on.
        folders: those that were given to `read_runs`.
        load: closed, one request after another, or open, at a rate.

    Returns:
        A row per request: the run's columns, the request's, and `predict_usd_per_million` of
        predicting alone on a machine that is never idle, where the run has a price. Of a column
        that both have the run's stays and the request's is request_NAME, but times are the
        request's, and `status` and `error` say whether it has a prediction; the server's status is
        `http_status`. Runs without requests keep their one row.

    Raises:
        DrError: a file is missing, lies outside its study, or is no table of requests.
    """
    runs = runs.reset_index(drop=True)
    if "requests" not in runs:
        return _price(runs)
    is_named = runs["requests"].notna() & (runs["status"] == "ok")
    if not is_named.any():
        return _price(runs)
    run = ["study", "run_id"]
    studies = _find_studies(folders)
    tables = []
    for study, run_id, name in runs.loc[is_named, [*run, "requests"]].itertuples(index=False):
        table = _read(studies.get((study, run_id), []), name, load)
        tables.append(table.assign(study=study, run_id=run_id))
    requests = pd.concat(tables, ignore_index=True).rename(columns={"status": "http_status"})
    about = runs[is_named].drop(columns=[*TIMES, "status", "error"], errors="ignore")
    both = about.columns.intersection(requests.columns).drop(run)
    requests = requests.rename(columns={name: f"request_{name}" for name in both})
    requests["status"] = np.where(requests["error"] == "", "ok", "failed")
    requests = about.merge(requests, on=run)
    others = [runs[~is_named]] if not is_named.all() else []
    return _price(pd.concat([*others, requests], ignore_index=True))


def select_requests(
    table: pd.DataFrame,
    *folders: Path,
    exclude: Collection[str] = (),
    may_differ: Collection[str] = (),
) -> Selection:
    """Select requests instead of their runs; those of one kind are pooled and must agree.

    Args:
        table: as `runs` of `read_requests`; an export, which has no requests, stands alone.
        folders: see there.
        exclude, may_differ: see `select_runs`.
    """
    requests = read_requests(table, *folders)
    if "run_id" in requests:
        is_request = requests.reindex(columns=["predict_ms"])["predict_ms"].notna()
        requests["pool"] = requests["run_id"].mask(is_request, "requests")
    return select_runs(
        requests, within=[*KINDS, "pool"], exclude=exclude, may_differ=may_differ
    )


def summarise_requests(timed: pd.DataFrame) -> pd.DataFrame:
    """Summarise the times of each model in each format on each machine.

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
    timed = timed.dropna(subset=["predict_ms"])
    keys = [name for name in KINDS if name in timed]
    kept = [name for name in ("usd_per_hour", "priced_as") if name in timed]
    summaries = []
    for key, rows in timed.groupby(keys, dropna=False, sort=False):
        deployments = list_runs(rows)
        times = {}
        for name in (name for name in TIMES if name in rows):
            ms = rows.loc[rows[name] > 0, name]  # who sends arrays decodes nothing
            times[name] = measure(name, deployments[deployments[name] > 0])
            times[f"{name}_sd"] = ms.std()
            times[f"{name}_median"] = ms.median()
        summaries.append(
            {
                **dict(zip(keys, key, strict=True)),
                "n": len(deployments),
                "requests": len(rows),
                **rows[kept].iloc[0],
                **times,
            }
        )
    return tabulate(summaries)


def _price(requests: pd.DataFrame) -> pd.DataFrame:
    """Compute the cost of a million predictions if a row has a price."""
    if {"usd_per_hour", "predict_ms"} <= set(requests):
        prices = requests["usd_per_hour"].astype(float)
        usd = usd_per_million(prices, requests["predict_ms"].astype(float))
        requests["predict_usd_per_million"] = usd
    return requests


def _find_studies(folders: tuple[Path, ...]) -> dict[tuple[str, str], list[Path]]:
    """Find the folders in which each run has a row: several if rows were copied."""
    studies = {}
    for path in list_rows(*folders):
        row = read_row(path)
        studies.setdefault((row["study"], row["run_id"]), []).append(path.parents[1])
    return studies


def _read(studies: list[Path], name: str, load: str) -> pd.DataFrame:
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts:
        raise DrError(
            f"{name} is outside the study: a row must name its requests relative to the "
            "study's folder"
        )
    path = next((study / inside for study in studies if (study / inside).is_file()), None)
    if path is None:
        raise DrError(
            f"{name} is not below {', '.join(map(str, studies))}: copy it to the folder of "
            "its run's row"
        )
    try:
        table = pd.read_csv(path, dtype=TEXTS, keep_default_na=False, na_values=[""])
    except (
        ValueError,
        OSError,
    ) as error:  # pandas' own are ValueErrors, as is text that is none
        raise DrError(f"{path} is not a table of requests: {error}") from error
    needed = ("load", "request", "round_trip_ms", "predict_ms", "status", "error")
    missing = [name for name in needed if name not in table]
    if missing:
        raise DrError(
            f"{path}: the requests have no {', '.join(missing)}: measure them with "
            "dr_lib.serving.server.load"
        )
    return table[table["load"] == load].fillna({"error": ""}).reset_index(drop=True)
