"""The user's account of AWS: its clients, what it must have, and what its refusals mean.

Four variables of the environment say what endpoints are made of: see SETTINGS.
"""

import os
import re
from collections.abc import Callable, Collection
from functools import cached_property
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
ADVICE = {  # by a part of the error's code
    "Throttl": "AWS limits your calls: wait some minutes, and repeat the command",
    "Limit": "ask for a larger quota (Service Quotas, SageMaker), and repeat the command",
    "Expired": "your credentials have expired: renew them, and repeat the command",
    "Unrecognized": "your credentials are not valid: run aws configure, and repeat the command",
    "AccessDenied": "your user lacks a permission (docs/serving.md): add it, repeat the command",
    "Validation": "correct it, or choose another region (AWS_DEFAULT_REGION)",
}


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
    try:
        return call("opening AWS", boto3.client, service_name=service, config=config)
    except ValueError as error:
        raise DrError(f"{error}: set AWS_DEFAULT_REGION, or run aws configure") from error


def call(what: str, function: Callable[..., Any], **arguments: Any) -> Any:
    """Call AWS; raise AwsError, which says what failed and what to do."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return function(**arguments)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        advice = [words for part, words in ADVICE.items() if part in code]
        advice = [*advice, "repeat the command"][0]
        raise AwsError(f"{what}: {hide_account(error)}: {advice}") from None
    except (BotoCoreError, Boto3Error) as error:
        raise AwsError(
            f"{what}: {hide_account(error)}: check aws configure and your connection, and repeat"
            " the command"
        ) from None


def hide_account(error: Exception) -> str:
    """Write an error of AWS without the account's number and the names of keys and roles."""
    return re.sub(r"arn:aws\S*|\b\d{12}\b|\bA[KS]IA\w+", "...", str(error)).rstrip(".")


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

    @cached_property
    def role(self) -> str:
        """The role's full name; raise DrError if it is not there, or is not to be taken."""
        name = os.environ["SAGEMAKER_ROLE"].rpartition("/")[2]
        role = call(f"role {name}", open_client("iam").get_role, RoleName=name)["Role"]
        trust = str(role["AssumeRolePolicyDocument"])
        for service in TRUSTED:
            if service not in trust:
                raise DrError(
                    f"role {name} does not trust {service}: add it to its trust policy"
                )
        return role["Arn"]

    def find_image(self, instance: str) -> str:
        """Find the image for an instance; AWS names Graviton by a g: ml.m6g.xlarge."""
        kind = "ARM64" if re.match(r"ml\.[a-z]+\d+g", instance) else "AMD64"
        return os.environ[f"SAGEMAKER_IMAGE_{kind}"]

    def check(self, instances: Collection[str]) -> None:
        """Check what deployments will need, before anything is made.

        Raises:
            DrError: role, bucket, image or quota are missing.
        """
        assert self.role
        call(f"bucket {self.bucket}", self.s3.head_bucket, Bucket=self.bucket)
        ecr = open_client("ecr")
        for image in {self.find_image(instance) for instance in instances}:
            parts = ADDRESS.fullmatch(image)
            if not parts or parts[1] != self.region:
                raise DrError(
                    f"{hide_account(DrError(image))}: give ACCOUNT.dkr.ecr.{self.region}"
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
