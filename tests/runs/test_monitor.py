"""The monitor beside real work: what it samples, and what it survives."""

import math
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from dr_lib.runs.monitor import COLUMNS, Monitor, find_gpus, measure_gpu_use, read_gpus
from tests.hardware.nvml import put_nvml
from tests.processes import run_python, wait_until

BURN = (
    "import sys, time\nsys.stdin.readline()\nwhile time.process_time() < 0.3:"
    " pass\nprint(flush=True)\nsys.stdin.read()"
)


def put_gpus(monkeypatch, is_silent: bool = False) -> None:
    """Two GPUs in place of NVIDIA's library; silent ones report no use and no energy."""
    module = put_nvml(monkeypatch, ("T4", 8.0, 7.5, "GPU-aa"), ("T4", 8.0, 7.5, "GPU-bb"))

    def refuse(gpu):
        raise module.NVMLError("Not Supported")

    module.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=[90, 30][gpu])
    module.nvmlDeviceGetTotalEnergyConsumption = [5_000, 1_500].__getitem__
    module.nvmlDeviceGetMemoryInfo = lambda gpu: SimpleNamespace(
        used=[4, 2][gpu] * 2**30, total=8 * 2**30
    )
    if is_silent:
        module.nvmlDeviceGetUtilizationRates = refuse
        module.nvmlDeviceGetTotalEnergyConsumption = refuse


def burn(seconds: float) -> float:
    """Keep a core busy for so long; the CPU seconds that this process got."""
    start = time.monotonic()
    cpu = time.process_time()
    while time.monotonic() < start + seconds:
        pass
    return time.process_time() - cpu


def summarise(path: Path) -> dict:
    """The summary of a monitor's file."""
    return Monitor(path).summarise()


def write_samples(path: Path, rows: list[dict]) -> Path:
    """A monitor's file made by hand; what a row does not name is empty."""
    lines = [",".join(str(row.get(name, "")) for name in COLUMNS) for row in rows]
    path.write_text("".join(f"{line}\n" for line in (",".join(COLUMNS), *lines)))
    return path


def test_another_process_is_watched_with_its_children(tmp_path):
    """It burns 0.3 s, while this one burns more; the monitor itself is no part of either."""
    with run_python(BURN) as other, Monitor(tmp_path / "samples.csv", 0.1, pid=other.pid):
        print(file=other.stdin, flush=True)
        burn(0.8)
        assert other.stdout.readline()
        mib = psutil.Process(other.pid).memory_info().rss / 2**20
    summary = summarise(tmp_path / "samples.csv")
    assert summary["process_cpu_s"] == pytest.approx(0.3, abs=0.12)
    assert summary["process_peak_mib"] == pytest.approx(mib, rel=0.1)
    assert 0 < summary["cpu_percent_mean"] <= 100
    assert 0 < summary["memory_percent_mean"] < 100


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_becomes_of_the_monitor_stops_no_training(tmp_path, is_killed):
    """One that was ended has samples until then; an error of the training goes through."""
    with pytest.raises(ZeroDivisionError), Monitor(tmp_path / "samples.csv", 0.1) as monitor:
        time.sleep(0.25)
        if is_killed:
            monitor._process.kill()
        1 / 0  # noqa: B018
    assert 0.1 < monitor.summarise()["monitored_s"] < 5
    monitor.path.write_text("")
    assert math.isnan(monitor.summarise()["process_cpu_s"])


def test_the_monitor_ends_with_the_training(tmp_path):
    """However that ends."""
    code = "import sys, time; from dr_lib.runs.monitor import Monitor; "
    code += (
        "monitor = Monitor(sys.argv[1]).__enter__(); print(monitor._process.pid, flush=True);"
    )
    with run_python(code + "time.sleep(60)", tmp_path / "samples.csv") as process:
        pid = int(process.stdout.readline())
        process.kill()
    wait_until(lambda: not psutil.pid_exists(pid))


@pytest.mark.parametrize("is_silent", [False, True])
def test_gpus_are_averaged_and_summed(monkeypatch, is_silent):
    """90 and 30 % are 60 %, 4 and 2 of 8 GiB each 37.5 %, 5 and 1.5 J are 6.5 J. What is not known
    is left out.
    """
    put_gpus(monkeypatch, is_silent)
    known = {} if is_silent else {"gpu_percent": 60, "gpu_energy_j": 6.5}
    assert read_gpus(find_gpus(9)) == pytest.approx({"gpu_memory_percent": 37.5, **known})


@pytest.mark.parametrize(
    ("visible", "percent"),
    [
        ("1", 30),
        ("", None),
    ],
)
def test_only_gpus_that_train_are_sampled(monkeypatch, visible, percent):
    """On a shared machine another user's GPU is none of the training's, and of two GPUs one may be
    enough.
    """
    put_gpus(monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert read_gpus(find_gpus(1)).get("gpu_percent") == percent


def test_a_summary_computed_by_hand(tmp_path):
    """The counter grew from 4,000 to 7,100 J; ten seconds at 80 % and five at 20 % are 60 %. A
    counter that stands still measures nothing, nor does one that fails before the end; a row that
    was cut short is none.
    """
    path = tmp_path / "samples.csv"
    start = {"seconds": 10, "process_cpu_s": 5, "process_mib": 700, "gpu_energy_j": 4000}
    middle = start | {"seconds": 20, "cpu_percent": 80, "process_cpu_s": 12}
    end = middle | {"seconds": 25, "cpu_percent": 20, "process_cpu_s": 16, "process_mib": 600}
    last = end | {"gpu_energy_j": 7100}
    summary = summarise(write_samples(path, [start, middle, last]))
    expected = {"gpu_energy_j": 3100, "num_samples": 3, "monitored_s": 15}
    expected |= {"cpu_percent_mean": 60, "process_cpu_s": 11, "process_peak_mib": 700}
    assert expected.items() <= summary.items() and math.isnan(summary["gpu_percent_mean"])
    for final in (end, end | {"gpu_energy_j": ""}):
        unknown = summarise(write_samples(path, [start, middle, final]))
        assert math.isnan(unknown["gpu_energy_j"])
    path.write_text(path.read_text()[:-3])
    assert summarise(path)["monitored_s"] == 10


def test_what_others_do_on_the_gpus_is_a_share_of_time(monkeypatch):
    """0.6 of two GPUs that are at work for 90 and 30 % of it; 0 of GPUs that do not say."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    put_gpus(monkeypatch)
    assert measure_gpu_use() == 0.6
    put_gpus(monkeypatch, is_silent=True)
    assert measure_gpu_use() == 0
