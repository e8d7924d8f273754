"""Rows that the notebooks wrote, one of each kind, and copies of them: other devices, levels,
times, no new column.
"""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd

with Path(__file__).with_name("rows.jsonl").open(encoding="utf-8") as file:
    ROWS = {
        (row["notebook"][:2], row.get("implementation", row.get("format", ""))): row
        for row in map(json.loads, file)
    }

CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
F4S = CPU | {
    "priced_as": "F4s_v2",
    "cpu": "Intel(R) Xeon(R) Platinum 8272CL CPU @ 2.60GHz",
    "num_cpus": 4,
}
NC4AS = CPU | {
    "accelerator": "Tesla T4",
    "priced_as": "NC4as_T4_v3",
    "cpu": "AMD EPYC 7V12 64-Core Processor",
    "num_cpus": 4,
}
T4X2 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v2", "num_accelerators": 1}
PAPER_A = {
    "mode": "plain",
    "model": "inception_v3",
    "image_size": 299,
    "epochs": 200,
    "data_kind": "photographs",
    "num_images_train": 700,
    "num_images_validation": 0,
    "num_images_test": 300,
    "metric_auc_test": 0.93,
    "metric_auc_test_low": 0.9,
}
PAPER_B = {
    "platform": "remote",
    "endpoint": "remote",
    "data_kind": "photographs",
    "image_size": 224,
    "num_requests": 25,
    "gap_s": 5.0,
}
PAPER_C = {
    "data_kind": "given",
    "data_share": 1.0,
    "batch_size": 128,
    "epochs": 10,
    "evaluate_every": 0,
}
PAPER_D = {"data_kind": "given", "data_share": 1.0, "epochs": 40}
COLAB_CPU = {
    "platform": "colab",
    "accelerator": "cpu",
    "cpu": "Intel(R) Xeon(R) CPU @ 2.20GHz",
    "num_cpus": 2,
}
SPREAD = np.linspace(-60, 60, 10)  # ten runs, evenly about their mean
COLAB_T4 = COLAB_CPU | {"accelerator": "Tesla T4"}


def copy_row(notebook: str, kind: str = "", /, **columns) -> dict:
    """A row of a notebook with other values, as on a quiet, warm machine; a column that it does not
    write is refused.
    """
    row = ROWS[notebook, kind]
    missing = columns.keys() - row.keys()
    advice = "run it, and put its row in the place of the old one in rows.jsonl"
    assert not missing, f"notebook {notebook} writes no {missing}; {advice}"
    return row | {name: False for name in ("disturbed", "cold") if name in row} | columns


def name_boot(hardware, k) -> str:
    """The k-th boot of a machine."""
    return f"{'/'.join(map(str, hardware.values()))} {k}"


def train_referable(seconds, hardware, **columns) -> pd.DataFrame:
    """Trainings of notebook 10 as paper A's, one for each time, each in a session of its own."""
    rows = []
    for k, s in enumerate(seconds):
        own = {"boot": name_boot(hardware, k), "seed": 20 + k}
        about = PAPER_A | hardware | own | columns
        rows.append(copy_row("10", train_s=float(s), run_id=f"{s}-{k}", **about))
    return pd.DataFrame(rows)


def both(gpu=3080 + SPREAD, tpu=1994 + SPREAD, **columns):
    """Ten trainings on two T4 and on a TPU, by default with the paper's means."""
    sides = [train_referable(gpu, T4X2, **columns), train_referable(tpu, TPU, **columns)]
    return pd.concat(sides, ignore_index=True)


def serve(times_ms, model, instance_type, **columns) -> pd.DataFrame:
    """Runs of paper B's networks, one for each time of a prediction; a call adds 195 ms."""
    rows = []
    for k, ms in enumerate(times_ms):
        name = f"{model}-{instance_type}-{ms}-{k}"
        row = copy_row("22", "savedmodel", **PAPER_B | {"seed": 20 + k} | columns)
        row.update(model=model, instance_type=instance_type, run_id=name)
        row.update(boot=name)
        row.update(predict_ms=float(ms), round_trip_ms=ms + 195.0)
        rows.append(row)
    return pd.DataFrame(rows)


def train_mnist(implementation, times_s, hardware, accuracy=None, **columns) -> pd.DataFrame:
    """Trainings of notebook 40 as paper D's, one for each time, each in a session of its own; the
    accuracy peaks in epoch 38.
    """
    rows = []
    for k, seconds in enumerate(times_s):
        kind = implementation if implementation.startswith("keras") else "fused"
        row = copy_row("40", kind, **PAPER_D | hardware | {"seed": 20 + k} | columns)
        row.update(implementation=implementation, run_id=f"{implementation}-{seconds}-{k}")
        row.update(train_s=float(seconds), boot=name_boot(hardware, k))
        row.update(epoch_s=[seconds / 40] * 40)
        row.update(epoch_accuracy=accuracy or [*np.linspace(0.8, 0.98, 38), 0.97, 0.97])
        rows.append(row)
    return pd.DataFrame(rows)


def run_scenarios(
    repetitions=(0.98, 1.0, 1.02), hardware=CPU, only=None, **columns
) -> pd.DataFrame:
    """Paper C's cells: MXNet 1, PyTorch 2, TensorFlow 5 s; 64 px 3 times, Rede 2 1.5 times,
    CIFAR-10 5/6 as long; each repetition in a session of its own.

    `only` takes a cell's framework, dataset, image side and network, and gives a factor on its
    time, or 0 for no row.
    """
    levels = {
        "framework": {"mxnet": 1.0, "pytorch": 2.0, "tensorflow": 5.0},
        "dataset": {"mnist": 1, "cifar10": 5 / 6},
        "image_size": {32: 1, 64: 3},
        "network": {1: 1, 2: 1.5},
    }
    rows = []
    for cell in itertools.product(*levels.values()):
        named = dict(zip(levels, cell, strict=True))
        epoch_s = math.prod(levels[name][level] for name, level in named.items())
        images = 60_000 if named["dataset"] == "mnist" else 50_000
        for k, r in enumerate(repetitions):
            # no two times of a real clock are equal, nor two uses of a machine
            noise = 1 + 1e-6 * (len(rows) * 37 % 101)
            s = epoch_s * (only(*cell) if only else 1) * r * noise
            if not s:
                continue
            own = {"run_id": f"{cell}-{hardware}-{k}", "boot": name_boot(hardware, k)}
            times = {"steady_epoch_s": s, "train_s": 10 * s, "images_per_s": images / s}
            about = named | hardware | own | {"seed": 20 + k, "repetition": k} | columns | times
            for name in [name for name in columns if name.endswith("percent_mean")]:
                about[name] = columns[name] * noise
            rows.append(copy_row("30", **about))
    return pd.DataFrame(rows)
