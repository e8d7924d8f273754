"""Preparing on a Dask cluster: the same bytes, whatever becomes of its workers, or a sentence on
what to do.
"""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from dr_lib.data.prepared import workers
from dr_lib.errors import DrError
from tests.data.prepared.test_prepare import digests, run, write_photographs

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@pytest.fixture
def photographs(tmp_path):
    """80 photographs of 40 patients."""
    return write_photographs(tmp_path / "photographs", 80)


def start_cluster(num_workers: int):
    """A cluster of so many processes on this machine."""
    settings = {
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
    }
    return distributed.LocalCluster(n_workers=num_workers, **settings)


def kill_at_work(cluster) -> None:
    """Kill a worker when it has tasks, none of which it can have finished, for it was stopped
    before it got them.
    """
    worker = cluster.workers[0]
    os.kill(worker.pid, signal.SIGSTOP)
    while not cluster.scheduler.workers[worker.worker_address].processing:
        time.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)


def test_a_worker_is_killed(photographs):
    """Four workers write the shards, tables and manifest of this process, also when one is
    killed at its work.
    """
    private = photographs.parent / "private"
    run(photographs, "here", private=private)
    with start_cluster(4) as cluster, ThreadPoolExecutor() as pool:
        run(photographs, "there", private=private, dask=cluster.scheduler_address)
        killed = pool.submit(kill_at_work, cluster)
        run(photographs, "again", private=private, dask=cluster.scheduler_address)
        killed.result()
    here, there, again = (
        digests(photographs.parent / name) for name in ("here", "there", "again")
    )
    assert here == there == again


def test_all_workers_are_lost(photographs, monkeypatch):
    """That is an error which says what to do, not a wait for ever; started again elsewhere, the
    rest is done.
    """
    monkeypatch.setattr(workers, "PATIENCE_S", 3.0)
    private = photographs.parent / "private"
    run(photographs, "here", private=private)
    with start_cluster(1) as cluster, pytest.raises(DrError, match="start some|start again"):

        def lose(done: int, total: int) -> None:
            if done == 20:
                cluster.sync(cluster.workers[0].close)

        run(
            photographs, "there", private=private, dask=cluster.scheduler_address, progress=lose
        )
    run(photographs, "there", private=private)
    assert digests(photographs.parent / "here") == digests(photographs.parent / "there")


def test_nobody_answers(photographs, monkeypatch):
    """An address without a scheduler is said to be one."""
    monkeypatch.setattr(workers, "PATIENCE_S", 1.0)
    with pytest.raises(
        DrError, match="no Dask scheduler with workers answers at tcp://127.0.0.1:9"
    ):
        run(photographs, dask="tcp://127.0.0.1:9")
