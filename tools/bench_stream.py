"""Measured comparisons of streaming crops from disk: python -m tools.bench_stream [--records
FOLDER].

Threads beside processes, one core beside one core of tf.data on the same shards, memory from 10,000
to 100,000 records, and what streaming adds to a step of MobileNet.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.sample import open_sample
from dr_lib.data.prepared.stream import StoredCrops
from tools.bench import describe, time_in_turn

SIZE = 299
BATCH = 16
REPEATS = 15
FEW = 10_000
MANY = 100_000  # records, those of the sample over and over
STEPS = 12
STEP_BATCH = 8
TURNS = 7  # of MobileNet, in a turn


def open_crops(data_dir: Path, number: int, num_threads: int = 0) -> StoredCrops:
    """So many crops of a prepared folder, which begins anew where it ends."""
    prepared = Prepared(data_dir)
    rows = np.arange(number) % len(prepared.photographs)
    return prepared.open_crops(prepared.photographs.iloc[rows], SIZE, num_threads)


def compare(
    what: str, number: int, ours: Callable[[], object], peer: Callable[[], object]
) -> None:
    """Run both in turn after one warm-up; print images a second of wall and of CPU time, and the
    ratios' quartiles.
    """
    workers = psutil.Process().children(recursive=True)

    def read_cpu_s() -> float:
        return time.process_time() + sum(sum(worker.cpu_times()[:2]) for worker in workers)

    clocks = (time.perf_counter, read_cpu_s)
    rates = number / time_in_turn(ours, peer, repeats=REPEATS, clocks=clocks)
    for name, (one, other) in zip(("wall", "CPU"), rates, strict=True):
        print(
            f"{what}, images per second of {name} time: {np.median(one):.0f} /"
            f" {np.median(other):.0f} = {describe(one / other)}",
            flush=True,
        )


def decode_part(data_dir: Path, rows: np.ndarray) -> np.ndarray:
    """What a worker process does."""
    name = (data_dir, "crops")
    if name not in CACHE:
        CACHE[name] = open_crops(data_dir, 400, 1)
    return CACHE[name][rows]


CACHE: dict = {}


def compare_processes(data_dir: Path, workers: int) -> None:
    """So many threads beside as many spawned processes that send the pixels back."""
    crops = open_crops(data_dir, 400, workers)
    order = np.random.default_rng(0).permutation(400)
    parts = np.array_split(order, 400 // BATCH)
    start = time.perf_counter()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(decode_part, [data_dir] * len(parts), parts))
        took = time.perf_counter() - start
        what = f"{workers} threads / {workers} processes"
        compare(
            what,
            len(order),
            lambda: [crops[part] for part in parts],
            lambda: list(pool.map(decode_part, [data_dir] * len(parts), parts)),
        )
        sizes = [
            child.memory_info().rss / 2**20
            for child in psutil.Process().children(recursive=True)
        ]
    print(
        f"{what}: the processes' first 400 images took {took:.1f} s, the largest holds"
        f" {max(sizes):.0f} MiB"
    )


def compare_tensorflow(data_dir: Path) -> None:
    """One thread on one core, in a random order, beside one of tf.data, which reads the shards from
    end to end.

    By default TensorFlow decodes by a faster transform that differs in some pixels;
    INTEGER_ACCURATE gives ours.
    """
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(mine)})
    import tensorflow as tf

    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}

    def open_batches(method: str) -> tf.data.Dataset:
        def decode(example):
            encoded = tf.io.parse_single_example(example, features)["image/encoded"]
            return tf.io.decode_jpeg(encoded, channels=3, dct_method=method)

        return tf.data.TFRecordDataset(shards).map(decode).batch(BATCH).with_options(options)

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    shards = sorted(map(str, data_dir.glob("*.tfrecord")))
    number = len(Prepared(data_dir).photographs)
    crops = open_crops(data_dir, number, 1)
    order = np.random.default_rng(0).permutation(number)

    def read_ours() -> None:
        for start in range(0, number, BATCH):
            crops[order[start : start + BATCH]]

    for method in ("INTEGER_ACCURATE", ""):
        batches = open_batches(method)
        same = np.mean(np.concatenate(list(batches)) == crops[:])
        what = (
            f"crops of {SIZE} px on one core, ours / tf.data {method} ({same:.1%} of the values are"
            " equal)"
        )
        compare(what, number, read_ours, lambda batches=batches: deque(batches, maxlen=0))
    os.sched_setaffinity(0, mine)


def measure_peak(data_dir: Path, number: int) -> None:
    """Fit the smallest of networks for an epoch of so many records; print this process's peak
    memory in MiB.
    """
    import resource

    import keras

    from dr_lib.data.prepared.batches import Batches

    crops = open_crops(data_dir, number)
    inputs = keras.Input((SIZE, SIZE, 3), dtype="uint8")
    pixel = keras.layers.Rescaling(1 / 255)(keras.layers.Cropping2D(SIZE // 2)(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(pixel)))
    model.compile("sgd", "mse")
    model.fit(
        Batches(crops, np.zeros(number, np.float32), BATCH, shuffle_seed=0),
        shuffle=False,
        verbose=0,
    )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)


def run_again(data_dir: Path, *options: object, **environment: str) -> str:
    """Run this bench in a process of its own with hidden options; return what it prints."""
    command = [sys.executable, "-m", "tools.bench_stream", "--records", data_dir, *options]
    environment = os.environ | environment
    return subprocess.check_output(list(map(str, command)), env=environment, text=True)


def compare_memory(data_dir: Path) -> None:
    """The peak of a process that streams many records beside that of one that streams few."""
    peaks = []
    for number in (FEW, MANY):
        peaks.append(float(run_again(data_dir, "--peak", number).split()[-1]))
        print(
            f"peak memory, {number:,} records of {SIZE} px, an epoch of fit: {peaks[-1]:.0f} MiB,"
            " n = 1",
            flush=True,
        )
    pixels = (MANY - FEW) * SIZE**2 * 3 / 2**20
    print(
        f"peak memory: {peaks[1] - peaks[0]:+.0f} MiB; decoded, these records more take"
        f" {pixels:.0f} MiB",
        flush=True,
    )


def time_steps(data_dir: Path, model: str, turns: int) -> np.ndarray:
    """Seconds of a network's steps on streamed crops and on the same in memory, (2, turns)."""
    import keras

    from dr_lib.data.prepared.batches import Batches
    from dr_lib.training import fit, models

    number = STEPS * STEP_BATCH
    crops = open_crops(data_dir, number)
    feeds = [
        Batches(images, np.zeros(number, np.float32), STEP_BATCH, shuffle_seed=0)
        for images in (crops, crops[:])
    ]
    network = models.build_model(model, SIZE)
    fit.compile_model(network, capacity=number, jit=keras.config.backend() == "jax")
    streamed, kept = (
        lambda feed=feed: network.fit(feed, shuffle=False, verbose=0) for feed in feeds
    )
    return time_in_turn(streamed, kept, repeats=turns)[0]


def measure_steps(data_dir: Path) -> None:
    """Print the share that streaming adds to MobileNet's steps."""
    import keras

    times = time_steps(data_dir, "mobilenet", TURNS)
    step = 1000 * np.median(times[0]) / STEPS
    print(
        f"MobileNet, {SIZE} px, batch {STEP_BATCH}, {keras.config.backend()}: share of a step of"
        f" {step:.0f} ms that streaming adds: {describe(1 - times[1] / times[0], '{:.1%}')}"
    )


def main() -> None:
    """Print every comparison; steps in a process of their own, for each backend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--records", type=Path, help="prepared folder; by default the sample, drawn anew"
    )
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--steps", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        return measure_peak(given.records, given.peak)
    if given.steps:
        return measure_steps(given.records)
    with tempfile.TemporaryDirectory() as name:
        data_dir = given.records or open_sample(Path(name))
        compare_processes(data_dir, 2)
        compare_tensorflow(data_dir)
        for backend in ("tensorflow", "jax"):
            print(run_again(data_dir, "--steps", KERAS_BACKEND=backend), end="", flush=True)
        compare_memory(data_dir)


if __name__ == "__main__":
    main()
