"""The monitor with real processes: what it samples, what it survives, and that nothing of it is
left.
"""

import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import psutil
import pytest

from dr_lib.errors import DrError
from dr_lib.runs import monitor as monitor_module
from dr_lib.runs.monitor import Monitor, read_samples, summarise
from dr_lib.runs.sampler import COLUMNS, GPU, read_cpu_times

ROOT = Path(__file__).resolve().parents[2]
TRAINING = """\
import sys, time
from dr_lib.runs.monitor import Monitor
with Monitor(sys.argv[1], period_s=0.1) as monitor:
    print(monitor.sampler.pid, flush=True)
    {before}
    for epoch in range(1000):
        time.sleep(0.05)
        monitor.mark(f"epoch {{epoch}}")
"""
BURN = (
    "import sys, time\nwhile time.process_time() < 0.3:"
    " pass\nprint(flush=True)\nsys.stdin.read()"
)
FAKE_NVML = """\
from types import SimpleNamespace
class NVMLError(Exception): pass
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(number): return number
def nvmlDeviceGetHandleByUUID(uuid): return ["GPU-aa", "GPU-bb"].index(uuid)
def nvmlDeviceGetUtilizationRates(gpu):
    if {mig}: raise NVMLError("Not Supported")
    return SimpleNamespace(gpu=[90, 30][gpu])
def nvmlDeviceGetMemoryInfo(gpu): return SimpleNamespace(used=[4, 2][gpu] * 2**30, total=8 * 2**30)
def nvmlDeviceGetPowerUsage(gpu): return [70_000, 20_500][gpu]
reads = [0, 0]
def nvmlDeviceGetTotalEnergyConsumption(gpu):
    if {mig}: raise NVMLError("Not Supported")
    reads[gpu] += 1
    return 5_000_000_000 + [3_000, 1_500][gpu] * reads[gpu]
"""


def burn(seconds: float) -> float:
    """Keep a core busy for so long; the CPU seconds that this process got."""
    start = time.monotonic()
    cpu = time.process_time()
    while time.monotonic() < start + seconds:
        pass
    return time.process_time() - cpu


def start_training(path: Path, before: str = "") -> tuple[subprocess.Popen, psutil.Process]:
    """A training in a process of its own, and its sampler."""
    code = TRAINING.format(before=before)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, str(path)]
    training = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    return training, psutil.Process(int(training.stdout.readline()))


def write_samples(path: Path, rows: list[dict]) -> Path:
    """A monitor's file made by hand; what a row does not name is empty."""
    lines = [",".join(str(row.get(name, "")) for name in COLUMNS) for row in rows]
    path.write_text("".join(f"{line}\n" for line in (",".join(COLUMNS), *lines)))
    return path


def test_samples_come_on_a_grid_and_events_at_once(tmp_path):
    """A row each 0.1 s from the start, without drift, and a row when an epoch ends; no other
    process remains.
    """
    with Monitor(tmp_path / "new" / "samples.csv", period_s=0.1) as monitor:
        time.sleep(0.83)
        marked_s = time.monotonic()
        monitor.mark("epoch 1, the last")
        time.sleep(0.2)
    rows = read_samples(monitor.path)
    assert [row["event"] for row in rows if row["event"]] == [
        "start",
        "epoch 1, the last",
        "end",
    ]
    seconds = [row["seconds"] for row in rows if not row["event"]]
    assert len(seconds) >= 7 and min((s + 1e-6) % 0.1 for s in seconds[-4:]) < 0.03
    (epoch,) = (row for row in rows if row["event"].startswith("epoch"))
    assert epoch["monotonic_s"] == pytest.approx(marked_s, abs=0.05)
    assert rows[0]["seconds"] == 0 and monitor.sampler.returncode == 0
    # the share of no time is empty
    assert math.isnan(rows[0]["cpu_percent"]) and rows[1]["cpu_percent"] >= 0


