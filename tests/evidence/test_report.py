"""The report on hand-made rows: what was run, what was left out, how it compares, and every claim."""

import subprocess
import sys

import pandas as pd
import pytest

from dr_lib.evidence.report import draw_figures, write_report
from dr_lib.figures.hardware import UnlikeRunsError, timed_runs
from tests.evidence.test_claims import CPU, ROOT, both, make_runs, make_scenarios

MEASURED = {"run_id": "r", "train_s": 9.0, "cpu_percent_mean": 90.0, "memory_percent_mean": 20.0}


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        (
            "en",
            [
                "# Paper A",
                "SYNTHETIC SAMPLE, NOT PHOTOGRAPHS",
                "TPU needs 36 %",
                "| holds |",
                "## Failed and skipped runs",
            ],
        ),
        (
            "pt",
            ["# Artigo A", "AMOSTRA SINTÉTICA", "TPU precisa de 36 %", "| vale |", "## Execuções com falha"],
        ),
    ],
)
def test_the_report_tells_it_all(tmp_path, lang, words):
    """Drawn data in capitals, the counts left out, environments, verdicts, metrics and the failed run."""
    runs = both(data_kind="synthetic", steady_epoch_s=9.0, metric_auc_test=0.9).assign(resumed=[1] + [0] * 19)
    failed = make_runs([1], CPU, data_kind="synthetic", status="failed", error="no | memory\nleft", run_id="f1")
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
        ([], "| resumed | disturbed |\n| --- | --- |\n| 1 | 0 |", "9 | 600 [600, 600]"),
        (["resumed"], "| disturbed |\n| --- |\n| 0 |", "10 | 639.9 ["),  # (999 + 9 x 600) / 10
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
from dr_lib.evidence.report import write_report
from dr_lib.figures.hardware import plot_training_time
from dr_lib.runs.row import read_runs
from dr_lib.runs.run import Run

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


def test_the_report_of_a_factorial_study(tmp_path):
    """Effects, allocation and overhead stand in it, and skips are told once a reason."""
    runs = make_scenarios(process_s=9.0, wall_s=7.0, setup_s=1.0, **MEASURED)
    unmade = [{"run_id": f"C9-r0{k}", "status": "skipped", "error": "no Jupyter kernel"} for k in "012"]
    runs = pd.concat([runs, pd.DataFrame(unmade)], ignore_index=True)
    figures = draw_figures(runs, paper="C")
    assert {"figure_2_3.png", "figure_4.png", "figure_5.png", "effects.png", "variation.png"} == set(figures)
    verdicts = write_report(runs, tmp_path / "report.md", paper="C", figures=list(figures))
    text = (tmp_path / "report.md").read_text()
    assert "![](effects.png)" in text and "| 3 skipped | no Jupyter kernel |" in text
    assert {verdict.id: verdict.verdict for verdict in verdicts}["C33"] == "holds"
    overhead = text.split("## Overhead of a run")[1].split("##")[0]
    assert overhead.count("| 2.0 | 1.0 | 9.0 | 9.0 | 24 |") == 3
    assert text.split("## Allocation of variation")[1].split("##")[0].count(" x ") > 5


def test_a_design_with_a_hole_has_a_report_that_says_so(tmp_path):
    """An unfinished study is reported: no effects, and which cell is missing."""
    runs = make_scenarios(**MEASURED).iloc[3:]
    write_report(runs, tmp_path / "report.md", paper="C", figures=list(draw_figures(runs, paper="C")))
    assert "the design has cells without a run" in (tmp_path / "report.md").read_text()


def test_a_free_machine_has_a_report_without_a_front(tmp_path):
    """Kaggle costs nothing: there is no front of costs, and no error."""
    runs = make_scenarios(**MEASURED, instance="kaggle")
    assert "cost_front.png" not in draw_figures(runs, paper="C")


def test_a_study_that_was_disturbed_throughout_has_a_report(tmp_path):
    """All runs disturbed: no figures, and the report says how many were left out."""
    runs = make_scenarios(**MEASURED, disturbed=True)
    assert draw_figures(runs, paper="C") == {}
    write_report(runs, tmp_path / "report.md", paper="C", figures=[])
    assert "| resumed | disturbed |\n| --- | --- |\n| 0 | 72 |" in (tmp_path / "report.md").read_text()


def test_unlike_processors_are_unlike_machines():
    """Two machines without accelerators stand apart, and each is paired with itself; unlike threads are refused."""
    runs = pd.concat([make_scenarios(**MEASURED, cpu=cpu, num_cpus=2) for cpu in ("EPYC", "Xeon")])
    assert set(timed_runs(runs)["environment"]) == {"local, CPU, EPYC x 2", "local, CPU, Xeon x 2"}
    with pytest.raises(UnlikeRunsError, match="data_share"):
        draw_figures(pd.concat([make_scenarios(**MEASURED, data_share=share) for share in (0.1, 1.0)]), paper="C")
