"""What is timed, what is excluded and why, and what may differ, on rows made by hand."""

import itertools
import re

import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.report.select import (
    WARMTH,
    UnlikeRunsError,
    list_columns,
    name_sessions,
    select_runs,
)
from tests.report.timed_rows import CPU, T4, TPU, make_runs


def test_environments_are_told_apart_by_what_they_must_be():
    """Two instances of one platform and processor get their names, and half a CPU is another
    machine than a whole; the paper's mode goes without saying; so many machines are in the name.
    """
    runs = [
        make_runs([1] * 3, T4, mode=[None, "paper", "fast"]),
        make_runs([1], TPU, mode="plain"),
        make_runs([1] * 2, CPU, instance_type=["a", "b"], mode="fast", disturbed=[True, False]),
    ]
    timed = select_runs(pd.concat(runs), may_differ=["mode"], exclude=["disturbed"]).timed
    assert timed["environment"].tolist() == [
        "kaggle, 2 x Tesla T4",
        "kaggle, 2 x Tesla T4",
        "kaggle, 2 x Tesla T4, fast",
        "colab, TPU v5 lite, plain",
        "local, CPU, b, fast",  # whether or not the rows of a are timed
    ]
    assert timed["machine"][2:].tolist() == [
        "kaggle, 2 x Tesla T4",
        "colab, TPU v5 lite",
        "local, CPU, b",
    ]
    assert timed["mode"].tolist() == ["paper", "paper", "fast", "plain", "fast"]

    quotas = make_runs([1] * 2, CPU, cpu="EPYC", num_cpus=1, cpu_quota=[None, 0.5])
    machines = select_runs(quotas).timed["machine"].tolist()
    assert machines == ["local, CPU, EPYC x 1", "local, CPU, EPYC x 0.5"]


def test_unlike_runs_are_refused_by_column_and_value():
    """Neither a model nor other code slips into a mean."""
    runs = make_runs([1] * 2, CPU, model=["a", "b"], code_sha256=["c", "d"])
    with pytest.raises(UnlikeRunsError, match=r"code_sha256 \(c, d\); model \(a, b\)"):
        select_runs(runs)
    with pytest.raises(UnlikeRunsError, match="code_sha256"):
        select_runs(runs, may_differ=["model"])
    select_runs(runs, may_differ=["model", "code_sha256"])
    select_runs(runs, within=["model"])  # each model alone is alike


def test_code_is_compared_by_content():
    """Commits of equal code are one table."""
    runs = make_runs([1] * 3, CPU, code_sha256="1" * 64, commit=["a", "b-dirty", ""])
    other = make_runs([1], CPU, code_sha256="2" * 64, commit="a")
    assert len(select_runs(runs).timed) == 3
    words = f"rows differ in code_sha256 ({'1' * 12}, {'2' * 12})"
    with pytest.raises(UnlikeRunsError, match=re.escape(words)):
        select_runs(pd.concat([runs[:1], other]))
    select_runs(pd.concat([runs, other]), may_differ=["code_sha256"])


def test_the_folds_of_a_study_may_differ_in_their_split():
    """A factor of each study, as its scenarios; no table that was written anew, no runs by hand.

    A hash is named by its first digits.
    """
    digests = {"split_sha256": ["1" * 64, "2" * 64], "scenario": ["C1", "C2"]}
    folds = make_runs([1] * 2, CPU, study="folds", split=["1", "2"], **digests)
    assert len(select_runs(pd.concat([folds, folds.assign(study="folds_upper")])).timed) == 4
    for others in (
        folds[:1].assign(split_sha256="3" * 64),  # the same table, written anew
        folds[:1].assign(study="grades", split_sha256="3" * 64),  # whose split is one
        folds.assign(study="adhoc", scenario="C1"),  # by hand
    ):
        with pytest.raises(UnlikeRunsError, match="split_sha256 .*111111111111, .*choose one"):
            select_runs(pd.concat([folds, others]))
    with pytest.raises(UnlikeRunsError, match=r"\(111111111111, 222222222222\)"):
        select_runs(folds.drop(columns="study"))


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("precision", "mixed_float16", "mixed_bfloat16"),
        ("num_replicas", 2, 8),
        ("on_device", True, False),
        ("steps_per_execution", 1, 32),
        ("environment_settings", "none", "XLA_FLAGS: 3fa2b1c09d8e"),
    ],
)
def test_the_plan_may_differ_between_machines_and_modes_not_within(column, one, other):
    """The fast mode takes float16 on a GPU and bfloat16 on a TPU; that is its plan, not a slip."""
    gpu, tpu = (
        make_runs([1], hardware, mode="fast", **{column: one}) for hardware in (T4, TPU)
    )
    changed = {column: other}
    select_runs(pd.concat([gpu, tpu.assign(**changed)]))
    select_runs(pd.concat([gpu, gpu.assign(mode="paper", **changed)]), may_differ=["mode"])
    with pytest.raises(UnlikeRunsError, match=column):
        select_runs(pd.concat([gpu, gpu.assign(**changed)]))


