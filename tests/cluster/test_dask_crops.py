"""Photographs that a Dask cluster crops: the bytes of one machine, and nothing lost."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.cluster import dask_crops
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.synthetic import draw_sample
from dr_lib.errors import DrError
from tests.conftest import ROOT
from tests.processes import find_port

Client = pytest.importorskip("distributed").Client


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """24 photographs of 12 patients, and one that is none."""
    folder = draw_sample(
        tmp_path_factory.mktemp("drawn") / "sample", num_patients=12, workers=0
    )
    (folder / "images" / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    with (folder / "labels.csv").open("a") as table:
        table.write("images/broken.jpg,p9999,left,0\n")
    return folder


@pytest.fixture
def cluster(monkeypatch):
    """The target, and a function that starts a scheduler or a worker with its nanny; all are
    killed at last.
    """
    monkeypatch.setattr("dr_lib.cluster.dask_client.PATIENCE_S", 5.0)
    started = []
    address = f"127.0.0.1:{find_port()}"
    words = {
        "scheduler": ("--host", f"tcp://{address}", "--no-dashboard"),
        "worker": (f"tcp://{address}", "--nthreads", "1", "--no-dashboard"),
    }

    def start(kind):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *words[kind]]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL
        )
        started.append(process)
        with Client(f"tcp://{address}", timeout=60) as client:
            if kind == "worker":  # the scheduler is one of those that run
                running = [one for one in started if one.poll() is None]
                client.wait_for_workers(len(running) - 1, timeout=60)
        return process

    yield f"dask:tcp://{address}", start
    for process in started:
        kill(process)


def kill(process):
    """Kill a process with its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def crop(photographs, out, workers, **options):
    """Prepare them in shards of four, by one salt; the bytes of the folder's files by name."""
    private = out.with_name("private")
    if isinstance(workers, str):
        workers = dask_crops.map_on_cluster(workers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dr_lib.data.prepared.crops.SHARD_SIZE", 4)
        prepare(photographs, None, out, private=private, size=64, workers=workers, **options)
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.slow
def test_a_cluster_writes_the_bytes_of_one_machine(photographs, cluster, tmp_path):
    """A file that is no photograph is rejected there as here. A worker that is killed with its
    nanny, while it has photographs, loses none.
    """
    on, start = cluster
    expected = crop(photographs, tmp_path / "alone", 0)
    with pytest.raises(DrError, match="no Dask scheduler answers at tcp:"):
        crop(photographs, tmp_path / "0", on)
    start("scheduler")
    with pytest.raises(DrError, match="has no workers: start some, and start again"):
        crop(photographs, tmp_path / "0", on)
    start("worker")
    worker = start("worker")
    assert crop(photographs, tmp_path / "two", on) == expected

    def kill_one(done, total):
        if done == 6:
            kill(worker)

    assert crop(photographs, tmp_path / "killed", on, progress=kill_one) == expected
    assert worker.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_scheduler_that_is_gone_is_one_sentence(photographs, cluster, tmp_path):
    """The next call, here the command, crops the rest."""
    on, start = cluster
    scheduler = start("scheduler")
    worker = start("worker")

    def kill_it(done, total):
        if done == 9:
            kill(scheduler)

    out = tmp_path / "there"
    with pytest.raises(DrError, match=r"the Dask scheduler at tcp:\S+ is gone: start it"):
        crop(photographs, out, on, progress=kill_it)
    kill(worker)  # which looks for its scheduler for a while
    start("scheduler")
    start("worker")
    command = ["prepare", "--images", str(photographs), "--out", str(out), "--size", "64"]
    command += ["--private", str(tmp_path / "private"), "--on", on]
    printed = CliRunner().invoke(main, command)
    assert "25 photographs in, 1 rejected" in printed.output, printed.output


def test_a_worker_returns_its_error_and_refuses_other_code():
    """Dask logs the arguments of what raises, and they are names of patients' files."""
    assert isinstance(
        dask_crops._work(dask_crops.name_versions(), int, "no number"), ValueError
    )
    assert dask_crops._work(dask_crops.name_versions(), int, "3") == 3
    refusal = dask_crops._work("another", int, "3")
    assert isinstance(refusal, DrError) and "bring all to the same commit" in str(refusal)
