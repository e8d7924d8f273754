"""The report of paper B on hand-made requests: latency, table 1, costs, claims, and what 24.34 % means."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from dr_lib.evidence.claims import judge
from dr_lib.evidence.report import draw_figures, write_report
from dr_lib.evidence.serving_cost import read_paper_latencies
from dr_lib.figures.hardware import UnlikeRunsError
from dr_lib.runs.row import write_row
from tests.evidence.test_claims import ROOT, claim
from tests.evidence.test_request_log import RUN, make_requests, write_run

SPREAD = 1 + 0.01 * np.linspace(-1, 1, 25)


@pytest.fixture
def study(tmp_path):
    """The paper's eight cells as it measured them, int8 on one of them, and two exports."""
    for row in read_paper_latencies().itertuples():
        known = {"model": row.model, "instance": row.instance, "usd_per_hour": row.usd_per_hour}
        write_run(tmp_path, f"{row.model}-{row.instance}", make_requests(row.predict_ms * SPREAD), **known)
    int8 = make_requests(20 * SPREAD).assign(status=[503] + [200] * 24, error=["busy"] + [""] * 24)
    write_run(tmp_path, "int8", int8, format="litert_int8")
    for model, parameters, mib in (("vgg19", 20_107_205, 76.9), ("mobilenet", 3_377_221, 15.0)):
        known = {"model": model, "num_parameters": parameters, "savedmodel_mib": mib, "format": None}
        write_row(tmp_path / "serving", RUN | {"run_id": f"export-{model}"} | known)
    return tmp_path


def report(folder, *options):
    """The report of the command line."""
    command = [sys.executable, "-m", "dr_lib", "report", str(folder), "--paper", "B", *options]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return (folder / "report.md").read_text(encoding="utf-8")


def test_the_command_line_reports_paper_b(study):
    """Figures, every claim judged on 25 requests or on a count, tables of latency and cost, the failed request."""
    text = report(study)
    claims = [line for line in text.splitlines() if line.startswith("| B")]
    assert len(claims) == 39 and all("| holds |" in line for line in claims)
    assert "| holds | 25 |" in claims[4] and "| 20107205 |" in text
    latency = text.split("## Latency")[1].split("##")[0]
    assert latency.count("| keras | 224 | 25 |") == 8 and latency.count("| litert_int8 | 224 | 24 |") == 1
    assert "| mobilenet | 3377221 | 15.7 | 224 | 3377221 | 15 |" in text.split("## Table 1")[1]
    assert (
        "| ml.m5.xlarge | vgg19 | 204.6 | 0.23 | 13.07 | 4.888 | 0.04092 | 319.4 |" in text.split("## Cost, paper B")[1]
    )
    assert text.split("## Cost, ours")[1].split("##")[0].count("| vgg19 | litert_int8 | 224 |") == 1
    assert "| vgg19 | ml.c7g.xlarge | ml.m5.xlarge | 3.24 | 16.19 |" in text
    assert "| int8 | busy |" in text.split("## Failed and skipped runs")[1]
    for name in ("figure_1", "figure_2", "cost_paper", "cost_ours"):
        assert f"![]({name}.png)" in text and (study / f"{name}.png").stat().st_size > 10_000
    assert len(pd.read_csv(study / "runs.csv")) == 11


@pytest.mark.parametrize(
    ("lang", "told"),
    [
        (
            "en",
            "Per hour, ml.c7g.xlarge is 24.34 % cheaper than ml.m5.xlarge; per prediction, on machines never idle, "
            "it is 14 % dearer with VGG19, 12 % cheaper with MobileNet.",
        ),
        (
            "pt",
            "Por hora, ml.c7g.xlarge é 24,34 % mais barata que ml.m5.xlarge; por predição, em máquinas nunca ociosas, "
            "é 14 % mais cara com VGG19, 12 % mais barata com MobileNet.",
        ),
    ],
)
def test_24_34_per_cent_is_corrected_before_anything_is_measured(tmp_path, lang, told):
    """The paper's own numbers say so; its figures and costs stand there too."""
    figures = draw_figures(pd.DataFrame(), paper="B", lang=lang)
    write_report(pd.DataFrame(), tmp_path / "report.md", paper="B", lang=lang, figures=list(figures))
    assert told in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert set(figures) == {"figure_1.png", "figure_2.png", "cost_paper.png"}


def test_requests_to_unlike_models_are_refused(study):
    """Another image size stands on a line of its own; commits may differ only when that is allowed."""
    write_run(study, "small", make_requests([5.0] * 25), image_size=96)
    assert report(study).split("## Latency")[1].split("##")[0].count("| keras | 96 | 25 |") == 1
    write_run(study, "other", make_requests([5.0] * 25), image_size=96, commit="d")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        report(study)
    assert b"commit (" in refused.value.stderr
    report(study, "--allow", "commit")
    with pytest.raises(UnlikeRunsError, match="commit"):
        draw_figures(pd.DataFrame([RUN, RUN | {"commit": "d"}]).assign(predict_ms=1.0), paper="B")


def test_a_machine_that_is_free_or_unpriced_has_latencies_and_no_costs(tmp_path):
    """As one's own: the tables of cost are the paper's alone."""
    for name, price in (("own", 0.0), ("unknown", None)):
        write_run(tmp_path, name, make_requests(30 * SPREAD), instance=name, usd_per_hour=price)
    text = report(tmp_path)
    assert text.split("## Cost, ours")[1].split("##")[0].strip() == "–"
    assert "cost_ours.png" not in text and text.split("## Latency")[1].split("##")[0].count("| keras | 224 | 25 |") == 2
    assert "| not comparable | 0 |" in text  # two machines, neither the paper's


def test_a_count_needs_no_repetition():
    """One export decides the parameters; two that differ decide nothing; a time stays undecided."""
    one = pd.DataFrame([RUN | {"num_parameters": 20_107_205, "predict_ms": 204.6, "model": "vgg19"}])
    assert judge(claim("B38"), one)[2:4] == ("holds", 1)
    assert judge(claim("B38"), one.assign(num_parameters=20_107_206)).verdict == "does not hold"
    two = pd.concat([one, one.assign(num_parameters=20_000_000)], ignore_index=True)
    assert judge(claim("B38"), two).verdict == "undecided"
    assert judge(claim("B6"), one).verdict == "undecided"
