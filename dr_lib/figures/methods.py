"""The methods paragraph of a paper, written from the rows of its runs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from dr_lib.evidence.select import PLAN, WORK, select_runs
from dr_lib.figures.style import choose_words, name, write_decimals
from dr_lib.markdown import escape

VERSIONS = "python keras tensorflow jax torch mxnet numpy driver".split()
HASHES = ("data_sha256", "labels_sha256", "split_sha256")
FACTORS = ("implementation",)  # beside those that are work


def describe_methods(rows: Sequence[dict[str, Any]], lang: str = "en", *, exclude: str = "") -> str:
    """Say what was run on what, how it was timed and analysed: a paragraph for each study and
    notebook.

    Args:
        rows: of any number of studies, from `read_rows`.
        lang: en or pt.
        exclude: marks of runs whose times the analysis left out, such as disturbed.
    """
    runs = pd.DataFrame(rows)
    groups = runs.groupby(["study", "notebook"], sort=False)
    texts = [_describe(group.reset_index(drop=True), lang, exclude) for _, group in groups]
    return "\n".join(f"{escape(text)}\n" for text in texts)


def _describe(runs: pd.DataFrame, lang: str, exclude: str) -> str:
    say = choose_words(lang)
    finished = select_runs(runs, may_differ=runs.columns).finished.reset_index(drop=True)
    if finished.empty:
        return say("Study {}: none of {} runs was completed.").format(runs["study"][0], len(runs))
    of = partial(_list, finished)
    days = sorted({str(day)[:10] for day in finished["started_at"]})
    words = say("Study {}: {} completed runs of notebook {}, {} scenarios, made from {} to {}.")
    text = [
        words.format(
            of("study"),
            len(finished),
            of("notebook"),
            finished["scenario"].nunique(),
            days[0],
            days[-1],
        )
    ]
    machines = finished.drop_duplicates("environment").reindex(
        columns=["environment", "cpu", "num_cpus", "memory_gib"]
    )
    words = say("On {}: {}, {} cores, {} GiB of memory.")
    text += [words.format(*map(name, machine)) for machine in machines.itertuples(index=False)]
    versions = ", ".join(f"{package} {of(package)}" for package in VERSIONS if of(package))
    text.append(say("Software: commit {}; {}.").format(of("commit") or "-", versions))
    hashes = [f"{column} {of(column)}" for column in HASHES if of(column)]
    text += (
        [say("Data: {}.").format("; ".join([of("data_kind"), *hashes]))] if of("data_kind") else []
    )
    known = [column for column in (*FACTORS, *WORK, *PLAN) if of(column)]
    known = [
        column for column in dict.fromkeys(known) if column not in (*HASHES, "commit", "data_kind")
    ]
    varied = [column for column in known if finished[column].nunique() > 1]
    values = {column: write_decimals(of(column), lang) for column in known}
    text += (
        [say("Varied were {}.").format("; ".join(f"{c} ({values[c]})" for c in varied))]
        if varied
        else []
    )
    alike = "; ".join(f"{column} = {values[column]}" for column in known if column not in varied)
    text.append(say("All runs have in common: {}.").format(alike))
    if "train_s" in finished and finished["train_s"].notna().any():
        words = (
            "Training time is wall time from the call of fit until the device has ended the last"
            " epoch: with compilation, validation and checkpoints, without set-up and preparation"
            " of the data."
        )
        text.append(say(words))
    if disturbed := int(finished["disturbed"].sum()):
        counted = say("their times are left out") if "disturbed" in exclude else say("they count")
        text.append(
            say("Beside {} of the runs others took more than 10 % of the CPU; {}.").format(
                disturbed, counted
            )
        )
    if incomplete := len(runs) - len(finished):
        text.append(say("{} further runs failed or were skipped.").format(incomplete))
    text.append(say("Times are analysed on their logarithms, with 95 % intervals."))
    if "metric_auc_test" in finished:
        text.append(say("The interval of an AUC is a bootstrap over patients, 2,000 draws."))
    return " ".join(text)


def _list(runs: pd.DataFrame, column: str) -> str:
    """The distinct values of a column as text; empty where it is not there or always empty."""
    values = runs[column].dropna().map(name).unique() if column in runs else []
    return ", ".join(sorted(value for value in values if value != ""))
