"""The entry point of the container: python -m dr_lib.serving serve."""

import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    # importing takes a while, and a container's first process would ignore SIGTERM
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))

import click  # noqa: E402

from dr_lib.errors import DrError  # noqa: E402
from dr_lib.options import PATH, POSITIVE  # noqa: E402
from dr_lib.training.model_folder import ModelFolderError  # noqa: E402


# SageMaker's contract has the folder, the port and its variable
@click.command(context_settings={"show_default": True})
@click.argument("folder", type=PATH, envvar="MODEL", default="/opt/ml/model")
@click.option(
    "--host",
    envvar="LISTEN_HOST",
    default="127.0.0.1",
    help="address to listen at, 0.0.0.0 for all",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    envvar=["SAGEMAKER_BIND_TO_PORT", "PORT"],
    default=8080,
    help="port to listen at",
)
@click.option(
    "--max-body",
    type=POSITIVE,
    envvar="MAX_BODY",
    default=6.291456,  # of a request to an endpoint of SageMaker
    help="largest body of a request [MB]",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    help="number of predictions at a time  [default: one per core]",
)
def serve(folder: Path, **options) -> None:
    """Serve the exported model in FOLDER over HTTP, as the container does."""
    from dr_lib.serving.server import server

    try:
        server.serve(folder, **options)
    except ModelFolderError as error:
        sys.exit(f"no model to serve: {error}")
    except (DrError, OSError) as error:
        sys.exit(str(error))
    # all is answered; granian's threads may still run, and abort an interpreter that is ending
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    click.Group(commands=[serve])()
