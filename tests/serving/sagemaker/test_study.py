"""A study on endpoints of SageMaker, with the real boto3, against AWS on this machine."""

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import pytest

from dr_lib.errors import DrError
from dr_lib.files import lock
from dr_lib.runs.row import read_rows, write_row
from dr_lib.serving.sagemaker import account, deployment, study
from dr_lib.serving.server.load import open_sender, read_answer
from tests.processes import wait_until
from tests.report.real_rows import copy_row
from tests.serving.driver import ROOT, draw_photograph, encode

pytest.importorskip("moto")
pytest.importorskip("flask_cors")
pytestmark = pytest.mark.slow

from tests.serving.sagemaker.aws import (  # noqa: E402
    DROP,
    INSTANCES,
    SETTINGS,
    describe,
    list_left,
    open_client,
    refuse,
    run_aws,
)

STUDY = """
notebook: 22_serve_and_load
repetitions: 2
parameters:
  url: "sagemaker:"
  served_dir: {served}
  photographs: {photographs}
  model: small_cnn
  image_size: 32
  format: litert_float32
  num_requests: 3
  gap_s: 0.0
  bound_ms: 1000.0
  load_seconds: 0.5
  num_compared: 2
factors:
  instance: [{instances}]
"""


@pytest.fixture(scope="module")
def moto():
    """The address of moto's server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture
def aws(moto, port, monkeypatch):
    """AWS, as the environment names it."""
    with run_aws(moto, f"http://127.0.0.1:{port}/invocations") as aws:
        for name, value in (SETTINGS | {"AWS_ENDPOINT_URL": aws.url}).items():
            monkeypatch.setenv(name, value)
        yield aws


@pytest.fixture
def path(tmp_path, served_folder):
    """The study file, of two instances, twice."""
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    (photographs / "eye.jpg").write_bytes(encode(draw_photograph()))
    path = tmp_path / "study.yaml"
    instances = ", ".join(INSTANCES)
    text = STUDY.format(served=served_folder, photographs=photographs, instances=instances)
    path.write_text(text)
    return path


def measure(path, root, *, only, **_):
    """What stands in for a run: one request, and the row of an endpoint that answers."""
    try:
        _, error = read_answer(*open_sender("sagemaker:")(encode(draw_photograph())))
    except ConnectionError as fault:
        error = f"ConnectionError: {fault}"
    if error:
        return [f"{only}: {error}"]
    (run,) = [run for run in study._list_left(path, root, "") if run.name == only]
    about = {"run_id": run.run_id, "scenario": run.scenario, "repetition": run.repetition}
    write_row(path.with_suffix(""), copy_row("22", "litert_int8") | about | {"status": "ok"})
    return []


@pytest.fixture
def run(aws, path, monkeypatch):
    """A function that runs the study, quickly, and returns its failures."""
    monkeypatch.setattr(study, "run_study", measure)
    monkeypatch.setattr(account, "open_client", partial(account.open_client, attempts=2))
    monkeypatch.setattr(deployment, "POLL_S", 0.01)
    monkeypatch.setattr(deployment, "READY_S", 0.1)
    monkeypatch.setattr(deployment, "DELETE_TRIES", 3)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return partial(study.run_on_sagemaker, path, ROOT, "sagemaker", yes=True)


def count_rows(path):
    """The rows that say ok."""
    return sum(row["status"] == "ok" for row in read_rows(path.with_suffix("")))


def test_a_study_makes_measures_and_deletes(aws, moto, path, run, capfd):
    """Four endpoints, each with its image, under a schedule that deletes it; what is made stands in
    the ledger before it is; no key, role or number of the account is anywhere. A second command
    has nothing to do.
    """
    made = []

    def look():
        made.append(list_left(moto))

    aws.faults["InvokeEndpoint"] = [look, look]
    assert run() == [] and count_rows(path) == 4 and list_left(moto) == []
    kinds = ["config", "model", "object", "schedule"]
    assert [len(left) for left in made] == [5, 5]
    assert [each.split()[0] for each in made[0][1:]] == kinds
    order = [action for action in aws.calls if action.startswith(("Create", "Put", "Invoke"))]
    steps = ["PutObject", "CreateModel", "CreateEndpointConfig", "CreateSchedule"]
    assert order == [*steps, "CreateEndpoint", "InvokeEndpoint"] * 4
    ledger = (path.with_suffix("") / "sagemaker.tsv").read_text()
    assert ledger.count("\tcreate\t") == ledger.count("\tdeleted\t") == 20
    said = capfd.readouterr().out
    assert "  2 endpoints of ml.m5.xlarge, 0.23 USD an hour" in said
    assert "4 endpoints in us-east-1" in said and "0.21 USD, and at most 0.83 USD" in said
    written = said + ledger + "".join(map(str, read_rows(path.with_suffix(""))))
    for secret in ("123456789012", "AKIA", "SECRET", "arn:aws"):
        assert secret not in written
    assert run() == [] and "all runs are already completed" in capfd.readouterr().out


ONCE = 2  # attempts of boto3
FOREVER = 50
THROTTLED = refuse("ThrottlingException")
EXPIRED = refuse("ExpiredTokenException")
DENIED = refuse("AccessDeniedException", status=403)
EXISTS = refuse("ValidationException", "Cannot create already existing")
UNKNOWN = refuse("UnrecognizedClientException")
UPDATED = refuse("ValidationException", "Cannot update in-progress endpoint")
NOT_THERE = refuse("ValidationException", "instance type is not available")
LIMITED = refuse("ResourceLimitExceeded")
BROKEN = refuse("InternalFailure", status=500)
NO_IMAGE = refuse("ImageNotFoundException")
NO_BUCKET = refuse("NoSuchBucket", status=404)
FAILED = refuse("ModelError", status=424)
DOWN = describe("Failed", "out of memory")
CREATING = describe("Creating")
FAULTS = {  # action, its answers, the sentence; empty where the study is completed all the same
    "throttled once": ("CreateEndpoint", [THROTTLED], ""),
    "throttled": ("CreateModel", [THROTTLED] * ONCE, "wait some minutes"),
    "throttled while waiting": ("DescribeEndpoint", [THROTTLED] * ONCE, "wait some minutes"),
    "over the quota": ("CreateEndpoint", [LIMITED], "ask for a larger quota"),
    "creation failed": ("DescribeEndpoint", [CREATING, DOWN], "failed: out of memory: see its"),
    "creation takes too long": ("DescribeEndpoint", [CREATING] * FOREVER, "was not in service"),
    "expired while creating": ("CreateEndpoint", [EXPIRED], "have expired: renew them"),
    "expired while waiting": ("DescribeEndpoint", [EXPIRED], "have expired: renew them"),
    "expired before": ("ListEndpoints", [EXPIRED], "renew them"),
    "credentials of nobody": ("ListEndpoints", [UNKNOWN], "run aws configure"),
    "no such instance there": ("CreateEndpointConfig", [NOT_THERE], "choose another region"),
    "region without the instance": ("ListServiceQuotas", [(200, {"Quotas": []})], "no quota"),
    "a bucket of nobody": ("HeadObject", [NO_BUCKET], "bucket models"),
    "no permission to look": ("ListEndpoints", [DENIED], "lacks a permission"),
    "an image of nobody": ("DescribeImages", [NO_IMAGE], "image fundus:a"),
    "no permission to upload": ("PutObject", [DENIED], "upload"),
    "no permission for models": ("CreateModel", [DENIED], "lacks a permission"),
    "no permission for schedules": ("CreateSchedule", [DENIED], "lacks a permission"),
    "AWS is down": ("CreateModel", [BROKEN] * ONCE, "repeat the command"),
    "an answer is lost": ("CreateEndpoint", [DROP, EXISTS], "existing"),
    "an answer about a model is lost": ("CreateModel", [DROP, EXISTS], "existing"),
    "no answer while waiting": ("DescribeEndpoint", [DROP] * ONCE, "repeat the command"),
    "no answer while measuring": ("InvokeEndpoint", [DROP], "ConnectionError"),
    "the model fails": ("InvokeEndpoint", [FAILED], "status 424"),
    "deletion is refused once": ("DeleteEndpoint", [UPDATED], ""),
    "deletion of a configuration": ("DeleteEndpointConfig", [UPDATED], ""),
    "deletion of a model": ("DeleteModel", [THROTTLED] * ONCE, ""),
    "deletion of an upload": ("DeleteObject", [BROKEN] * ONCE, ""),
    "deletion of a schedule": ("DeleteSchedule", [BROKEN] * ONCE, ""),
    "expired while deleting": (
        "DeleteEndpoint",
        [EXPIRED] * FOREVER,
        "not all is deleted, but AWS deletes endpoints itself: .*renew them",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_leaves_nothing_and_loses_nothing(aws, moto, path, run, name, capfd):
    """In the second run: the first one's row stays, the sentence says what to do, and the same
    command goes on to the end. Where nothing may be deleted at once, the next command does.
    """
    action, answers, message = FAULTS[name]
    early = ("ListEndpoints", "ListServiceQuotas", "HeadObject", "DescribeImages")
    is_early = action in early
    if not is_early:
        assert run(only="C1-r00") == []
    aws.faults[action] = list(answers)
    said = ""
    try:
        said = "\n".join(run())
    except DrError as error:
        said = str(error)
    is_late = name == "expired while deleting"
    assert count_rows(path) == (4 if not message else 0 if is_early else 1 + is_late)
    if is_late:
        aws.faults.clear()
        assert any("schedule" in left for left in list_left(moto))  # which deletes it
    else:
        assert list_left(moto) == []
        assert not re.search(r"Traceback|\n", said)
    assert bool(message) == bool(said) and re.search(message, said), said
    said += capfd.readouterr().out
    for secret in ("123456789012", "AKIA", "SECRET", "arn:aws"):
        assert secret not in said
    aws.faults.clear()
    assert run() == [] and count_rows(path) == 4 and list_left(moto) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_and_signals_delete_what_was_made(aws, moto, path, run, monkeypatch, error):
    """While an endpoint comes up, and while it is measured."""

    def stop(*_, **__):
        raise error

    for module, name in ((deployment, "_wait"), (study, "run_study")):
        with monkeypatch.context() as patch, pytest.raises(error):
            patch.setattr(module, name, stop)
            run()
        assert "CreateEndpoint" in aws.calls and list_left(moto) == []


def test_after_kill_9_the_same_command_deletes_and_goes_on(aws, moto, path, run, capfd):
    """Killed while an endpoint comes up, and again with the ledger lost: found by name and tag.
    What is somebody else's stays.
    """
    other = open_client(moto, "sagemaker")
    prefix = None
    for is_lost in (False, True):
        aws.faults["DescribeEndpoint"] = [describe("Creating")] * 10_000
        code = (
            "import sys; from pathlib import Path; from dr_lib.serving.sagemaker import study"
        )
        code += "; study.run_on_sagemaker(Path(sys.argv[1]), Path(sys.argv[2]), '', yes=True)"
        command = [sys.executable, "-c", code, str(path), str(ROOT)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: len(list_left(moto)) == 5)
        finally:
            process.kill()
            process.wait()
        aws.faults.clear()
        prefix = list_left(moto)[0].partition("-c")[0]
        if is_lost:
            (path.with_suffix("") / "sagemaker.tsv").unlink()
    role = SETTINGS["SAGEMAKER_ROLE"]
    other.create_model(ModelName="m", PrimaryContainer={"Image": "i"}, ExecutionRoleArn=role)
    variant = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.m5.xlarge"}
    other.create_endpoint_config(
        EndpointConfigName="c", ProductionVariants=[variant | {"InitialInstanceCount": 1}]
    )
    other.create_endpoint(EndpointName=f"{prefix}-mine", EndpointConfigName="c")
    assert run() == [] and count_rows(path) == 4
    assert "deleting what an earlier command left" in capfd.readouterr().out
    assert list_left(moto) == [f"{prefix}-mine", "config c", "model m"]


def test_time_ends_the_study_and_another_process_is_kept_out(aws, moto, path, run, capfd):
    """No run begins after the limit; two commands at once would delete each other's endpoints."""
    assert run(max_hours=1e-9) == [] and "the time is up" in capfd.readouterr().out
    assert count_rows(path) == 0 and list_left(moto) == []
    with (
        lock(path.with_suffix("") / "sagemaker.lock"),
        pytest.raises(DrError, match="another process runs"),
    ):
        run()


