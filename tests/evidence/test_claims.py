"""The verdicts on hand-made rows."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.evidence import claims
from dr_lib.evidence.claims import judge_claims, read_published
from dr_lib.evidence.select import PLAN, WORK, select_runs

ROOT = Path(__file__).resolve().parents[2]
T4 = {"platform": "kaggle", "accelerator": "Tesla T4", "num_accelerators": 2}
TPU = {"platform": "colab", "accelerator": "TPU v2", "num_accelerators": 1}
CPU = {"platform": "local", "accelerator": "cpu", "num_accelerators": 1}
SPREAD = np.linspace(-1, 1, 10)  # ten runs, evenly about their mean


def make_runs(minutes, hardware, **columns):
    """Rows of the paper's work, a run for each time in minutes."""
    row = {"status": "ok", "error": "", "run_id": "r", "data_kind": "photographs", "model": "inception_v3"}
    row |= {"epochs": 200, "batch_size": 8, "image_size": 299, "precision": "float32", "commit": "c" * 40}
    return pd.DataFrame([row | hardware | {"train_s": 60.0 * m} | columns for m in minutes])


def both(gpu=51.33 + SPREAD, tpu=33.24 + SPREAD, **columns):
    """Ten runs on each of the paper's two environments, by default with the paper's means."""
    return pd.concat([make_runs(gpu, T4, **columns), make_runs(tpu, TPU, **columns)], ignore_index=True)


def judge(claim, runs):
    """The verdict of these rows, unlike as they may be."""
    return claims.judge(claim, select_runs(runs, may_differ=[*WORK, *PLAN]).timed)


def claim(claim_id):
    """One claim of the table."""
    return read_published().set_index("id", drop=False).loc[claim_id]


def test_a_saving_inside_the_tolerance_holds():
    """The interval is one minus SciPy's Welch interval of the log times, in per cent."""
    runs, verdict = both(), judge(claim("A3"), both())
    log = np.log(runs["train_s"])
    welch = stats.ttest_ind(log[10:], log[:10], equal_var=False).confidence_interval()
    assert verdict.verdict == "holds"
    assert (verdict.ours.low, verdict.ours.high) == pytest.approx(
        (100 - 100 * np.exp(welch.high), 100 - 100 * np.exp(welch.low))
    )
    assert verdict.n == 10


def test_a_mean_is_judged_in_the_unit_of_the_claim():
    """Rows hold seconds, the paper minutes."""
    verdict = judge(claim("A1"), both())
    assert verdict.ours.value == pytest.approx(51.33)
    assert verdict.verdict == "holds"


def test_an_interval_outside_the_tolerance_does_not_hold():
    """A TPU as slow as the GPUs saves nothing like 36 %."""
    assert judge(claim("A3"), both(tpu=51.33 + SPREAD)).verdict == "does not hold"


@pytest.mark.parametrize("share", [0.60, 0.575])
def test_an_interval_across_the_border_is_undecided(share):
    """Savings of 40 and 42.5 %, each give or take 4 points, may lie on either side of 36 + 5."""
    assert judge(claim("A3"), both(tpu=51.33 * share + 5 * SPREAD)).verdict == "undecided"


@pytest.mark.parametrize(("n", "verdict"), [(2, "undecided"), (3, "holds")])
def test_two_runs_decide_nothing(n, verdict):
    """However close together they lie."""
    runs = both(gpu=51.33 + 0.01 * SPREAD[:n], tpu=33.24 + 0.01 * SPREAD)
    assert judge(claim("A3"), runs)[2:4] == (verdict, n)


@pytest.mark.parametrize(
    ("relation", "verdict"), [(">=", "holds"), ("<=", "does not hold"), ("within", "does not hold")]
)
def test_one_sided_relations_leave_the_other_side_open(relation, verdict):
    """A saving of 54 % is at least 36 %, not at most, and not within 5 points of it."""
    asked = claim("A3").copy()
    asked["relation"] = relation
    assert judge(asked, both(tpu=51.33 * 0.46 + 0.1 * SPREAD)).verdict == verdict


def test_a_ratio_of_spreads_is_judged():
    """Ten times the spread is not twice the spread, even with the F interval's factor of two."""
    verdict = judge(claim("A5"), both(tpu=33.24 + 10 * SPREAD))
    assert verdict.ours.value == pytest.approx(10)
    assert verdict.verdict == "does not hold"


def test_other_hardware_is_shown_but_not_comparable():
    """One CPU's mean stands beside the paper's, without a verdict on it; a ratio needs two machines."""
    runs = make_runs([20, 21, 22], CPU)
    shown = judge(claim("A1"), runs)
    assert (shown.verdict, shown.n, shown.ours.value) == ("not comparable", 3, pytest.approx(21))
    assert "local, CPU" in shown.reason
    assert "accelerator=Tesla T4" in shown.reason
    ratio = judge(claim("A3"), runs)
    assert (ratio.verdict, ratio.n) == ("not comparable", 0)


