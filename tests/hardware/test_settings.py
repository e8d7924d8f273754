"""Settings of the environment: named where somebody set them, with a hash of their values."""

import os

import pytest

from dr_lib.hardware.settings import describe_settings


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Nothing but what a test sets."""
    for name in os.environ:
        if name != "PATH":
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TF_NUM_INTRAOP_THREADS", "1000"),
        ("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false"),
    ],
)
def test_what_changes_a_time_is_named_and_not_shown(monkeypatch, name, value):
    """Equal values give an equal hash, others another one; what changes nothing is not named."""
    for each in ("CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL", "TF_VAR_password"):
        monkeypatch.setenv(each, "0")
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    assert describe_settings() == "none"
    monkeypatch.setenv(name, value)
    found = describe_settings()
    assert found.startswith(f"{name}: ") and value not in found
    assert found == describe_settings()
    monkeypatch.setenv(name, f"{value} ")
    assert describe_settings().split(": ")[1] != found.split(": ")[1]
