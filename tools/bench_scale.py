"""Measure what docs/scale.md calculates large numbers from: python -m tools.bench_scale [PART ...].

Rates of one machine, each a median with the least and the most of its turns, go to tools/scale.csv;
what follows from them by the page's formulas, and by a simulated queue, goes to the page. Needs
Linux. The parts are prepare, stream, search, evaluate, runs, answers; with `none` the page is
written from the CSV.
"""

import heapq
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import psutil
import yaml

from dr_lib.data.labels.near_duplicates import find_near_duplicates
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.sample import open_sample
from dr_lib.runs.prices import find_price
from dr_lib.runs.row import read_rows
from dr_lib.runs.run import measure_others
from dr_lib.runs.runner import run_study
from tests.rooms.serving.driver import run_process
from tools.bench import ROOT, draw_photograph, find_origin
from tools.bench_data import lay_out
from tools.bench_server import export_mobilenet, open_client
from tools.bench_stream import open_crops
from tools.measured import insert, write_table

TURNS = 3
NUM = 40  # photographs prepared
SEARCHED = {"search_10k_s": 10_000, "search_100k_s": 100_000, "search_1m_s": 1_000_000}
STUDY = {
    "notebook": "10_train",
    "repetitions": TURNS + 1,
    "parameters": {"model": "small_cnn", "image_size": 64, "epochs": 1},
}
CALLS = 200
NUM_PHOTOGRAPHS = 1_000_000
EVALUATED = 100_000
SIZES = np.array([1000, 10_000, 100_000, NUM_PHOTOGRAPHS])
NUM_RUNS = 1000
REQUESTS_PER_S = 10_000
PRICED = "F4s_v2"
PRICED_CORES = 4  # by the table of prices
CORES = np.array([2, 16, 64, 256])
TRAIN_S = np.array([60, 600, 3600])
UTILISATIONS = np.array([0.5, 0.7, 0.8, 0.9, 0.95])
SIMULATED = 400_000  # requests of a queue
NAMES = {
    "prepared_per_s": "photographs prepared in a second of a core's time",
    "photograph_mb": "size of a photograph, 3888 x 2592 [MB]",
    "crop_mib": "size of its crop in a shard, 299 px [MiB]",
    "crops_per_s": "crops read and decoded in a second of a core's time",
    "search_10k_s": "search for copies among 10,000 photographs, CPU time [s]",
    "search_100k_s": "the same among 100,000 [s]",
    "search_1m_s": "the same among 1,000,000 [s]",
    "evaluate_100k_s": "evaluation of 100,000 photographs, CPU time [s]",
    "evaluate_100k_gib": "memory of its largest process [GiB]",
    "overhead_s": "a run of notebook 10 beside its training, by the clock [s]",
    "overhead_cpu_s": "the same, CPU time [s]",
    "answers_per_s": "answers of a server in a second of a core's time",
}


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
    return {"prepared_per_s": rates, "photograph_mb": [mb], "crop_mib": [mib]}


def measure_stream(folder: Path) -> dict[str, list[float]]:
    """Crops of 299 px that a core reads from shards, in a random order, and decodes in a second
    of CPU time.
    """
    order = np.random.default_rng(0).permutation(400)
    crops = open_crops(open_sample(folder), 400, 1)
    parts = np.array_split(order, 25)
    return {"crops_per_s": find_rates(400, lambda: [crops[part] for part in parts])}


def measure_search(_: Path) -> dict[str, list[float]]:
    """CPU seconds of the search for copies among hashes of photographs of which none is a copy."""
    spent = {}
    for name, num in SEARCHED.items():
        hashes = np.random.default_rng(0).integers(0, 256, (num, 32), np.uint8)
        spent[name] = []
        for _ in range(TURNS if num < NUM_PHOTOGRAPHS else 1):
            with timed(spent[name]):
                find_near_duplicates(hashes)
    return spent


