"""One endpoint of SageMaker: made, and deleted with all that it needed.

The ledger is written before each call that makes or deletes something. Before an endpoint is made,
a schedule of AWS is, which deletes it after HOURS whatever becomes of this machine.
"""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from dr_lib.serving.sagemaker.account import Account, AwsError, call

HOURS = 1.0  # after which AWS deletes an endpoint
POLL_S = 15.0
READY_S = 1800.0  # for an endpoint to come up
DELETE_TRIES = 40  # an endpoint that is coming up cannot be deleted
KINDS = ("endpoint", "configuration", "model", "upload", "schedule")  # as they are deleted
GONE = ("Could not find", "does not exist", "NoSuchKey", "NotFound")
TARGET = "arn:aws:scheduler:::aws-sdk:sagemaker:deleteEndpoint"


class Ledger:
    """What was made at AWS and is not deleted yet, on disk."""

    def __init__(self, path: Path):
        """Take the path of the ledger, which may be there."""
        self._path = path

    def note(self, action: str, kind: str, name: str) -> None:
        """Write a line to the disk: create, delete or deleted."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._path.open("a") as file:
            file.write(f"{now}\t{action}\t{kind}\t{name}\n")
            file.flush()
            os.fsync(file.fileno())

    def list_left(self) -> list[tuple[str, str]]:
        """List kind and name of what is there, in the order in which it is deleted."""
        text = self._path.read_text() if self._path.exists() else ""
        lines = [line.split("\t") for line in text.splitlines()]
        last = {(kind, name): action for _, action, kind, name in lines}
        left = [thing for thing in last if last[thing] != "deleted"]
        return sorted(left, key=lambda thing: KINDS.index(thing[0]))


def tag(name: str) -> list[dict[str, str]]:
    """Make the tags by which a deployment's things are known."""
    return [{"Key": "dr-lib", "Value": name}]


def create(account: Account, ledger: Ledger, name: str, instance: str, package: Path) -> None:
    """Create an endpoint of this name, and wait until it is in service.

    Args:
        account: checked.
        ledger: of the study.
        name: of the endpoint and of all that it needs.
        instance: such as ml.m5.xlarge.
        package: the model.tar.gz.

    Raises:
        AwsError: a step failed; `delete` takes away what was made.
    """
    key = f"{name}.tar.gz"
    tags = tag(name)
    model = {
        "Image": account.find_image(instance),
        "ModelDataUrl": f"s3://{account.bucket}/{key}",
    }
    variant = {
        "VariantName": "one",
        "ModelName": name,
        "InstanceType": instance,
        "InitialInstanceCount": 1,
    }
    end = datetime.now(UTC) + timedelta(hours=HOURS)
    target = {
        "Arn": TARGET,
        "RoleArn": account.role,
        "Input": json.dumps({"EndpointName": name}),
    }

    sagemaker = account.sagemaker
    steps = {
        "upload": lambda: account.s3.upload_file(str(package), account.bucket, key),
        "model": lambda: sagemaker.create_model(
            ModelName=name,
            ExecutionRoleArn=account.role,
            PrimaryContainer=model,
            Tags=tags,
        ),
        "configuration": lambda: sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[variant], Tags=tags
        ),
        "schedule": lambda: account.scheduler.create_schedule(
            Name=name,
            ScheduleExpression=f"at({end:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target=target,
        ),
        "endpoint": lambda: sagemaker.create_endpoint(
            EndpointName=name, EndpointConfigName=name, Tags=tags
        ),
    }
    for kind, function in steps.items():
        ledger.note("create", kind, name)
        call(f"creating the {kind}", function)
    _wait(account, name)


def _wait(account: Account, name: str) -> None:
    """Wait until an endpoint is in service, and say how long that takes."""
    start = time.monotonic()
    while time.monotonic() - start < READY_S:
        found = call("waiting", account.sagemaker.describe_endpoint, EndpointName=name)
        status = found["EndpointStatus"]
        click.echo(f"{name}: {status}, {time.monotonic() - start:.0f} s")
        if status == "InService":
            return
        if status == "Failed":
            raise AwsError(
                f"{name} failed: {found.get('FailureReason', 'AWS names no reason')}: see its log"
                " in CloudWatch, correct it, and repeat the command"
            )
        time.sleep(POLL_S)
    raise AwsError(f"{name} was not in service after {READY_S:.0f} s: repeat the command")


def delete(account: Account, ledger: Ledger) -> None:
    """Delete all that the ledger has: endpoints first, and schedules, which delete them, last.

    What is refused is tried again, and what is gone is deleted.

    Raises:
        AwsError: something could not be deleted.
    """
    for kind, name in ledger.list_left():
        ledger.note("delete", kind, name)
        for attempt in range(1, DELETE_TRIES + 1):
            try:
                call(f"deleting the {kind}", _delete, account=account, kind=kind, name=name)
                break
            except AwsError as error:
                if any(words in str(error) for words in GONE):
                    break
                if attempt == DELETE_TRIES or "credentials" in str(error):
                    raise AwsError(
                        f"not all is deleted, but AWS deletes endpoints itself: {error}"
                    ) from None
                time.sleep(POLL_S)
        ledger.note("deleted", kind, name)


def _delete(account: Account, kind: str, name: str) -> None:
    sagemaker = account.sagemaker
    if kind == "endpoint":
        sagemaker.delete_endpoint(EndpointName=name)
        how = {"Delay": POLL_S, "MaxAttempts": DELETE_TRIES}
        sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig=how)
    elif kind == "configuration":
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
    elif kind == "model":
        sagemaker.delete_model(ModelName=name)
    elif kind == "upload":
        account.s3.delete_object(Bucket=account.bucket, Key=f"{name}.tar.gz")
    else:
        account.scheduler.delete_schedule(Name=name)
