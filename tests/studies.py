"""Small studies of rows and predictions on which the analysis notebooks have all of their
figures to draw.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from dr_lib.runs.row import write_row
from tests.report.predictions import draw_predictions
from tests.report.real_rows import CPU, T4X2, copy_row, run_scenarios, train_referable

PREDICTIONS = Path("predictions.csv")
SPREAD = (0.98, 1.0, 1.02)


def write_studies(root: Path) -> None:
    """Write studies for notebooks 11, 23, 31 and 41 below `papermill_runs/`, and predictions for
    12.
    """
    runs = root / "papermill_runs"
    _write(runs / "trained", _train())
    _write(runs / "scenarios", _list_rows(run_scenarios()))
    _write(runs / "mnist", _train_mnist())
    load_endpoint(runs, "slow", 8.0)
    load_endpoint(runs, "fast", 30.0, "ml.m5.xlarge")
    _write(runs / "serving", [copy_row("21", study="serving")])
    draw_predictions().to_csv(root / PREDICTIONS, index=False)


def load_endpoint(
    root, run_id, rate_per_s, instance="ml.c7g.xlarge", usd=None, **columns
) -> None:
    """Write a load test that held so many requests a second, on the instance that prices it."""
    about = {"study": "serving", "run_id": run_id, "bound_ms": 250.0}
    about |= {"priced_as": instance, "instance_type": instance, "load_seconds": 60.0}
    row = copy_row("22", "litert_int8", **about | columns)
    row["max_rate_per_s"] = rate_per_s
    if usd is not None:  # where its table had a price
        row["usd_per_hour"] = usd
    write_row(root / "serving", row)


def _train() -> list[dict[str, Any]]:
    """Trainings in two modes, and on two machines."""
    rows = []
    for mode, hardware, seconds in (("paper", CPU, 60), ("fast", CPU, 40), ("paper", T4X2, 20)):
        table = train_referable([seconds * share for share in SPREAD], hardware, mode=mode)
        rows += _list_rows(table.assign(run_id=f"{mode}-{seconds}-" + table["run_id"]))
    return rows


def _train_mnist() -> list[dict[str, Any]]:
    """Trainings in CUDA C and in Keras."""
    rows = []
    for implementation in ("fused", "keras_tensorflow"):
        for repetition, share in enumerate(SPREAD):
            row = copy_row("40", implementation, run_id=f"{implementation}-{repetition}")
            rows.append(row | {"train_s": share * row["train_s"], "repetition": repetition})
    return rows


def _list_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return json.loads(table.to_json(orient="records"))


def _write(folder: Path, rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        write_row(folder, row | {"study": folder.name})
