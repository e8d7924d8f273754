"""The API's document against a real server, and the server's metrics."""

import base64
import json
import urllib.request
from pathlib import Path

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dr_lib.rooms.serving.server.app import OPENAPI
from tests.rooms.serving.driver import (
    draw_photograph,
    encode,
    find_port,
    get,
    open_service,
    post,
    run_in_thread,
    run_process,
    wait_until,
)

DOCUMENT = json.loads(OPENAPI.read_bytes())
OPERATIONS = DOCUMENT["paths"]


def check(answer, path: str, method: str) -> dict:
    """Hold an answer against the document; return its JSON."""
    said = OPERATIONS[path][method]["responses"][str(answer.status)]
    schema = {**said["content"]["application/json"]["schema"], **DOCUMENT}
    facts = json.loads(answer.body)
    jsonschema.validate(facts, schema)
    if path == "/invocations":
        name = schema["$ref"].rpartition("/")[2]
        described = DOCUMENT["components"]["schemas"][name]
        assert set(described["required"]) <= set(facts) <= set(described["properties"])
    assert answer.headers["X-Model-Version"] and len(answer.headers["X-Request-Id"]) == 16
    return facts


def test_answers_are_as_the_document_says(port, jpeg):
    """Each kind of body and each status that a client can bring about; no field is undocumented."""
    version = check(get(port), "/ping", "get")["model_version"]
    assert json.loads(get(port, "/openapi.json").body)["info"]["version"] == version
    bodies = [
        (200, jpeg, "image/jpeg"),
        (200, encode(draw_photograph(), ".png"), "image/png"),
        (200, json.dumps({"image": base64.b64encode(jpeg).decode()}), "application/json"),
        (200, jpeg, None),
        (400, jpeg[:100], "image/jpeg"),
        (413, bytes(6_291_457), "image/jpeg"),
        (415, b"GIF89a", "image/gif"),
        (422, encode(draw_photograph(0, 60, 50)), "image/jpeg"),
    ]
    probabilities = []
    for status, body, media_type in bodies:
        answer = post(port, body, media_type)
        assert answer.status == status
        facts = check(answer, "/invocations", "post")
        if status == 200:
            assert facts["model_version"] == version
            probabilities.append(facts["probabilities"])
    assert probabilities[0] == probabilities[2] == probabilities[3]


def test_every_status_of_the_code_is_documented():
    """The server refuses with no other status than those of the document."""
    sources = [OPENAPI.with_name("app.py"), OPENAPI.parents[1] / "grader" / "predict.py"]
    code = "".join(path.read_text() for path in sources)
    codes = {word for word in ("400", "408", "413", "415", "422", "500", "503") if word in code}
    assert codes | {"200"} == set(OPERATIONS["/invocations"]["post"]["responses"])


def test_a_larger_body_is_let_in_by_an_option(served_folder, jpeg):
    """A body of 7 MB, refused by default, is graded by a server that allows 8."""
    with run_in_thread(open_service(served_folder, max_body=8_000_000)) as port:
        wait_until(lambda: get(port).status == 200)
        assert post(port, jpeg.ljust(7_000_000, b"\0")).status == 200


def test_metrics_count_what_was_answered(served_folder, jpeg, tmp_path: Path):
    """Requests by status, times, grades and fields of view, on a port of their own."""
    port = find_port()
    with run_process(served_folder, tmp_path / "log", "--metrics-port", str(port)) as server:
        answers = [post(server.port, jpeg) for _ in range(3)]
        post(server.port, b"no picture")
        url = f"http://127.0.0.1:{port}/metrics"
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        assert b"/metrics" not in get(server.port, "/metrics").body
        log = server.log.read_text()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    grade = str(json.loads(answers[0].body)["most_probable_grade"])
    assert samples["fundus_requests_total", "200"] == 3
    assert samples["fundus_requests_total", "415"] == 1
    assert samples["fundus_request_seconds_count",] == 3
    assert samples["fundus_grades_total", grade] == 3
    assert samples["fundus_not_ok_total",] == 3 * (
        json.loads(answers[0].body)["fundus"]["status"] != "ok"
    )
    assert samples["fundus_accepted",] == 0
    assert " ready: small_cnn litert_float32, version " in log
    assert "XNNPACK" not in log


@pytest.mark.parametrize("option", ["--metrics-port"])
def test_a_port_in_use_is_a_sentence(served_folder, tmp_path, option):
    """The metrics' port is the server's own: it ends with one sentence."""
    import subprocess
    import sys

    from tests.rooms.serving.driver import ROOT

    with run_in_thread(open_service(served_folder)) as port:
        command = [sys.executable, "-m", "dr_lib", "serve", str(served_folder)]
        command += ["--port", str(find_port()), option, str(port)]
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert f"cannot serve metrics on port {port}" in ran.stderr.splitlines()[-1]
