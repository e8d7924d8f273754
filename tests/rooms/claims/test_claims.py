"""The verdicts on copies of rows that the notebooks wrote."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats

from dr_lib.__main__ import main
from dr_lib.report.select import PLAN, WORK, list_faults, select_runs
from dr_lib.rooms.claims import verdicts
from dr_lib.rooms.claims.verdicts import count_by_chance, judge_claims, list_judged_rows
from dr_lib.runs.row import RowError, read_runs, write_row
from tests.report.real_rows import (
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
    train_referable,
)
from tests.rooms.claims.entries import find_claim


def judge(claim, runs):
    """The verdict of these rows, unlike as they may be."""
    timed = select_runs(pd.DataFrame(runs), may_differ=[*WORK, *PLAN]).timed
    return verdicts.judge(claim, list_judged_rows(timed))


def claim(claim_id, **changes):
    """One claim of the papers."""
    return find_claim(claim_id).model_copy(update=changes)


def test_a_saving_inside_the_tolerance_holds():
    """35 % saved is 36 give or take 5; the bounds are near SciPy's Welch interval of the log
    times, a little wider.
    """
    runs = both()
    found = judge(claim("A6"), runs)
    log = np.log(runs["train_s"])
    welch = stats.ttest_ind(log[10:], log[:10], equal_var=False).confidence_interval()
    low, high = 100 - 100 * np.exp([welch.high, welch.low])
    assert found[2:4] == ("holds", 10) and found.ours.value == pytest.approx(35.2, abs=0.1)
    assert found.ours.low < low and high < found.ours.high
    assert found.ours.high - found.ours.low == pytest.approx(high - low, rel=0.15)


@pytest.mark.parametrize(
    ("tpu", "verdict"),
    [
        (3080 + SPREAD, "does not hold"),
        (1848 + 5 * SPREAD, "undecided"),
        ([1994.0, 1995.0], "undecided"),
    ],
)
def test_an_interval_outside_refutes_and_one_across_a_bound_decides_nothing(tpu, verdict):
    """Nothing saved; 40 %, which may be more than 41; and two runs, however close together they
    lie.
    """
    assert judge(claim("A6"), both(tpu=tpu)).verdict == verdict


@pytest.mark.parametrize(
    ("relation", "verdict"),
    [(">=", "holds"), ("<=", "does not hold"), ("within", "does not hold")],
)
def test_one_sided_relations_leave_the_other_side_open(relation, verdict):
    """A saving of 54 % is at least 36 %, not at most, and not within 5 points of it."""
    assert (
        judge(claim("A6", relation=relation), both(tpu=1417 + SPREAD / 10)).verdict == verdict
    )


def test_a_ratio_of_spreads_is_judged():
    """Ten times the spread is not twice the spread, though ten runs a side leave a factor of
    two.
    """
    found = judge(claim("A7"), both(tpu=1994 + 10 * SPREAD))
    assert found.ours.value == pytest.approx(10) and found.verdict == "does not hold"


@pytest.mark.parametrize(
    ("runs", "missed"),
    [
        (both(epochs=3), "epochs=200"),
        (both().assign(patience=11), "patience=0"),  # may have stopped before the 200th
        (both(data_kind="synthetic"), "data_kind=photographs"),
        (both(mode="fast", precision="mixed_float16"), "mode=paper, precision=float32"),
        (
            train_referable([900, 905, 910], CPU),
            "accelerator=TPU*, accelerator=Tesla T4, num_accelerators=2",
        ),
    ],
)
def test_other_work_data_or_hardware_is_shown_and_not_compared(runs, missed):
    """What differs is named."""
    found = judge(claim("A6"), runs)
    assert found.verdict == "not comparable" and found.reason.endswith(f"vs {missed}")


def test_fast_runs_beside_the_papers_mode_are_left_out():
    """The paper's mode is judged alone, on ten of twenty rows."""
    fast = both(gpu=1500 + SPREAD, mode="fast", precision="mixed_float16")
    assert judge(claim("A6"), pd.concat([both(), fast], ignore_index=True))[2:4] == (
        "holds",
        10,
    )


