"""Preparing on a Dask cluster: the same bytes, whatever becomes of its workers, or a sentence on what to do."""

import pytest

from dr_lib.data.shards import workers
from dr_lib.data.shards.workers import WorkerError
from tests.data.shards.test_prepare import digests, run, write_photographs

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow


@pytest.fixture
def photographs(tmp_path):
    """80 photographs of 40 patients."""
    return write_photographs(tmp_path / "photographs", 80)


@pytest.fixture
def cluster():
    """A cluster of two processes on this machine."""
    settings = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers=2, **settings) as cluster:
        yield cluster


def test_a_worker_is_lost(photographs, cluster):
    """Others do its work: the shards, tables and manifest are those of this process."""
    private = photographs.parent / "private"
    run(photographs, "here", private=private)
    lost = []

    def lose(done: int, total: int) -> None:
        if done > 20 and not lost:
            lost.append(next(iter(cluster.workers.values())))
            lost[0].process.process.kill()

    run(photographs, "there", private=private, dask=cluster.scheduler_address, progress=lose)
    assert lost and digests(photographs.parent / "here") == digests(photographs.parent / "there")


def test_all_workers_are_lost(photographs, cluster, monkeypatch):
    """That is an error which says what to do, not a wait for ever; started again elsewhere, the rest is done."""
    monkeypatch.setattr(workers, "PATIENCE_S", 3.0)
    private = photographs.parent / "private"
    run(photographs, "here", private=private)

    def lose(done: int, total: int) -> None:
        if done == 20:
            for worker in list(cluster.workers.values()):
                cluster.sync(worker.close)

    # a worker that goes may be the last or not when Dask tells of it
    with pytest.raises(WorkerError, match="start some|start again"):
        run(photographs, "there", private=private, dask=cluster.scheduler_address, progress=lose)
    run(photographs, "there", private=private)
    assert digests(photographs.parent / "here") == digests(photographs.parent / "there")


def test_nobody_answers(photographs, monkeypatch):
    """An address without a scheduler is said to be one."""
    monkeypatch.setattr(workers, "PATIENCE_S", 1.0)
    with pytest.raises(WorkerError, match="no Dask scheduler with workers answers at tcp://127.0.0.1:9"):
        run(photographs, dask="tcp://127.0.0.1:9")
