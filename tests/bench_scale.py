"""Measure what the READMEs calculate a million photographs and a thousand runs from:
tests/bench_scale.py [PART ...].

Rates of one machine, each a median with the least and the most of its turns, then what follows from
them by the formulas of the READMEs, whose tables it writes, and tests/scale.csv. Needs Linux.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import cv2
import numpy as np
import pandas as pd
import yaml

from dr_lib import hardware
from dr_lib.data.labels.near_duplicates import find_near_duplicates
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.sample import open_sample
from dr_lib.processes import read_commit
from dr_lib.runs.prices import find_price
from dr_lib.runs.row import read_rows
from dr_lib.runs.run import measure_others
from dr_lib.runs.runner import run_study
from tests.bench_data import lay_out
from tests.bench_stream import open_crops

TURNS = 3
NUM = 40  # photographs prepared
HASHES = 20_000
STUDY = {
    "notebook": "10_train",
    "repetitions": TURNS + 1,
    "parameters": {"model": "small_cnn", "image_size": 64, "epochs": 1},
}
N = 1_000_000
RUNS = 1000
PRICED = "F4s_v2"
CORES = (2, 16, 64, 256)
TRAIN_S = (60, 600, 3600)
ABOUT = ("hardware", "commit", "date")
README = "(?s)(?<=<!-- scale -->\n)(.*)(?=<!-- /scale -->)"


def measure_prepare(folder: Path) -> dict[str, list[float]]:
    """Photographs that a core prepares in a second of CPU time; MB of a photograph, MiB of its
    record.
    """
    lay_out(folder, NUM)
    images = folder / str(NUM)
    outs = (folder / f"records-{turn}" for turn in count())
    cv2.setNumThreads(1)
    rates = find_rates(
        NUM,
        lambda: prepare(images, folder / f"{NUM}.csv", next(outs), scheme="paper", workers=1),
    )
    mb = sum(file.stat().st_size for file in images.iterdir()) / NUM / 1e6
    mib = sum(file.stat().st_size for file in folder.glob("records-0/*.tfrecord")) / NUM / 2**20
    return {"c": rates, "b": [mb], "m": [mib]}


def measure_stream(folder: Path) -> dict[str, list[float]]:
    """Crops of 299 px that a core reads from shards, in a random order, and decodes in a second
    of CPU time.
    """
    order = np.random.default_rng(0).permutation(400)
    crops = open_crops(open_sample(folder), 400, 1)
    return {"d": find_rates(400, lambda: [crops[part] for part in np.array_split(order, 25)])}


def measure_pairs(_: Path) -> dict[str, list[float]]:
    """Pairs of photographs that a core compares for copies in a second of CPU time."""
    hashes = np.random.default_rng(0).integers(0, 256, (HASHES, 32), np.uint8)
    return {"g": find_rates(HASHES**2 / 2, lambda: find_near_duplicates(hashes))}


def measure_runs(folder: Path) -> dict[str, list[float]]:
    """Seconds of a run of notebook 10 beside those of its training: by the clock, and of CPU
    time.
    """
    path = folder / "scale.yaml"
    seconds = []
    cpu_s = []
    path.write_text(yaml.safe_dump(STUDY))
    for repetition in range(TURNS + 1):  # the first draws the sample
        start = time.perf_counter()
        with timed(cpu_s):
            assert not run_study(path, ROOT, only=f"C1-r{repetition:02d}", show_progress=False)
        taken = time.perf_counter() - start
        (row,) = (row for row in read_rows(folder / "scale") if row["repetition"] == repetition)
        seconds.append(taken - row["train_s"])
        cpu_s[-1] -= row["cpu_s"]
    return {"s": seconds[1:], "u": cpu_s[1:]}


def find_rates(number: float, work: Callable[[], object]) -> list[float]:
    """So many of them in a second of CPU time, in turns after one warm-up."""
    spent = []
    for _ in range(TURNS + 1):
        with timed(spent):
            work()
    return [number / seconds for seconds in spent[1:]]


@contextmanager
def timed(spent: list[float]) -> Iterator[None]:
    """Add the CPU seconds of this process and of its children that ended: others change them
    less than the clock.
    """
    start = os.times()
    yield
    spent.append(sum(os.times()[:4]) - sum(start[:4]))


def render(rates: pd.DataFrame) -> str:
    """The READMEs' tables: the rates, then what a million photographs and a thousand runs take
    by their formulas.
    """
    c, b, m, d, g, s = rates["median"][["c", "b", "m", "d", "g", "s"]]
    usd = find_price(PRICED).usd_per_hour
    about = [", ".join(map(str, rates[name].unique())) for name in ABOUT]
    spread = [
        f"{_round(row.low)} ... {_round(row.high)}" * (row.low < row.high)
        for row in rates.itertuples()
    ]
    about.append(f"n = {TURNS}; others: up to {rates['others'].max():.0%} of the CPU")
    prepared = {
        "k": CORES,
        "N/(c k) [h]": [N / c / k / 3600 for k in CORES],
        "c k b [MB/s]": [c * k * b for k in CORES],
        "N²/(2 g) [h]": [N**2 / 2 / g / 3600] * len(CORES),
        "N m [GiB]": [N * m / 1024] * len(CORES),
        "N/(d k) [min]": [N / d / k / 60 for k in CORES],
    }
    hours = [RUNS * (t + s) / 3600 for t in TRAIN_S]
    run = {
        "t [s]": TRAIN_S,
        "R (t + s) [h]": hours,
        "s/(t + s) [%]": [100 * s / (t + s) for t in TRAIN_S],
        f"USD ({PRICED}, {usd}/h)": [usd * hour for hour in hours],
    }
    tables = [
        _table([["", *rates.index], ["", *rates["median"]], ["", *spread]]),
        "; ".join(about),
        f"N = {N:,}, R = {RUNS:,}, 2 g/(c N) = {_round(2 * g / c / N)}:",
        *(
            _table([list(table), *zip(*table.values(), strict=True)])
            for table in (prepared, run)
        ),
    ]
    return "\n\n".join(tables)


def _table(lines: list[list]) -> str:
    """A table in Markdown, numbers with three digits."""
    head, *rows = [
        [_round(cell) if isinstance(cell, float) else str(cell) for cell in line]
        for line in lines
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _round(number: float) -> str:
    return f"{float(f'{number:.3g}'):,.10g}"


def main() -> None:
    """Measure all parts, or those that are named, write tests/scale.csv, and show it in the
    READMEs.
    """
    facts = hardware.probe()
    path = ROOT / "tests" / "scale.csv"
    rows = []
    about = {
        "hardware": f"{facts.cpu}, {facts.num_cpus} cores",
        "commit": read_commit(ROOT)[:12],
    }
    parts = (measure_prepare, measure_stream, measure_pairs, measure_runs)
    for measure in (
        part for part in parts if len(sys.argv) == 1 or part.__name__.split("_")[1] in sys.argv
    ):
        others = measure_others(5.0)
        with tempfile.TemporaryDirectory() as name:
            rates = measure(Path(name))
        about |= {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "others": (others + measure_others(5.0)) / 2,
        }
        for key, values in rates.items():
            row = {
                "symbol": key,
                "median": np.median(values),
                "low": min(values),
                "high": max(values),
            }
            rows.append(row | about)
            print(rows[-1], flush=True)
    table = pd.DataFrame(rows).set_index("symbol")
    if path.exists():
        kept = pd.read_csv(path, index_col="symbol")
        table = pd.concat([table, kept[~kept.index.isin(table.index)]])
    table = table.reindex(list("cbmdgsu"))
    table.to_csv(path, float_format="%.4g")
    print(tables := render(table))
    for readme in (ROOT / "README.md", ROOT / "README.pt-BR.md"):
        before, _, after = re.split(README, readme.read_text())
        readme.write_text(f"{before}{tables}\n{after}")


if __name__ == "__main__":
    main()