def test_two_kinds_of_tpu_are_not_one_machine():
    """A mean over a v2 and a v5e would be the mean of nothing."""
    runs = pd.concat(
        [both(), train_referable([1200, 1210, 1220], TPU | {"accelerator": "TPU v5 lite"})]
    )
    assert judge(claim("A6"), runs.reset_index(drop=True)).verdict == "not comparable"


@pytest.mark.parametrize(
    "runs", [pd.DataFrame(), both(status="failed"), both().assign(train_s=None)]
)
def test_without_rows_nothing_is_measured(runs):
    """No rows, failed rows only, and rows without a time."""
    assert judge(claim("A6"), runs)[2:4] == ("not measured", 0)


@pytest.mark.parametrize(
    ("claim_id", "value", "n", "verdict"),
    [
        ("C32", 200, 3, "holds"),  # 3 times as long is 200 % more
        ("C34", 5, 3, "does not hold"),
        ("C35", 2.5, 3, "holds"),
        ("C37", 0.4, 3, "holds"),
        ("C39", 5 / 6, 3, "holds"),
    ],
)
def test_a_factor_is_judged_scenario_by_scenario(claim_id, value, n, verdict):
    """Scenarios differ 15-fold, repetitions by 2 %: pooled, no interval would be narrow enough."""
    found = judge(claim(claim_id), run_scenarios())
    assert (found.verdict, found.n, found.ours.value) == (verdict, n, pytest.approx(value))


def test_at_least_is_judged_in_every_cell():
    """Rede 2 takes 50 % more, but 10 % less in MXNet: 25 % more on the mean, 8 of 12 pairs, and
    not "at least 10 %".
    """
    slower = run_scenarios(
        only=lambda framework, _, __, network: (
            0.6 if (framework, network) == ("mxnet", 2) else 1
        )
    )
    found = judge(claim("C33"), slower)
    assert found.verdict == "does not hold" and (found.num_satisfied, found.num_parts) == (
        8,
        12,
    )
    assert found.ours.value == pytest.approx(-10) and "mxnet" in found.reason
    whole = judge(claim("C33"), run_scenarios())
    assert (whole.verdict, whole.num_satisfied) == ("holds", 12)


def test_without_the_whole_design_every_case_is_undecided():
    """One pair of twelve shows neither what happens "at least" nor the mean over pairs."""
    part = run_scenarios(
        only=lambda framework, dataset, *_: float((framework, dataset) == ("mxnet", "mnist"))
    )
    found = judge(claim("C33"), part)
    assert found.verdict == "undecided" and found.reason.endswith(
        "10 cells of the design were not run"
    )
    assert judge(claim("C32"), part).verdict == "undecided"


def test_a_difference_is_no_duration():
    """C3: at 64x64 5,000 s and at 32x32 4,900 s differ by 100 s, not by 4,000; 10,000 s at 64x64
    is 5,100 s more.
    """
    for seconds, verdict in ((5000, "does not hold"), (10_000, "holds")):
        cells = run_scenarios(hardware=F4S, **PAPER_C)
        wide = cells["image_size"] == 64
        cells["train_s"] = np.where(wide, seconds, 4900) * cells.groupby(
            ["framework", "dataset", "image_size", "network"]
        )["train_s"].transform(lambda times: times / times.mean())
        assert judge(claim("C3"), cells).verdict == verdict


def test_a_total_cost_is_a_ratio_of_sums():
    """TensorFlow's runs cost 3.5 times as much, the others' 9 times: 5.6 of the total, though
    the mean ratio is 6.6.
    """
    cpu, gpu = (run_scenarios(hardware=hardware, **PAPER_C) for hardware in (F4S, NC4AS))
    gpu["formula_usd"] = gpu["train_s"]
    cpu["formula_usd"] = cpu["train_s"] * np.where(cpu["framework"] == "tensorflow", 3.5, 9)
    found = judge(claim("C8"), pd.concat([cpu, gpu], ignore_index=True))
    assert found.ours.value == pytest.approx((3.5 * 5 + 9 * 3) / 8) and found.verdict == "holds"


