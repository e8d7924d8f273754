"""The verdicts on copies of rows that the notebooks wrote, and what rows of other cells, machines,
work or data than a claim speaks of must not buy.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

from dr_lib.__main__ import main
from dr_lib.claims.claims import read_claims
from dr_lib.claims.verdicts import list_judged_rows, tabulate_verdicts
from dr_lib.report.groups import COPY, NO_TIME, select_runs
from dr_lib.runs.row import read_runs, write_row
from tests.report.real_rows import (
    COLAB_CPU,
    COLAB_T4,
    CPU,
    F4S,
    NC4AS,
    PAPER_A,
    PAPER_C,
    SPREAD,
    T4X2,
    TPU,
    both,
    copy_row,
    run_scenarios,
    serve,
    train_mnist,
    train_referable,
)

NEAR = np.array([0.98, 1.0, 1.02])  # three runs
QUIET = np.array([0.998, 1.0, 1.002])
TEN = np.linspace(0.98, 1.02, 10)
ON_JAX = {"backend": "jax", "jit": True}
RISING = np.linspace(0.8, 0.98, 40).tolist()  # accuracies
OLD = "ml.m4.xlarge"
NEW = "ml.m5.xlarge"


class Case(NamedTuple):
    """Claims, rows, and the verdicts on them."""

    claims: str
    tables: Callable[[], list[pd.DataFrame]]
    verdicts: str  # one for all, or one for each
    reason: str = ""  # pattern of a part of the first claim's
    facts: dict = {}  # columns of all the verdicts


def judge(ids, *tables, pool=()):
    """The verdicts on some claims of a paper by these rows."""
    runs = pd.concat(tables, ignore_index=True)
    if len(runs) and "file" not in runs:
        runs["run_id"] = runs["run_id"] + runs.index.astype(str)
    rows = list_judged_rows(ids[0], select_runs(runs, pool=pool).timed)
    claims = {claim.id: claim for claim in read_claims()}
    judged = tabulate_verdicts([claims[name] for name in ids.split()], rows, pool)
    return [row for _, row in judged.iterrows()]


def run_cpu(times=1000 * NEAR, only=None, **columns):
    """The scenarios of paper C's CPU environment."""
    return run_scenarios(times, F4S, only, **PAPER_C | columns)


def run_both(only=None, **columns):
    """All 48 scenarios of paper C: CPU and GPU environment, ten times as fast."""
    gpu = run_scenarios(60 * NEAR, NC4AS, only, **PAPER_C | columns)
    return run_cpu(only=only, **columns), gpu


def use_backends(times=NEAR, hardware=CPU):
    """Scenarios whose rows name backend and version of their framework."""
    runs = run_scenarios(times, hardware)
    torch = runs["framework"].map({"pytorch": f"2.13.0+{hardware['accelerator']}"})
    return runs.assign(backend=runs["framework"].replace("pytorch", "torch"), torch=torch)


def train_both(**tpu):
    """Ten trainings on two T4 and on a TPU, which has these columns, with the means of paper A."""
    return train_referable(3080 * TEN, T4X2), train_referable(1994 * TEN, TPU, **tpu)


def wide(factor):
    """A factor on the time of scenarios of 64 px."""
    return lambda framework, dataset, size, network: factor if size == 64 else 1.0


def price(per_hour, labels, tables):
    """Deployments with their label and these prices."""
    return [
        table.assign(usd_per_hour=usd, priced_as=label)
        for usd, label, table in zip(per_hour, labels, tables, strict=True)
    ]


def use_cpu(memory):
    """CIFAR-10 takes as long per image and uses the CPU alike, and this much of the memory."""
    runs = run_scenarios(cpu_percent_mean=90.0, memory_percent_mean=20.0)
    times = np.where(runs["dataset"] == "mnist", 1.0, memory / 20)
    return runs.assign(memory_percent_mean=times * runs["memory_percent_mean"])


def train_digits(**keras):
    """CUDA C on a T4 and Keras on Colab's CPU, with the means of paper D."""
    return [
        train_mnist("keras_tensorflow", 621 * NEAR, COLAB_CPU, **keras),
        train_mnist("paper", 219 * NEAR, COLAB_T4),
    ]