def test_the_nearest_hardware_is_chosen():
    """Kaggle's TPU stands in for Colab's before any CPU does, and only the platform is missed."""
    runs = pd.concat([both(tpu=[]), make_runs([30, 31, 32], TPU | {"platform": "kaggle"}), make_runs([90] * 3, CPU)])
    verdict = judge(claim("A2"), runs)
    assert (verdict.verdict, verdict.ours.value) == ("not comparable", pytest.approx(31))
    assert verdict.reason.endswith("vs platform=colab")


def test_other_work_on_the_same_hardware_is_not_comparable():
    """Three epochs of a demonstration say nothing of the paper's 200."""
    verdict = judge(claim("A3"), both(epochs=3))
    assert verdict.verdict == "not comparable"
    assert verdict.reason.endswith("vs epochs=200")


@pytest.mark.parametrize("modes", [{}, {"mode": None}, {"mode": "paper"}])
def test_rows_that_name_no_mode_are_the_papers(modes):
    """Of notebooks without modes, and of those with; work as published is what the claims speak of."""
    assert judge(claim("A3"), both(**modes)).verdict == "holds"


def test_fast_runs_neither_enter_nor_meet_a_claim():
    """Beside the paper's mode they are left out, on its machine and on any other; alone they are shown."""
    fast = both(gpu=25 + SPREAD, mode="fast", precision="mixed_float16")
    beside = judge(claim("A1"), pd.concat([both(mode="paper"), fast], ignore_index=True))
    assert (beside.verdict, beside.n, beside.ours.value) == ("holds", 10, pytest.approx(51.33))
    alone = judge(claim("A1"), fast)
    assert (alone.verdict, alone.ours.value) == ("not comparable", pytest.approx(25))
    assert alone.reason == "kaggle, 2 x Tesla T4, fast vs mode=paper, precision=float32"
    elsewhere = [make_runs([90, 91, 92], CPU, mode="paper"), make_runs([9, 9, 9], CPU, mode="fast")]
    assert judge(claim("A1"), pd.concat(elsewhere, ignore_index=True)).ours.value == pytest.approx(91)
    shorter = pd.concat([fast, both(gpu=9 + SPREAD, mode="paper", epochs=3)], ignore_index=True)
    assert judge(claim("A1"), shorter).reason == "kaggle, 2 x Tesla T4 vs epochs=200"


def test_two_kinds_of_tpu_are_not_one_environment():
    """A mean over a v2 and a v5e would be the mean of nothing."""
    runs = pd.concat([both(), make_runs([20, 21, 22], TPU | {"accelerator": "TPU v5 lite"})])
    assert judge(claim("A2"), runs)[2:4] == ("not comparable", 0)


@pytest.mark.parametrize("runs", [pd.DataFrame(), both(status="failed"), both(train_s=None)])
def test_without_rows_nothing_is_measured(runs):
    """No rows, failed rows only, and rows without the column."""
    assert judge(claim("A3"), runs)[2:4] == ("not measured", 0)


def test_a_free_machine_has_no_ratio_of_costs():
    """Zero USD has no logarithm: that is said, and crashes nothing."""
    t4 = {"accelerator": "Tesla T4", "num_accelerators": 1, "platform": "colab"}
    runs = pd.concat([make_runs([1, 2, 3], CPU, cost_usd=0.0), make_runs([1, 2, 3], t4, cost_usd=0.0)])
    verdict = judge(claim("C8"), runs)
    assert verdict.verdict == "not measured"
    assert "positive" in verdict.reason


def make_scenarios(repetitions=(0.98, 1.0, 1.02), hardware=CPU, **columns):
    """Paper C's cells: MXNet 1, PyTorch 2, TensorFlow 5 s; 64 px 3 times, Rede 2 1.5 times, CIFAR-10 5/6 as long."""
    rows = []
    for framework, base_s in {"mxnet": 1.0, "pytorch": 2.0, "tensorflow": 5.0}.items():
        for dataset, size, network in itertools.product(["mnist", "cifar10"], [32, 64], [1, 2]):
            epoch_s = base_s * (1 if dataset == "mnist" else 5 / 6) * (size // 32 * 2 - 1) * (1 + (network == 2) / 2)
            row = {
                "status": "ok",
                "run_id": "r",
                "framework": framework,
                "dataset": dataset,
                "image_size": size,
                "network": network,
            }
            row |= {"batch_size": 128, "epochs": 3} | hardware | columns
            images = 60_000 if dataset == "mnist" else 50_000
            rows += [row | {"steady_epoch_s": epoch_s * r, "images_per_s": images / epoch_s * r} for r in repetitions]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("claim_id", "value", "n", "verdict"),
    [
        ("C32", 200, 36, "holds"),  # 3 times as long is 200 % more
        ("C33", 50, 36, "holds"),
        ("C34", 5, 24, "does not hold"),
        ("C35", 2.5, 24, "holds"),
        ("C36", 2, 24, "holds"),
        ("C37", 0.4, 24, "holds"),
        ("C38", 5 / 6, 36, "does not hold"),
        ("C39", 5 / 6, 36, "holds"),
        ("C40", 1, 36, "holds"),
    ],
)
def test_a_factor_is_judged_scenario_by_scenario(claim_id, value, n, verdict):
    """Scenarios differ 15-fold, repetitions by 2 %: pooled, no interval would be narrow enough."""
    found = judge(claim(claim_id), make_scenarios())
    assert (found.verdict, found.n, found.ours.value) == (verdict, n, pytest.approx(value))
    assert found.reason.endswith(f"; like scenarios paired: {n // 3}")