def test_a_price_label_is_no_hardware():
    """A laptop that is priced as F4s_v2 gets no verdict on F4s_v2."""
    laptop = run_scenarios(priced_as="F4s_v2", instance_type="", **PAPER_C)
    found = judge(claim("C4"), laptop)
    assert found.verdict == "not comparable" and found.reason.endswith(
        "vs instance_type=*F4s_v2"
    )
    assert judge(claim("C4"), laptop.assign(instance_type="F4s_v2")).verdict == "holds"


def test_several_columns_all_have_to_agree():
    """CIFAR-10 takes as long per image and uses the CPU alike, but the memory twice as much."""
    runs = run_scenarios(cpu_percent_mean=90.0, memory_percent_mean=20.0)
    runs["cpu_percent_mean"] *= (
        runs["images_per_s"]
        * runs["steady_epoch_s"]
        / np.where(runs["dataset"] == "mnist", 6e4, 5e4)
    )
    assert judge(claim("C38"), runs).verdict == "holds"
    twice = runs.assign(memory_percent_mean=np.where(runs["dataset"] == "cifar10", 40.0, 20.0))
    found = judge(claim("C38"), twice)
    assert found.verdict == "does not hold" and "memory_percent_mean" in found.reason


def test_the_scenarios_of_two_machines_are_not_mixed():
    """32 px on the slow machine alone makes 64 px no faster: its pairs are missing on the other
    side.
    """
    slow = run_scenarios([9.8, 10.0, 10.2], T4X2, only=lambda *cell: float(cell[2] == 32))
    found = judge(claim("C32"), pd.concat([run_scenarios(), slow], ignore_index=True))
    assert found.ours.value == pytest.approx(200) and found.n == 3


def test_only_the_rows_of_a_verdict_are_called_disturbed():
    """Rede 2 at 64 px alone is disturbed and has no like at 32 px: the verdict rests on quiet
    rows.
    """
    runs = run_scenarios(only=lambda *cell: float(cell[3] == 1 or cell[2] == 64))
    assert judge(claim("C32"), runs.assign(disturbed=runs["network"] == 2)).num_disturbed == 0


def test_versions_stand_beside_the_verdict():
    """The paper's are named where ours are others."""
    found = judge(claim("C32"), run_scenarios(tensorflow="2.21.0", python="3.9.18"))
    assert (
        "tensorflow 2.21.0 (theirs 2.14.0)" in found.versions
        and "python 3.9.18;" in f"{found.versions};"
    )


@pytest.mark.parametrize(("reached", "verdict"), [(0.98, "holds"), (0.96, "undecided")])
def test_who_reaches_each_accuracy_first(reached, verdict):
    """CUDA C reaches 90, 95 and 97 % in a tenth of Keras's time; that Keras never has 97 %
    decides nothing.
    """
    about = {"epochs": 40, "data_share": 1.0, "data_kind": "given", "replicas": 1}
    rows = []
    for k, r in enumerate((0.98, 1.0, 1.02)):
        for name, second, best, device in (
            ("fused", 0.1, 0.98, "Tesla T4"),
            ("keras_tensorflow", 1.0, reached, "cpu"),
        ):
            times = {"replica_train_s": [[second * r * e for e in range(1, 41)]]}
            times["replica_accuracy"] = [np.linspace(0.8, best, 40).tolist()]
            columns = about | times | {"accelerator": device, "run_id": f"{name}{k}"}
            rows.append(
                copy_row(
                    "40", name, **columns | {"implementation": name.replace("fused", "paper")}
                )
            )
    assert judge(claim("D9"), rows).verdict == verdict


