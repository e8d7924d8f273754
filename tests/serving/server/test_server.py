"""The process: how it starts, what it refuses to serve, what it logs, and how it ends."""

import http.client
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from tests.processes import find_port, is_ready, wait_until
from tests.serving.driver import (
    ROOT,
    call,
    draw_photograph,
    encode,
    head,
    open_service,
    post,
    run_in_thread,
    run_process,
    send_raw,
)

SERVE = [sys.executable, "-X", "importtime", "-m", "dr_lib.serving", "serve"]


@pytest.fixture(scope="module")
def server(served_folder, tmp_path_factory):
    """A server in a process of its own, started with a list of what it imports."""
    log = tmp_path_factory.mktemp("server") / "log"
    with run_process(served_folder, log, "--threads", "2", python=SERVE[:3]) as server:
        server.log = log
        yield server


def test_it_imports_little_and_nothing_that_could_load_another_model(server, jpeg):
    """No Keras, no TensorFlow, none of the other wings, also not while it predicts."""
    assert post(server.port, jpeg).status_code == 200
    lines = server.log.read_text().splitlines()
    imported = {line.split("|")[2].strip() for line in lines if line.count("|") == 2}
    assert {"cv2", "granian", "dr_lib.serving.grader.predict"} <= imported
    packages = {name.split(".")[0] for name in imported}
    assert not packages & {"keras", "tensorflow", "h5py", "jax", "pandas", "scipy"}


def test_the_log_holds_no_word_of_a_client(server, jpeg):
    """Date, status and milliseconds: no address, path, name, header, or word about the picture."""
    post(server.port, jpeg, "SECRET")
    call(server.port, "/SECRET?SECRET")
    call(server.port, "/ping", "SECRET", headers={"X-SECRET": "SECRET"})
    post(server.port, b"SECRET")
    post(server.port, b'{"image": "SECRET!"}', "application/json")
    send_raw(server.port, b"SECRET\r\n\r\n")
    log = server.log.read_text()
    assert "SECRET" not in log
    line = r"^[-\d]{10} [:,\d]{12} POST /invocations (\d+) \d+\.\d ms$"
    assert re.findall(line, log, re.M)[-3:] == ["200", "415", "400"]


def test_metrics_count_what_was_answered(served_folder, jpeg):
    """Requests, and errors by status."""
    with run_in_thread(open_service(served_folder)) as port:
        for body in (jpeg, jpeg, jpeg, b"no picture"):
            post(port, body)
        metrics = call(port, "/metrics").text
    assert 'fundus_errors_total{status="415"} 1.0' in metrics
    assert "fundus_request_seconds_count 4.0" in metrics


def test_what_cannot_be_served_ends_at_once(served_folder):
    """One line, status 1: of a missing model those that lie beside it; of a taken port, before the
    model is read, its address once.
    """
    above = served_folder.parent
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for model, address, line in (
            (f"{above}/other", "0", rf"no .*other holds no model.*in {above} \(.*\bserved\b.*"),
            ("missing", port, rf"cannot listen on port {port} of 127.0.0.1 \([^.]*"),
        ):
            command = [sys.executable, *SERVE[3:], model, "--port", address]
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            assert ended.returncode == 1 and re.fullmatch(f"{line}\n", ended.stderr)


def test_sigterm_while_it_loads_ends_it(served_folder):
    """With status 0, by a handler, for the first process of a container has no other end."""
    command = [*SERVE, str(served_folder), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert any(line.endswith(" dr_lib.options\n") for line in process.stderr)
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


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
    request = head(len(body)) + body
    statuses = []
    with run_process(served_folder, tmp_path / "log", "--threads", "2") as server:

        def keep_asking():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            is_kept = True
            while is_kept:
                connection.request("POST", "/invocations", body, {"Content-Type": "image/jpeg"})
                response = connection.getresponse()
                statuses.append(response.status)
                response.read()
                is_kept = response.headers.get("Connection") != "close"

        with ThreadPoolExecutor(12) as clients:
            running = [clients.submit(keep_asking) for _ in range(12)]
            wait_until(lambda: len(statuses) > 50)
            opened = {}
            for num_sent in 4 * [0, 1000]:
                connection = socket.create_connection(("127.0.0.1", server.port))
                connection.sendall(request[:num_sent])
                opened[connection] = num_sent
            # the listener, the kept connections and these
            process = psutil.Process(server.pid)
            wait_until(lambda: len(process.net_connections()) >= 1 + 12 + 8)
            server.terminate()
            for connection, num_sent in opened.items():
                connection.sendall(request[num_sent:])
            for connection in opened:
                assert connection.recv(12) == b"HTTP/1.1 200"
                connection.close()
            for client in running:
                client.result()
            assert server.wait(25) == 0
        assert set(statuses) == {200}


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
    finally:
        process.terminate()
    assert process.wait(timeout=20) == 0
    kept.close()