CASES = [
    # nothing saved; 40 %, which may be more than 41
    ("A6", lambda: [both(tpu=3080 + SPREAD)], "does not hold"),
    ("A6", lambda: [both(tpu=1848 + 5 * SPREAD)], "undecided"),
    # other work, data or hardware is named and not compared
    ("A6", lambda: [both(epochs=3)], "not comparable", "differs in epochs=200$"),
    (
        "A6",
        lambda: [train_referable([900, 905, 910], CPU)],
        "not comparable",
        r"differs in accelerator=TPU\*, accelerator=Tesla T4, num_accelerators=2$",
        {"n": [0]},  # nor is their ratio to themselves shown
    ),
    # mode plain is judged alone, on ten of twenty rows
    ("A6", lambda: [both(), both(gpu=1500 + SPREAD, mode="fast")], "holds", "", {"n": [10]}),
    # any TPU: a v2 and a v5e are two groups, each of which has to save as much
    (
        "A6",
        lambda: [
            both(),
            train_referable([1200, 1210, 1220], TPU | {"accelerator": "TPU v5 lite"}),
        ],
        "does not hold",
        "TPU v5 lite.*1 of 2 satisfy it",
    ),
    ("A6", lambda: [both(status="failed")], "not measured", "", {"n": [0]}),
    # ten trainings of one session tell nothing of the next
    (
        "A6",
        lambda: [table.assign(boot=table["accelerator"]) for table in train_both()],
        "undecided",
        "fewer than three sessions",
        {"n": [1]},
    ),
    # scenarios differ 15-fold, repetitions by 2 %: pooled, no interval would be narrow enough
    (
        "C32 C34 C35 C37 C39",
        lambda: [run_scenarios()],
        "holds, does not hold, holds, holds, holds",
        "",
        {"n": [3] * 5, "ours": [200, 5, 2.5, 0.4, 5 / 6]},
    ),
    # Rede 2 takes 50 % more, but 10 % less in MXNet: 25 % more on the mean, not "at least 10 %"
    (
        "C33",
        lambda: [run_scenarios(only=lambda *cell: 0.6 if cell[::3] == ("mxnet", 2) else 1)],
        "does not hold",
        "mxnet.*8 of 12 satisfy it",
    ),
    # one pair of twelve shows neither what happens "at least" nor the mean over pairs
    (
        "C33 C32",
        lambda: [run_scenarios(only=lambda *cell: float(cell[:2] == ("mxnet", "mnist")))],
        "undecided",
        "10 cells of the design were not run$",
    ),
    # what one session ran interleaved is paired by repetition
    ("C1 C4", lambda: [run_cpu(5000 * QUIET, boot="one")], "holds", "", {"n": [3, 3]}),
    # a laptop that is priced as F4s_v2 gets no verdict on F4s_v2
    (
        "C4",
        lambda: [run_scenarios(priced_as="F4s_v2", **PAPER_C)],
        "not comparable",
        "cpu=.*, num",
    ),
    # one of the paper's two machines, on two processors or by two names, is not both
    *[
        (
            "C12",
            lambda other=other: [
                run_cpu(cpu_percent_mean=95.0),
                run_cpu(cpu_percent_mean=95.0, **other),
            ],
            "undecided",
            "8 cells of the design were not run$",
        )
        for other in (
            {"cpu": "Intel(R) Xeon(R) Platinum 8370C"},
            {"priced_as": "Standard_F4s_v2"},
        )
    ],
    # two machines that ran half of the cells each make no whole
    (
        "C32 C33 C35 C53",
        lambda: [
            run_scenarios().query("dataset == 'mnist'"),
            run_scenarios(hardware=CPU | {"cpu": "other"}).query("dataset == 'cifar10'"),
            run_scenarios(0.06 * NEAR, NC4AS),
        ],
        "undecided",
        "6 cells of the design were not run$",
    ),
    # a third image side is none of the paper's two
    (
        "C33 C35",
        lambda: [run_scenarios().replace({"image_size": {64: 128}})],
        "undecided",
        "6 cells of the design were not run$",
    ),
    # a model that guesses has no time to compare, equal or not, nor one whose AUC has no bound
    (
        "D3 D6",
        lambda: [each.assign(metric_accuracy_test=0.1) for each in train_digits()],
        "undecided",
        "chance$",
    ),
    (
        "A6",
        lambda: [
            each.assign(metric_auc_test=0.5, metric_auc_test_low=None) for each in train_both()
        ],
        "undecided",
        "chance$",
    ),
    # several columns all have to agree
    ("C38", lambda: [use_cpu(memory=40.0)], "does not hold"),
    # a disturbed row says how busy others were, and nothing of a framework; a time counts
    (
        "C41 C32",
        lambda: [run_scenarios(cpu_percent_mean=99.0, disturbed=True)],
        "not comparable, holds",
        "differs in disturbed=False",
    ),
    # frameworks on two machines are not compared
    (
        "C35",
        lambda: [
            run_scenarios().query("framework != 'pytorch'"),
            run_scenarios(hardware=NC4AS).query("framework == 'pytorch'"),
        ],
        "not comparable",
        "accelerator",
    ),
    # a framework brings a backend of its own: it is still a mean over frameworks
    ("C32 C33 C53", lambda: [use_backends(), use_backends(0.06 * NEAR, NC4AS)], "holds"),
    # the stack of two machines has to be equal
    (
        "C53",
        lambda: [run_scenarios(), run_scenarios(0.06 * NEAR, NC4AS, keras="2.0.1")],
        "not comparable",
        "keras",
    ),
    # 64 px takes 155 % more on one machine and 250 % on the other: on average about 200
    (
        "C32",
        lambda: [
            run_scenarios(NEAR, F4S, wide(2.55 / 3)),
            run_scenarios(NEAR, NC4AS, wide(3.5 / 3)),
        ],
        "does not hold",
        "Tesla T4",
    ),
    # work that the claim does not name is no mean over two of its levels: each is judged
    (
        "C32",
        lambda: [run_scenarios(), run_scenarios(only=wide(0.5)).assign(learning_rate=0.5)],
        "does not hold",
        "1 of 2 satisfy it",
    ),
    # Colab gives hosts of other makers, and of 96 cores
    ("D2 D3 D8 D1 D6 D9", train_digits, "holds"),
    ("D2 D3 D8", lambda: train_digits(num_cpus=96), "not comparable"),
    # a best epoch that is the last shows no peak: the accuracy may rise on
    (
        "D7",
        lambda: [train_mnist("fused", 219 * NEAR, COLAB_T4, RISING)],
        "undecided",
        "^best_epoch is not positive and finite in every run$",
    ),
    # a claim about both networks needs both
    (
        "B41",
        lambda: [serve(60 * NEAR, "mobilenet", OLD), serve(30 * NEAR, "mobilenet", NEW)],
        "undecided",
        "1 cells of the design were not run",
    ),
    # an hour of ml.m5.xlarge costs a fifth more than one of m5.xlarge
    *(
        (
            "B35",
            lambda label=label: price(
                (0.23, 0.174),
                (label, "ml.c7g.xlarge"),
                [
                    serve(QUIET * 61.5, "mobilenet", NEW),
                    serve(QUIET * 71.2, "mobilenet", "ml.c7g.xlarge"),
                ],
            ),
            verdict,
        )
        for label, verdict in ((NEW, "holds"), ("m5.xlarge", "not comparable"))
    ),
    (
        "B5 B6 B13 B14 B23",
        lambda: [serve(QUIET * 350.6, "vgg19", OLD), serve(QUIET * 204.6, "vgg19", NEW)],
        "holds",
    ),
    # a client beside the server does not wait as the paper's clients did
    (
        "B6 B14",
        lambda: [serve(QUIET * 204.6, "vgg19", NEW, endpoint="local")],
        "holds, not comparable",
    ),
    # served models are one file on like servers; one that nothing names is another
    *(
        (
            "B21",
            lambda columns=columns: [
                serve(QUIET * 392, "vgg19", "ml.m6g.xlarge", model_version="abcd"),
                serve(QUIET * 204.6, "vgg19", NEW, **{"model_version": "abcd"} | columns),
            ],
            verdict,
            reason,
        )
        for columns, verdict, reason in (
            ({}, "holds", ""),
            ({"model_version": "0123"}, "not comparable", "model_version"),
            ({"tensorflow": "2.20.0"}, "not comparable", "tensorflow"),
        )
    ),
    # A9 compares machines on JAX: 26 % less. What differs is named, and has no ratio: neither patch
    # versions, nor what does not compute
    *(
        (
            "A9",
            lambda tpu=tpu: [
                train_referable(2700 * TEN, T4X2, **ON_JAX),
                train_referable(1994 * TEN, TPU, **ON_JAX).assign(**tpu),
            ],
            "not comparable" if named else "does not hold",
            f"{named}$",
            {} if named else {"ours": [26.15]},
        )
        for tpu, named in (
            ({}, ""),
            ({"keras": "3.15.9", "python": "3.12.1", "tensorflow": "2.1.0"}, ""),
            ({"keras": "3.14.1"}, "keras"),
            ({"jit": None}, "jit"),
            ({"matmul_precision": "bfloat16"}, "matmul_precision"),
            ({"optimizer": "adamw"}, "optimizer"),  # work
        )
    ),
    # unknown arithmetic is like nothing, between machines
    (
        "A9 A6 A8",
        lambda: [
            table.drop(columns=["matmul_precision", "conv_precision"])
            for table in (
                train_referable(3080 * TEN, T4X2),
                train_referable(2700 * TEN, T4X2, **ON_JAX),
                train_referable(1994 * TEN, TPU, **ON_JAX),
            )
        ],
        "not comparable, not comparable, holds",
        "matmul_precision",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]}")
