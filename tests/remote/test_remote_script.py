"""What the remote machine executes, here, with a library whose runs take no time."""

import os
import zipfile

import pytest

from dr_lib.remote import remote_script
from dr_lib.remote.colab import Colab
from dr_lib.remote.kaggle import Kaggle
from dr_lib.runs.backlog import STOPPED_STATUS
from tests.remote.faults import build_house


@pytest.mark.parametrize(
    ("changes", "made"),
    [
        ({}, ["C1-r00", "C1-r01"]),
        ({"device": Colab.devices["T4"][1]}, ["C1-r00"]),  # its row is of another device
        ({"hours": 0.01}, []),  # too few for a run
    ],
)
def test_the_files_of_each_run_are_zipped(tmp_path, monkeypatch, capsys, changes, made):
    """Rows, logs and what else a run left, without what is too large to download, which is named;
    the session ends with its hours, and at a row of another device.
    """
    monkeypatch.setenv("DR_LIB_SESSION", "")
    build_house(tmp_path / "dr-lib", "colab")
    study = tmp_path / "dr-lib" / "papermill_runs" / "trial"
    run = "C1-r00-colab-2-cpus-4-gib"
    for folder in (study / "runs" / run, study / "runs" / "C1-r01-else", tmp_path / "results"):
        folder.mkdir(parents=True)
    (study / "runs" / run / "best.keras").write_bytes(b"model")
    with (study / "runs" / run / "large.keras").open("wb") as large:
        large.truncate(2**26 + 1)
    monkeypatch.chdir(tmp_path / "results")
    settings = {
        "study": "papermill_runs/trial.yaml",
        "session": "dr-x",
        "runs": ["C1-r00", "C1-r01"],
        "hours": 24.0,
        "platform": "colab",
        "device": Colab.devices["cpu"][1],
    }
    remote_script.make_all(settings | changes)
    printed = capsys.readouterr().out
    assert sorted(os.listdir()) == [f"{name}.zip" for name in made]
    assert printed.count(" ended with 0") == len(made)
    if made:
        with zipfile.ZipFile("C1-r00.zip") as archive:
            names = {f"rows/{run}.json", "logs/C1-r00.log", f"runs/{run}/best.keras"}
            assert set(archive.namelist()) == names
        assert f"runs/{run}/large.keras is left out: it has more than 64 MiB" in printed


T4 = "C1-r00-colab-1x-tesla-t4-2-cpus-13-gib"
T4X2 = "C1-r00-kaggle-2x-tesla-t4-4-cpus-31-gib"
TPU = "C1-r00-colab-1x-tpu-24-cpus-47-gib"
CPU = "C1-r00-colab-intel-r-xeon-r-2-cpus-13-gib"


@pytest.mark.parametrize(
    ("device", "run_id", "accelerator", "status", "is_on"),
    [
        ("T4", T4, "Tesla T4", "ok", True),
        ("T4", T4, "cpu", "ok", True),
        ("T4", T4X2, "Tesla T4", "ok", False),
        ("t4x2", T4X2.replace("2x", "1x"), "Tesla T4", "ok", False),
        ("v5e1", TPU, "TPU v6 lite", "ok", False),
        ("cpu", CPU, "cpu", "ok", True),
    ],
)
def test_a_row_is_known_by_its_device(device, run_id, accelerator, status, is_on):
    """By the machine's name, which ends that of the run, and for a TPU by its own; names as the
    drivers and JAX give them.
    """
    service = Kaggle if device == "t4x2" else Colab
    row = {"run_id": run_id, "accelerator": accelerator, "status": status}
    _, pattern = service.devices[device]
    assert remote_script.is_on(row, service.platform, pattern) == is_on


def test_both_sides_know_the_same_exit_status():
    """The script runs before the library is there, and cannot import it."""
    assert remote_script.STOPPED == STOPPED_STATUS