def test_what_is_counted_needs_no_repetition():
    """One export has all the parameters that there are; 2,343 are the CUDA network's."""
    row = copy_row("21", model="mobilenet", image_size=224, num_parameters=3_377_221)
    assert judge(claim("B36"), [row])[2:4] == ("holds", 1)
    assert claim("D5").published == "2,343" and claim("C33").published == "≥ 10 %"


def test_judged_claims_come_first_and_are_listed_by_id():
    """What is not measured comes last; up to a fortieth of the verdicts are wrong by chance. A
    number that no row can judge is no line.
    """
    table = judge_claims("A", select_runs(both()))
    verdicts_of = table.set_index("id")["verdict"]
    assert verdicts_of["A6"] == "holds" and "A1" not in verdicts_of
    assert count_by_chance(table[table["id"].isin(["A6", "A7"])]) == (1, 0.03)
    assert table.set_index("id").loc["A6", "published"] == "36 ± 5 %"
    numbers = [int(name[1:]) for name in table.sort_index()["id"]]
    assert numbers == sorted(numbers)
    few = judge_claims("B", select_runs(serve([80.0, 81.0, 82.0], "mobilenet", "ml.m4.xlarge")))
    is_reached = ~few["verdict"].isin(["not measured", "not comparable"])
    assert is_reached.any() and is_reached.is_monotonic_decreasing


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ({"C16": "", "C19": "C16"}, 1),  # it follows
        ({"C19": "C16"}, 1),  # from a claim that is undecided: the measurement counts
        ({"B23": "", "B41": "B23, B24"}, 2),  # the half of what it follows from
        ({"B23": "", "B24": "", "B41": "B23, B24"}, 2),
        ({"D5": "inputs"}, 0),
        ({"C1": "", "C2": "", "C32": ""}, 2),  # our reading of C1, C2
        ({"C1": "", "C32": ""}, 2),
    ],
)
def test_a_verdict_that_follows_from_another_counts_once(given, number):
    """Whether the one or the other is given; what was put in never does."""
    table = pd.DataFrame({"id": list(given), "restates": list(given.values())})
    places = table["id"].map({"C32": "C1, C2"}).fillna("text")
    assert count_by_chance(table.assign(verdict="holds", place=places))[0] == number


def test_the_command_counts_each_run_once_and_says_nothing_of_no_verdict(tmp_path):
    """Three runs on a CPU stand on both sides of GPU against TPU; that comparison decides
    nothing, by chance or not.
    """
    for number in range(3):
        write_row(
            tmp_path / "mine",
            copy_row("10", study="mine", run_id=f"r{number}", seed=number, disturbed=True),
        )
    said = CliRunner().invoke(main, ["claims", str(tmp_path / "mine")]).output
    assert re.search(r"^A\d+ +not comparable .* -, 3 disturbed ", said, re.MULTILINE), said
    assert "paper B: no rows measure " in said and "wrong by chance" not in said
    assert max(map(len, said.splitlines())) < 250 and len(said.splitlines()) < 20
    billed = CliRunner().invoke(main, ["claims", str(tmp_path / "mine"), "--bill", "9"]).output
    assert (
        billed
        == "Error: a bill needs finished runs of notebook 30: there are none below the folders\n"
    )


def test_frameworks_on_two_machines_are_not_compared():
    """TensorFlow from a CPU alone and PyTorch from a GPU alone say nothing of the two
    frameworks.
    """
    runs = run_scenarios(hardware=CPU)
    elsewhere = run_scenarios(hardware=NC4AS)
    mixed = pd.concat(
        [runs[runs["framework"] != "pytorch"], elsewhere[elsewhere["framework"] == "pytorch"]]
    )
    assert judge(claim("C35"), mixed.reset_index(drop=True)).verdict not in (
        "holds",
        "does not hold",
    )
    assert judge(claim("C35"), runs).verdict == "holds"