def measure_evaluate(folder: Path) -> dict[str, list[float]]:
    """CPU seconds of `evaluate` and GiB of its largest process: both eyes of each patient, one in
    ten patients on the validation side.
    """
    rng = np.random.default_rng(0)
    num_patients = EVALUATED // 2
    grades = rng.choice(5, EVALUATED, p=[0.7, 0.1, 0.13, 0.04, 0.03])
    scores = np.exp(rng.normal(2 * (np.arange(5) == grades[:, None]), 1.2))
    sides = np.where(rng.random(num_patients) < 0.1, "validation", "test")
    table = pd.DataFrame(scores / scores.sum(axis=1, keepdims=True)).add_prefix("probability_")
    table.insert(0, "grade", grades)
    table.insert(0, "split", np.repeat(sides, 2))
    table.insert(0, "patient_id", np.repeat(np.arange(num_patients), 2))
    table.insert(0, "image_id", np.arange(EVALUATED))
    path = folder / "predictions.csv"
    table.to_csv(path, index=False, float_format="%.6f")
    command = [sys.executable, "-m", "dr_lib", "evaluate", path, "--out", folder / "report"]
    spent = []
    with timed(spent):
        subprocess.run(command, cwd=ROOT, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return {"evaluate_100k_s": spent, "evaluate_100k_gib": [peak]}


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
    return {"overhead_s": seconds[1:], "overhead_cpu_s": cpu_s[1:]}


def measure_answers(folder: Path) -> dict[str, list[float]]:
    """Answers that a server gives in a second of CPU time: 8-bit MobileNet, photographs of 1024 px
    as they are uploaded.
    """
    body = draw_photograph(1024, 768)
    rates = []
    with run_process(export_mobilenet(folder), folder / "log") as server:
        post = open_client(server.port)
        process = psutil.Process(server.process.pid)
        family = [process, *process.children(recursive=True)]
        before = 0.0
        for turn in range(TURNS + 2):
            cpu_s = sum(sum(member.cpu_times()[:2]) for member in family)
            rates += [CALLS / (cpu_s - before)] * (turn > 1)  # after one warm-up
            before = cpu_s
            for _ in range(CALLS):
                post(body)
    return {"answers_per_s": rates}


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


def simulate_responses(utilisation: float, cores: int) -> np.ndarray:
    """Response times of one machine's queue, in lengths of an answer: requests come at random,
    each takes a core for the same time, first come, first served (M/D/c).
    """
    rng = np.random.default_rng(0)
    arrivals = rng.exponential(1 / (utilisation * cores), SIMULATED).cumsum()
    free = [0.0] * cores  # when each core is
    responses = np.empty(SIMULATED)
    for number, arrival in enumerate(arrivals):
        end = max(arrival, free[0]) + 1
        heapq.heapreplace(free, end)
        responses[number] = end - arrival
    return responses[SIMULATED // 10 :]  # the queue is empty at first


def render(rates: pd.DataFrame) -> str:
    """The page's tables: the rates, then what follows from them."""
    rate = rates["median"]
    usd = find_price(PRICED).usd_per_hour
    measured = {
        "what": [NAMES[name] for name in rates.index],
        "median": rate.array,
        "least": rates["low"].array,
        "most": rates["high"].array,
    }
    sources = "; ".join(rates["hardware"].unique())
    commits = ", ".join(rates["commit"].unique())
    dates = ", ".join(rates["date"].unique())
    others = f"others took up to {rates['others'].max():.0%} of the CPU"
    few = rate["search_10k_s"]  # on one core; more than 20,000 take all
    search_s = [few / 100, few, rate["search_100k_s"] / 2, rate["search_1m_s"] / 2]
    prepare_h = SIZES / rate["prepared_per_s"] / 3600
    sizes = {
        "photographs": [f"{size:,}" for size in SIZES],
        "on disk [GB]": SIZES * rate["photograph_mb"] / 1000,
        "shards [GiB]": SIZES * rate["crop_mib"] / 1024,
        "preparing on 2 cores [h]": prepare_h / 2,
        "search for copies on 2 cores [s]": search_s,
        f"price of preparing [USD], {PRICED}": prepare_h / PRICED_CORES * usd,
    }
    prepared = {
        "cores": CORES,
        "preparing [h]": prepare_h[-1] / CORES,
        "reading needed [MB/s]": rate["prepared_per_s"] * CORES * rate["photograph_mb"],
        "shards [GiB]": sizes["shards [GiB]"][-1],
        "decoding an epoch [min]": NUM_PHOTOGRAPHS / rate["crops_per_s"] / CORES / 60,
    }
    run_s = TRAIN_S + rate["overhead_s"]
    hours = NUM_RUNS * run_s / 3600
    runs = {
        "training [s]": TRAIN_S,
        "all runs [h]": hours,
        "not training [%]": 100 * rate["overhead_s"] / run_s,
        f"price [USD], {PRICED} at {usd} an hour": usd * hours,
    }
    length_ms = 1000 / rate["answers_per_s"]
    responses = [length_ms * simulate_responses(share, PRICED_CORES) for share in UTILISATIONS]
    machines = REQUESTS_PER_S / (UTILISATIONS * PRICED_CORES * rate["answers_per_s"])
    served = {
        "cores at work [%]": 100 * UTILISATIONS,
        f"machines of {PRICED_CORES} cores": np.ceil(machines),
        "median response [ms]": np.median(responses, axis=1),
        "99th percentile [ms]": np.percentile(responses, 99, axis=1),
        f"price an hour [USD], {PRICED}": usd * np.ceil(machines),
    }
    return "\n\n".join(
        [
            write(measured),
            f"{sources}; commits {commits}; {dates};\nn = {TURNS} turns, one of 1,000,000 and of"
            f" the evaluation; {others}.",
            "### By number of photographs",
            write(sizes),
            "Preparing, its bytes and its price are multiplied, in every row. The search was"
            " measured in the rows of 10,000\nand 100,000 photographs; that of 1,000 is a"
            " hundredth of the first.",
            f"### {NUM_PHOTOGRAPHS:,} photographs",
            write(prepared),
            f"### {NUM_RUNS:,} runs on one machine",
            write(runs),
            f"### {REQUESTS_PER_S:,} requests a second",
            write(served),
        ]
    )


def write(columns: dict[str, Sequence]) -> str:
    """A table in Markdown, numbers with three digits."""

    def round_off(cell: object) -> object:
        return f"{float(f'{cell:.3g}'):,.10g}" if isinstance(cell, float) else cell

    return write_table(pd.DataFrame(columns, dtype=object).map(round_off))


def main() -> None:
    """Measure all parts, or those that are named, write tools/scale.csv and the page."""
    path = ROOT / "tools" / "scale.csv"
    rows = []
    for measure in (
        measure_prepare,
        measure_stream,
        measure_search,
        measure_evaluate,
        measure_runs,
        measure_answers,
    ):
        if len(sys.argv) > 1 and measure.__name__.split("_")[1] not in sys.argv:
            continue
        others = measure_others(5.0)
        with tempfile.TemporaryDirectory() as name:
            rates = measure(Path(name))
        others = (others + measure_others(5.0)) / 2
        for key, values in rates.items():
            row = {
                "rate": key,
                "median": np.median(values),
                "low": min(values),
                "high": max(values),
                **find_origin(),
                "others": others,
            }
            rows.append(row)
            print(row, flush=True)
    table = pd.read_csv(path, index_col="rate")
    if rows:
        measured = pd.DataFrame(rows).set_index("rate")
        table = pd.concat([measured, table[~table.index.isin(measured.index)]])
    table = table.reindex(list(NAMES))
    table.to_csv(path, float_format="%.4g")
    print(tables := render(table))
    insert(ROOT / "docs" / "scale.md", "scale", tables)


if __name__ == "__main__":
    main()
