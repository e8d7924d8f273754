"""Measured comparisons of the data's way, each against a named peer in one run: python -m
tools.bench_data.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
import psutil

from dr_lib.data.photograph.crop import crop_fundus
from tools.bench import ROOT, describe, draw_photograph, time_in_turn

REPEATS = 15
LARGEST = (3888, 2592)  # px, of the photographs that are prepared
SOURCES = ((1024, 683, ".jpg"), (2048, 1365, ".jpg"), (*LARGEST, ".jpg"), (2464, 1632, ".png"))
# Longer side of real JPEGs [px], and the most that their median crop may take as a multiple of the
# full decode.
REAL = {(1000, 1100): 2.0, (2048, 3887): None, (3888, 9999): 0.45}
FEW = 24
# photographs prepared; the rate is that of those between, so that starting a process is left out
MANY = 96
ROUNDS = 5  # of preparing, in turn with one core and with several
PREPARE = """import os, sys, time
from pathlib import Path
from dr_lib.data.prepared.prepare import prepare
images, labels, out, workers = sys.argv[1:]
start = time.perf_counter()
before = sum(os.times()[:4])
prepare(Path(images), Path(labels), Path(out), shard_size=48, scheme="paper", workers=int(workers))
print(time.perf_counter() - start, sum(os.times()[:4]) - before)
"""


def draw(path: Path, width: int, height: int, number: int) -> Path:
    """Draw an eye as large, and as grainy, as a camera's photograph."""
    # of a JPEG as a camera makes it, 0.8 to 1.3 MB (real ones: 0.9 to 1.2), and smaller
    quality = 90 if (width, height) == LARGEST else 95
    how = {"suffix": path.suffix, "quality": quality, "grain": 2.0}
    path.write_bytes(draw_photograph(width, height, number, **how))
    return path


def compare_crops(folder: Path) -> None:
    """Crop in turn with a full decode and the published steps: drawn files, real ones where they
    lie beside the clone.

    Ratios are of one turn each, of CPU time and of wall time: median [quartiles] over turns, and
    over files.
    """
    print(
        f"\ncrop_fundus, medians of {REPEATS} turns, CPU ms | crop / cv2.imread: CPU; wall | crop /"
        " voets: CPU; wall"
    )
    for width, height, suffix in SOURCES:
        path = draw(folder / f"eye{suffix}", width, height, 2)
        _compare_crop(f"drawn {width}x{height} {suffix[1:]}", path)
    data = ROOT.parent / "shared" / "data"
    ratios = {sides: [] for sides in REAL}
    for path in sorted([*data.glob("geometry/*.jp*g"), *data.glob("fullres/images/*.jp*g")]):
        height, width = cv2.imread(str(path)).shape[:2]
        for low, high in ratios:
            if low <= max(width, height) <= high:
                ratios[low, high].append(
                    _compare_crop(f"real {width}x{height} {path.stem[:12]}", path)
                )
    for (low, high), of_files in ratios.items():
        if of_files:
            spreads = [
                describe(ratios_of, ends=(0, 100)) for ratios_of in np.transpose(of_files)
            ]
            limit = f"the median at most {REAL[low, high]}; " if REAL[low, high] else ""
            print(
                f"real JPEGs of {low} to {high} px, median [least, most] of n files: crop /"
                " cv2.imread CPU {}, wall {}, {}crop / voets CPU {}, wall {}, each at most"
                " 1".format(*spreads[:2], limit, *spreads[2:])
            )


def _compare_crop(what: str, path: Path) -> list[float]:
    """Print the ratios of one file, and return their medians: to the decode (CPU, wall), to
    voets (CPU, wall).
    """
    name = str(path)
    times = time_in_turn(
        lambda: crop_fundus(name),
        lambda: cv2.imread(name),
        lambda: crop_fundus(name, method="voets"),
        repeats=REPEATS,
        clocks=(time.thread_time, time.perf_counter),
    )
    # to the decode by both clocks, then to voets
    ratios = np.concatenate([times[:, 0] / times[:, peer] for peer in (1, 2)])
    crop, decode, voets = 1000 * np.median(times[0], axis=1)
    size = path.stat().st_size / 1e6
    print(
        f"{what:32} {size:.2f} MB  crop {crop:5.1f} decode {decode:5.1f} voets {voets:5.1f} | "
        + "; ".join(map(describe, ratios)),
        flush=True,
    )
    return np.median(ratios, axis=1).tolist()