@pytest.mark.parametrize("period_s", [0.1, 10])
def test_a_busy_core_is_seen(tmp_path, period_s):
    """CPU seconds are those of the process's own clock, the machine's share holds at least these; a
    start and an end say so too, at the paper's period of 10 s, for which nobody waits."""
    with Monitor(tmp_path / "samples.csv", period_s):
        cpu_s = burn(0.8)
        left_s = time.monotonic()
    assert time.monotonic() - left_s < 2
    summary = summarise(tmp_path / "samples.csv")
    assert summary["process_cpu_s"] == pytest.approx(cpu_s, abs=0.1)
    assert summary["monitored_s"] == pytest.approx(0.8, abs=0.15) and (
        summary["num_samples"] > 2
    ) == (period_s < 1)
    own_percent = 100 * cpu_s / (0.8 * psutil.cpu_count())
    assert (
        own_percent - 12
        < summary["cpu_percent_mean"]
        < summary["cpu_percent_peak"] + 1e-6
        < 100 + 2e-6
    )
    # another test's kernel may still be there
    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    assert summary["process_peak_mib"] == pytest.approx(
        sum(p.memory_info().rss for p in tree) / 2**20, rel=0.1
    )
    assert 0 < summary["memory_percent_mean"] < 100


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc/stat")
def test_cpu_times_are_linuxs():
    """A second reader of /proc/stat: all but the guests, who are in user time already; waiting
    for a disk is idle.
    """
    line = Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    user, nice, system, idle, iowait, irq, softirq, steal = (
        int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in line
    )
    busy_s = user + nice + system + irq + softirq + steal
    assert read_cpu_times() == pytest.approx((busy_s + idle + iowait, busy_s, steal), abs=0.2)


def test_the_cpu_seconds_of_children_count_once(tmp_path):
    """Two children burn 0.3 s each; one has ended and was waited for, the other still lives."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with Monitor(tmp_path / "samples.csv", period_s=0.1):
        children = [subprocess.Popen([sys.executable, "-c", BURN], **pipes) for _ in range(2)]
        assert all(child.stdout.readline() for child in children)
        children[0].communicate()
        time.sleep(0.25)
    children[1].communicate()
    assert summarise(tmp_path / "samples.csv")["process_cpu_s"] == pytest.approx(0.6, abs=0.12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fork",
    ["", "import os; os.fork() or (time.sleep(6), os._exit(0))"],
    ids=["alone", "with a fork"],
)
def test_a_stalled_training_is_sampled_and_a_killed_one_leaves_no_sampler(tmp_path, fork):
    """It notes the death and ends, even while a forked child of the training holds its pipe
    open.
    """
    training, sampler = start_training(tmp_path / "samples.csv", fork)
    time.sleep(0.3)
    training.send_signal(signal.SIGSTOP)
    stopped_s = time.monotonic()
    time.sleep(1.0)
    training.kill()
    training.wait()
    assert not psutil.wait_procs([sampler], 2.5)[1]
    rows = read_samples(tmp_path / "samples.csv")
    assert rows[-1]["event"] == "died" and rows[-1]["seconds"] < 4
    stalled = [row["event"] for row in rows if 0.1 < row["monotonic_s"] - stopped_s < 0.9]
    assert len(stalled) >= 6 and not any(stalled)
    training.communicate()


def test_an_exception_in_the_training_is_an_error(tmp_path):
    """It goes through, and the last event is neither end nor died."""
    with pytest.raises(ZeroDivisionError), Monitor(tmp_path / "samples.csv"):
        1 / 0  # noqa: B018
    assert [row["event"] for row in read_samples(tmp_path / "samples.csv")] == [
        "start",
        "error",
    ]


def test_a_dead_sampler_does_not_disturb_the_training(tmp_path):
    """A killed sampler costs one warning, however many epochs follow; its samples are still
    summed up.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Monitor(tmp_path / "samples.csv", period_s=0.1) as monitor:
            time.sleep(0.25)
            monitor.sampler.kill()
            monitor.sampler.wait()
            monitor.mark("epoch 1")
            monitor.mark("epoch 2")
    (warning,) = caught
    assert "sampler is gone" in str(warning.message) and warning.category is RuntimeWarning
    assert warning.filename == __file__
    assert 0.1 < summarise(tmp_path / "samples.csv")["monitored_s"] < 0.4


