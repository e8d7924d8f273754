"""Rows that the notebooks wrote, one of each kind, and copies of them: other devices, levels, times, no new column."""

import itertools
import json
from pathlib import Path

import pandas as pd

with Path(__file__).with_name("rows.jsonl").open(encoding="utf-8") as file:
    ROWS = {
        (row["notebook"][:2], row.get("implementation", row.get("format", ""))): row for row in map(json.loads, file)
    }

CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
F4S = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1, "instance_type": "F4s_v2"}
NC4AS = {"platform": "local", "accelerator": "Tesla T4", "num_accelerators": 1, "instance_type": "NC4as_T4_v3"}
T4X2 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v2", "num_accelerators": 1}
PAPER_A = {"model": "inception_v3", "image_size": 299, "epochs": 200, "data_kind": "photographs"}
PAPER_C = {"data_kind": "given", "data_share": 1.0, "epochs": 10}


def copy_row(notebook: str, kind: str = "", /, **columns) -> dict:
    """A row of a notebook with other values, as on a quiet machine; a column that it does not write is refused."""
    row = ROWS[notebook, kind]
    assert set(columns) <= set(row), f"notebook {notebook} writes no {set(columns) - set(row)}"
    return row | {"disturbed": False} | columns


def train_referable(seconds, hardware, **columns) -> pd.DataFrame:
    """Trainings of notebook 10 as paper A's, one for each time."""
    about = PAPER_A | hardware | columns
    rows = [copy_row("10", train_s=float(s), run_id=f"{s}-{k}", **about) for k, s in enumerate(seconds)]
    return pd.DataFrame(rows)


def run_scenarios(repetitions=(0.98, 1.0, 1.02), hardware=CPU, only=None, **columns) -> pd.DataFrame:
    """Paper C's cells: MXNet 1, PyTorch 2, TensorFlow 5 s; 64 px 3 times, Rede 2 1.5 times, CIFAR-10 5/6 as long.

    `only` takes a cell's framework, dataset, image side and network, and gives a factor on its time, or 0 for no row.
    """
    rows, factor = [], only or (lambda *cell: 1.0)
    for framework, base_s in {"mxnet": 1.0, "pytorch": 2.0, "tensorflow": 5.0}.items():
        for dataset, size, network in itertools.product(["mnist", "cifar10"], [32, 64], [1, 2]):
            epoch_s = base_s * (1 if dataset == "mnist" else 5 / 6) * (size // 32 * 2 - 1) * (1 + (network == 2) / 2)
            cell, images = (framework, dataset, size, network), 60_000 if dataset == "mnist" else 50_000
            for k, r in enumerate(repetitions):
                s = epoch_s * factor(*cell) * r
                times = {"steady_epoch_s": s, "train_s": 10 * s, "images_per_s": images / s} if s else None
                about = dict(zip(("framework", "dataset", "image_size", "network"), cell, strict=True)) | hardware
                about |= {"run_id": f"{cell}-{hardware}-{k}"} | columns
                rows += [copy_row("30", **about | times)] if times else []
    return pd.DataFrame(rows)
