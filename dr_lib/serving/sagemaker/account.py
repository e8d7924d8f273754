"""The user's account of AWS: its clients, what it must have, and what its refusals mean.

Four variables of the environment say what endpoints are made of: see SETTINGS.
"""

import json
import os
import re
from collections.abc import Callable, Collection
from typing import Any

from dr_lib.command import write_install
from dr_lib.errors import DrError

SETTINGS = {
    "SAGEMAKER_ROLE": "name of a role that sagemaker and scheduler may take",
    "SAGEMAKER_BUCKET": "bucket of S3 for the models",
    "SAGEMAKER_IMAGE_AMD64": "address of the image in ECR, with its tag",
    "SAGEMAKER_IMAGE_ARM64": "address of the image for Graviton instances",
}
TRUSTED = ("sagemaker.amazonaws.com", "scheduler.amazonaws.com")
ADDRESS = re.compile(r"\d+\.dkr\.ecr\.([\w-]+)\.amazonaws\.com/([^:]+):(.+)")
ADVICE = {  # by a part of the error's code, which stands in brackets
    "Throttl": "AWS limits your calls: wait some minutes, and repeat the command",
    "Limit": "ask for a larger quota (Service Quotas, SageMaker), and repeat the command",
    "Expired": "your credentials have expired: renew them, and repeat the command",
    "Unrecognized": "your credentials are not valid: run aws configure, and repeat the command",
    "AccessDenied": "your user lacks a permission (docs/serving.md): add it, repeat the command",
    "Validation": "correct it, or choose another region (AWS_DEFAULT_REGION)",
    "": "check aws configure (AWS_DEFAULT_REGION), your connection, and repeat the command",
}
SCHEME = "sagemaker:"
ENDPOINT = "DR_LIB_ENDPOINT"  # names the endpoint that `run --on sagemaker` made for a run


class AwsError(DrError):
    """AWS refused or could not be reached; the message says what to do."""


def open_client(service: str, attempts: int = 5) -> Any:
    """Open boto3's client of a service, with the user's credentials and region.

    Raises:
        DrError: boto3 is not installed, or has no region.
    """
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise DrError(f"SageMaker needs boto3: {write_install('boto3')}") from error
    retries = {"total_max_attempts": attempts, "mode": "standard"}
    config = Config(retries=retries, max_pool_connections=64)
    return call("opening AWS", boto3.client, service_name=service, config=config)


def call(what: str, function: Callable[..., Any], **arguments: Any) -> Any:
    """Call AWS; raise AwsError, which says what failed and what to do."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return function(**arguments)
    except (BotoCoreError, Boto3Error, ClientError, ValueError) as error:
        reason = hide_account(error)
        code = reason.partition(")")[0]
        advice = next(words for part, words in ADVICE.items() if part in code)
        raise AwsError(f"{what}: {reason}: {advice}") from None


def hide_account(error: object) -> str:
    """Write an error of AWS without the account's number and the names of keys and roles."""
    return re.sub(r"arn:aws\S*|\b\d{12}\b|\bA[KS]IA\w+", "...", str(error)).rstrip(".")


def open_endpoint(address: str, content_type: str) -> Callable[[bytes], tuple[int, bytes]]:
    """Open a real-time endpoint: a function from a body to status and content.

    Args:
        address: sagemaker:NAME; without a name it is that of ENDPOINT.
        content_type: of the bodies.
    """
    client = open_client("sagemaker-runtime", attempts=1)  # twice would be timed as once
    name = address.removeprefix(SCHEME) or os.environ.get(ENDPOINT, "")
    if not name:
        raise DrError(
            f"{address} names no endpoint: write {SCHEME}NAME, or run the study --on sagemaker"
        )
    from botocore.exceptions import BotoCoreError, ClientError

    def send(body: bytes) -> tuple[int, bytes]:
        try:
            answer = client.invoke_endpoint(
                EndpointName=name, ContentType=content_type, Body=body
            )
            return 200, answer["Body"].read()
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return status, json.dumps({"error": hide_account(error)}).encode()
        except BotoCoreError as error:
            raise ConnectionError(hide_account(error)) from None

    return send


class Account:
    """The settings and the clients."""

    def __init__(self) -> None:
        """Read the settings; raise DrError if one is missing."""
        missing = [name for name in SETTINGS if not os.environ.get(name)]
        if missing:
            words = "; ".join(f"{name}: {SETTINGS[name]}" for name in missing)
            raise DrError(f"set these variables, see docs/serving.md: {words}")
        self.bucket = os.environ["SAGEMAKER_BUCKET"]
        self.sagemaker = open_client("sagemaker")
        self.scheduler = open_client("scheduler")
        self.s3 = open_client("s3")
        self.region = self.sagemaker.meta.region_name
        self.role = ""  # its full name, once it is checked

    def find_image(self, instance: str) -> str:
        """Find the image for an instance; AWS names Graviton by a g: ml.m6g.xlarge."""
        kind = "ARM64" if re.match(r"ml\.[a-z]+\d+g", instance) else "AMD64"
        return os.environ[f"SAGEMAKER_IMAGE_{kind}"]

    def check(self, instances: Collection[str]) -> None:
        """Check what deployments will need, before anything is made.

        Raises:
            DrError: role, bucket, image or quota are missing.
        """
        name = os.environ["SAGEMAKER_ROLE"].rpartition("/")[2]
        role = call(f"role {name}", open_client("iam").get_role, RoleName=name)["Role"]
        for service in TRUSTED:
            if service not in str(role["AssumeRolePolicyDocument"]):
                raise DrError(
                    f"role {name} does not trust {service}: add it to its trust policy"
                )
        self.role = role["Arn"]
        call(f"bucket {self.bucket}", self.s3.head_bucket, Bucket=self.bucket)
        ecr = open_client("ecr")
        for image in {self.find_image(instance) for instance in instances}:
            parts = ADDRESS.fullmatch(image)
            if not parts or parts[1] != self.region:
                raise DrError(
                    f"{hide_account(image)}: give ACCOUNT.dkr.ecr.{self.region}"
                    ".amazonaws.com/NAME:TAG"
                )
            images = {"repositoryName": parts[2], "imageIds": [{"imageTag": parts[3]}]}
            call(f"image {parts[2]}:{parts[3]}", ecr.describe_images, **images)
        pages = open_client("service-quotas").get_paginator("list_service_quotas")
        pages = pages.paginate(ServiceCode="sagemaker")
        quotas = dict(call("quotas", lambda: [*pages.search("Quotas[].[QuotaName, Value]")]))
        for instance in instances:
            if not quotas.get(f"{instance} for endpoint usage"):
                raise DrError(
                    f"{self.region} has no quota for {instance}: ask for 1 of {instance} for "
                    "endpoint usage (Service Quotas, SageMaker), or choose another region"
                )
