"""Every claim has study files whose runs judge it: rows as their planned runs would leave them on
the papers' machines, and the real verdicts on them.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.claims.claims import read_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.claims.verdicts import judge_data_sets
from dr_lib.hardware import Facts, HardwareError
from dr_lib.parameters import find_model
from dr_lib.runs.prices import find_price
from dr_lib.runs.row import write_row
from dr_lib.runs.study import PlannedRun, load_study, plan_runs, read_defaults
from dr_lib.statistics.intervals import MIN_RUNS
from dr_lib.training.config import TrainingConfig
from tests.conftest import find_studies
from tests.report.real_rows import (
    COLAB_CPU,
    COLAB_T4,
    CPU,
    F4S,
    NC4AS,
    T4X2,
    TPU,
    copy_row,
    train_mnist,
)

ROOT = Path(__file__).resolve().parents[2]
MACHINES = {  # of the papers, as detected; endpoints are named by their studies
    "gpu_vs_tpu": [T4X2, TPU],
    "gpu_vs_tpu_memory": [T4X2, TPU],
    "exports": [CPU],
    "serving_sagemaker": [CPU],
    "scenarios_cpu": [F4S],
    "scenarios_gpu": [NC4AS],
    "mnist_cuda": [COLAB_T4],
}
KINDS = {  # of data, where a parameter does not say that they are drawn
    "data_dir": "photographs",
    "photographs": "photographs",
    "data_source": "given",
    "mnist": "given",
}
# what claims about like stacks meet: no TPU of the suite runs TensorFlow, and one multiplies in
# bfloat16 but in gpu_vs_tpu_float32.yaml, whose rows are read beside these on demand
UNLIKE = {"A6": "backend", "A9": "matmul_precision"}
# a paper's 70/30, which `prepare` divides
SIDES = {"num_images_train": 70, "num_images_validation": 0, "num_images_test": 30}
SERVED = ["predict_ms", "round_trip_ms"]
TRAINED = ["train_s", "steady_epoch_s", "images_per_s", "setup_s", "device_peak_mib"]
TRAINED += [f"{name}_percent_mean" for name in ("cpu", "memory", "gpu", "gpu_memory")]


def read_parameters(notebook: str, run: PlannedRun) -> dict:
    """The parameters of a run: the notebook's own, and what the study sets."""
    return read_defaults(ROOT / "notebooks" / f"{notebook}.ipynb") | run.parameters


def describe_work(notebook: str, parameters: dict, machine: dict) -> dict:
    """What the row says of the work, by the notebook's own code."""
    if notebook == "10_train":
        config = TrainingConfig.from_parameters(parameters)
        is_tpu = machine["accelerator"].startswith("TPU")
        gpus = () if is_tpu else (machine["accelerator"],) * machine["num_accelerators"]
        here = (machine["platform"], "Xeon", 4, 30.0, gpus, 15.0, 7.5, "", int(is_tpu))
        plan = config.plan(Facts(*here, ("tensorflow", "jax")), sum(SIDES.values()))
        return config.describe() | plan.describe() | SIDES
    work = find_model(notebook)(**parameters).describe()
    if "url" in parameters:
        work["endpoint"] = "remote" if parameters["url"] else "local"
    if "implementation" in work:
        name, _, batch = work["implementation"].partition("@")
        work.update(implementation=name, batch_size=int(batch))
    return work