def test_another_frameworks_cells_fill_none_of_the_design():
    """Without MXNet a third of the 12 cells is missing, whatever Keras / JAX ran beside; alone
    it is no row.
    """
    without = run_scenarios().query("framework != 'mxnet'")
    jax = run_scenarios().query("framework == 'mxnet'")
    jax = jax.assign(framework="keras_jax", run_id=lambda rows: "jax" + rows["run_id"])
    found = judge(claim("C33"), pd.concat([without, jax], ignore_index=True))
    assert (found.verdict, found.num_missing) == ("undecided", 4)
    assert judge(claim("C33"), jax.reset_index(drop=True)).verdict == "not comparable"
    twice = [
        without,
        without.assign(data_share=0.5, run_id=lambda rows: "half" + rows["run_id"]),
    ]
    assert judge(claim("C33"), pd.concat(twice, ignore_index=True)).num_missing == 4


def test_machines_are_compared_whatever_their_number_of_threads():
    """Two cores against eight: the threads are part of the machine."""
    slow = run_scenarios(threads=2)
    fast = run_scenarios((0.049, 0.05, 0.051), NC4AS, threads=8)
    assert judge(claim("C53"), pd.concat([slow, fast], ignore_index=True)).verdict == "holds"


@pytest.mark.parametrize(
    ("labels", "verdict"), [(("F4s_v2", "NC4as_T4_v3"), True), (("F4s_v2", "F4s_v2"), False)]
)
def test_money_at_another_machines_price_is_not_compared(labels, verdict):
    """Both halves with the price of one of them decide nothing about what the other costs."""
    halves = [
        run_scenarios(hardware=hardware, priced_as=label, formula_usd=1.0, **PAPER_C)
        for hardware, label in zip((F4S, NC4AS), labels, strict=True)
    ]
    found = judge(claim("C8"), pd.concat(halves, ignore_index=True))
    assert (found.verdict != "not comparable") is verdict, found


def test_a_sum_over_the_design_is_not_taken_over_two_kinds_of_machine():
    """Every scenario on two processors of one instance type has 72 cells for the paper's 48."""
    work = PAPER_C
    halves = [
        run_scenarios(hardware=F4S, cpu=cpu, **work) for cpu in ("Xeon 8272CL", "EPYC 7763")
    ]
    halves += [run_scenarios(hardware=NC4AS, **work)]
    runs = pd.concat(halves, ignore_index=True).assign(formula_usd=0.1)
    runs["run_id"] = runs.index.astype(str)
    found = judge(claim("C26"), runs)
    assert found.verdict == "not comparable" and found.reason.startswith(
        "72 cells for 48 of the design"
    )


def test_a_claim_about_both_networks_is_judged_by_both():
    """The older generation takes twice as long, in three deployments of each network; with one
    network it is open.
    """
    rows = [
        serve(base * factor * np.array([0.98, 1.0, 1.02]), model, machine)
        for model, base in (("mobilenet", 30.0), ("vgg19", 200.0))
        for machine, factor in (("ml.m4.xlarge", 2.0), ("ml.m5.xlarge", 1.0))
    ]
    found = judge(claim("B41"), pd.concat(rows, ignore_index=True))
    assert (found.verdict, found.num_missing, found.num_satisfied) == ("holds", 0, 2), found
    assert judge(claim("B41"), pd.concat(rows[:2], ignore_index=True)).num_missing == 1


def test_what_others_did_to_the_processor_is_no_framework_s_use_of_it():
    """A disturbed row says how busy others were: with such rows alone the claim on the CPU's use
    is not measured.
    """
    busy = run_scenarios(cpu_percent_mean=99.0, disturbed=True, repetitions=(0.98, 1.0, 1.02))
    assert judge(claim("C41"), busy)[2:4] == ("not measured", 0)
    quiet = run_scenarios(
        cpu_percent_mean=50.0, disturbed=False, repetitions=(0.97, 1.01, 1.03)
    )
    found = judge(claim("C41"), pd.concat([busy, quiet], ignore_index=True))
    assert (found.verdict, found.num_disturbed) == ("does not hold", 0)
    assert judge(claim("C32"), busy).num_disturbed == len(busy)  # a time counts


