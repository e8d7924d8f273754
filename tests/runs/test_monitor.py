"""The monitor beside real work: what it samples, and what it survives."""

import csv
import math
import os
import signal
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from dr_lib.errors import DrError
from dr_lib.runs import monitor
from dr_lib.runs.monitor import COLUMNS, Monitor, read_cpu_times, read_samples, summarise
from tests.hardware.nvml import put_nvml
from tests.processes import run_python

BURN = (
    "import sys, time\nwhile time.process_time() < 0.3:"
    " pass\nprint(flush=True)\nsys.stdin.read()"
)


def put_gpus(monkeypatch, is_silent: bool) -> None:
    """Two GPUs in place of NVIDIA's library; silent ones report no use and no energy."""
    module = put_nvml(monkeypatch, ("T4", 8.0, 7.5, "GPU-aa"), ("T4", 8.0, 7.5, "GPU-bb"))
    reads = [0, 0]

    def refuse(gpu):
        raise module.NVMLError("Not Supported")

    def count(gpu):
        reads[gpu] += 1
        return 5_000_000_000 + [3_000, 1_500][gpu] * reads[gpu]

    functions = {
        "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=[90, 30][gpu]),
        "nvmlDeviceGetPowerUsage": [70_000, 20_500].__getitem__,
        "nvmlDeviceGetTotalEnergyConsumption": count,
    }
    vars(module).update(functions)
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


def write_samples(path: Path, rows: list[dict]) -> Path:
    """A monitor's file made by hand; what a row does not name is empty."""
    lines = [",".join(str(row.get(name, "")) for name in COLUMNS) for row in rows]
    path.write_text("".join(f"{line}\n" for line in (",".join(COLUMNS), *lines)))
    return path


def test_samples_come_on_a_grid_and_events_at_once(tmp_path):
    """A row each 0.1 s from the start, without drift, and a row when an epoch ends."""
    with Monitor(tmp_path / "new" / "samples.csv", period_s=0.1) as monitor:
        time.sleep(0.83)
        marked_s = time.monotonic()
        monitor.mark("epoch 1, the last")
        time.sleep(0.2)
    rows = read_samples(monitor.path)
    events = {row["event"]: row["monotonic_s"] for row in rows if row["event"]}
    assert list(events) == ["start", "epoch 1, the last", "end"]
    assert events["epoch 1, the last"] == pytest.approx(marked_s, abs=0.05)
    seconds = [row["seconds"] for row in rows if not row["event"]]
    assert len(seconds) >= 7 and min((s + 1e-6) % 0.1 for s in seconds[-4:]) < 0.03
    assert rows[0]["seconds"] == pytest.approx(0, abs=0.01)
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
    assert summary["monitored_s"] == pytest.approx(0.8, abs=0.15)
    assert (summary["num_samples"] > 2) == (period_s < 1)
    own_percent = 100 * cpu_s / (0.8 * psutil.cpu_count())
    mean = summary["cpu_percent_mean"]
    assert own_percent - 12 < mean < summary["cpu_percent_peak"] + 1e-6 < 100 + 2e-6
    # another test's kernel may still be there
    tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
    mib = sum(process.memory_info().rss for process in tree) / 2**20
    assert summary["process_peak_mib"] == pytest.approx(mib, rel=0.1)
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
    with ExitStack() as children, Monitor(tmp_path / "samples.csv", period_s=0.1):
        ended, living = (children.enter_context(run_python(BURN)) for _ in range(2))
        assert ended.stdout.readline() and living.stdout.readline()
        ended.communicate()
        time.sleep(0.25)
    assert summarise(tmp_path / "samples.csv")["process_cpu_s"] == pytest.approx(0.6, abs=0.12)


def test_another_process_is_watched_in_place_of_this_one(tmp_path):
    """It burns 0.3 s, while this one burns more; its memory is its own."""
    with run_python(BURN) as other, Monitor(tmp_path / "samples.csv", 0.1, pid=other.pid):
        burn(0.8)
        assert other.stdout.readline()
        mib = psutil.Process(other.pid).memory_info().rss / 2**20
    summary = summarise(tmp_path / "samples.csv")
    assert summary["process_cpu_s"] == pytest.approx(0.3, abs=0.12)
    assert summary["process_peak_mib"] == pytest.approx(mib, rel=0.1)


