"""The model named by MODEL behind plain granian, without queue, limits and log: a peer to measure
beside.
"""

import asyncio
import json
import os
from pathlib import Path

import cv2

from dr_lib.hardware.cpus import count_cpus
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder

cv2.setNumThreads(1)
PREDICTOR = Predictor(read_folder(Path(os.environ["MODEL"])), count_cpus())


async def app(scope, receive, send) -> None:
    """Grade the body of any request."""
    body = b""
    has_more = True
    while has_more:
        message = await receive()
        body += message["body"]
        has_more = message["more_body"]
    answer = json.dumps(await asyncio.to_thread(PREDICTOR, body)).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