def test_a_mean_over_levels_of_a_study_decides_nothing():
    """Two learning rates of scenarios on the GPU: neither mean is C29's; one of them is judged."""
    one = run_scenarios(60 * np.array([0.98, 1.0, 1.02]), NC4AS, **PAPER_C)
    two = pd.concat([one, one.assign(learning_rate=0.1)], ignore_index=True)
    found = []
    for runs, factors in ((one, []), (two, ["learning_rate"])):
        runs = runs.assign(run_id=runs["run_id"] + runs.index.astype(str))
        rows = list_judged_rows(select_runs(runs, may_differ=[*WORK, *PLAN]).timed)
        found.append(verdicts.judge(claim("C29"), rows, factors))
    assert (found[0].verdict, found[1].verdict) == ("does not hold", "undecided")
    assert (
        found[1].reason == "a mean over several levels of learning_rate: choose one with only"
    )


# ---- what a verdict rests on


def write_training(folder, times, *, sessions=1, **columns) -> None:
    """Rows of two T4 and of a TPU, which takes 64 % of their time, by study file in `folder`."""
    for place, hardware in (("gpu", T4X2), ("tpu", TPU)):
        for k, s in enumerate(times):
            about = {"seed": k, "boot": f"{place} {k % sessions}", "study": folder.name}
            train_s = s if place == "gpu" else 0.64 * s * (1 + 0.001 * (k % 3))
            name = f"C1-r{k:02d}-{place}"
            row = {"run_id": name, "train_s": train_s, "scenario": "C1"}
            write_row(folder, copy_row("10", **PAPER_A | hardware | about | row | columns))


@pytest.mark.parametrize(
    ("repetitions", "verdict", "said"),
    [
        ([6], "holds", ""),
        ([9], "preliminary", "so far holds, 9 repetitions are planned"),
        ([3, 4, 6], "holds", "repetitions were added 2 times: over so many looks about 6 %"),
    ],
)
def test_a_verdict_waits_for_the_repetitions_of_the_study(tmp_path, repetitions, verdict, said):
    """Three sessions of two runs a side, of which the study's file wants 6, 9, or at last 6."""
    folder = tmp_path / "mine"
    write_training(folder, 3000 * np.array([1, 1.01, 0.99, 1.001, 1.011, 0.991]), sessions=3)
    (folder / "study.json").write_text(json.dumps({"repetitions": repetitions}))
    runs = read_runs(folder)
    found = judge(claim("A6"), runs)
    assert found.verdict == verdict, found.reason
    assert said in found.reason
    assert CliRunner().invoke(main, ["claims", str(folder)]).output.count(said) == 1 or not said


def test_each_machine_makes_all_repetitions_that_it_can(tmp_path):
    """Six on the GPUs and three on the TPU are not six; a scenario that a machine skips keeps
    nothing waiting.
    """
    folder = tmp_path / "mine"
    times = 3000 * np.array([1, 1.01, 0.99, 1.001, 1.011, 0.991])
    write_training(folder, times, sessions=3)
    (folder / "study.json").write_text(json.dumps({"repetitions": [6]}))
    skipped = {"run_id": "C2-r00-tpu", "scenario": "C2", "status": "skipped", "study": "mine"}
    write_row(folder, copy_row("10", **PAPER_A | TPU | skipped))
    assert judge(claim("A6"), read_runs(folder)).verdict == "holds"
    for k in (3, 4, 5):
        (folder / "rows" / f"C1-r{k:02d}-tpu.json").unlink()
    assert judge(claim("A6"), read_runs(folder)).verdict == "preliminary"