def test_a_sampler_that_hangs_does_not_block_the_training(tmp_path, monkeypatch):
    """Its pipe fills up after 64 KiB; events are dropped then, and the process is ended with the
    training.
    """
    monkeypatch.setattr(monitor_module, "END_TIMEOUT_S", 0.2)
    start = time.monotonic()
    with (
        pytest.warns(RuntimeWarning, match="the sampler is gone"),
        Monitor(tmp_path / "samples.csv") as monitor,
    ):
        monitor.sampler.send_signal(signal.SIGSTOP)
        for epoch in range(10_000):
            monitor.mark(f"epoch {epoch}")
    assert time.monotonic() - start < 10 and monitor.sampler.returncode == -signal.SIGKILL


@pytest.mark.parametrize("mig", [False, True])
def test_gpus_are_averaged_and_summed(tmp_path, monkeypatch, mig):
    """90 and 30 % are 60 %, 4 and 2 of 8 GiB each 37.5 %, 70 and 20.5 W 90.5 W; of n readings 3 and
    1.5 J more each.

    With MIG on neither utilisation nor the counter is known: the sampled power stands for it.
    """
    (tmp_path / "pynvml.py").write_text(FAKE_NVML.format(mig=mig))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Monitor(tmp_path / "samples.csv", period_s=0.1):
        time.sleep(0.15)
    row = read_samples(tmp_path / "samples.csv")[1]
    summary = summarise(tmp_path / "samples.csv")
    percent, counter_j = (math.nan, math.nan) if mig else (60, 10_000_009)
    assert [row[name] for name in GPU] == pytest.approx(
        [percent, 37.5, 6144, 90.5, counter_j], nan_ok=True
    )
    assert [summary[f"gpu_percent_{kind}"] for kind in ("mean", "peak")] == pytest.approx(
        [percent] * 2, nan_ok=True
    )
    sampled_j = 90.5 * summary["monitored_s"]
    num_readings = summary["num_samples"]
    wanted = (sampled_j, "sampled power") if mig else (4.5 * (num_readings - 1), "NVML counter")
    assert (summary["gpu_energy_j"], summary["gpu_energy_from"]) == (
        pytest.approx(wanted[0]),
        wanted[1],
    )
    assert summary["gpu_energy_sampled_j"] == pytest.approx(sampled_j)


@pytest.mark.parametrize(
    ("visible", "percent", "watt"),
    [("1", 30, 20.5), ("GPU-aa", 90, 70.0), ("", math.nan, math.nan)],
)
def test_only_visible_gpus_are_sampled(tmp_path, monkeypatch, visible, percent, watt):
    """On a shared machine another user's GPU is none of the training's, whichever stands first."""
    (tmp_path / "pynvml.py").write_text(FAKE_NVML.format(mig=False))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with Monitor(tmp_path / "samples.csv", period_s=0.1):
        pass
    row = read_samples(tmp_path / "samples.csv")[0]
    assert [row["gpu_percent"], row["gpu_power_w"]] == pytest.approx(
        [percent, watt], nan_ok=True
    )


def test_a_summary_computed_by_hand(tmp_path):
    """100 W for 10 s, rising to 300 W in 10 s more, are 3000 J; the counter says 3100 J, the
    processor's 640 J.

    A counter that stands still measures nothing, nor does one that fails before the end.
    """
    end = {"cpu_percent": 40, "gpu_power_w": 300, "memory_percent": 40, "process_cpu_s": 16}
    end |= {"gpu_energy_j": 7100}
    start = {
        "gpu_power_w": 100,
        "memory_percent": 10,
        "process_cpu_s": 5,
        "gpu_energy_j": 4000,
    }
    rows = [
        {"seconds": 10, "event": "start"} | start,
        {
            "seconds": 20,
            "cpu_percent": 80,
            "gpu_power_w": 100,
            "memory_percent": 20,
            "process_cpu_s": 12,
        },
        {"seconds": 25, "event": "epoch 1", "process_mib": 700},
        {"seconds": 30, "event": "end", **end},
    ]
    summary = summarise(write_samples(tmp_path / "samples.csv", rows))
    assert (summary["gpu_energy_j"], summary["gpu_energy_sampled_j"]) == (3100, 3000)
    assert summary["gpu_energy_from"] == "NVML counter"
    assert (summary["cpu_percent_mean"], summary["cpu_percent_peak"]) == (60, 80)
    assert (summary["memory_percent_mean"], summary["memory_percent_peak"]) == (30, 40)
    assert (summary["process_cpu_s"], summary["process_peak_mib"]) == (11, 700)
    assert (summary["num_samples"], summary["monitored_s"]) == (4, 20)
    assert summary["gpu_percent_mean"] != summary["gpu_percent_mean"]
    still = summarise(
        write_samples(
            tmp_path / "samples.csv", [rows[0], rows[0] | {"seconds": 20, "event": "end"}]
        )
    )
    assert (still["gpu_energy_j"], still["gpu_energy_from"]) == (1000, "sampled power")
    cut = [
        rows[0],
        rows[1] | {"gpu_energy_j": 5000},
        rows[2],
        {"seconds": 30, "event": "end"},
    ]
    part = summarise(
        write_samples(tmp_path / "samples.csv", cut)
    )  # read in the first half alone
    assert part["gpu_energy_from"] == "" and math.isnan(part["gpu_energy_j"])


