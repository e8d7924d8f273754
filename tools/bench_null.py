"""Null studies of the smallest training, in one process: python -m tools.bench_null [--out CSV].

Each study trains small_cnn at 32 px in two equal arms, five times each, in random order within
each repetition. Twenty studies are made as the machine is, and twenty beside a process that
multiplies matrices on one CPU. Nominally one interval in twenty misses 1, the ratio of the arms.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

from dr_lib import hardware
from dr_lib.report.select import measure
from dr_lib.runs.row import ARMS
from dr_lib.runs.run import measure_others
from dr_lib.statistics.precision import measure_spread
from dr_lib.training.config import TrainingConfig
from dr_lib.training.train_once import set_up
from tests.training.simulation import draw_splits

STUDIES = 20
REPETITIONS = 5  # of each arm
EPOCHS = 1
BUSY = "import numpy as np\na = np.ones((700, 700))\nwhile True:\n    a @ a"


def make_study(fit, generator: random.Random) -> pd.DataFrame:
    """Seconds of each training, by arm, in the order of `plan_runs`."""
    rows = []
    for _ in range(REPETITIONS):
        for arm in generator.sample(ARMS, len(ARMS)):
            start = time.perf_counter()
            fit()
            seconds = time.perf_counter() - start
            rows.append({"arm": arm, "train_s": seconds, "session": "one"})
    return pd.DataFrame(rows)


def measure_studies(name: str, fit, generator: random.Random) -> pd.DataFrame:
    """A row for each study: the ratio of the arms, how much runs vary, and who else worked."""
    lines = []
    for study in range(STUDIES):
        others = measure_others(0.5)
        runs = make_study(fit, generator)
        arms = [rows for _, rows in runs.groupby("arm")]
        ratio = measure("train_s", *arms)
        line = {
            "condition": name,
            "study": study,
            "mean_s": runs["train_s"].mean(),
            "ratio": ratio.value,
            "low": ratio.low,
            "high": ratio.high,
            "misses": not ratio.low <= 1 <= ratio.high,
            "others_cpu_share": others,
            "cv": measure_spread(*(rows["train_s"] for rows in arms)).cv,
            "load": os.getloadavg()[0],
        }
        lines.append(line)
        print(line, file=sys.stderr, flush=True)
    return pd.DataFrame(lines)


def main() -> None:
    """Measure, and print a table of both conditions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="CSV to write, a row per study")
    options = parser.parse_args()
    split = draw_splits(64, 32)["train"]
    settings = {"model": "small_cnn", "image_size": 32, "batch_size": 8, "seed": 0}
    config = TrainingConfig("", num_devices=1, **settings)
    plan = config.plan(hardware.probe(), len(split.images))
    setup = set_up(config, hardware.activate(plan), {"train": split})

    from dr_lib.training.checkpoint import CHECKPOINT
    from dr_lib.training.fit import train
    from dr_lib.training.recorder import Recorder

    weights = setup.model.get_weights()
    with tempfile.TemporaryDirectory() as folder:

        def fit() -> None:
            (Path(folder) / CHECKPOINT).unlink(missing_ok=True)
            setup.model.set_weights(weights)
            recorder = Recorder(Path(folder))
            train(setup.model, setup.train_batches, None, recorder, epochs=EPOCHS)

        fit()  # compiles
        generator = random.Random(0)
        tables = [measure_studies("as the machine was", fit, generator)]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        busy = subprocess.Popen([sys.executable, "-c", BUSY], env=alone)
        try:
            tables.append(measure_studies("beside a busy process", fit, generator))
        finally:
            busy.kill()
            busy.wait()
    table = pd.concat(tables)
    if options.out:
        table.to_csv(options.out, index=False)
    found = table.groupby("condition")
    print(found["misses"].agg(["sum", "size"]).join(found.mean(numeric_only=True)).to_string())


if __name__ == "__main__":
    main()
