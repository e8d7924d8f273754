"""A real-time endpoint of SageMaker, found by name: requests to it, and its instance type."""

import json
import re
from collections.abc import Callable
from typing import Any

from dr_lib.command import write_install
from dr_lib.errors import DrError

SCHEME = "sagemaker:"


def open_client(service: str) -> Any:
    """Open boto3's client of a service, with the user's credentials and region.

    Raises:
        DrError: boto3 is not installed, or has no region or credentials.
    """
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise DrError(f"SageMaker needs boto3: {write_install('boto3')}") from error
    session = boto3.Session()
    if session.get_credentials() is None:
        raise DrError("no AWS credentials found: run aws configure")
    # a request that is sent again would be timed twice
    retries = {"total_max_attempts": 1 if service == "sagemaker-runtime" else 5}
    try:
        return session.client(service, config=Config(retries=retries, max_pool_connections=64))
    except (BotoCoreError, ValueError) as error:
        raise DrError(f"{error}: set AWS_DEFAULT_REGION, or run aws configure") from error


def open_endpoint(address: str, content_type: str) -> Callable[[bytes], tuple[int, bytes]]:
    """Open an endpoint: a function from a body to status and content, as `load.open_sender`.

    Args:
        address: sagemaker:NAME.
        content_type: of the bodies.
    """
    client = open_client("sagemaker-runtime")
    name = address.removeprefix(SCHEME)
    from botocore.exceptions import BotoCoreError, ClientError

    def send(body: bytes) -> tuple[int, bytes]:
        try:
            answer = client.invoke_endpoint(
                EndpointName=name, ContentType=content_type, Body=body
            )
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return status, json.dumps({"error": hide_account(error)}).encode()
        except BotoCoreError as error:
            raise ConnectionError(hide_account(error)) from None
        return 200, answer["Body"].read()

    return send


def find_instance(address: str) -> str:
    """Find the instance type of an endpoint's first variant; empty where the user may not see it,
    and for another address.
    """
    if not address.startswith(SCHEME):
        return ""
    client = open_client("sagemaker")
    from botocore.exceptions import ClientError

    try:
        endpoint = client.describe_endpoint(EndpointName=address.removeprefix(SCHEME))
        name = endpoint["EndpointConfigName"]
        config = client.describe_endpoint_config(EndpointConfigName=name)
    except ClientError:
        return ""
    return config["ProductionVariants"][0]["InstanceType"]


def hide_account(error: Exception) -> str:
    """Write an error of AWS without the account's number and the names of keys and roles."""
    return re.sub(r"arn:aws\S*|\b\d{12}\b|\bA[KS]IA\w+", "...", str(error))
