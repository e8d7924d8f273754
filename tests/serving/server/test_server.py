"""The process: how it starts, what it refuses to serve, what it logs, and how it ends."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dr_lib.errors import DrError
from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.server.server import Server
from dr_lib.training.model_folder import ModelFolderError, write_folder
from tests.processes import find_port, is_ready, wait_until
from tests.serving.driver import (
    ROOT,
    call,
    draw_photograph,
    encode,
    get,
    head,
    open_service,
    post,
    run_in_thread,
    run_process,
    send_raw,
)

SERVE = [sys.executable, "-m", "dr_lib.serving", "serve"]


@pytest.fixture(scope="module")
def server(served_folder, tmp_path_factory):
    """A server in a process of its own, started with a list of what it imports."""
    python = (sys.executable, "-X", "importtime")
    log = tmp_path_factory.mktemp("server") / "log"
    with run_process(served_folder, log, "--threads", "2", python=python) as server:
        server.log = log
        yield server


def read_log(server):
    """The lines of the log, without those that list imports."""
    lines = server.log.read_text().splitlines()
    return [line for line in lines if not line.startswith("import time")]


def test_it_imports_little_and_nothing_that_could_load_another_model(server, jpeg):
    """No Keras, no TensorFlow, none of the other wings, also not while it predicts."""
    assert post(server.port, jpeg).status == 200
    lines = server.log.read_text().splitlines()
    imported = {line.split("|")[2].strip() for line in lines if line.count("|") == 2}
    assert {"cv2", "granian", "dr_lib.serving.grader.predict"} <= imported
    packages = {name.split(".")[0] for name in imported}
    others = "keras tensorflow h5py joblib torch jax pandas scipy pydantic"
    assert not packages & {*others.split()}
    assert " ready: small_cnn litert_float32, version " in "".join(read_log(server))


def test_the_log_holds_no_word_of_a_client(server, jpeg):
    """Date, status and milliseconds: no address, path, name, header, or word about the picture."""
    post(server.port, jpeg, "SECRET")
    get(server.port, "/SECRET?SECRET")
    call(server.port, "SECRET", "/ping", headers={"X-SECRET": "SECRET"})
    post(server.port, b"SECRET")
    post(server.port, b'{"image": "SECRET!"}', "application/json")
    send_raw(server.port, b"SECRET\r\n\r\n")
    log = read_log(server)
    assert "SECRET" not in "".join(log)
    line = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} POST /invocations (\d+) \d+\.\d ms"
    found = [re.fullmatch(line, each)[1] for each in log[-3:]]
    assert found == ["200", "415", "400"]


def read_metrics(server):
    """The metrics."""
    text = get(server.port, "/metrics").body.decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_what_was_answered(server, jpeg):
    """Requests, errors by status, and seconds."""
    before = read_metrics(server)
    for body in (jpeg, jpeg, jpeg, b"no picture"):
        post(server.port, body)
    after = read_metrics(server)
    expected = {
        ("fundus_errors_total", "415"): 1,
        ("fundus_request_seconds_count",): 4,
    }
    assert {name: after[name] - before.get(name, 0) for name in expected} == expected
    seconds = after["fundus_request_seconds_sum",] - before["fundus_request_seconds_sum",]
    assert 0 < seconds < 5


def test_a_body_of_tiny_chunks_does_not_stop_the_loop(port):
    """While 200,000 chunks of a byte arrive, every /ping has its turn, and they have their time."""
    chunks = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunks += b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
    with ThreadPoolExecutor(1) as hostile:
        answer = hostile.submit(send_raw, port, chunks)
        num_pings = 0
        while not answer.done():
            num_pings += get(port).status == 200
    assert answer.result().startswith(b"HTTP/1.1 408") and num_pings >= 2


def test_an_endpoint_without_its_model_ends_at_once(served_folder):
    """One line, status 1, and the models that lie beside the missing one."""
    above = served_folder.parent
    environment = {"PATH": os.environ["PATH"], "MODEL": str(above / "litert_int8")}
    ended = subprocess.run(SERVE, cwd=ROOT, env=environment, capture_output=True, text=True)
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1 and ended.stdout == ""
    assert line.startswith(f"no model to serve: {above}/litert_int8 holds no model")
    assert re.search(rf"in {above} \(.*\bserved\b", line)


def test_only_litert_that_fits_its_manifest_is_loaded(served_folder, tmp_path):
    """A Keras file, even with its right sha256, is not opened; nor is anything else under the
    name of LiteRT.
    """
    copy = shutil.copytree(served_folder, tmp_path / "model")
    (copy / "model.keras").write_bytes(b"PK\x03\x04")
    facts = json.loads((copy / "manifest.json").read_text())
    advice = "keras cannot be served.*: .*-m dr_lib export FOLDER --data DATA --out exported$"
    for artifact, wrong, message in (
        ("model.keras", {"format": "keras"}, advice),
        ("model.keras", {"format": "litert_float32"}, "not a LiteRT model"),
    ):
        with pytest.raises(ModelFolderError, match=message):
            Predictor(write_folder(copy, artifact, facts | wrong), 1)


def test_a_port_in_use_is_a_sentence(served_folder):
    """It names the port and the way out."""
    with run_in_thread(open_service(served_folder)) as port:
        taken = f"port {port} of 127.0.0.1 .[aA]ddress already in use.*: choose another --port"
        with pytest.raises(DrError, match=f"^cannot listen on {taken}"):
            Server(None, None, "127.0.0.1", port)


@pytest.mark.skipif(
    sys.platform != "linux", reason="Linux alone tells a process that its parent has died"
)
def test_it_ends_with_the_process_that_started_it(served_folder, tmp_path):
    """A kill -9 of a notebook's kernel, which nobody can catch, leaves no server behind."""
    code = "import sys, pathlib, dr_lib.serving.server.process as p"
    code += "; p.ServerProcess(*map(pathlib.Path, sys.argv[1:])).wait()"
    log = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", code, served_folder, log], cwd=ROOT)
    try:
        wait_until(lambda: log.exists() and " ready: " in log.read_text())
        (server,) = psutil.Process(parent.pid).children()
    finally:
        parent.kill()
        parent.wait()
    assert psutil.wait_procs([server], timeout=20)[1] == []


