"""Run a study on a Dask cluster."""

from pathlib import Path


def run_on_dask(study: Path, root: Path, on: str, *, yes: bool, **options) -> list[str]:
    """Run a study on the cluster of `on`, such as dask:tcp://HOST:8786; nothing is uploaded.

    Args, and what is returned, are those of `run_on_cluster`.
    """
    from dr_lib.rooms.cluster.dask_runs import run_on_cluster

    return run_on_cluster(study, root, on.partition(":")[2], **options)