def test_settings_are_checked_before_anything_is_made(aws, moto, run, monkeypatch):
    """The variable or what is wrong with it is named, and a role that is not to be taken."""
    policy = {"Statement": [{"Principal": {"Service": "sagemaker.amazonaws.com"}}]}
    open_client(moto, "iam").create_role(
        RoleName="half", AssumeRolePolicyDocument=json.dumps(policy)
    )
    for name, value, message in (
        ("SAGEMAKER_BUCKET", "", "set these variables.*SAGEMAKER_BUCKET: bucket of S3"),
        ("SAGEMAKER_IMAGE_ARM64", "fundus", "give ACCOUNT.dkr.ecr.us-east-1.amazonaws.com/"),
        ("SAGEMAKER_ROLE", "nobody", "role nobody"),
        ("SAGEMAKER_ROLE", "half", "does not trust scheduler.amazonaws.com"),
    ):
        with monkeypatch.context() as patch, pytest.raises(DrError, match=message):
            patch.setenv(name, value)
            run()
    assert not any(action.startswith(("Create", "Put")) for action in aws.calls)


def test_the_command_asks_and_runs_the_notebook(aws, moto, path, tmp_path):
    """Without --yes and a terminal it is refused; with it, a real run of notebook 22 writes its
    row, with the machine that SageMaker names.
    """
    command = [sys.executable, "-m", "dr_lib", "run", str(path), "--on", "sagemaker"]
    command += ["--only", "C1-r00"]
    how = {"cwd": ROOT, "capture_output": True, "text": True, "env": os.environ}
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, **how)
    assert ended.returncode == 1 and "add --yes" in ended.stderr
    ended = subprocess.run([*command, "--yes"], **how)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = read_rows(path.with_suffix(""))
    expected = {"status": "ok", "instance_type": INSTANCES[0], "endpoint": "remote"}
    assert {name: row[name] for name in expected} == expected
    assert row["predict_ms"] > 0 and row["max_rate_per_s"] >= 0 and list_left(moto) == []
    for file in path.with_suffix("").rglob("*"):
        if file.is_file():
            text = file.read_text(errors="replace")
            assert "123456789012" not in text and "SECRET" not in text, file


def test_an_empty_region_is_told(monkeypatch):
    """It is no address of AWS."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "")
    with pytest.raises(DrError, match="AWS_DEFAULT_REGION"):
        account.open_client("sagemaker")