def make_row(study: str, notebook: str, run: PlannedRun, machine: dict, rng) -> dict:
    """The row of a planned run on a machine; all that it measures is near to 50."""
    parameters = read_parameters(notebook, run)
    work = describe_work(notebook, parameters, machine)
    row = copy_row(notebook[:2], work.get("format", "")) if notebook[:2] != "40" else {}
    names = SERVED if notebook.startswith("2") else TRAINED
    measured = dict(zip(names, rng.normal(50, 0.5, len(names)), strict=True))
    if not row:
        is_keras = work["implementation"].startswith("keras")
        machine = COLAB_CPU if is_keras else machine
        kind = "keras_tensorflow" if is_keras else "fused"
        (row,) = train_mnist(kind, [measured["train_s"]], {}).to_dict("records")
    (source,) = KINDS.keys() & parameters.keys()
    is_drawn = parameters[source] in ("sample", "synthetic")
    instance = parameters.get("instance") or machine.get("priced_as", "")
    usd_per_hour = find_price(instance).usd_per_hour if instance else None
    once = f"{study}-{run.name}-{machine['accelerator']}".replace(" ", "-")
    about = {
        "study": study,
        "run_id": once,
        "session": once if notebook[0] == "2" else f"{machine['accelerator']} {run.repetition}",
        "deployment": once,
        "scenario": run.scenario,
        "commit": "one",
        "data_kind": "synthetic" if is_drawn else KINDS[source],
        "instance_type": instance if notebook.startswith("2") else "",
        "priced_as": instance,
        "usd_per_hour": usd_per_hour,
        "formula_usd": usd_per_hour and usd_per_hour * measured.get("train_s", 0) / 3600,
    }
    return {**row, **measured, **work, **machine, **about}


def write_study(folder: Path, paper: str) -> None:
    """The rows of a study's runs."""
    study = load_study(find_studies() / f"{folder.name}.yaml", ROOT)
    assert study.notebook in PAPERS[paper].notebooks
    rng = np.random.default_rng(0)
    runs = itertools.product(MACHINES[folder.name], plan_runs(study, "here"))
    for machine, run in runs:
        try:
            row = make_row(folder.name, study.notebook, run, machine, rng)
        except HardwareError:  # the runner skips it, too
            continue
        if "num_requests" in row:
            row["round_trip_ms"] = 300.0
        write_row(folder, json.loads(json.dumps(row, default=float)))


def judge_ensemble() -> pd.DataFrame:
    """The verdicts on the networks of paper E's study as they are trained, at home and on
    Messidor-2.
    """
    (name,) = PAPERS["E"].studies
    study = load_study(find_studies() / f"{name}.yaml", ROOT)
    runs = plan_runs(study, "here")
    parameters = read_parameters(study.notebook, runs[0])
    home, crop_method = Path(parameters["data_dir"]).name.split("_")
    training = TrainingConfig.from_parameters(parameters).describe()
    model = f"ensemble of {len(runs)}: {parameters['model']}"
    score = {"auc": 0.9, "auc_low": 0.89, "auc_high": 0.91, "num_patients": 900}
    about = {"model": model, "trained_on": home, "data_kind": KINDS["data_dir"]}
    rows = [score | about | {"tested_on": name} for name in (home, "messidor2")]
    return judge_data_sets(
        pd.DataFrame(rows), {model: {**training, "crop_method": crop_method}}
    )


@pytest.mark.slow
def test_every_claim_is_judged_by_the_rows_of_its_studies(tmp_path):
    """By the command that judges all rows below the folders; of paper E's, by a table of scores.

    Notebook, parameters, factors and repetitions make the work that a claim speaks of, all cells of
    it, and often enough to decide.
    """
    folders = []
    for paper, facts in PAPERS.items():
        for study in facts.studies:
            if paper != "E":
                folders.append(str(tmp_path / study))
                write_study(tmp_path / study, paper)
    out = str(tmp_path / "claims.csv")
    ran = CliRunner().invoke(main, ["claims", *folders, "--out", out])
    assert ran.exit_code == 0, ran.output
    table = pd.concat([pd.read_csv(out), judge_ensemble()])
    verdicts = {row.id: row for row in table.itertuples()}
    for claim in [claim for claim in read_claims() if not claim.not_testable]:
        found = verdicts[claim.id]
        about = f"{claim.id}: {found.reason}"
        if claim.id in UNLIKE:
            assert found.verdict == "not comparable" and UNLIKE[claim.id] in found.reason, about
            continue
        assert found.verdict in ("holds", "does not hold", "undecided"), about
        assert "not run" not in found.reason, about
        least = 1 if claim.counted else MIN_RUNS
        assert found.n >= least, about
