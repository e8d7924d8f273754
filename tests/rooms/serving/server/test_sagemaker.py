"""An endpoint of SageMaker, played by a server on loopback that checks the signature as AWS
documents it.
"""

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import papermill
import pytest

from dr_lib.rooms.serving.server.load import ask, run_closed_loop
from dr_lib.rooms.serving.server.sagemaker import find_endpoint
from dr_lib.rooms.serving.untrained import export_untrained
from dr_lib.runs.row import read_rows
from tests.rooms.serving.driver import draw_photograph, encode, post, run_process
from tests.rooms.serving.stand_in import ROOT, draw_crops

pytest.importorskip("boto3")
pytestmark = pytest.mark.slow
KEY = "AKIDEXAMPLE"
SECRET = "a secret"
REGION = "sa-east-1"
GOOD = {
    "most_probable_grade": 1,
    "timings_ms": {"decode": 1.0, "predict": 2.0},
    "model": "m",
    "model_version": "v",
}
DESCRIPTIONS = {
    "SageMaker.DescribeEndpoint": {"EndpointConfigName": "eyes-config"},
    "SageMaker.DescribeEndpointConfig": {
        "ProductionVariants": [{"InstanceType": "ml.m5.xlarge"}]
    },
}


def sign(method: str, path: str, headers, body: bytes) -> str:
    """Signature version 4 of a request, from AWS's documentation alone."""

    def digest(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    names = headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in names.split(";"))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{headers['X-Amz-Date'][:8]}/{REGION}/sagemaker/aws4_request"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = digest(key, part)
    hashed = hashlib.sha256(request.encode()).hexdigest()
    return digest(key, f"AWS4-HMAC-SHA256\n{headers['X-Amz-Date']}\n{scope}\n{hashed}").hex()


@pytest.fixture
def account(monkeypatch):
    """An account with one endpoint, eyes: the paths that it was asked for, and the port of the
    server that answers, where there is one.
    """

    class Service(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            answer = DESCRIPTIONS.get(self.headers.get("X-Amz-Target"), GOOD)
            status = 200
            if self.path != "/" and behind:
                answer = json.loads(post(behind[0], body).body)
            if (
                self.path != "/"
                and sign("POST", self.path, self.headers, body)
                not in self.headers["Authorization"]
            ):
                answer = {"message": "the signature does not match"}
                status = 403
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    asked = []
    behind = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": REGION,
    }
    address = f"http://127.0.0.1:{server.server_port}"
    variables |= {
        "AWS_ENDPOINT_URL_SAGEMAKER": address,
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": address,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    find_endpoint.cache_clear()
    yield asked, behind
    server.shutdown()


def test_requests_are_signed_and_nothing_else_is_asked(account):
    """No /ping, which SageMaker shows to no client; the instance type is the one that the
    endpoint was made with.
    """
    assert find_endpoint("sagemaker:eyes").instance_type == "ml.m5.xlarge"
    assert ask("sagemaker:eyes", b"a picture") == GOOD
    requests = run_closed_loop("sagemaker:eyes", [b"one", b"two"], num_requests=3, gap_s=0)
    assert (requests["error"] == "").all() and requests["predict_ms"].tolist() == [2.0] * 3
    assert account[0] == ["/", "/", *["/endpoints/eyes/invocations"] * 4]


def test_without_credentials_it_says_what_to_do(account, monkeypatch, tmp_path):
    """Nobody is asked."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(match="aws configure"):
        find_endpoint("sagemaker:eyes")
    assert not account[0]


def test_notebook_22_measures_the_endpoint_of_its_run(account, tmp_path):
    """A deployment by the name that the study's template gives, one of several models, from
    elsewhere; the machine is the one that the account says, the deployment the server's own.
    """
    paths, behind = account
    folder = tmp_path / "exported" / "small_cnn" / "litert_float32"
    export_untrained(folder, "small_cnn", 48, "litert_float32", examples=draw_crops(3, side=48))
    (tmp_path / "photographs").mkdir()
    for seed in range(3):
        path = tmp_path / "photographs" / f"{seed}.jpg"
        path.write_bytes(encode(draw_photograph(seed)))
    parameters = {
        "url": "sagemaker:eyes-{model}-{instance}-{repetition}",
        "model": "small_cnn",
        "format": "litert_float32",
        "served_dir": str(folder.parents[1]),
        "photographs": str(tmp_path / "photographs"),
        "num_requests": 3,
        "gap_s": 0.0,
        "load_seconds": 0.5,
        "num_compared": 3,
        "instance": "ml.m5.xlarge",
        "repetition": 2,
        "results": str(tmp_path / "rows"),
    }
    with run_process(folder, tmp_path / "log") as server:
        behind.append(server.port)
        papermill.execute_notebook(
            ROOT / "notebooks" / "22_serve_and_load.ipynb",
            tmp_path / "out.ipynb",
            parameters,
            cwd=ROOT,
            kernel_name="python3",
            progress_bar=False,
        )
        deployment = json.loads(post(server.port, encode(draw_photograph())).body)["machine"]
    (row,) = read_rows(tmp_path / "rows")
    assert row["instance_type"] == row["priced_as"] == "ml.m5.xlarge"
    assert (row["endpoint"], row["data_kind"]) == ("remote", "photographs")
    assert row["deployment"] == deployment["deployment"]
    assert set(paths) == {"/", "/endpoints/eyes-small_cnn-ml-m5-xlarge-2/invocations"}