def test_versions_may_differ_between_machines_and_kernels_not_within():
    """Colab and Kaggle have a TensorFlow each, and MXNet's kernel a Python of its own."""
    new = make_runs([1], T4, tensorflow="2.21.0", python="3.11.7", framework="tensorflow")
    old = new.assign(tensorflow="2.14.0")
    select_runs(pd.concat([new, old.assign(platform="colab")]))
    mxnet = new.assign(framework="mxnet", tensorflow=None, python="3.9.18")
    select_runs(pd.concat([new, mxnet]), may_differ=["framework"])
    with pytest.raises(UnlikeRunsError, match=r"tensorflow \(2.14.0, 2.21.0\)"):
        select_runs(pd.concat([new, old]))
    select_runs(pd.concat([new, old]), may_differ=["tensorflow"])


def test_a_session_is_a_boot_of_a_machine_or_a_deployment_elsewhere():
    """Two boots of one laptop are two; a server elsewhere has a machine of its own, whatever
    client asked; rows that tell nothing are of one.
    """
    elsewhere = {"boot": "b", "endpoint": "remote"}
    rows = [
        {"boot": "a"},
        {"boot": "b"},
        {"boot": "b"},
        {"boot": "b", "session": "colab-1"},
        {"deployment": "d1", **elsewhere},
        {"deployment": "d2", **elsewhere},
        {},
        {},
    ]
    names = name_sessions(pd.DataFrame(rows).assign(machine="local, CPU")).tolist()
    assert len(set(names)) == 6 and names[1] == names[2] and names[6] == names[7]


def test_modes_are_pooled_only_when_asked():
    """Another batch, other epochs or another batch normalisation on one machine stay unlike."""
    about = {"batch_size": 8, "learning_rate": 0.001, "epochs": 20}
    paper = make_runs([2], T4, mode="paper", batch_norm="local", **about)
    fast = paper.assign(mode="fast")
    plain = paper.assign(mode="plain")
    with pytest.raises(UnlikeRunsError, match=r"rows differ in mode \(fast, paper\):"):
        select_runs(pd.concat([paper, fast]))
    select_runs(pd.concat([paper, fast, plain]), may_differ=["mode"])
    for column, value in {
        "batch_size": 128,
        "learning_rate": 0.1,
        "batch_norm": "global",
        "epochs": 10,
    }.items():
        other = fast.assign(**{column: value})
        with pytest.raises(UnlikeRunsError, match=column):
            select_runs(pd.concat([paper, fast, other]), may_differ=["mode"])


def run_study(factors, **columns):
    """Two repetitions of each combination of levels, a scenario each."""
    rows = []
    for number, levels in enumerate(itertools.product(*factors.values())):
        about = dict(zip(factors, levels, strict=True)) | columns
        rows.append(make_runs([1, 2], CPU, study="s", scenario=f"C{number}", **about))
    return pd.concat(rows, ignore_index=True)


def test_the_factors_of_a_study_stand_side_by_side():
    """By themselves, without what follows from them; what is not theirs still has to agree."""
    runs = run_study({"batch_size": [8, 32], "recipe": ["few", "full"]}, epochs=20)
    runs["last_layer"] = runs["recipe"].map({"few": "conv_pw_7_relu", "full": ""})
    selection = select_runs(runs)
    assert selection.factors == ["recipe", "batch_size"]
    assert selection.timed["place"].unique().tolist()[:2] == [
        "local, CPU, recipe few, batch_size 8",
        "local, CPU, recipe full, batch_size 8",
    ]
    assert select_runs(runs, may_differ=["recipe", "last_layer"]).factors == ["batch_size"]
    labelled = select_runs(run_study({"label": ["a", "b"]}))  # a null control
    assert labelled.timed["place"].unique().tolist() == [
        f"local, CPU, label {each}" for each in "ab"
    ]
    modes = run_study({"mode": ["paper", "fast"]})
    assert select_runs(modes).factors == []  # an environment has its mode in its name
    runs.loc[0, "epochs"] = 30
    with pytest.raises(UnlikeRunsError, match="-p only epochs=20.*-p allow epochs"):
        select_runs(runs)
    assert select_runs(runs, allowed=["epochs"]).factors == ["recipe", "epochs", "batch_size"]
    commits = run_study({}, commit=["a", "b"])
    assert select_runs(commits, allowed=["commit"]).factors == []  # pooled


