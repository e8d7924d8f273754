"""Crop photographs on the workers of a Dask cluster, which see them under the same paths."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial
from typing import Any

from dr_lib.cluster import dask_client
from dr_lib.data.prepared.workers import Map, name_versions, start_ahead
from dr_lib.errors import DrError


@contextmanager
def map_on_cluster(on: str) -> Iterator[Map]:
    """Yield a `map` over the workers of a cluster, such as dask:tcp://HOST:8786; see `map_over`.

    Where a worker is lost, Dask gives its photographs to others.

    Raises:
        DrError: nobody answers at the address, the cluster has no workers (any more), or one has
            other code, or several were lost over one photograph.
    """
    address = on.partition(":")[2]
    with dask_client.connect(address) as client:
        # not as a context, which would wait for photographs that nobody crops
        executor = client.get_executor(pure=False)
        dask_client.check_workers(client, address)

        def map_ahead(function: Callable, items: Iterable) -> Iterator:
            submit = partial(executor.submit, _work, name_versions(), function)
            for future in start_ahead(submit, items, sum(client.ncores().values())):
                while not wait([future], dask_client.PATIENCE_S).done:
                    dask_client.check_workers(client, address)
                answer = dask_client.read_answer(future, address)
                if isinstance(answer, Exception):
                    raise answer
                yield answer

        yield map_ahead


def _work(versions: str, function: Callable, item: tuple) -> Any:
    """Return what a function makes of a photograph, or its error: Dask would log the file's name
    beside one that is raised.
    """
    if name_versions() != versions:
        return DrError(
            "a Dask worker has another version of the code or of a decoder: bring all to the same"
            " commit and packages"
        )
    try:
        return function(item)
    except Exception as error:
        return error
