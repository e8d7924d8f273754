"""Ask a Dask cluster: each of its failures is one sentence."""

from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from dr_lib.errors import DrError

PATIENCE_S = 20.0  # with a cluster that does not answer or has no workers


def connect(address: str) -> Any:
    """Connect to a scheduler, such as tcp://HOST:8786.

    Raises:
        DrError: nobody answers there.
    """
    from distributed import Client

    try:
        return Client(address, timeout=PATIENCE_S)
    except (OSError, ValueError) as error:
        raise DrError(f"no Dask scheduler answers at {address}: {error}") from error


def count_workers(client: Any) -> int:
    """Count a cluster's workers; 0 if its scheduler is gone."""
    with suppress(OSError, RuntimeError):
        return len(client.ncores())
    return 0


def write_gone(address: str) -> DrError:
    """Write the error of a scheduler that is gone."""
    return DrError(f"the Dask scheduler at {address} is gone: start it, and start again")


def check_workers(client: Any, address: str) -> None:
    """Raise a DrError where a cluster has no workers, or no scheduler any more."""
    try:
        number = len(client.ncores())
    except (OSError, RuntimeError) as error:
        raise write_gone(address) from error
    if not number:
        fault = f"the Dask cluster at {address} has no workers"
        raise DrError(f"{fault}: start some, and start again")


def read_answer(future: Future, address: str) -> Any:
    """Return the answer of a task, or the error that kept it from one.

    Raises:
        DrError: the scheduler is gone.
    """
    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    try:
        return future.result()
    except (CancelledError, CommClosedError) as error:
        raise write_gone(address) from error
    except KilledWorker:
        return DrError("every worker that began this task was lost, most likely out of memory")
    except Exception as error:  # a worker that is set up badly does not end the others
        return error
