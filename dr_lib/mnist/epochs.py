"""Epochs of paper D's runs: their table, the time to each accuracy, and comparisons at equal batch.

A row of a run holds the seconds and the accuracy after each epoch of each of its replicas (networks
of another seed trained in the same launch) as two lists of lists, `replica_train_s` and
`replica_accuracy`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.report.select import measure
from dr_lib.statistics.intervals import Interval, tabulate

IMPLEMENTATIONS = {  # in the order of the legends
    "keras_tensorflow": "Keras / TensorFlow",
    "keras_jax": "Keras / JAX",
    "paper": "CUDA C small kernels",
    "fused": "CUDA C fused",
    "true_gradient": "CUDA C true gradient",
    "minibatch": "CUDA C minibatch",
}
CPU_BUILDS = {  # of the same source, by a C++ compiler
    "fused": "C++ fused",
    "true_gradient": "C++ true gradient",
    "minibatch": "C++ minibatch",
}
LEVELS = {"to_90_percent_s": 0.90, "to_95_percent_s": 0.95, "to_97_percent_s": 0.97}
PER_REPLICA = ["replica_train_s", "replica_accuracy"]
LINE = ["environment", "framework", "implementation", "batch_size"]  # what tells lines apart


def summarise_trainings(table: pd.DataFrame) -> dict[str, Any]:
    """Summarise the trainings of one launch, or one of Keras, in columns of a row.

    Args:
        table: a row per epoch of each replica, with `replica`, `train_s` (cumulative) and
            `test_accuracy`.

    Returns:
        `train_s`, after the last epoch of the slowest replica, and its parts `epoch_s`;
        `steady_epoch_s`, the median epoch from the second on; `replicas`, their number; the two
        lists of PER_REPLICA; and `metric_accuracy_test`, the mean of their last accuracies.
    """
    replicas = table.groupby("replica")
    seconds = [column.tolist() for _, column in replicas["train_s"]]
    accuracies = [column.tolist() for _, column in replicas["test_accuracy"]]
    ends_s = np.max(seconds, axis=0)
    epoch_s = np.diff(ends_s, prepend=0.0).tolist()
    return {
        "train_s": float(ends_s[-1]),
        "epoch_s": epoch_s,
        "steady_epoch_s": float(np.median(epoch_s[1:] or epoch_s)),
        "replicas": len(seconds),
        "replica_train_s": seconds,
        "replica_accuracy": accuracies,
        "metric_accuracy_test": float(np.mean([values[-1] for values in accuracies])),
    }


def list_epochs(timed: pd.DataFrame) -> pd.DataFrame:
    """Extract the epochs from the rows.

    Args:
        timed: timed rows of a `Selection`; those without epochs of replicas are passed over.

    Returns:
        A row per epoch of each replica: the columns of LINE, `accelerator`, `line` (its name),
        `host` (the machine whose CPU trained Keras or drove the GPU), `steady_epoch_s` of its run,
        `run` (its place in the table), `replica`, `epoch` from 1, `train_s` (cumulative) and
        `accuracy` (share of the test images). Empty without such rows.
    """
    of_run = [*LINE, "accelerator", "line", "host", "session", "steady_epoch_s", "run"]
    columns = [*of_run, "replica", "epoch", "train_s", "accuracy"]
    if not {*LINE, *PER_REPLICA} <= set(timed):
        return pd.DataFrame(columns=columns)
    runs = timed.dropna(subset=PER_REPLICA).reset_index(drop=True)
    processors = runs["cpu"].astype(str) if "cpu" in runs else ""
    runs = runs.assign(
        line=_name_lines(runs), host=runs["platform"] + ", " + processors, run=runs.index
    )
    replicas = runs[[*of_run, *PER_REPLICA]].explode(PER_REPLICA, ignore_index=True)
    replicas["replica"] = replicas.groupby("run").cumcount()
    epochs = replicas.explode(PER_REPLICA, ignore_index=True)
    epochs["epoch"] = epochs.groupby(["run", "replica"]).cumcount() + 1
    epochs[["train_s", "accuracy"]] = epochs[PER_REPLICA].astype(float)
    return epochs[columns]


def find_times_to_accuracy(epochs: pd.DataFrame, levels: Sequence[float]) -> pd.DataFrame:
    """Find the epoch at whose end each training of `list_epochs` first reached each accuracy.

    Returns:
        A row per training, a column per level [s]; infinite where it was never reached.
    """
    rows = [
        _find_first(training["train_s"], training["accuracy"], levels)
        for _, training in epochs.groupby(["run", "replica"], sort=False)
    ]
    return pd.DataFrame(rows, columns=list(levels))


def _find_first(
    seconds: Sequence[float], accuracies: Sequence[float], levels: Sequence[float]
) -> np.ndarray:
    """Find when one training first reached each accuracy [s]; infinite where it never did."""
    is_reached = np.asarray(accuracies)[:, None] >= np.asarray(levels)
    return np.where(is_reached, np.asarray(seconds)[:, None], np.inf).min(axis=0)


def add_accuracy_columns(timed: pd.DataFrame) -> pd.DataFrame:
    """Add a summary of its accuracies to each run that has any.

    Returns:
        The rows with `best_epoch`, the first of the highest accuracy (the mean over replicas),
        infinite where it is the last, which a later one may exceed; and the columns of LEVELS, the
        median over replicas, infinite where it was never reached.
    """
    if not set(PER_REPLICA) <= set(timed):
        return timed
    added = {}
    for index, row in timed.dropna(subset=PER_REPLICA).iterrows():
        accuracy = np.array(row["replica_accuracy"])
        best = accuracy.argmax(axis=1)
        has_peaked = best < accuracy.shape[1] - 1
        times = [
            _find_first(seconds, accuracies, [*LEVELS.values()])
            for seconds, accuracies in zip(row["replica_train_s"], accuracy, strict=True)
        ]
        added[index] = {
            "best_epoch": np.where(has_peaked, best + 1.0, np.inf).mean(),
            **dict(zip(LEVELS, np.median(times, axis=0), strict=True)),
        }
    return timed.join(pd.DataFrame.from_dict(added, orient="index"))


def tabulate_accuracies(timed: pd.DataFrame) -> pd.DataFrame:
    """Make one row per line: its trainings, their accuracy, and the time to 90, 95 and 97 %.

    Returns:
        `line`, `n` trainings (replicas count), `epochs`, `accuracy_percent` at the end, and for
        each of LEVELS the median time with the fastest training in _low and the slowest in _high;
        NaN where it was not reached.
    """
    rows = []
    for line, epochs in list_epochs(timed).groupby("line", sort=False):
        last = epochs["epoch"].max()
        accuracies = epochs.loc[epochs["epoch"] == last, "accuracy"]
        row = {
            "line": line,
            "n": len(accuracies),
            "epochs": last,
            "accuracy_percent": 100 * accuracies.mean(),
        }
        times = find_times_to_accuracy(epochs, [*LEVELS.values()])
        for name, (_, seconds) in zip(LEVELS, times.items(), strict=True):
            row[name] = Interval(seconds.median(), seconds.min(), seconds.max(), len(seconds))
        rows.append(row)
    return tabulate(rows).replace(np.inf, np.nan)


def compare_like_for_like(timed: pd.DataFrame) -> pd.DataFrame:
    """Compute how many times as fast as Keras CUDA C is, on the same host with the same batch.

    Args:
        timed: timed rows of a `Selection`, with `steady_epoch_s`.

    Returns:
        A row per pair, the fastest first: `line` and `reference`, `batch_size`, `times_as_fast` by
        the time of an epoch from the second on, with the bounds of its 95 % interval in _low and
        _high where there are two runs of each, `n` of the smaller side. Replicas share a launch:
        they are no repetitions of its time.
    """
    runs = list_epochs(timed).drop_duplicates("run")
    keras = runs[runs["framework"] == "keras"]
    cuda = runs[runs["framework"] == "cuda"]
    rows = []
    for (line, host, batch_size), ours in cuda.groupby(
        ["line", "host", "batch_size"], sort=False
    ):
        alike = keras[(keras["host"] == host) & (keras["batch_size"] == batch_size)]
        for reference, theirs in alike.groupby("line", sort=False):
            ratio = measure("steady_epoch_s", theirs, ours)
            rows.append(
                {
                    "line": line,
                    "reference": reference,
                    "batch_size": int(batch_size),
                    "times_as_fast": ratio,
                    "n": ratio.n,
                }
            )
    table = tabulate(rows)
    if table.empty:
        return table
    return table.sort_values("times_as_fast", ascending=False, ignore_index=True)


def _name_lines(timed: pd.DataFrame) -> pd.Series:
    """Name implementation, batch and accelerator, or the whole environment if that is ambiguous."""
    names = timed["implementation"].replace(IMPLEMENTATIONS)
    on_cpu = timed["implementation"].map(CPU_BUILDS)
    names = names.mask(on_cpu.notna() & (timed["accelerator"] == "cpu"), on_cpu)
    names += ", batch " + timed["batch_size"].map("{:g}".format) + ", "
    short = names + timed["accelerator"].replace("cpu", "CPU")
    is_unclear = timed["environment"].groupby(short).transform("nunique") > 1
    return short.mask(is_unclear, names + timed["environment"])