def test_events_close_together_do_not_weigh_more(tmp_path):
    """Nine seconds at 10 % and one at 100 % are 19 %, in how many rows that second ever comes."""
    rows = [{"seconds": 0, "event": "start"}, {"seconds": 9, "gpu_percent": 10}]
    rows += [
        {"seconds": 9 + tenth / 10, "event": "step", "gpu_percent": 100}
        for tenth in range(1, 11)
    ]
    assert summarise(write_samples(tmp_path / "samples.csv", rows))[
        "gpu_percent_mean"
    ] == pytest.approx(19)


def test_a_file_cut_short_is_read_up_to_its_last_whole_row(tmp_path):
    """A number cut in two is no number: at any cut the rows that are whole are there, and no
    other.
    """
    rows = [
        {"seconds": 0, "event": "start"},
        {"seconds": 1, "memory_mib": 123.456},
        {"seconds": 2, "event": "end"},
    ]
    whole = write_samples(tmp_path / "samples.csv", rows).read_text()
    for length in range(0, len(whole) + 1, 5):
        (tmp_path / "cut.csv").write_text(whole[:length])
        num_whole = max(0, whole[:length].count("\n") - 1)
        assert [row["seconds"] for row in read_samples(tmp_path / "cut.csv")] == [0, 1, 2][
            :num_whole
        ]


def test_a_file_without_the_later_columns_is_read(tmp_path):
    """Samples of before energy was read have none of it."""
    (tmp_path / "old.csv").write_text(
        "seconds,monotonic_s,event,gpu_power_w\n0,5,start,100\n2,7,end,100\n"
    )
    summary = summarise(tmp_path / "old.csv")
    assert summary["gpu_energy_j"] == 200 and math.isnan(summary["memory_percent_mean"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no samples of a monitor"),
        ("a,b\n1,2\n", "header"),
        (f"{','.join(COLUMNS)}\n1,2\n", "missing"),
        (f"{','.join(COLUMNS)}\n{'x,' * 12}x\n", "could not convert"),
        (f"{','.join(COLUMNS)}\n", "holds no samples"),
    ],
)
def test_what_is_no_file_of_samples_is_refused(tmp_path, text, message):
    """The error names the file and says what is wrong."""
    path = tmp_path / "samples.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DrError, match=message) as caught:
        summarise(path)
    assert "samples.csv" in str(caught.value)


def test_a_period_that_cannot_be_is_refused(tmp_path):
    """A shorter one would cost more than it shows."""
    for period_s in (-1, 0.05, math.nan, math.inf):
        with pytest.raises(DrError, match=r"more than 0\.05 s"):
            Monitor(tmp_path / "samples.csv", period_s=period_s)


def test_a_sampler_that_does_not_start_says_why(tmp_path, monkeypatch):
    """psutil may be broken in a kernel: its error is in ours."""
    (tmp_path / "psutil.py").write_text("import no_such_package")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        pytest.raises(DrError, match="No module named 'no_such_package'"),
        Monitor(tmp_path / "samples.csv"),
    ):
        pass


def test_no_module_beside_the_sampler_hides_one_of_pythons():
    """A script's own folder comes first where Python looks for modules."""
    names = {path.stem for path in Path(monitor_module.__file__).parent.glob("*.py")}
    assert "monitor" in names and not names & {*sys.stdlib_module_names, "psutil", "pynvml"}
