"""Requests to a real-time endpoint of SageMaker, found by name."""

import json
import os
from collections.abc import Callable

from dr_lib.errors import DrError
from dr_lib.serving.sagemaker.account import hide_account, open_client

SCHEME = "sagemaker:"
ENDPOINT = "DR_LIB_ENDPOINT"  # names the endpoint that `run --on sagemaker` made for a run


def open_endpoint(address: str, content_type: str) -> Callable[[bytes], tuple[int, bytes]]:
    """Open an endpoint: a function from a body to status and content, as `load.open_sender`.

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
