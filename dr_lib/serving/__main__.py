"""The entry point of the container: python -m dr_lib.serving serve."""

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def _end_at_signals() -> None:
    """Until it listens; a container's first process would ignore SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))


if __name__ == "__main__":
    _end_at_signals()  # importing takes half a second, too

from dr_lib.hardware.cpus import count_cpus  # noqa: E402
from dr_lib.serving.grader.folder import ModelFolderError  # noqa: E402


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and serve; a model that cannot be served ends the process with
    status 1 and one line.
    """
    options = _read_options(arguments)
    parent = options.pop("end_with")
    if parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # 1 = PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it has ended already
            sys.exit(0)
    _end_at_signals()
    from dr_lib.serving.server.server import PortError, serve

    try:
        serve(**options)
    except PortError as error:
        sys.exit(str(error))
    except (ModelFolderError, OSError) as error:
        sys.exit(f"no model to serve: {error}")


def _read_options(arguments: Sequence[str] | None) -> dict[str, Any]:
    # of SageMaker's contract
    port = os.environ.get("SAGEMAKER_BIND_TO_PORT") or os.environ.get("PORT") or 8080
    model = os.environ.get("MODEL") or "/opt/ml/model"  # of the same
    command = argparse.ArgumentParser(
        prog="python -m dr_lib.serving", description="Serve a model over HTTP."
    )
    command.add_argument("command", choices=["serve"], help="what SageMaker has a container do")
    command.add_argument(
        "--model", type=Path, default=model, help=f"model folder or .tar.gz of one ({model})"
    )
    host = os.environ.get("LISTEN_HOST") or "127.0.0.1"
    command.add_argument(
        "--host", default=host, help=f"address to listen at ({host}; 0.0.0.0 for all)"
    )
    command.add_argument("--port", type=int, default=port, help=f"port to listen at ({port})")
    command.add_argument(
        "--threads", type=int, default=count_cpus(), help="predictions at a time (one per core)"
    )
    command.add_argument("--queue", type=int, default=64, help="requests that may wait (64)")
    patience = {"dest": "request_s", "metavar": "SECONDS", "type": float, "default": 10}
    command.add_argument(
        "--request-seconds", **patience, help="for a client to send head, and body (10 each)"
    )
    command.add_argument(
        "--end-with", metavar="PID", type=int, help="of the parent: end when it does (Linux)"
    )
    options = command.parse_args(arguments)
    if (
        options.threads < 1
        or options.queue < 0
        or not options.request_s > 0
        or not 0 <= options.port < 2**16
    ):
        command.error(
            "--threads and --request-seconds have to be above 0, --queue not below, --port at most"
            " 65535"
        )
    return {name: value for name, value in vars(options).items() if name != "command"}


if __name__ == "__main__":
    main()
