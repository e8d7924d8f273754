"""Measured comparisons of the data's way, each against a named peer in one run: python
tools/bench_data.py.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import cv2
import numpy as np
import psutil

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.synthetic import draw_eye, draw_look

REPEATS = 15
LARGEST = (3888, 2592)  # px, of the photographs that are prepared
SOURCES = ((1024, 683, ".jpg"), (2048, 1365, ".jpg"), (*LARGEST, ".jpg"), (2464, 1632, ".png"))
# Longer side of real JPEGs [px], and the most that their median crop may take as a multiple of the
# full decode.
REAL = {(1000, 1100): 2.0, (2048, 3887): None, (3888, 9999): 0.45}
GRAIN = 2.0  # grey levels of noise
QUALITY = 90
# of a JPEG as a camera makes it, 0.8 to 1.3 MB (real ones: 0.9 to 1.2), and smaller
QUALITY_SHRUNK = 95
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


def draw_photograph(path: Path, width: int, height: int, number: int) -> Path:
    """Draw an eye as large, and as grainy, as a camera's photograph."""
    rng = np.random.default_rng(number)
    look = draw_look(rng)._replace(width=width, height=height, coverage=0.95)
    image, *_ = draw_eye(number % 5, "right", look, rng)
    cv2.setRNGSeed(number)
    grain = cv2.randn(np.empty_like(image, np.int16), (0, 0, 0), (GRAIN, GRAIN, GRAIN))
    noisy = cv2.add(image[..., ::-1], grain, dtype=cv2.CV_8U)
    quality = QUALITY if (width, height) == LARGEST else QUALITY_SHRUNK
    cv2.imwrite(
        str(path), noisy, [cv2.IMWRITE_JPEG_QUALITY, quality] if path.suffix == ".jpg" else []
    )
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
        path = draw_photograph(folder / f"eye{suffix}", width, height, 2)
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
            to_decode = np.array(of_files)[:, :2].T
            to_voets = np.array(of_files)[:, 2:].T
            limit = f"the median at most {REAL[low, high]}; " if REAL[low, high] else ""
            print(
                f"real JPEGs of {low} to {high} px, n = {len(of_files)} files, median [least,"
                f" most]: crop / cv2.imread CPU {_spread(to_decode[0], 2)}, wall"
                f" {_spread(to_decode[1], 2)}, {limit}crop / voets CPU {_spread(to_voets[0], 2)},"
                f" wall {_spread(to_voets[1], 2)}, each at most 1"
            )


def _compare_crop(what: str, path: Path) -> list[float]:
    """Print the ratios of one file, and return their medians: to the decode (CPU, wall), to
    voets (CPU, wall).
    """
    name = str(path)
    times = np.empty((REPEATS + 1, 3, 2))
    ways = (
        lambda: crop_fundus(name),
        lambda: cv2.imread(name),
        lambda: crop_fundus(name, method="voets"),
    )
    for turn in times:
        for k, way in enumerate(ways):
            start = time.thread_time(), time.perf_counter()
            way()
            turn[k] = time.thread_time() - start[0], time.perf_counter() - start[1]
    times = times[1:]  # after one warm-up
    ratios = (times[:, :1] / times[:, 1:]).reshape(REPEATS, 4)
    crop, decode, voets = 1000 * np.median(times[..., 0], axis=0)
    spreads = [
        "{1:.2f} [{0:.2f}, {2:.2f}]".format(*np.percentile(ratio, [25, 50, 75]))
        for ratio in ratios.T
    ]
    to_decode = "; ".join(spreads[:2])
    to_voets = "; ".join(spreads[2:])
    size = path.stat().st_size / 1e6
    print(
        f"{what:32} {size:.2f} MB  crop {crop:5.1f} decode {decode:5.1f} voets {voets:5.1f} |"
        f" {to_decode} | {to_voets}",
        flush=True,
    )
    return np.median(ratios, axis=0).tolist()


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
            decode_ms += [
                _time_decode(path) for path in sorted((folder / str(FEW)).iterdir())[:8]
            ]
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
        gains = _spread(workers * ones[:, 1] / taken[:, 1], 2)
        print(
            f"  {workers} cores: {_spread((MANY - FEW) / taken[:, 0])} photographs/s,"
            f" {_spread(ones[:, 0] / taken[:, 0], 2)} times one core's, by CPU time {gains};"
            f" CPU {_spread(1000 * taken[:, 1] / (MANY - FEW))} ms a photograph"
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
            draw_photograph(path, *LARGEST, number)
        os.link(path, folder / str(count) / path.name)
        lines.append(f"{path.name},{number},right,{number % 5}")
    (folder / f"{count}.csv").write_text("\n".join(lines) + "\n")


def _time_decode(path: Path) -> float:
    start = time.perf_counter()
    cv2.imread(str(path))
    return 1000 * (time.perf_counter() - start)


def _prepare(folder: Path, count: int, cores: list[int]) -> tuple[float, float, float]:
    """Prepare in processes that may use those cores alone: seconds, those of their CPU time, and
    the peak of their resident memory in MiB.
    """
    with tempfile.TemporaryDirectory() as out:
        arguments = [
            folder / str(count),
            folder / f"{count}.csv",
            Path(out) / "records",
            len(cores),
        ]
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
    try:
        for process in (parent := psutil.Process(pid), *parent.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        return total
    return total


def _spread(values: np.ndarray, digits: int = 1) -> str:
    return (
        f"{np.median(values):.{digits}f} [{values.min():.{digits}f}, {values.max():.{digits}f}]"
    )


def main() -> None:
    """Print every comparison; cores are those of the machine, OpenCV on one thread."""
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as name:
        for part in (compare_crops, measure_prepare):
            part(Path(name))


if __name__ == "__main__":
    main()