def test_a_claim_is_judged_by_rows(case):
    """The verdicts on claims by rows, a part of the first one's reason, and what it rests on."""
    case = Case(*case)
    found = judge(case.claims, *case.tables())
    expected = case.verdicts.split(", ")
    assert [one["verdict"] for one in found] == expected * (len(found) // len(expected)), found
    why = found[0].reindex(["reason", "ours_scope"]).astype(str)
    assert why.str.contains(case.reason).any(), found
    for name, values in case.facts.items():
        assert [one[name] for one in found] == pytest.approx(values, rel=2e-3), name


def test_a_saving_inside_the_tolerance_holds():
    """35 % saved is 36 give or take 5, with SciPy's Welch interval of the log times."""
    runs = both()
    (found,) = judge("A6", runs)
    log = np.log(runs["train_s"])
    welch = stats.ttest_ind(log[10:], log[:10], equal_var=False).confidence_interval()
    low, high = 100 - 100 * np.exp([welch.high, welch.low])
    assert (found["verdict"], found["n"]) == ("holds", 10)
    assert found[["ours_low", "ours_high"]].tolist() == pytest.approx([low, high])


def test_groups_are_told_apart_by_hosts_unless_they_are_pooled():
    """Three sessions on each of two processors: two groups, or six sessions of one."""
    hosts = [run_scenarios(hardware=CPU | {"cpu": name}) for name in ("a", "b")]
    (apart,) = judge("C34", *hosts)
    (pooled,) = judge("C34", *hosts, pool=["cpu"])
    assert (apart["n"], pooled["n"]) == (3, 6)


@pytest.mark.parametrize(
    ("auc", "verdict", "words"),
    [
        (0.93, "holds", ""),
        (0.50, "not comparable", "test scores differ by -0.43"),
        (0.945, "undecided", "test scores differ by 0.0"),
        (None, "not comparable", "n = 0"),
    ],
)
def test_a_machine_whose_model_is_another_wins_nothing(auc, verdict, words):
    """The saving is the paper's in all cases; AUCs deviate by 0.01 between seeds."""
    noise = np.random.default_rng(3).normal(0, 0.01, (2, 10))
    gpu, tpu = (table.assign(seed=range(20, 30)) for table in train_both())
    gpu = gpu.assign(metric_auc_test=0.93 + noise[0])
    tpu = tpu.assign(metric_auc_test=None if auc is None else auc + noise[1])
    (found,) = judge("A6", gpu, tpu)
    assert found.verdict == verdict
    assert words in found.reason


def test_one_unlike_model_among_many_cells_is_found():
    """Scenarios of paper C ran on two machines, one of them ended at chance on the second; of
    frameworks on one machine it says nothing.
    """
    cpu, gpu = run_both(metric_accuracy_test=0.9)
    assert judge("C6", cpu, gpu)[0].verdict == "holds"
    is_cell = gpu.eval("framework == 'mxnet' and dataset == 'mnist' and network == 1")
    is_cell &= gpu["image_size"] == 32
    gpu.loc[is_cell, "metric_accuracy_test"] = 0.1
    found, frameworks = judge("C6 C14", cpu, gpu)
    assert found.verdict == "not comparable"
    assert "test scores differ by" in found.reason
    assert frameworks.verdict == "does not hold"


def write_training(folder):
    """Rows of two T4 and of a TPU, which takes 64 % of their time, of a study named as `folder`."""
    for place, hardware, mean in (("gpu", T4X2, 3000), ("tpu", TPU, 1920)):
        for k, train_s in enumerate(mean * TEN[:6]):
            about = {"seed": k, "boot": f"{place} {k % 3}", "study": folder.name}
            row = {"run_id": f"r{k}-{place}", "train_s": train_s + k % 3}
            write_row(folder, copy_row("10", **PAPER_A | hardware | about | row))
    return folder


def test_the_command_lists_verdicts_by_the_rows_that_count(tmp_path):
    """A copy of a run, whatever it is called, and a time that is none are no part of a verdict."""
    folder, _ = (write_training(tmp_path / name) for name in ("mine", "again"))
    row = copy_row("10", **PAPER_A | T4X2, study="bad", run_id="bad", boot="gpu 0")
    path = write_row(tmp_path / "bad", row)
    path.write_text(json.dumps(row | {"train_s": -5}))
    runs = read_runs(tmp_path)
    (found,) = judge("A6", runs)
    assert found.equals(judge("A6", read_runs(folder))[0])
    assert (found["verdict"], found["n"]) == ("holds", 3), found["reason"]
    reasons = select_runs(runs).excluded["reason"].tolist()
    assert sorted(reasons) == [COPY] * 12 + [NO_TIME]
    out = str(tmp_path / "claims.csv")
    said = CliRunner().invoke(main, ["claims", str(folder), "--out", out]).output
    assert re.search(r"(?m)^ *A6 +holds +36 ± 5 %", said), said
    assert "A6" in set(pd.read_csv(out)["id"])
