"""AWS on this machine: moto's server behind a door that lets faults in, and endpoints that answer
from a served model.
"""

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import boto3
import requests

ACCOUNT = "123456789012"
REGION = "us-east-1"
INSTANCES = ("ml.m5.xlarge", "ml.m6g.xlarge")
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/fundus:"
TRUST = ["sagemaker.amazonaws.com", "scheduler.amazonaws.com"]
QUOTAS = [{"QuotaName": f"{name} for endpoint usage", "Value": 1.0} for name in INSTANCES]
DROP = "the connection is closed"
SETTINGS = {
    "AWS_ACCESS_KEY_ID": "AKIASECRETSECRET",
    "AWS_SECRET_ACCESS_KEY": "SECRET",
    "AWS_DEFAULT_REGION": REGION,
    "SAGEMAKER_ROLE": f"arn:aws:iam::{ACCOUNT}:role/fundus",
    "SAGEMAKER_BUCKET": "models",
    "SAGEMAKER_IMAGE_AMD64": f"{IMAGE}amd64",
    "SAGEMAKER_IMAGE_ARM64": f"{IMAGE}arm64",
}


def refuse(code: str, message: str = "no", status: int = 400) -> tuple[int, dict[str, str]]:
    """An answer of AWS that refuses."""
    said = f"{message} for arn:aws:iam::{ACCOUNT}:role/fundus of {ACCOUNT}"
    return status, {"__type": code, "Code": code, "message": said, "Message": said}


class Aws(ThreadingHTTPServer):
    """The door: passes calls on, but for faults, of which each call takes one off the list."""

    daemon_threads = True

    def __init__(self, behind: str, model_url: str):
        super().__init__(("127.0.0.1", 0), Door)
        self.behind = behind
        self.model_url = model_url
        self.faults: dict[str, list[Any]] = defaultdict(list)
        self.calls: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Door(BaseHTTPRequestHandler):
    """Names each call, and passes it on."""

    protocol_version = "HTTP/1.1"

    def find_action(self, body: bytes) -> str:
        """Name a call as AWS does, from where each service's protocol has the name."""
        if target := self.headers.get("X-Amz-Target"):
            return target.rpartition(".")[2]
        if self.path.endswith("/invocations"):
            return "InvokeEndpoint"
        if b"Action=" in body:
            return parse_qs(body.decode())["Action"][0]
        thing = "Schedule" if self.path.startswith("/schedules") else "Object"
        verb = {"POST": "Create"}.get(self.command, self.command.capitalize())
        return verb + thing

    def handle_call(self) -> None:
        """Answer a call with its next fault, else as what is behind the door does."""
        aws = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        action = self.find_action(body)
        aws.calls.append(action)
        fault = aws.faults[action].pop(0) if aws.faults[action] else None
        if callable(fault):
            fault = fault()
        if fault == DROP:
            self.forward(body)  # it was done, and nobody is told
            self.close_connection = True
            return self.connection.close()
        if action == "ListServiceQuotas":
            fault = fault or (200, {"Quotas": QUOTAS})
        if fault is not None:
            status, content = fault
            return self.answer(status, json.dumps(content).encode(), {})
        if action == "InvokeEndpoint":
            how = {"Content-Type": self.headers["Content-Type"]}
            answer = requests.post(aws.model_url, body, headers=how)
            return self.answer(200, answer.content, {})
        return self.answer(*self.forward(body))

    def forward(self, body: bytes) -> tuple[int, bytes, Mapping[str, str]]:
        """Pass a call on to moto."""
        body = body.replace(b"ml.m6g.xlarge", b"ml.m5.large")  # moto knows no Graviton
        hop = ("host", "connection", "content-length")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in hop}
        url = self.server.behind + self.path
        answer = requests.request(self.command, url, data=body, headers=headers)
        return answer.status_code, answer.content, answer.headers

    def answer(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        """Send an answer."""
        self.send_response(status)
        for name in headers.keys() & {"Content-Type", "x-amzn-errortype", "ETag"}:
            self.send_header(name, headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_call  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def run_aws(behind: str, model_url: str) -> Iterator[Aws]:
    """Run the door in a thread, over an account that has all that a study needs."""
    with Aws(behind, model_url) as aws:
        threading.Thread(target=aws.serve_forever, args=(0.01,), daemon=True).start()
        requests.post(f"{behind}/moto-api/reset")
        policy = {"Statement": [{"Effect": "Allow", "Principal": {"Service": TRUST}}]}
        open_client(behind, "iam").create_role(
            RoleName="fundus", AssumeRolePolicyDocument=json.dumps(policy)
        )
        open_client(behind, "s3").create_bucket(Bucket="models")
        ecr = open_client(behind, "ecr")
        ecr.create_repository(repositoryName="fundus")
        for tag in ("amd64", "arm64"):
            kind = "application/vnd.docker.distribution.manifest.v2+json"
            manifest = {"schemaVersion": 2, "mediaType": kind, "layers": [], "config": {}}
            ecr.put_image(
                repositoryName="fundus",
                imageManifest=json.dumps(manifest | {"config": {"digest": tag}}),
                imageTag=tag,
            )
        yield aws
        aws.shutdown()


def open_client(url: str, service: str):
    """A client for what is behind the door."""
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )


def list_left(url: str) -> list[str]:
    """What is there of a deployment."""
    sagemaker = open_client(url, "sagemaker")
    left = [each["EndpointName"] for each in sagemaker.list_endpoints()["Endpoints"]]
    configs = sagemaker.list_endpoint_configs()["EndpointConfigs"]
    left += [f"config {each['EndpointConfigName']}" for each in configs]
    left += [f"model {each['ModelName']}" for each in sagemaker.list_models()["Models"]]
    objects = open_client(url, "s3").list_objects_v2(Bucket="models").get("Contents", [])
    left += [f"object {each['Key']}" for each in objects]
    schedules = open_client(url, "scheduler").list_schedules()["Schedules"]
    return left + [f"schedule {each['Name']}" for each in schedules]


def describe(status: str, reason: str = "") -> tuple[int, dict[str, Any]]:
    """What DescribeEndpoint says of an endpoint."""
    return 200, {"EndpointStatus": status, "FailureReason": reason}