def test_of_runs_by_hand_the_newest_kind_is_taken():
    """Others are listed with what tells them apart; a machine has the versions of its newest run.
    Runs of a study are not sorted out.
    """
    runs = make_runs(
        [1.0, 2, 3, 4],
        CPU,
        epochs=[20, 2, 20, 20],
        keras=["3.13", "3.15", "3.15", "3.15"],
        run_id=[f"{number:012x}" for number in range(4)],
        started_at=[f"2026-11-2{number}" for number in range(4)],
    ).sample(frac=1, random_state=0, ignore_index=True)
    selection = select_runs(runs)
    assert sorted(selection.timed["train_s"]) == [3.0, 4.0]
    assert selection.others == "epochs=2 (1); keras=3.13 (1)"
    reasons = [f"another kind of run: {kind}" for kind in ("epochs=2", "keras=3.13")]
    assert sorted(selection.excluded["reason"]) == reasons
    assert select_runs(runs[runs["epochs"] == 2]).timed["train_s"].tolist() == [2.0]
    assert len(select_runs(runs, within=["epochs", "driver"], may_differ=["keras"]).timed) == 4
    both = select_runs(runs, allowed=["epochs"])
    assert both.factors == ["epochs"] and len(both.timed) == 3
    with pytest.raises(UnlikeRunsError):
        select_runs(runs.assign(run_id="C1-r00-local"))


def test_everything_that_is_not_timed_has_its_reason():
    """Failed rows have their error, resumed ones no single time; disturbed ones count unless
    they are excluded. Of nothing there are empty tables.
    """
    marks = [{}, {"status": "failed", "error": "no memory"}, {"resumed": 1}]
    marks.append({"disturbed": True})
    runs = [make_runs([20.0], CPU, run_id=f"r{k}", **mark) for k, mark in enumerate(marks)]
    runs = pd.concat(runs, ignore_index=True)
    selection = select_runs(runs)
    assert selection.timed[["run_id", "disturbed"]].to_numpy().tolist() == [
        ["r0", False],
        ["r3", True],
    ]
    assert selection.finished["run_id"].tolist() == ["r0", "r2", "r3"]
    assert selection.excluded.set_index("run_id")["reason"].to_dict() == {
        "r1": "no memory",
        "r2": "resumed after a stop: its time is in two parts",
    }
    strict = select_runs(runs, exclude=["disturbed"])
    assert strict.timed["run_id"].tolist() == ["r0"] and len(strict.excluded) == 3
    with pytest.raises(DrError, match="'noisy': choose from resumed, disturbed"):
        select_runs(runs, exclude=["noisy"])
    assert all(len(table) == 0 for table in select_runs(pd.DataFrame()))


def test_a_column_that_no_row_has_is_refused():
    """`modes` for `mode` would let nothing differ, in silence."""
    runs = make_runs([1], CPU, mode="paper", commit="c")
    assert list_columns("mode, commit,", runs) == ["mode", "commit"]
    with pytest.raises(DrError, match="^allow modes: no row has that column, choose from com"):
        list_columns("commit,modes", runs)
    assert list_columns("modes", runs[:0]) == ["modes"]  # a report on the paper alone


@pytest.mark.parametrize(
    ("runs", "timed", "warmth"),
    [
        # an H100's three: no mean of 22 s
        ([(39.1, True, "a"), (14.7, False, "a"), (12.6, False, "a")], [14.7, 12.6], "warm"),
        (  # by 0.9 % at most, in each of three sessions
            [(100.9, True, "a"), (100, False, "a"), (90.5, True, "b"), (90, False, "b")],
            [100.9, 100, 90.5, 90],
            "cold and warm",
        ),
        (
            [(100.9, True, "a"), (100, False, "a"), (91, True, "b"), (90, False, "b")],
            [100, 90],
            "warm",
        ),
        ([(100.1, True, "a"), (100, False, "a"), (90, True, "b")], [100], "warm"),
        ([(9.0, None, "a"), (8.0, None, "a")], [9, 8], "unknown"),
        ([(9.0, None, "b"), (7.0, True, "a"), (8.0, False, "a")], [8], "warm"),
        ([(9.0, None, "b"), (7.0, True, "a")], [9], "unknown"),
        ([(9.0, True, "a"), (8.0, True, "b")], [9, 8], "cold"),
    ],
)
def test_cold_and_warm_runs_make_no_mean(runs, timed, warmth):
    """Warm ones count; cold ones too where all are, or where they differ by less than 1 % in every
    session; what is unknown is alike, but not like what is known to be warm.
    """
    seconds, cold, boot = zip(*runs, strict=True)
    selection = select_runs(make_runs(seconds, T4, cold=cold, boot=boot))
    assert selection.timed["train_s"].tolist() == timed
    assert {*selection.timed["warmth"]} == {warmth}
    shown = selection.finished[selection.finished["warmth"] == "apart"]
    assert shown["place"].str.endswith(", cold").all()
    assert len(selection.excluded) == len(runs) - len(timed)
    assert selection.excluded["reason"].isin([WARMTH["apart"], WARMTH["unsure"]]).all()


def test_one_machines_cold_run_is_not_compared_with_anothers_warm_one():
    """Nor with one whose batch differs: it is the first of its own kind."""
    rows = [make_runs([9.0], T4, cold=True), make_runs([5.0, 6.0], TPU, cold=False)]
    assert select_runs(pd.concat(rows)).timed["train_s"].tolist() == [5, 6]
    batches = make_runs([9, 5, 6], T4, cold=[None, False, False], batch_size=[8, 64, 64])
    selection = select_runs(batches, allowed=["batch_size"])
    assert selection.timed["warmth"].tolist() == ["unknown", "warm", "warm"]