def test_outliers_among_the_spread_are_counted(tmp_path):
    """One long run in thirty on each side is left out and said; nine are too many."""
    rng = np.random.default_rng(2)
    for num_long, said in ((1, "without 2 outliers"), (9, "more than one in five")):
        sides = []
        for hardware, level in ((T4X2, 3000.0), (TPU, 2000.0)):
            times = level * rng.lognormal(0, 0.01, 30)
            times[: num_long * (30 // num_long) : 30 // num_long] *= 2
            boots = [f"{hardware['accelerator']} {k // 10}" for k in range(30)]
            sides.append(train_referable(times, hardware).assign(boot=boots))
        found = judge(claim("A7"), pd.concat(sides, ignore_index=True))
        assert said in found.reason


def test_one_run_counts_once_whatever_it_is_called(tmp_path):
    """A folder copied and renamed, and a run under another name: two runs a side stay two."""
    times = [3000.0, 3030.0]
    for name in ("mine", "again"):
        write_training(tmp_path / name, times, sessions=2)
    row = copy_row("10", **PAPER_A | T4X2 | {"seed": 0, "boot": "gpu 0", "study": "mine"})
    row |= {"run_id": "other", "train_s": 3000.0, "scenario": "C1"}
    write_row(tmp_path / "mine", row)
    found = judge(claim("A6"), read_runs(tmp_path))
    assert (found.verdict, found.n) == ("undecided", 2)
    said = CliRunner().invoke(main, ["claims", str(tmp_path)]).output
    assert "mine/rows/other.json is a copy of again/rows/C1-r00-gpu.json" in said
    moved = row | {"study": "third", "train_s": 2999.0, "run_id": "C1-r00-gpu"}
    write_row(tmp_path / "third", moved)
    with pytest.raises(RowError, match="run C1-r00-gpu is twice, in .*again.* and .*third"):
        read_runs(tmp_path)


def test_a_time_that_is_none_is_named_and_the_other_rows_judge(tmp_path):
    """0 s and -5 s are no times: their files are named, and six runs a side are left."""
    write_training(tmp_path / "mine", 3000 * np.linspace(0.99, 1.01, 6), sessions=3)
    write_training(tmp_path / "bad", [1e-9, 5.0], started_at="2026-11-24T10:00:00+00:00")
    for path in (tmp_path / "bad" / "rows").glob("*.json"):
        row = json.loads(path.read_text())
        path.write_text(json.dumps(row | {"train_s": 0 if row["seed"] else -5, "seed": 99}))
    runs = read_runs(tmp_path)
    found = judge(claim("A6"), runs)
    assert (found.verdict, found.n) == ("holds", 3), found.reason
    assert "bad/rows/C1-r00-gpu.json: train_s is -5, which is no time" in list_faults(runs)


def test_what_is_left_out_is_said_and_all_runs_are_beside_it(tmp_path):
    """One doubled run of ten in each of three sessions of the T4 is left out; with them the
    saving is 41.5 %.
    """
    times = np.tile(3000 * np.linspace(0.995, 1.005, 10), 3)
    write_training(tmp_path / "mine", times[np.arange(30) // 3], sessions=3)
    for k in range(3):
        path = tmp_path / "mine" / "rows" / f"C1-r{k:02d}-gpu.json"
        row = json.loads(path.read_text())
        path.write_text(json.dumps(row | {"train_s": 2 * row["train_s"]}))
    found = judge(claim("A6"), read_runs(tmp_path))
    assert found.num_left_out == 3 and found.over_all == pytest.approx(100 - 64 / 1.1, abs=0.3)
    assert "without 3 outliers, with them 41." in found.reason


def test_a_column_that_no_row_has_is_refused(tmp_path):
    """As the notebooks do, in one sentence."""
    write_row(tmp_path, copy_row("22", "litert_int8", study="mine"))
    said = CliRunner().invoke(main, ["claims", str(tmp_path), "--allow", "modes"])
    assert said.exit_code == 1
    assert said.output.startswith("Error: allow modes: no row has that column, choose from ")
