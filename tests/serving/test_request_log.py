"""Requests written beside their run's row, read back, and judged."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.report.select import select_runs
from dr_lib.runs.row import read_runs, write_row
from dr_lib.serving.request_log import (
    KINDS,
    read_requests,
    summarise_requests,
    write_requests,
)
from tests.report.real_rows import copy_row

ABOUT = {
    "study": "serving",
    "model": "vgg19",
    "format": "savedmodel",
    "image_size": 224,
    "instance_type": "ml.m5.xlarge",
    "usd_per_hour": 0.23,
    "gap_s": 5.0,
    "num_requests": 25,
    "deployment": "",
}
RUN = copy_row("22", "litert_int8") | ABOUT


def make_requests(predict_ms, load="closed", **columns):
    """Requests as the client returns them, answered in these times."""
    times = np.asarray(predict_ms, dtype=float)
    table = pd.DataFrame({"load": load, "request": range(len(times)), "predict_ms": times})
    table = table.assign(round_trip_ms=times + 192, decode_ms=2.0, status=200, error="")
    return table.assign(model="served", model_version="NA", **columns)


@pytest.fixture
def write(tmp_path):
    """A function that writes a run of a study, with its requests, and reads those of all runs."""

    def write_run(run_id, table, study="serving", **columns):
        name = f"runs/{run_id}/requests.csv"
        write_requests(tmp_path / study / name, table)
        run = {"run_id": run_id, "study": study, "requests": name, "boot": f"{study} {run_id}"}
        write_row(tmp_path / study, RUN | run | columns)
        return read_requests(read_runs(tmp_path), tmp_path)

    return write_run


def summarise(requests):
    """A summary of those whose times count."""
    return summarise_requests(select_runs(requests, within=KINDS).timed)


def test_a_row_for_each_request_with_its_runs_columns(write):
    """What the run says of itself stands beside each; requests of an open loop, which waited for
    each other, lie in the same file.
    """
    at_rate = make_requests([999.0] * 5, load="open", response_ms=1500.0, rate_per_s=10.0)
    closed = make_requests(204.6 + np.linspace(-3, 3, 25))
    requests = write("a", pd.concat([closed, at_rate]))
    assert requests["request"].tolist() == list(range(25))
    about = requests[["run_id", "model", "instance_type", "status"]]
    assert (about == ["a", "vgg19", "ml.m5.xlarge", "ok"]).all(axis=None)
    own = requests[["request_model", "request_model_version", "http_status"]]
    assert (own == ["served", "NA", 200]).all(axis=None)
    assert requests["predict_usd_per_million"][12] == pytest.approx(13.07, abs=0.005)


@pytest.fixture
def judged():
    """Judges the published time of VGG19."""
    from tests.claims import test_verdicts as verdicts

    return lambda requests: verdicts.judge("B6", requests)[0]


def test_requests_repeat_nothing_and_deployments_do(write, judged):
    """25 requests to one deployment are one measurement, without an interval; three deployments
    decide.
    """
    for k, mean_ms in enumerate((203.8, 204.6, 205.4)):
        requests = write(f"r{k}", make_requests(mean_ms + np.linspace(-3, 3, 25)))
        found = judged(requests)
        (row,) = summarise(requests).itertuples()
        assert found[2:4] == (("holds", 3) if k == 2 else ("undecided", k + 1))
        assert (row.n, row.requests) == (k + 1, 25 * (k + 1))
        assert np.isnan(row.predict_ms_low) == (k == 0)
    assert found.ours.value == pytest.approx(204.6) and row.predict_ms == pytest.approx(204.6)


def test_the_first_request_counts(write):
    """The paper left none out; beside the mean of 400 stands the median of 200."""
    times = [1200.0, 200, 200, 200, 200]
    (row,) = summarise(write("a", make_requests(times))).itertuples()
    assert (row.requests, row.predict_ms_median, row.usd_per_hour) == (5, 200, 0.23)
    assert row.predict_ms == pytest.approx(400) and row.decode_ms == 2
    assert row.predict_ms_sd == pytest.approx(np.std(times, ddof=1))


def test_a_request_without_a_prediction_has_failed(write):
    """It keeps its row and its reason, and is in no mean."""
    table = make_requests([200.0, 200, np.nan])
    full = "the queue is full"
    requests = write("a", table.assign(status=[200, 200, 503], error=["", "", full]))
    assert requests["status"].tolist() == ["ok", "ok", "failed"]
    assert requests.loc[2, ["error", "http_status"]].tolist() == [full, 503]
    assert summarise(requests)["requests"].tolist() == [2]


def test_runs_without_requests_keep_their_row(tmp_path, write):
    """Exports and failed runs stand in the same study; a mean that a row holds itself gives way
    to its requests.
    """
    write_row(tmp_path / "serving", copy_row("21", run_id="export", study="serving"))
    alone = read_runs(tmp_path)
    assert read_requests(alone)["run_id"].tolist() == ["export"]
    failed = {"run_id": "f", "status": "failed", "requests": "runs/f/requests.csv"}
    write_row(tmp_path / "serving", RUN | failed)
    requests = write("a", make_requests([200.0] * 3), predict_ms=1.0)
    assert requests["run_id"].value_counts().to_dict() == {"a": 3, "export": 1, "f": 1}
    assert requests.groupby("run_id")["predict_ms"].max().dropna().to_dict() == {"a": 200}


def test_runs_of_one_name_in_two_studies_are_not_mixed(write):
    """A run's name says its scenario and machine: two studies have it."""
    write("C1-r00", make_requests([100.0] * 3), study="one")
    requests = write("C1-r00", make_requests([300.0] * 3), study="two")
    times = requests.groupby("study")["predict_ms"].unique().map(list)
    assert times.to_dict() == {"one": [100], "two": [300]}


def test_formats_are_never_pooled(write, judged):
    """The paper ran a SavedModel: int8 on its own instance answers no claim of it."""
    for k in range(3):
        for name, ms in (("litert_float32", 300), ("litert_int8", 20)):
            requests = write(f"{name}-{k}", make_requests([ms] * 5), format=name)
    found = judged(requests)
    assert found[2:4] == ("not comparable", 0) and found.reason.endswith("vs format=savedmodel")
    assert summarise(requests)["format"].tolist() == ["litert_float32", "litert_int8"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        # a row from elsewhere cannot make the report read any file
        ("/elsewhere/requests.csv", None, "/elsewhere/requests.csv is outside the study"),
        ("../other/requests.csv", None, "../other/requests.csv is outside the study"),
        ("requests.csv", None, "requests.csv is not below"),
        ("requests.csv", b"", "requests.csv is not a table"),
        ("requests.csv", b"\xff\xfe\x00", "requests.csv is not a table"),
        ("requests.csv", b"load,request\nclosed,0\n", "requests.csv: the requests have no "),
    ],
)
def test_refuses_what_is_no_table_of_requests(tmp_path, name, content, message):
    """Outside the study, missing, empty, no text, or of other columns; the file is named."""
    write_row(tmp_path / "serving", RUN | {"run_id": "a", "requests": name})
    if content is not None:
        (tmp_path / "serving" / "requests.csv").write_bytes(content)
    with pytest.raises(DrError, match=message):
        read_requests(read_runs(tmp_path), tmp_path)


def test_nothing_measured_is_no_summary():
    """Before any request there is an empty table, not an error."""
    assert summarise(pd.DataFrame()).empty
    assert summarise(pd.DataFrame([RUN])).empty
