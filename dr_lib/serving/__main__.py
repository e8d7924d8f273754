"""The entry point of the container: python -m dr_lib.serving serve."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dr_lib.serving.grader.folder import ModelFolderError
from dr_lib.serving.server.server import serve

DEFAULT_MODEL, DEFAULT_PORT = "/opt/ml/model", 8080  # of SageMaker's contract


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and serve; a model that cannot be served ends the process with status 1 and one line."""
    arguments = _read_arguments(arguments)
    try:
        serve(
            arguments.model,
            host=arguments.host,
            port=arguments.port,
            threads=arguments.threads,
            queue=arguments.queue,
            request_s=arguments.request_seconds,
        )
    except ModelFolderError as error:
        sys.exit(f"no model to serve: {error}")


def _read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    port = os.environ.get("SAGEMAKER_BIND_TO_PORT") or os.environ.get("PORT") or DEFAULT_PORT
    parser = argparse.ArgumentParser(prog="python -m dr_lib.serving")
    command = parser.add_subparsers(required=True, metavar="serve").add_parser("serve", help="serve a model over HTTP")
    model = os.environ.get("MODEL") or DEFAULT_MODEL
    command.add_argument("--model", type=Path, default=model, help=f"model folder or .tar.gz of one ({model})")
    command.add_argument("--host", default="0.0.0.0", help="address to listen at (0.0.0.0)")
    command.add_argument("--port", type=int, default=port, help=f"port to listen at ({port})")
    command.add_argument("--threads", type=int, default=cores, help="predictions at a time (one per core)")
    command.add_argument("--queue", type=int, default=64, help="requests that may wait (64)")
    command.add_argument(
        "--request-seconds", type=float, default=10, help="for a client to send head and body of a request (10 each)"
    )
    given = parser.parse_args(arguments)
    if given.threads < 1 or given.queue < 0 or not given.request_seconds > 0 or not 0 <= given.port < 2**16:
        parser.error("--threads and --request-seconds have to be above 0, --queue not below, --port at most 65535")
    return given


if __name__ == "__main__":
    main()
