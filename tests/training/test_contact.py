"""First contact: a machine's plan, and what a step takes there in each mode."""

import json
import subprocess
import sys

import pytest

from dr_lib.training.contact import find_shortfalls, meet
from tests.conftest import ROOT


def test_the_machine_and_its_plan_are_json():
    """As a user puts it into an issue: no NaN, no framework needed."""
    command = [sys.executable, "-m", "dr_lib", "probe"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    found = json.loads(printed, parse_constant=lambda word: pytest.fail(word))
    assert found["machine"]["num_cpus"] >= 1
    assert {"strategy", "batch_norm", "step_size"} <= found["plan"].keys() and found["reasons"]


def test_what_falls_short_is_said():
    """A mode that fails, and a fast one that is slower than another."""
    modes = {
        "plain": {"error": "no tensorflow"},
        "paper": {"images_per_s": 100.0},
        "fast": {"images_per_s": 80.0},
    }
    assert find_shortfalls(modes) == [
        "mode plain: no tensorflow",
        "mode fast trains 0.80 times as many photographs as paper",
    ]
    assert not find_shortfalls({"paper": modes["fast"], "fast": modes["paper"]})
    assert find_shortfalls({"fast": modes["plain"]}) == ["mode fast: no tensorflow"]


@pytest.mark.slow
def test_each_mode_is_measured_on_several_devices(small_sample, tmp_path):
    """In a process of its own: seconds of a step, the collective operations in which two replicas
    share their gradients, and a trace for TensorBoard; a mode that cannot be had says why.
    """
    asked = {"model": "small_cnn", "image_size": 32, "batch_size": 8, "accelerator": "cpu"}
    several = asked | {"num_devices": 2, "backend": "tensorflow"}
    found = meet(small_sample, tmp_path, several, tmp_path / "traces")
    for mode, measured in found["modes"].items():
        assert measured["plan"]["num_replicas"] == 2, mode
        assert measured["collectives"] > 0 and measured["step_s"] > 0
        assert list(tmp_path.glob(f"traces/{mode}/plugins/profile/*/*.xplane.pb"))
    assert not [fault for fault in found["falls_short"] if "trains" not in fault]
    refused = meet(small_sample, tmp_path / "again", asked | {"recipe": "few"})
    assert len(refused["falls_short"]) == 3 and "few" in refused["falls_short"][1]
