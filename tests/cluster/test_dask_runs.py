"""A study handed out to a Dask cluster: each run is made once, whatever workers do."""

import shutil

import pytest

from dr_lib.cluster.dask_runs import run_on_cluster
from dr_lib.errors import DrError
from dr_lib.runs.backlog import STOPPED
from dr_lib.runs.row import read_rows
from tests.runs.conftest import complete, list_begun, trial, wait_for_silence, write_study

distributed = pytest.importorskip("distributed")


@pytest.mark.slow
def test_a_dask_cluster_makes_the_runs_though_workers_are_killed(house, monkeypatch):
    """Four workers of one machine take turns; each run comes back as one row, and what is made is
    not made again.

    A killed worker's run is made by another; where Dask gives up, the run is named, and the next
    call makes it.
    """
    monkeypatch.setattr("dr_lib.cluster.dask_client.PATIENCE_S", 1.0)
    there = shutil.copytree(house, house / "there")
    factors = {"level": ["a", "b"], "fail_at": [99, 98, 97]}  # not in the order of the alphabet
    asked = {"factors": factors, "repetitions": 1, "order": "sequential"}
    asked["parameters"] = {"trouble": "runner dies"}
    path = write_study(house, **asked)
    complete(house, path, {"C1": 1.0, "C5": 1.0, "C6": 1.0})
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, dashboard_address=None, preload="tests.runs.quick"
    ) as cluster:

        def run(failed="", **options):
            errors = run_on_cluster(
                path, house, f"dask:{cluster.scheduler_address}", worker_root=there, **options
            )
            assert [error.split(": ")[0] for error in errors] == failed.split()
            return list_begun(there)

        with pytest.raises(DrError, match="has no workers: start some"):
            run()
        cluster.scale(4)
        cluster.wait_for_workers(4)
        assert run(max_hours=1e-9) == []
        cluster.scheduler.allowed_failures = 0
        assert run("C3-r00", only="C3-r00") == ["C3-r00"] and len(read_rows(trial(house))) == 3
        assert run(only="C3-r00") == ["C3-r00"] * 2
        cluster.scheduler.allowed_failures = 3
        (there / "died").unlink()
        begun = run()
        assert run() == begun and set(begun[2:]) == {"C2-r00", "C4-r00"}
        assert len(begun) == 5  # one of them was begun twice
    rows = {(row["scenario"], row["level"], row["status"]) for row in read_rows(trial(house))}
    assert rows == {(f"C{k}", "ab"[k > 3], "ok") for k in range(1, 7)}
    assert len(read_rows(trial(house))) == 6
    wait_for_silence(there)
    with pytest.raises(DrError, match="no run 'C9-r00'"):
        run_on_cluster(path, house, "dask:tcp://127.0.0.1:9", only="C9-r00")
    with pytest.raises(DrError, match="no Dask scheduler answers"):
        run_on_cluster(path, house, "dask:tcp://127.0.0.1:9", max_hours=1)


@pytest.mark.slow
def test_a_failure_that_every_run_would_repeat_ends_the_hand_out(house):
    """After two failures and no success no worker gets another run."""
    there = shutil.copytree(house, house / "there")
    path = write_study(house, repetitions=4, parameters={"trouble": "fails"})
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, preload="tests.runs.quick"
    ) as cluster:
        errors = run_on_cluster(
            path, house, f"dask:{cluster.scheduler_address}", worker_root=there
        )
    assert len(list_begun(there)) == 2 and errors[2:] == [STOPPED]
    assert "ValueError: it fails" in errors[0]
