"""The verdicts on hand-made rows, and the report."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dr_lib.studies.claims import judge, read_published, write_report
from dr_lib.studies.figures import UnlikeRunsError, timed_runs

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


def test_resumed_and_contended_runs_are_left_out_unless_asked():
    """A run that was interrupted or shared its machine has another time than the rest."""
    runs = both().assign(resumed=[1] + [0] * 19, contended=[False, True, None] + [False] * 17)
    assert len(timed_runs(runs)) == 18
    assert len(timed_runs(runs, keep=["resumed", "contended"])) == 20
    assert judge(claim("A1"), runs).n == 8
    assert judge(claim("A1"), runs, keep=["contended"]).n == 9


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        (
            "en",
            ["# Paper A", "DRAWN SAMPLE, NOT PHOTOGRAPHS", "TPU needs 36 %", "| holds |", "## Failed runs"],
        ),
        (
            "pt",
            ["# Artigo A", "AMOSTRA DESENHADA", "TPU precisa de 36 %", "| vale |", "## Execuções com falha"],
        ),
    ],
)
def test_the_report_tells_it_all(tmp_path, lang, words):
    """Drawn data in capitals, the counts left out, environments, verdicts, metrics and the failed run."""
    runs = both(data_kind="drawn", steady_epoch_s=9.0, metric_auc_test=0.9).assign(resumed=[1] + [0] * 19)
    failed = make_runs([1], CPU, data_kind="drawn", status="failed", error="no | memory\nleft", run_id="f1")
    verdicts = write_report(pd.concat([runs, failed]), tmp_path / "report.md", lang=lang)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert [v.id for v in verdicts] == ["A1", "A2", "A3", "A4", "A5"]
    for word in [*words, "![](figure_1.png)", "| 1 | 0 |", "metric_auc_test", r"| f1 | no \| memory left |"]:
        assert word in text
    fast, slow = [line.split(" | ") for line in text.splitlines() if line.startswith(("| colab", "| kaggle"))]
    assert slow[:2] == ["| kaggle, 2 x Tesla T4", "9"]
    assert (slow[4], fast[4][:6]) == ("1", "0.6461")  # SciPy: gmean(33.24 + SPREAD) / gmean((51.33 + SPREAD)[1:])
    assert "nan" not in text


@pytest.mark.parametrize(
    ("keep", "left_out", "told"),
    [
        ([], "| resumed | contended |\n| --- | --- |\n| 1 | 0 |", "9 | 600 [600, 600]"),
        (["resumed"], "| contended |\n| --- |\n| 0 |", "10 | 639.9 ["),  # (999 + 9 x 600) / 10
    ],
)
def test_the_report_times_no_run_that_was_resumed_unless_asked(tmp_path, keep, left_out, told):
    """One that went on twice after kills is counted among those left out, and its time is in no mean."""
    runs = both(gpu=[]).assign(resumed=[2] + [0] * 9, train_s=[999.0] + [600.0] * 9)
    write_report(runs, tmp_path / "report.md", keep=keep)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert f"## Left out of the timing\n\n{left_out}\n" in text and f"| colab, TPU v2 | {told}" in text


def test_the_report_of_failures_alone_lists_them(tmp_path):
    """Rows of runs that never came to know their machine have no platform: no claim is measured, no error hidden."""
    write_report(pd.DataFrame([{"run_id": "f1", "status": "failed", "error": "no"}]), tmp_path / "report.md")
    assert "| f1 | no |" in (tmp_path / "report.md").read_text(encoding="utf-8")


BARE = """\
import sys
from pathlib import Path

for absent in ("tensorflow", "jax", "cv2", "statsmodels", "papermill"):
    sys.modules[absent] = None
from dr_lib.studies.claims import write_report
from dr_lib.studies.figures import plot_training_time
from dr_lib.studies.rows import read_runs
from dr_lib.studies.run import Run

here = Path(sys.argv[1])
for repetition, mode in enumerate(["paper", "fast"]):
    run = Run(here, "n", {"seed": 0, "repetition": repetition, "mode": mode}, results=str(here / "rows of all"))
    run.finish(platform="local", accelerator="cpu", num_accelerators=1, train_s=2.0, metric_auc_test=0.9)
runs = read_runs(here)
write_report(runs, here / "report.md", allow=["mode", "commit"])
plot_training_time(runs, allow=["mode", "commit"]).savefig(here / "figure_1.png")
"""


def test_rows_figure_and_report_need_few_packages(tmp_path):
    """As on Colab's TPU runtime: no TensorFlow, OpenCV, statsmodels or papermill, from the run to the report."""
    subprocess.run([sys.executable, "-c", BARE, str(tmp_path)], cwd=ROOT, check=True)
    assert "## Modes" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert (tmp_path / "figure_1.png").stat().st_size > 10_000


def test_the_report_of_nothing_says_so(tmp_path):
    """Before any run, every claim of every paper is not measured."""
    for paper in "ABCD":
        verdicts = write_report(pd.DataFrame(), tmp_path / "report.md", paper=paper)
        assert {v.verdict for v in verdicts} == {"not measured"}


def test_the_report_refuses_unlike_runs_and_unknown_languages(tmp_path):
    """Nothing is written then; allowed columns get a line of their own in the table of environments."""
    runs = pd.concat([both(), both(model="small_cnn")])
    with pytest.raises(UnlikeRunsError, match="model"):
        write_report(runs, tmp_path / "report.md")
    with pytest.raises(ValueError, match="lang"):
        write_report(both(), tmp_path / "report.md", lang="de")
    assert not (tmp_path / "report.md").exists()
    write_report(runs, tmp_path / "report.md", allow=["model"])
    assert "| kaggle, 2 x Tesla T4 | small_cnn | 10 |" in (tmp_path / "report.md").read_text(encoding="utf-8")