def test_the_scenarios_of_two_machines_are_not_mixed():
    """32 px on the slow machine alone makes 64 px no faster: its pairs are missing on the other side."""
    fast, slow = make_scenarios(), make_scenarios([9.8, 10.0, 10.2], T4)
    both_sizes, one_size = (
        pd.concat([fast, rows], ignore_index=True) for rows in (slow, slow.query("image_size < 64"))
    )
    for runs, pairs in ((both_sizes, 24), (one_size, 12)):
        found = judge(claim("C32"), runs)
        assert found.ours.value == pytest.approx(200) and found.reason.endswith(f"paired: {pairs}")


def test_hardware_that_a_claim_sets_is_not_paired():
    """The GPU against the CPU, 20 times as fast in each of 24 scenarios."""
    cpu = make_scenarios(hardware=CPU | {"instance": "F4s_v2"}, epochs=10)
    t4 = T4 | {"num_accelerators": 1, "instance": "NC4as_T4_v3"}
    gpu = make_scenarios([0.049, 0.05, 0.051], t4, epochs=10)
    found = judge(claim("C6"), pd.concat([cpu, gpu], ignore_index=True))
    assert (found.verdict, found.n, found.ours.value) == ("holds", 72, pytest.approx(20))
    assert found.reason.endswith("paired: 24")


@pytest.mark.parametrize(
    ("kept", "verdict", "told"),
    [
        ("dataset == 'mnist' and framework == 'mxnet' and network == 1", "holds", "[180, 220]"),  # a cell on each side
        ("dataset == 'mnist' or image_size == 32", "holds", "paired: 6"),
        ("(dataset == 'mnist') == (image_size == 32)", "not measured", "paired: 0"),
    ],
)
def test_what_has_no_like_on_the_other_side_is_left_out(kept, verdict, told):
    """One scenario alone is Welch's; MNIST at 32 px is never held against CIFAR-10 at 64 px."""
    found = judge(claim("C32"), make_scenarios().query(kept))
    assert found.verdict == verdict and found.reason.endswith(told)


def test_scenarios_without_repetitions_decide_nothing():
    """Twelve pairs, each measured once: a value, and no interval."""
    found = judge(claim("C32"), make_scenarios([1.0]))
    assert (found.verdict, found.n, found.ours.value) == ("undecided", 12, pytest.approx(200))
    assert "nothing was repeated" in found.reason


def test_pytorchs_use_of_the_cpu_is_judged_on_any_cpu():
    """A mean over its scenarios, the GPU's left out."""
    rows = [make_scenarios(hardware=hardware, cpu_percent_mean=use) for hardware, use in ((CPU, 97.0), (T4, 20.0))]
    found = judge(claim("C41"), pd.concat(rows, ignore_index=True))
    assert (found.verdict, found.n, found.ours.value) == ("holds", 24, pytest.approx(97))


def test_disturbed_runs_count_and_are_counted():
    """A resumed run has no time; a run that shared its machine has one, and the verdict says of how many."""
    runs = both().assign(resumed=[1] + [0] * 19, disturbed=[False, True, None] + [False] * 17)
    assert judge(claim("A1"), runs)[3::2] == (9, 1)


def test_judged_claims_come_first_in_one_table():
    """The paper's five claims, those with a verdict of our own before those that these rows cannot judge."""
    runs = make_runs([51, 51.3, 51.6], T4)
    table = judge_claims("A", select_runs(runs))
    assert table["id"].tolist() == ["A1", "A2", "A3", "A4", "A5"]
    assert table["verdict"].tolist() == ["holds"] + ["not comparable"] * 4
    swapped = judge_claims("A", select_runs(make_runs([33, 33.3, 33.6], TPU)))
    assert swapped["id"].tolist() == ["A2", "A1", "A3", "A4", "A5"] and swapped["ours"].iloc[0] == pytest.approx(33.3)


def test_what_is_counted_is_counted_once_a_run():
    """25 requests to a network of 20,107,205 parameters are one network; a run of that name in another study too."""
    rows = [{"run_id": "r", "study": study, "num_parameters": 20_107_205} for study in "ab" for _ in range(25)]
    rows = pd.DataFrame(rows).assign(status="ok", error="", model="vgg19", image_size=224, **CPU)
    assert judge(claim("B38"), rows)[2:4] == ("holds", 2)


def test_only_the_rows_of_a_verdict_are_called_disturbed():
    """Rede 2 at 64 px alone is disturbed and has no like at 32 px: the verdict rests on quiet rows."""
    runs = make_scenarios(disturbed=False).query("network == 1 or image_size == 64").reset_index(drop=True)
    runs.loc[runs["network"] == 2, "disturbed"] = True
    assert judge(claim("C32"), runs).num_disturbed == 0
