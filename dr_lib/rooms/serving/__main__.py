"""The entry point of the container: python -m dr_lib.rooms.serving serve."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path


def _end_at_signals() -> None:
    """End at signals until the server listens; a container's first process would ignore SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))


if __name__ == "__main__":
    _end_at_signals()  # importing takes half a second, too

from dr_lib.errors import DrError  # noqa: E402
from dr_lib.files import expand_home  # noqa: E402
from dr_lib.hardware.cpus import count_cpus  # noqa: E402
from dr_lib.processes import end_with_parent  # noqa: E402
from dr_lib.training.model_folder import ModelFolderError  # noqa: E402

MAX_BODY = 6.291456  # of a request to an endpoint of SageMaker [MB]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, serve, and end the process; a model that cannot be served ends it with
    status 1 and a line.
    """
    options = _read_options(arguments)
    if options.end_with:
        end_with_parent(signal.SIGTERM)
        if os.getppid() != options.end_with:  # it has ended already
            sys.exit(0)
    _end_at_signals()
    from dr_lib.rooms.serving.server.server import serve

    try:
        serve(
            options.model,
            host=options.host,
            port=options.port,
            metrics_host=options.metrics_host,
            metrics_port=options.metrics_port,
            threads=options.threads,
            queue=options.queue,
            request_s=options.request_seconds,
            recalibration_file=options.recalibration,
            max_body=int(1e6 * options.max_body),
        )
    except (ModelFolderError, OSError) as error:
        sys.exit(f"no model to serve: {error}")
    except DrError as error:
        sys.exit(str(error))
    # all is answered; granian's threads may still run, and abort an interpreter that is ending
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    # of SageMaker's contract
    port = os.environ.get("SAGEMAKER_BIND_TO_PORT") or os.environ.get("PORT") or 8080
    model = os.environ.get("MODEL") or "/opt/ml/model"
    host = os.environ.get("LISTEN_HOST") or "127.0.0.1"
    max_body = os.environ.get("MAX_BODY") or MAX_BODY

    command = argparse.ArgumentParser(
        prog="python -m dr_lib",
        description="Serve a model over HTTP.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = command.add_argument
    add("command", choices=["serve"], help="the command that SageMaker runs in a container")
    add(
        "--model", type=lambda text: Path(expand_home(text)), default=model, help="model folder"
    )
    add("folder", nargs="?", help="model folder, instead of --model")
    add(
        "--recalibration",
        type=lambda text: Path(expand_home(text)),
        default=os.environ.get("RECALIBRATION") or None,
        help="file of the command recalibrate",
    )
    add("--host", default=host, help="address to listen at, 0.0.0.0 for all")
    add("--port", type=int, default=port, help="port to listen at")
    add(
        "--metrics-port",
        type=int,
        default=0,
        help="port of /metrics for Prometheus, 0 for none",
    )
    add("--metrics-host", default="127.0.0.1", help="address of /metrics, 0.0.0.0 for all")
    add("--max-body", type=float, default=max_body, help="largest body of a request [MB]")
    add("--threads", type=int, default=count_cpus(), help="number of predictions at a time")
    add("--queue", type=int, default=64, help="number of requests that may wait")
    add(
        "--request-seconds",
        type=float,
        default=10,
        help="seconds for a client to send its body",
    )
    add(
        "--end-with",
        metavar="PID",
        type=int,
        help="process id of the parent: end when it ends (Linux)",
    )
    options = command.parse_args(arguments)

    if options.folder:
        options.model = Path(expand_home(options.folder))
    if options.threads < 1 or not (options.request_seconds > 0 and options.max_body > 0):
        command.error("--threads, --request-seconds and --max-body must be above 0")
    if options.queue < 0:
        command.error("--queue must be 0 or more")
    if not all(0 <= port < 2**16 for port in (options.port, options.metrics_port)):
        command.error("--port and --metrics-port must be at most 65535")
    return options


if __name__ == "__main__":
    main()
