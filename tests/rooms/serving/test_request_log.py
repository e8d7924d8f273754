"""Requests written beside their run's row, read back, and judged."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.report.select import UnlikeRunsError, select_runs
from dr_lib.rooms.serving.request_log import (
    KINDS,
    read_requests,
    summarise_requests,
    write_requests,
)
from dr_lib.runs.row import read_runs, write_row

RUN = {
    "study": "serving",
    "notebook": "22_serve_and_load",
    "notebook_sha256": "",
    "scenario": "C1",
    "repetition": 0,
}
RUN |= {
    "order": 0,
    "seed": 0,
    "session_id": "",
    "started_at": "2026",
    "status": "ok",
    "retries": 0,
    "resumed": 0,
}
RUN |= {
    "error": "",
    "commit": "c",
    "wall_s": 1.0,
    "platform": "local",
    "accelerator": "cpu",
    "num_accelerators": 1,
}
RUN |= {
    "model": "vgg19",
    "format": "savedmodel",
    "image_size": 224,
    "instance_type": "ml.m5.xlarge",
}
RUN |= {"usd_per_hour": 0.23, "num_requests": 25, "gap_s": 5.0}


def make_requests(predict_ms, load="closed", **columns):
    """Requests as the client returns them, answered in these times."""
    times = np.asarray(predict_ms, dtype=float)
    table = pd.DataFrame(
        {"load": load, "request": range(len(times)), "sent_s": 5.0 * np.arange(len(times))}
    )
    table = table.assign(
        round_trip_ms=times + 192,
        decode_ms=2.0,
        predict_ms=times,
        status=200,
        error="",
        attempts=1,
    )
    return table.assign(model="served", model_version="NA", **columns)


def write_run(root, run_id, table, study="serving", **columns):
    """A run of a study below the root, with its requests."""
    name = f"runs/{run_id}/requests.csv"
    write_requests(root / study / name, table)
    run = {"run_id": run_id, "study": study, "requests": name, "boot": f"{study} {run_id}"}
    write_row(root / study, RUN | run | columns)


def timed_runs(requests):
    """Those whose times count."""
    return select_runs(requests, within=KINDS).timed


def test_a_row_for_each_request_with_its_runs_columns(tmp_path):
    """What the run says of itself stands beside each."""
    write_run(tmp_path, "a", make_requests(204.6 + np.linspace(-3, 3, 25)))
    requests = read_requests(read_runs(tmp_path), tmp_path)
    assert len(requests) == 25 and requests["request"].tolist() == list(range(25))
    about = requests[["run_id", "model", "instance_type", "status"]]
    assert (about == ["a", "vgg19", "ml.m5.xlarge", "ok"]).all(axis=None)
    assert (
        requests[["request_model", "model_version", "http_status"]] == ["served", "NA", 200]
    ).all(axis=None)
    assert requests["predict_usd_per_million"][12] == pytest.approx(13.07, abs=0.005)


@pytest.fixture
def judged():
    """Judges the published time of VGG19, where the room claims is present."""
    claims = pytest.importorskip("tests.rooms.claims.test_claims")
    return lambda requests: claims.judge(claims.claim("B6"), requests)


def test_requests_repeat_nothing_and_deployments_do(tmp_path, judged):
    """25 requests to one deployment are one measurement, without an interval; three deployments
    decide.
    """
    for k, mean_ms in enumerate((203.8, 204.6, 205.4)):
        write_run(tmp_path, f"r{k}", make_requests(mean_ms + np.linspace(-3, 3, 25)))
        requests = read_requests(read_runs(tmp_path), tmp_path)
        found = judged(requests)
        (row,) = summarise_requests(timed_runs(requests)).itertuples()
        assert found[2:4] == (("holds", 3) if k == 2 else ("undecided", k + 1))
        assert (row.n, row.requests) == (k + 1, 25 * (k + 1)) and np.isnan(
            row.predict_ms_low
        ) == (k == 0)
    assert found.ours.value == pytest.approx(204.6) and row.predict_ms == pytest.approx(204.6)


def test_only_requests_of_a_closed_loop_are_the_papers(tmp_path):
    """Those of an open loop waited for each other, and lie in the same file."""
    at_rate = make_requests(
        [999.0] * 5, load="open", due_s=0.5, response_ms=1500.0, rate_per_s=10.0
    )
    write_run(tmp_path, "a", pd.concat([make_requests([200.0] * 3), at_rate]))
    requests = read_requests(read_runs(tmp_path), tmp_path)
    assert requests["predict_ms"].tolist() == [200] * 3


def test_the_first_request_counts(tmp_path):
    """The paper left none out; beside the mean of 400 stands the median of 200."""
    write_run(tmp_path, "a", make_requests([1200.0, 200, 200, 200, 200]))
    (row,) = summarise_requests(
        timed_runs(read_requests(read_runs(tmp_path), tmp_path))
    ).itertuples()
    assert (row.requests, row.predict_ms, row.predict_ms_median, row.usd_per_hour) == (
        5,
        pytest.approx(400),
        200,
        0.23,
    )
    assert row.predict_ms_sd == pytest.approx(np.std([1200, 200, 200, 200, 200], ddof=1))
    assert row.decode_ms == 2


def test_a_request_without_a_prediction_has_failed(tmp_path):
    """It keeps its row and its reason, and is in no mean."""
    table = make_requests([200.0, 200, np.nan]).assign(
        status=[200, 200, 503], error=["", "", "the queue is full"]
    )
    write_run(tmp_path, "a", table)
    requests = read_requests(read_runs(tmp_path), tmp_path)
    assert requests["status"].tolist() == ["ok", "ok", "failed"]
    assert requests.loc[2, ["error", "http_status"]].tolist() == ["the queue is full", 503]
    assert summarise_requests(timed_runs(requests))["requests"].tolist() == [2]


def test_runs_without_requests_keep_their_row(tmp_path):
    """Exports and failed runs stand in the same study; a mean that a row holds itself gives way
    to its requests.
    """
    write_run(tmp_path, "a", make_requests([200.0] * 3), predict_ms=1.0)
    write_row(
        tmp_path / "serving",
        RUN | {"run_id": "export", "savedmodel_mib": 77.0, "notebook": "21_export_quantize"},
    )
    write_row(
        tmp_path / "serving",
        RUN | {"run_id": "f", "status": "failed", "requests": "runs/f/requests.csv"},
    )
    requests = read_requests(read_runs(tmp_path), tmp_path)
    assert requests["run_id"].value_counts().to_dict() == {"a": 3, "export": 1, "f": 1}
    assert requests.groupby("run_id")["predict_ms"].max().dropna().to_dict() == {"a": 200}
    alone = read_runs(tmp_path).query("run_id == 'export'").drop(columns="requests")
    assert read_requests(alone)["run_id"].tolist() == ["export"]


def test_runs_of_one_name_in_two_studies_are_not_mixed(tmp_path):
    """A run's name says its scenario and machine: two studies have it."""
    write_run(tmp_path, "C1-r00", make_requests([100.0] * 3), study="one")
    write_run(tmp_path, "C1-r00", make_requests([300.0] * 3), study="two")
    requests = read_requests(read_runs(tmp_path), tmp_path)
    assert requests.groupby("study")["predict_ms"].unique().map(list).to_dict() == {
        "one": [100],
        "two": [300],
    }


