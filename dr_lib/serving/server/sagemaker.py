"""A real-time endpoint of SageMaker, found by name: its address, signature and instance type.

boto3 knows the user's credentials and region, and signs; the requests themselves go over the load's
own connections.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from dr_lib.command import write_install
from dr_lib.errors import DrError

SCHEME = "sagemaker:"


class Endpoint(NamedTuple):
    """What requests to an endpoint need."""

    url: str  # where predictions are asked for
    # body and headers -> headers with the signature
    sign: Callable[[bytes, Mapping[str, str]], dict[str, str]]
    # of its first variant, such as ml.m5.xlarge; empty where the user may not see it
    instance_type: str


@cache
def find_endpoint(address: str) -> Endpoint:
    """Find an endpoint of the user's account and region.

    Args:
        address: sagemaker:NAME.

    Raises:
        DrError: boto3 is not installed, or has no region or credentials.
    """
    try:
        import boto3
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        install = write_install("boto3")
        raise DrError(f"an endpoint of SageMaker needs boto3: {install}") from error
    name = address.removeprefix(SCHEME)
    session = boto3.Session()
    try:
        runtime = session.client("sagemaker-runtime")
        service = session.client("sagemaker")
    except (BotoCoreError, ValueError) as error:
        raise DrError(
            f"{address}: {error}: set AWS_DEFAULT_REGION, or run aws configure"
        ) from error
    credentials = session.get_credentials()
    if credentials is None:
        raise DrError(f"{address}: no AWS credentials found: run aws configure")
    url = f"{runtime.meta.endpoint_url}/endpoints/{name}/invocations"

    def sign(body: bytes, headers: Mapping[str, str]) -> dict[str, str]:
        request = AWSRequest("POST", url, data=body, headers=dict(headers))
        SigV4Auth(
            credentials.get_frozen_credentials(), "sagemaker", session.region_name
        ).add_auth(request)
        return dict(request.headers)

    instance_type = ""
    # who may ask it may not always describe it
    with suppress(BotoCoreError, ClientError, KeyError, IndexError):
        config = service.describe_endpoint(EndpointName=name)["EndpointConfigName"]
        variants = service.describe_endpoint_config(EndpointConfigName=config)[
            "ProductionVariants"
        ]
        instance_type = variants[0]["InstanceType"]
    return Endpoint(url, sign, instance_type)
