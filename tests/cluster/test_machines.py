"""Several machines: which one this is, as the user or Slurm says."""

from types import SimpleNamespace

import pytest

from dr_lib.cluster import machines
from dr_lib.cluster.machines import Several, find_place
from dr_lib.hardware import HardwareError
from dr_lib.hardware.machine import Place

GIVEN = {"DR_LIB_COORDINATOR": "node1:29400", "DR_LIB_NUM_MACHINES": "4", "DR_LIB_MACHINE": "3"}
JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0"}
STEP = JOB | {"SLURM_STEP_NODELIST": "n[1-2]"}
POD = {"TPU_WORKER_HOSTNAMES": "a,b,c,d", "TPU_WORKER_ID": "2"}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, Place(0, 1)),
        (GIVEN, Place(3, 4)),
        (GIVEN | STEP, Place(3, 4)),  # what is given goes before what is found
        (STEP, Place(1, 2)),
        (JOB, Place(0, 1)),  # not a step
        (POD, Place(2, 4)),
        # Kaggle's
        ({"TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0"}, Place(0, 1)),
        # Kaggle's at times, to which the rest of this environment is no slice
        (POD | {"TPU_WORKER_HOSTNAMES": "WARNING: could not determine"}, Place(0, 1)),
        # JAX's first
        (POD | {"TPU_PROCESS_ADDRESSES": "a:8476,b:8476,c:8476"}, Place(2, 3)),
    ],
)
def test_the_place_is_what_was_given_or_what_the_scheduler_says(environment, place):
    """By the names in the manuals of srun and of JAX."""
    assert find_place(environment) == place


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "localhost", "[::1]"])
def test_machines_that_meet_on_one_are_a_rehearsal(host):
    """Whatever it calls itself: what they show is no speed of several, and is paid as one's."""
    meet = "DR_LIB_COORDINATOR"
    assert find_place(GIVEN | {meet: f"{host}:29400"}).is_rehearsed
    assert not find_place(GIVEN | {meet: "10.127.0.1:29400"}).is_rehearsed


@pytest.mark.parametrize(
    "changes",
    [
        {"DR_LIB_MACHINE": "4"},
        {"DR_LIB_MACHINE": ""},
        {"DR_LIB_NUM_MACHINES": "two"},
        {"DR_LIB_COORDINATOR": ""},
    ],
)
def test_a_place_that_is_half_given_is_an_error(changes):
    """One sentence that says what to set."""
    with pytest.raises(
        HardwareError,
        match="set DR_LIB_COORDINATOR=HOST:PORT of machine 0, DR_LIB_NUM_MACHINES and",
    ):
        find_place(GIVEN | changes)


@pytest.mark.parametrize("changes", [{"TPU_WORKER_ID": "w-2"}, {"MEGASCALE_NUM_SLICES": "2"}])
def test_slices_and_numbers_that_are_none_are_told(changes):
    """JAX counts the machines of all slices, and these names one slice's."""
    with pytest.raises(
        HardwareError, match="TPU slices, and this is machine '.*2' of one: set DR_"
    ):
        find_place(POD | changes)


def test_two_steps_of_a_job_meet_at_ports_of_their_own():
    """That of the first step is JAX's own: the job's number modulo 4096 above 61440."""
    job = {"SLURM_JOB_ID": "123456"}
    assert machines.find_port(job) == 123456 % 4096 + 61440
    ports = {machines.find_port(job | {"SLURM_STEP_ID": str(step)}) for step in range(9)}
    assert len(ports) == 9 and max(ports) <= 65535


@pytest.mark.parametrize(
    ("error", "proxy", "said"),
    [
        (
            OSError("metadata.google.internal: no route"),
            "",
            "each waits 300 s .*metadata.google",
        ),
        (
            RuntimeError("DEADLINE_EXCEEDED"),
            "http://proxy:8080",
            "https_proxy may block the connection",
        ),
    ],
)
def test_machines_that_do_not_meet_are_one_sentence(monkeypatch, error, proxy, said):
    """JAX's errors, and those of the metadata server that it asks; a proxy is named."""
    jax = pytest.importorskip("jax")

    def fail(**options):
        raise error

    monkeypatch.setattr(jax.distributed, "initialize", fail)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    if proxy:
        monkeypatch.setenv("https_proxy", proxy)
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HardwareError, match=said):
        Several().join(4, "gpu", 0)


def test_machines_that_were_not_started_are_said(monkeypatch):
    """Before JAX is asked; the sentence says how to start them."""
    monkeypatch.delenv("DR_LIB_COORDINATOR", raising=False)
    with pytest.raises(
        HardwareError, match="started as one of 1; .*-m dr_lib plan STUDY --commands"
    ):
        Several().join(2, "cpu", 0)


def test_each_machine_gives_as_many_devices_in_the_order_of_the_machines():
    """By hand: two of each of three machines, whose devices are listed mixed up."""
    listed = [
        SimpleNamespace(id=number, process_index=number // 4)
        for number in (11, 0, 5, 9, 1, 8, 4, 2)
    ]
    assert [device.id for device in Several().take(listed, 2)] == [0, 1, 4, 5, 8, 9]


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_lost_machine_is_one_sentence_and_other_errors_stay(error, monkeypatch):
    """What the collectives said, as seen with gloo 2 of JAX 0.10; a wrong shape is no lost
    machine.
    """
    gloo = (
        "UNKNOWN: Gloo AllGather failed: Read error [127.0.0.1]:13492: Connection reset by"
        " peer\nmore"
    )
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    sentence = r"one of 4 machines ended .*resume from its last checkpoint \(UNKNOWN: Gl"
    with pytest.raises(HardwareError, match=sentence), Several().losing_one():
        raise error(gloo)
    with pytest.raises(error, match="shapes differ"), Several().losing_one():
        raise error("shapes differ")
