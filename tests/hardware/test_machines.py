"""Several machines: which one this is, as the user or Slurm says."""

from types import SimpleNamespace

import pytest

from dr_lib.hardware import HardwareError, machines
from dr_lib.hardware.machines import Place, find_place, take_evenly

GIVEN = {"DR_LIB_COORDINATOR": "node1:29400", "DR_LIB_NUM_MACHINES": "4", "DR_LIB_MACHINE": "3"}
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
}
STEP["SLURM_LOCALID"] = "0"


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, Place(0, 1, "")),
        (GIVEN, Place(3, 4, "node1:29400")),
        (GIVEN | STEP, Place(3, 4, "node1:29400")),  # what is given goes before what is found
        (STEP, Place(1, 2, "")),
        # a job, not a step
        ({name: STEP[name] for name in STEP if name != "SLURM_STEP_NODELIST"}, Place(0, 1, "")),
    ],
)
def test_the_place_is_what_was_given_or_what_the_scheduler_says(environment, place):
    """By the names in the manuals of srun and of JAX."""
    assert find_place(environment) == place


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


def test_machines_that_were_not_started_are_said(monkeypatch):
    """Before JAX is asked; the sentence says how to start them."""
    monkeypatch.delenv("DR_LIB_COORDINATOR", raising=False)
    with pytest.raises(
        HardwareError, match="started as one of 1; .*-m dr_lib plan STUDY --commands"
    ):
        machines.join(2, "cpu")


def test_each_machine_gives_as_many_devices_in_the_order_of_the_machines():
    """By hand: two of each of three machines, whose devices are listed mixed up."""
    listed = [
        SimpleNamespace(id=number, process_index=number // 4)
        for number in (11, 0, 5, 9, 1, 8, 4, 2)
    ]
    assert [device.id for device in take_evenly(listed, 2)] == [0, 1, 4, 5, 8, 9]


@pytest.mark.parametrize("error", [RuntimeError, ValueError])
def test_a_lost_machine_is_one_sentence_and_other_errors_stay(error):
    """What the collectives said, as seen with gloo 2 of JAX 0.10; a wrong shape is no lost
    machine.
    """
    gloo = (
        "UNKNOWN: Gloo AllGather failed: Read error [127.0.0.1]:13492: Connection reset by"
        " peer\nmore"
    )
    with pytest.raises(
        HardwareError,
        match=r"a machine of 2 ended, .*goes on from its last checkpoint \(UNKNOWN: Gl",
    ):
        with machines.losing_one(2):
            raise error(gloo)
    with pytest.raises(error, match="shapes differ"), machines.losing_one(2):
        raise error("shapes differ")
    with pytest.raises(error, match="Gloo"), machines.losing_one(1):
        raise error(gloo)