def test_a_disk_that_is_full_stops_no_training(tmp_path):
    """The samples until then are summed up."""
    with Monitor(tmp_path / "samples.csv", period_s=0.1) as monitor:
        time.sleep(0.25)
        full = Path("/dev/full").open("w", buffering=1)
        monitor._writer = csv.DictWriter(full, COLUMNS)
        time.sleep(0.2)
        monitor.mark("epoch 1")
    assert 0.1 < summarise(tmp_path / "samples.csv")["monitored_s"] < 0.4
    with suppress(OSError):
        full.close()


def test_an_exception_in_the_training_is_an_error(tmp_path):
    """It goes through, and the last event is no end."""
    with pytest.raises(ZeroDivisionError), Monitor(tmp_path / "samples.csv"):
        1 / 0  # noqa: B018
    events = [row["event"] for row in read_samples(tmp_path / "samples.csv")]
    assert events == ["start", "error"]


@pytest.mark.parametrize("is_silent", [False, True])
def test_gpus_are_averaged_and_summed(tmp_path, monkeypatch, is_silent):
    """90 and 30 % are 60 %, 4 and 2 of 8 GiB each 37.5 %, 70 and 20.5 W 90.5 W; of n readings 3 and
    1.5 J more each.

    Where neither utilisation nor the counter is known, no energy is.
    """
    put_gpus(monkeypatch, is_silent)
    with Monitor(tmp_path / "samples.csv", period_s=0.1):
        time.sleep(0.15)
    row = read_samples(tmp_path / "samples.csv")[1]
    summary = summarise(tmp_path / "samples.csv")
    percent, counter_j = (math.nan, math.nan) if is_silent else (60, 10_000_009)
    names = ("gpu_percent", "gpu_memory_percent", "gpu_power_w", "gpu_energy_j")
    found = [row[name] for name in names]
    assert found == pytest.approx([percent, 37.5, 90.5, counter_j], nan_ok=True)
    counted_j = math.nan if is_silent else 4.5 * (summary["num_samples"] - 1)
    found = [summary[name] for name in ("gpu_percent_mean", "gpu_percent_peak", "gpu_energy_j")]
    assert found == pytest.approx([percent, percent, counted_j], nan_ok=True)