def measure_prepare(folder: Path) -> None:
    """Photographs a second and core, beside the full decode of the same run; several cores;
    memory. Needs Linux.
    """
    cores = sorted(os.sched_getaffinity(0))[:4]
    for count in (FEW, MANY):
        lay_out(folder, count)
    # by workers and photographs: seconds, those of the CPU, MiB
    runs: dict[tuple[int, int], list[tuple[float, float, float]]] = {}
    decode_ms = []
    for _ in range(ROUNDS):
        for workers in (1, len(cores)):
            for path in sorted((folder / str(FEW)).iterdir())[:8]:
                start = time.perf_counter()
                cv2.imread(str(path))
                decode_ms.append(1000 * (time.perf_counter() - start))
            for count in (FEW, MANY):
                runs.setdefault((workers, count), []).append(
                    _prepare(folder, count, cores[:workers])
                )
    decode = np.median(decode_ms)
    print(
        f"prepare, drawn {LARGEST[0]}x{LARGEST[1]} jpg, where a full decode takes {decode:.1f} ms,"
        f" n = {ROUNDS}:"
    )
    ones = np.subtract(runs[1, MANY], runs[1, FEW])
    for workers in (1, len(cores)):
        taken = np.subtract(runs[workers, MANY], runs[workers, FEW])
        speed, speed_up, gain, cpu_ms = (
            describe(values, ends=(0, 100))
            for values in (
                (MANY - FEW) / taken[:, 0],
                ones[:, 0] / taken[:, 0],
                workers * ones[:, 1] / taken[:, 1],
                1000 * taken[:, 1] / (MANY - FEW),
            )
        )
        print(
            f"  {workers} cores: {speed} photographs/s, {speed_up} times one core's, by CPU time"
            f" {gain}; CPU {cpu_ms} ms a photograph"
        )
        memory = ", ".join(
            f"{np.median(runs[workers, n], axis=0)[2]:.0f} MiB for {n} photographs"
            for n in (FEW, MANY)
        )
        print(f"  {workers} cores: peak memory {memory}, all processes")


def lay_out(folder: Path, count: int) -> None:
    """A folder with the first `count` photographs, which all such folders share, and their label
    table.
    """
    (folder / "drawn").mkdir(exist_ok=True)
    (folder / str(count)).mkdir()
    lines = ["image,patient,eye,grade"]
    for number in range(count):
        path = folder / "drawn" / f"{number}.jpg"
        if not path.exists():
            draw(path, *LARGEST, number)
        os.link(path, folder / str(count) / path.name)
        lines.append(f"{path.name},{number},right,{number % 5}")
    (folder / f"{count}.csv").write_text("\n".join(lines) + "\n")


def _prepare(folder: Path, count: int, cores: list[int]) -> tuple[float, float, float]:
    """Prepare in processes that may use those cores alone: seconds, those of their CPU time, and
    the peak of their resident memory in MiB.
    """
    with tempfile.TemporaryDirectory() as out:
        inputs = (folder / str(count), folder / f"{count}.csv")
        arguments = [*inputs, Path(out) / "records", len(cores)]
        command = [sys.executable, "-c", PREPARE, *map(str, arguments)]
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)  # a process hands its cores down to those that it starts
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            os.sched_setaffinity(0, mine)
            peak = 0
            while process.poll() is None:
                peak = max(peak, _resident(process.pid))
                time.sleep(0.05)
            taken, cpu = map(float, process.stdout.read().split())
            return taken, cpu, peak / 2**20


def _resident(pid: int) -> int:
    """Bytes that a process and its children hold; shared pages count in each."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        for process in (parent := psutil.Process(pid), *parent.children(recursive=True)):
            total += process.memory_info().rss
    return total


def main() -> None:
    """Print every comparison; cores are those of the machine, OpenCV on one thread."""
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as name:
        for part in (compare_crops, measure_prepare):
            part(Path(name))


if __name__ == "__main__":
    main()
