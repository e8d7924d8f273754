"""Epochs of paper D's runs: their table, and the time to each accuracy.

A row of a run holds the seconds of each epoch, `epoch_s`, and the accuracy after it,
`epoch_accuracy`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

IMPLEMENTATIONS = {  # in the order of the legends
    "keras_tensorflow": "Keras / TensorFlow",
    "keras_jax": "Keras / JAX",
    "paper": "CUDA C small kernels",
    "fused": "CUDA C fused",
    "minibatch": "CUDA C minibatch",
}
CPU_BUILDS = {"fused": "C++ fused", "minibatch": "C++ minibatch"}  # of the same source
LEVELS = {"to_90_percent_s": 0.90, "to_95_percent_s": 0.95, "to_97_percent_s": 0.97}
EPOCHS = ["epoch_s", "epoch_accuracy"]
NEEDED = ["framework", "implementation", "batch_size", *EPOCHS]


def summarise_training(epoch_s: list[float], accuracies: list[float]) -> dict[str, Any]:
    """Summarise the epochs of a training in columns of a row.

    Returns:
        `train_s` and its parts `epoch_s`; `steady_epoch_s`, the median epoch from the second on;
        `epoch_accuracy`, and the last of them, `metric_accuracy_test`.
    """
    return {
        "train_s": sum(epoch_s),
        "epoch_s": epoch_s,
        "steady_epoch_s": float(np.median(epoch_s[1:] or epoch_s)),
        "epoch_accuracy": accuracies,
        "metric_accuracy_test": accuracies[-1],
    }


def list_runs(timed: pd.DataFrame) -> pd.DataFrame:
    """Choose the rows that have epochs.

    Args:
        timed: timed rows of a `Selection`; those of other studies are passed over.

    Returns:
        The rows with `line`, the name of what ran, and `host`, the machine whose CPU trained Keras
        or drove the GPU.
    """
    runs = timed.reindex(columns=timed.columns.union(NEEDED, sort=False))
    runs = runs.dropna(subset=NEEDED)
    if runs.empty:  # as where every run failed
        return pd.DataFrame(columns=[*NEEDED, "line", "host"])
    processors = runs["cpu"].astype(str) if "cpu" in runs else ""
    host = runs["platform"] + ", " + processors
    return runs.assign(line=_name_lines(runs), host=host)


def list_epochs(runs: pd.DataFrame) -> pd.DataFrame:
    """List the epochs of the runs.

    Returns:
        A row per epoch: the columns of its run, `run` (its place in the table), `epoch` from 1,
        `train_s` (cumulative) and `accuracy` (share of the test images).
    """
    epochs = runs.reset_index(names="run").explode(EPOCHS, ignore_index=True)
    epochs = epochs.astype(dict.fromkeys(EPOCHS, float))
    of_run = epochs.groupby("run")
    return epochs.assign(
        epoch=of_run.cumcount() + 1,
        train_s=of_run["epoch_s"].cumsum(),
        accuracy=epochs["epoch_accuracy"],
    )


def find_times_to_accuracy(row: pd.Series, levels: Sequence[float]) -> np.ndarray:
    """Find when a row's training first reached each accuracy, at an epoch's end [s]; infinite
    where it never did.
    """
    is_reached = np.array(row["epoch_accuracy"])[:, None] >= np.asarray(levels)
    seconds = np.cumsum(row["epoch_s"])
    return np.where(is_reached, seconds[:, None], np.inf).min(axis=0)


def add_accuracy_columns(timed: pd.DataFrame) -> pd.DataFrame:
    """Add a summary of its accuracies to each run that has any.

    Returns:
        The rows with `best_epoch`, the first of the highest accuracy, infinite where it is the
        last, which a later one may exceed; and the columns of LEVELS, infinite where it was never
        reached.
    """
    runs = list_runs(timed)
    times = [find_times_to_accuracy(row, [*LEVELS.values()]) for _, row in runs.iterrows()]
    added = pd.DataFrame(times, runs.index, [*LEVELS])
    best = runs["epoch_accuracy"].map(np.argmax) + 1
    added["best_epoch"] = best.where(best < runs["epoch_accuracy"].map(len), np.inf)
    return timed.join(added)


def _name_lines(timed: pd.DataFrame) -> pd.Series:
    """Name implementation, batch and accelerator; the environment, or all that tells groups apart,
    where that is ambiguous.
    """
    names = timed["implementation"].replace(IMPLEMENTATIONS)
    on_cpu = timed["implementation"].replace(IMPLEMENTATIONS | CPU_BUILDS)
    names = names.mask(timed["accelerator"] == "cpu", on_cpu)
    names += ", batch " + timed["batch_size"].map("{:g}".format) + ", "
    lines = names + timed["accelerator"].replace("cpu", "CPU")
    for longer in (names + timed["environment"], timed["group"]):
        is_unclear = timed["group"].groupby(lines).transform("nunique") > 1
        lines = lines.mask(is_unclear, longer)
    return lines