def test_formats_are_never_pooled(tmp_path, judged):
    """The paper ran a SavedModel: int8 on its own instance answers no claim of it."""
    for k in range(3):
        write_run(
            tmp_path, f"int8-{k}", make_requests(np.linspace(20, 21, 5)), format="litert_int8"
        )
        write_run(
            tmp_path,
            f"float-{k}",
            make_requests(np.linspace(300, 301, 5)),
            format="litert_float32",
        )
    found = judged(requests := read_requests(read_runs(tmp_path), tmp_path))
    assert found[2:4] == ("not comparable", 0) and found.reason.endswith("vs format=savedmodel")
    assert summarise_requests(timed_runs(requests))["format"].tolist() == [
        "litert_float32",
        "litert_int8",
    ]


def test_predictions_by_other_numbers_of_threads_are_not_pooled(tmp_path):
    """A row without the column is of one thread, as all were."""
    for number, columns in enumerate([{}, {"num_threads": 1}, {"num_threads": 4}]):
        write_run(tmp_path, f"{number}", make_requests([20 + number]), **columns)
    runs = read_runs(tmp_path)
    assert len(select_runs(runs[:2]).timed) == 2
    with pytest.raises(UnlikeRunsError, match=r"num_threads"):
        select_runs(runs)


@pytest.mark.parametrize("name", ["/elsewhere/requests.csv", "../other/requests.csv"])
def test_refuses_files_outside_the_study(tmp_path, name):
    """A row from elsewhere cannot make the report read any file."""
    write_row(tmp_path / "serving", RUN | {"run_id": "a", "requests": name})
    with pytest.raises(DrError, match="outside the study"):
        read_requests(read_runs(tmp_path), tmp_path)


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00", b"load,request\nsequence,0\n"])
def test_refuses_what_is_no_table_of_requests(tmp_path, content):
    """Missing, empty, no text, or of other columns; the file is named."""
    write_row(tmp_path / "serving", RUN | {"run_id": "a", "requests": "requests.csv"})
    if content is not None:
        (tmp_path / "serving" / "requests.csv").write_bytes(content)
    with pytest.raises(DrError, match=r"requests\.csv"):
        read_requests(read_runs(tmp_path), tmp_path)


def test_nothing_measured_is_no_summary(tmp_path):
    """Before any request there is an empty table, not an error."""
    assert summarise_requests(timed_runs(pd.DataFrame())).empty
    assert summarise_requests(timed_runs(pd.DataFrame([RUN | {"run_id": "r"}]))).empty
