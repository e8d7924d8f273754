"""Pinning: as many CPUs as asked for, told to every framework."""

from types import SimpleNamespace

import pytest

from dr_lib.scenarios import threads


@pytest.fixture
def process(monkeypatch) -> SimpleNamespace:
    """A process that may use the CPUs 1, 3, 4 and 6, and has an environment of its own."""
    process = SimpleNamespace(cpus={1, 3, 4, 6}, environ={})
    process.sched_getaffinity = lambda pid: process.cpus
    process.sched_setaffinity = lambda pid, cpus: setattr(process, "cpus", set(cpus))
    monkeypatch.setattr(threads, "os", process)
    monkeypatch.setattr(threads, "count_cpus", lambda: 3)
    return process


@pytest.mark.parametrize(("asked", "cpus"), [(2, {1, 3}), (0, {1, 3, 4})])
def test_pins_as_many_cpus_as_asked_for(process, asked, cpus):
    """The first that the process may use, and every framework is told the number; 0 is all whose
    time the container is given, here 3.
    """
    assert threads.pin(asked) == len(cpus) and process.cpus == cpus
    told = {
        name: value
        for name, value in process.environ.items()
        if name != "MXNET_CPU_WORKER_NTHREADS"
    }
    assert set(told.values()) == {str(len(cpus))}
    assert {"OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} <= set(told)


def test_without_affinity_the_frameworks_are_told(process):
    """On macOS and Windows a process cannot be bound to CPUs."""
    del process.sched_getaffinity
    assert threads.pin(2) == 2 and process.environ["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize("asked", [5, -1])
def test_there_are_not_as_many_cpus(process, asked):
    """The message says how many there are, and nothing is changed."""
    with pytest.raises(RuntimeError, match="1 to 3"):
        threads.pin(asked)
    assert process.environ == {} and len(process.cpus) == 4
