"""Epochs of paper D's runs: one table of them, when each accuracy was reached, CUDA C held against
Keras like for like.

A row of a run holds the seconds and the accuracy after each epoch of each of its replicas (networks
of another seed trained in the same launch) as two lists of lists, `replica_train_s` and
`replica_accuracy`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dr_lib.statistics.intervals import ratio_interval

IMPLEMENTATIONS = {  # in the order of the legends
    "keras_tensorflow": "Keras / TensorFlow",
    "keras_jax": "Keras / JAX",
    "paper": "CUDA C small kernels",
    "fused": "CUDA C fused",
    "true_gradient": "CUDA C true gradient",
    "minibatch": "CUDA C minibatch",
}
LEVELS = (0.90, 0.95, 0.97)  # accuracies of the table
PER_REPLICA = ["replica_train_s", "replica_accuracy"]
LINE = ["environment", "framework", "implementation", "batch_size"]  # what tells lines apart


def summarise_trainings(table: pd.DataFrame) -> dict[str, Any]:
    """Put the trainings of one launch, or the one of Keras, into columns of a row.

    Args:
        table: a row per epoch of each replica, with `replica`, `train_s` (cumulative) and
            `test_accuracy`.

    Returns:
        `train_s`, after the last epoch of the slowest replica, and its parts `epoch_s`;
        `steady_epoch_s`, the median epoch from the second on; `replicas`, their number; the two
        lists of PER_REPLICA; and `metric_accuracy_test`, the mean of their last accuracies.
    """
    trainings = [rows for _, rows in table.groupby("replica")]
    ends_s = np.max([rows["train_s"] for rows in trainings], axis=0)
    epoch_s = np.diff(ends_s, prepend=0.0).tolist()
    return {
        "train_s": float(ends_s[-1]),
        "epoch_s": epoch_s,
        "steady_epoch_s": float(np.median(epoch_s[1:] or epoch_s)),
        "replicas": len(trainings),
        "replica_train_s": [rows["train_s"].astype(float).tolist() for rows in trainings],
        "replica_accuracy": [rows["test_accuracy"].astype(float).tolist() for rows in trainings],
        "metric_accuracy_test": float(
            np.mean([rows["test_accuracy"].iloc[-1] for rows in trainings])
        ),
    }


def list_epochs(timed: pd.DataFrame) -> pd.DataFrame:
    """Take the epochs out of their rows.

    Args:
        timed: timed rows of a `Selection`; those without epochs of replicas are passed over.

    Returns:
        A row per epoch of each replica: the columns of LINE, `line` (its name), `host` (the machine
        whose CPU trained Keras or drove the GPU), `run` (its place in the table), `replica`,
        `epoch` from 1, `train_s` (cumulative) and `accuracy` (share of the test images). Empty
        without such rows.
    """
    if not {*LINE, *PER_REPLICA} <= set(timed):
        return pd.DataFrame(
            columns=[*LINE, "line", "host", "run", "replica", "epoch", "train_s", "accuracy"]
        )
    timed = timed.dropna(subset=PER_REPLICA).reset_index(drop=True)
    lines = _name_lines(timed)
    processor = timed["cpu"].astype(str) if "cpu" in timed else ""
    timed = timed.assign(line=lines, host=timed["platform"] + ", " + processor, run=timed.index)
    tables = []
    for row in timed.itertuples():
        for replica, (seconds, accuracy) in enumerate(
            zip(row.replica_train_s, row.replica_accuracy, strict=True)
        ):
            about = {name: getattr(row, name) for name in (*LINE, "line", "host", "run")} | {
                "replica": replica
            }
            table = {"epoch": range(1, len(seconds) + 1), "train_s": seconds, "accuracy": accuracy}
            tables.append(pd.DataFrame(about | table))
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else list_epochs(timed.drop(columns=PER_REPLICA))
    )


def find_times_to_accuracy(epochs: pd.DataFrame, levels: Sequence[float]) -> pd.DataFrame:
    """Say when each training of `list_epochs` first had each accuracy: at the end of the first
    epoch that reached it.

    Returns:
        A row per training, a column per level [s]; infinite where it was never reached.
    """
    rows = []
    for _, training in epochs.groupby(["run", "replica"], sort=False):
        reached = training["accuracy"].to_numpy()[:, None] >= np.asarray(levels)
        seconds = training["train_s"].to_numpy()[reached.argmax(axis=0)]
        rows.append(np.where(reached.any(axis=0), seconds, np.inf))
    return pd.DataFrame(rows, columns=list(levels))


def add_accuracy_columns(timed: pd.DataFrame) -> pd.DataFrame:
    """Add what the accuracies of each run come to, where it has any.

    Returns:
        The rows with `best_epoch`, the first of the highest accuracy (the mean over replicas),
        infinite where it is the last, which a later one may exceed; and for each of LEVELS
        `to_90_percent_s` and so on, the median over replicas, infinite where it was never reached.
    """
    if not set(PER_REPLICA) <= set(timed):
        return timed
    lines = {}
    for index, row in timed.dropna(subset=PER_REPLICA).iterrows():
        seconds = np.array(row["replica_train_s"])
        accuracy = np.array(row["replica_accuracy"])
        times = [np.where(accuracy >= level, seconds, np.inf).min(axis=1) for level in LEVELS]
        names = [f"to_{100 * level:g}_percent_s" for level in LEVELS]
        best = accuracy.argmax(axis=1)
        has_peaked = best < accuracy.shape[1] - 1
        lines[index] = {"best_epoch": np.where(has_peaked, best + 1.0, np.inf).mean()}
        lines[index] |= dict(zip(names, map(np.median, times), strict=True))
    return timed.join(pd.DataFrame.from_dict(lines, orient="index"))


def tabulate_accuracies(timed: pd.DataFrame) -> pd.DataFrame:
    """Make a row per line: its trainings, their accuracy, and how long they took to 90, 95 and 97
    %.

    Returns:
        `line`, `n` trainings (replicas count), `epochs`, `accuracy_percent` at the end, and for
        each level the median time `to_90_percent_s` with the fastest training in _low and the
        slowest in _high; NaN where it was not reached.
    """
    rows = []
    for line, epochs in list_epochs(timed).groupby("line", sort=False):
        final = epochs[epochs["epoch"] == epochs["epoch"].max()]["accuracy"]
        row = {
            "line": line,
            "n": len(final),
            "epochs": epochs["epoch"].max(),
            "accuracy_percent": 100 * final.mean(),
        }
        times = find_times_to_accuracy(epochs, LEVELS)
        for level in LEVELS:
            ends = {
                "": times[level].median(),
                "_low": times[level].min(),
                "_high": times[level].max(),
            }
            row |= {f"to_{100 * level:g}_percent_s{end}": value for end, value in ends.items()}
        rows.append(row)
    return pd.DataFrame(rows).replace(np.inf, np.nan)


def compare_like_for_like(timed: pd.DataFrame) -> pd.DataFrame:
    """Say how many times as fast as Keras CUDA C is on the same host at the same batch, by epochs
    from the second on.

    Args:
        timed: timed rows of a `Selection`, with `steady_epoch_s`.

    Returns:
        A row per pair, the fastest first: `line` and `reference`, `batch_size`, `times_as_fast` by
        an epoch's time with the bounds of its 95 % interval in _low and _high where there are two
        runs of each, `n` of the smaller side. Replicas share a launch: they are no repetitions of
        its time.
    """
    epochs = list_epochs(timed)
    if epochs.empty:
        return pd.DataFrame()
    firsts = epochs.drop_duplicates("run").set_index("run")
    kept = timed.dropna(subset=PER_REPLICA).reset_index(drop=True)
    runs = firsts.assign(steady_epoch_s=kept["steady_epoch_s"].reindex(firsts.index))
    rows = []
    groups = list(
        runs.groupby(["line", "host", "framework", "batch_size"], sort=False)["steady_epoch_s"]
    )
    references = [group for group in groups if group[0][2] == "keras"]
    for (line, host, framework, batch_size), ours in groups:
        for (reference, other_host, _, other_batch), theirs in references:
            if framework == "cuda" and (host, batch_size) == (other_host, other_batch):
                value, low, high, n = ratio_interval(theirs, ours)
                row = {
                    "line": line,
                    "reference": reference,
                    "batch_size": int(batch_size),
                    "times_as_fast": value,
                }
                rows.append(row | {"times_as_fast_low": low, "times_as_fast_high": high, "n": n})
    return (
        pd.DataFrame(rows).sort_values("times_as_fast", ascending=False, ignore_index=True)
        if rows
        else pd.DataFrame()
    )


def _name_lines(timed: pd.DataFrame) -> pd.Series:
    """Implementation, batch, and what trained: its accelerator, or the whole environment where
    that is not enough.
    """
    names = timed["implementation"].map(lambda name: IMPLEMENTATIONS.get(name, name))
    names += ", batch " + timed["batch_size"].map("{:g}".format) + ", "
    short = names + timed["accelerator"].replace("cpu", "CPU")
    several = timed["environment"].groupby(short).transform("nunique") > 1
    return short.mask(several, names + timed["environment"])