@pytest.mark.parametrize(
    ("visible", "percent", "watt"),
    [("1", 30, 20.5), ("GPU-aa", 90, 70.0), ("", math.nan, math.nan)],
)
def test_only_visible_gpus_are_sampled(tmp_path, monkeypatch, visible, percent, watt):
    """On a shared machine another user's GPU is none of the training's, whichever stands first."""
    put_gpus(monkeypatch, is_silent=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with Monitor(tmp_path / "samples.csv", period_s=0.1):
        pass
    row = read_samples(tmp_path / "samples.csv")[0]
    found = [row["gpu_percent"], row["gpu_power_w"]]
    assert found == pytest.approx([percent, watt], nan_ok=True)


STILL = """
import sys, time
from pathlib import Path
from dr_lib.runs import monitor
monitor.TICK_S, monitor.STILL_S = 0.05, 0.5
with monitor.Monitor(Path(sys.argv[1]), period_s=20):
    print(flush=True)
    sys.stdin.read()
print(monitor.summarise(Path(sys.argv[1]))["stood_still_s"])
"""


def test_a_process_that_was_stopped_says_so(tmp_path):
    """As by a pause of its container, whatever the period of the samples."""
    with run_python(STILL, tmp_path / "samples.csv") as process:
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        process.send_signal(signal.SIGCONT)
        found_s = float(process.communicate()[0])
    assert 0.8 < found_s < 3


@pytest.mark.parametrize(
    ("monotonic_s", "time_s", "cpu_s", "still_s"),
    [
        (0.5, 0.5, 0.5, 0),
        (2.4, 2.4, 0.0, 0),  # a busy machine
        (25.5, 25.5, 0.4, 25),  # stopped
        (25.5, 25.5, 25.0, 0),  # at work, holding Python's lock
        (0.5, 600.5, 0.1, 600),  # the machine slept, and this clock with it
        (0.5, -600.0, 0.1, 0),  # the clock was set back
    ],
)
def test_standing_still_is_told_from_work(
    tmp_path, monkeypatch, monotonic_s, time_s, cpu_s, still_s
):
    """By the clocks between two looks that are half a second apart."""
    seen = Monitor(tmp_path / "samples.csv")
    seen._clocks = (0.0, 0.0, 0.0)
    seen._stood_still_s = 0.0
    monkeypatch.setattr(monitor, "_read_clocks", lambda: (monotonic_s, time_s, cpu_s))
    seen._look()
    assert seen._stood_still_s == still_s


def test_a_summary_computed_by_hand(tmp_path):
    """The counter grew from 4,000 to 7,100 J; ten seconds at 80 % and ten at 40 % are 60 %.

    A counter that stands still measures nothing, nor does one that fails before the end.
    """
    path = tmp_path / "samples.csv"
    start = {"seconds": 10, "event": "start", "memory_percent": 10, "process_cpu_s": 5}
    middle = {"seconds": 20, "cpu_percent": 80, "memory_percent": 20, "process_cpu_s": 12}
    epoch = {"seconds": 25, "event": "epoch 1", "process_mib": 700}
    end = {"seconds": 30, "event": "end", "cpu_percent": 40, "memory_percent": 40}
    start["gpu_energy_j"] = 4000
    last = end | {"process_cpu_s": 16, "gpu_energy_j": 7100}
    summary = summarise(write_samples(path, [start, middle, epoch, last]))
    expected = {"gpu_energy_j": 3100}
    expected |= {"cpu_percent_mean": 60, "cpu_percent_peak": 80, "process_cpu_s": 11}
    expected |= {"memory_percent_mean": 30, "memory_percent_peak": 40, "process_peak_mib": 700}
    expected |= {"num_samples": 4, "monitored_s": 20}
    assert expected.items() <= summary.items() and math.isnan(summary["gpu_percent_mean"])
    for rows in (
        [start, start | {"seconds": 20, "event": "end"}],
        [start, middle | {"gpu_energy_j": 5000}, epoch, end],  # read in the first half alone
    ):
        unknown = summarise(write_samples(path, rows))
        assert math.isnan(unknown["gpu_energy_j"])


def test_events_close_together_do_not_weigh_more(tmp_path):
    """Nine seconds at 10 % and one at 100 % are 19 %, in how many rows that second ever comes."""
    rows = [{"seconds": 0, "event": "start"}, {"seconds": 9, "gpu_percent": 10}]
    for tenth in range(91, 101):
        rows.append({"seconds": tenth / 10, "event": "step", "gpu_percent": 100})
    summary = summarise(write_samples(tmp_path / "samples.csv", rows))
    assert summary["gpu_percent_mean"] == pytest.approx(19)


def test_a_file_cut_short_is_read_up_to_its_last_whole_row(tmp_path):
    """A number cut in two is no number: at any cut the rows that are whole are there, and no
    other.
    """
    path = tmp_path / "samples.csv"
    rows = [{"seconds": second, "process_mib": 123.456} for second in range(3)]
    whole = write_samples(path, rows).read_text()
    for length in range(0, len(whole) + 1, 5):
        path.write_text(whole[:length])
        num_whole = max(0, whole[:length].count("\n") - 1)
        assert [row["seconds"] for row in read_samples(path)] == [*range(num_whole)]


def test_a_file_without_the_later_columns_is_read(tmp_path):
    """Samples of before energy was read have none of it."""
    (tmp_path / "old.csv").write_text(
        "seconds,monotonic_s,event,memory_percent\n0,5,start,10\n2,7,end,20\n"
    )
    summary = summarise(tmp_path / "old.csv")
    assert math.isnan(summary["gpu_energy_j"]) and summary["memory_percent_mean"] == 20


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no samples of a monitor"),
        ("a,b\n1,2\n", "header"),
        (f"{','.join(COLUMNS)}\n1,2\n", "missing"),
        (f"{','.join(COLUMNS)}\n{'x,' * 10}x\n", "could not convert"),
        (f"{','.join(COLUMNS)}\n{'1,' * 20}1\n", "more cells"),
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
