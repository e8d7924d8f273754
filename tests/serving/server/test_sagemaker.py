"""An endpoint of SageMaker, played by a server on loopback that checks the signature as AWS
documents it.
"""

import hashlib
import hmac
import json

import pytest

from dr_lib.serving.server.load import ask, run_closed_loop
from dr_lib.serving.server.sagemaker import find_endpoint
from dr_lib.serving.untrained import export_untrained
from tests.notebooks import execute, read_rows
from tests.serving.driver import draw_photograph, encode, post, run_process
from tests.serving.fake import run_fake
from tests.serving.stand_in import draw_crops

pytest.importorskip("boto3")
pytestmark = pytest.mark.slow
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
    """An account with one endpoint, eyes: a fake server, which may hand on to the port `behind`."""

    def answer(request):
        if request.path == "/":
            return 200, DESCRIPTIONS[request.headers["X-Amz-Target"]]
        signature = sign("POST", request.path, request.headers, request.body)
        if signature not in request.headers["Authorization"]:
            return 403, {"message": "the signature does not match"}
        return 200, post(server.behind, request.body).body if server.behind else GOOD

    with run_fake(answer) as server:
        server.behind = None
        address = f"http://127.0.0.1:{server.server_port}"
        for name, value in {
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL_SAGEMAKER": address,
            "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": address,
        }.items():
            monkeypatch.setenv(name, value)
        find_endpoint.cache_clear()
        yield server


def test_requests_are_signed_and_nothing_else_is_asked(account):
    """No /ping, which SageMaker shows to no client; the instance type is the one that the
    endpoint was made with.
    """
    assert find_endpoint("sagemaker:eyes").instance_type == "ml.m5.xlarge"
    assert ask("sagemaker:eyes", b"a picture") == GOOD
    requests = run_closed_loop("sagemaker:eyes", [b"one", b"two"], num_requests=3, gap_s=0)
    assert (requests["error"] == "").all() and requests["predict_ms"].tolist() == [2.0] * 3
    paths = [request.path for request in account.seen]
    assert paths == ["/", "/", *["/endpoints/eyes/invocations"] * 4]


def test_without_credentials_it_says_what_to_do(account, monkeypatch, tmp_path):
    """Nobody is asked."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(match="aws configure"):
        find_endpoint("sagemaker:eyes")
    assert not account.seen


def test_notebook_22_measures_the_endpoint_of_its_run(account, clone):
    """A deployment by the name that the study's template gives, one of several models, from
    elsewhere; the machine is the one that the account says, the deployment the server's own.
    """
    folder = clone / "exported" / "small_cnn" / "litert_float32"
    export_untrained(folder, "small_cnn", 48, "litert_float32", examples=draw_crops(3, side=48))
    (clone / "photographs").mkdir()
    for seed in range(3):
        path = clone / "photographs" / f"{seed}.jpg"
        path.write_bytes(encode(draw_photograph(seed)))
    parameters = {
        "url": "sagemaker:eyes-{model}-{instance}-{repetition}",
        "model": "small_cnn",
        "format": "litert_float32",
        "served_dir": str(folder.parents[1]),
        "photographs": str(clone / "photographs"),
        "num_requests": 3,
        "gap_s": 0.0,
        "load_seconds": 0.5,
        "num_compared": 3,
        "instance": "ml.m5.xlarge",
        "repetition": 2,
    }
    with run_process(folder, clone / "log") as server:
        account.behind = server.port
        execute(clone, "22_serve_and_load", **parameters)
        deployment = json.loads(post(server.port, encode(draw_photograph())).body)["machine"]
    (row,) = read_rows(clone)
    assert row["instance_type"] == row["priced_as"] == "ml.m5.xlarge"
    assert (row["endpoint"], row["data_kind"]) == ("remote", "photographs")
    assert row["deployment"] == deployment["deployment"]
    assert {request.path for request in account.seen} == {
        "/",
        "/endpoints/eyes-small_cnn-ml-m5-xlarge-2/invocations",
    }