def test_sigterm_answers_everything_that_was_accepted(served_folder, tmp_path):
    """Under load from kept connections, fresh ones and slow uploads: no answer is lost, and the
    status is 0.

    A request counts as accepted once its bytes were sent over a connection that the server had not
    said it would close; a refused connection is no loss.
    """
    body = encode(draw_photograph(1, 1600, 1200))
    outcomes = []
    with run_process(served_folder, tmp_path / "log", "--threads", "2") as server:

        def keep_asking():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            while True:
                connection.request("POST", "/invocations", body, {"Content-Type": "image/jpeg"})
                response = connection.getresponse()
                outcomes.append(response.status)
                response.read()
                if response.headers.get("Connection") == "close":
                    return

        def upload_slowly():
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(head(len(body)) + body[:1000])
                time.sleep(0.8)
                connection.sendall(body[1000:])
                outcomes.append(int(connection.recv(12)[9:]))

        with ThreadPoolExecutor(32) as clients:
            running = [clients.submit(keep_asking) for _ in range(12)]
            wait_until(lambda: len(outcomes) > 50)
            running += [clients.submit(upload_slowly) for _ in range(4)]
            fresh = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
            time.sleep(0.2)
            start = time.monotonic()
            server.terminate()
            # connected before, sent after: their bytes arrive while the server is stopping
            for connection in fresh:
                connection.sendall(head(len(body)) + body)
            for connection in fresh:
                assert connection.recv(12) == b"HTTP/1.1 200"
                connection.close()
            for client in running:
                client.result()
            assert server.wait(25) == 0
        assert set(outcomes) == {200} and time.monotonic() - start < 25


def test_it_starts_and_ends_as_sagemaker_has_it(served_folder):
    """Serve alone, all else in the environment; connections that are merely open do not hold its
    end up.
    """
    port = find_port()
    environment = {
        "PATH": os.environ["PATH"],
        "MODEL": str(served_folder),
        "SAGEMAKER_BIND_TO_PORT": str(port),
    }
    process = subprocess.Popen(SERVE, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: is_ready(port))
        kept = http.client.HTTPConnection("127.0.0.1", port)
        kept.request("GET", "/ping")
        kept.getresponse().read()
        fresh = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
    finally:
        process.terminate()
    assert process.wait(timeout=5) == 0
    for connection in (kept, *fresh):
        connection.close()
