"""Notebooks run headless, leave what they promise, and say what went wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pandas as pd
import papermill
import psutil
import pytest
from jupyter_client import KernelManager
from sklearn.metrics import roc_auc_score

from dr_lib.errors import DrError
from dr_lib.numbers import write_interval
from dr_lib.report.render import run_analysis, write_report
from dr_lib.rooms.evaluation.predictions import read_predictions
from dr_lib.rooms.scenarios.kernels import find_kernel
from dr_lib.rooms.serving.endpoint import find_rates
from dr_lib.rooms.serving.untrained import export_untrained
from dr_lib.runs.row import read_runs, write_row
from dr_lib.training.model_folder import read_folder
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.real_rows import copy_row
from tests.studies import write_studies


def execute(
    clone: Path, name: str, kernel: str | KernelManager = "python3", **parameters
) -> nbformat.NotebookNode:
    """Run a notebook with papermill in the clone, in a kernel of its own or in one that stays;
    return it executed.
    """
    (out := clone / "out" / f"{name}.ipynb").parent.mkdir(exist_ok=True)
    how = {"kernel_name": kernel}
    if isinstance(kernel, KernelManager):
        how = {"kernel_name": "python3", "km": kernel}
        (client := kernel.client()).start_channels()
        client.wait_for_ready(timeout=60)  # what is sent before is answered to nobody
        client.execute_interactive(
            f"%reset_selective -f ^[^_]\nimport os; os.chdir({str(clone)!r})"
        )
        client.stop_channels()
    notebook = clone / "notebooks" / f"{name}.ipynb"
    return papermill.execute_notebook(
        notebook, out, parameters, cwd=clone, progress_bar=False, **how
    )


def papermill_command(name: str, **parameters) -> list[str]:
    """The same at the command line, in the clone."""
    options = [
        text
        for parameter, value in parameters.items()
        for text in ("-p", parameter, str(value))
    ]
    return [
        sys.executable,
        "-m",
        "papermill",
        "--no-progress-bar",
        f"notebooks/{name}.ipynb",
        "out.ipynb",
        *options,
    ]


def read_rows(clone: Path) -> list[dict]:
    """The rows that runs outside a study have left."""
    return [
        json.loads(path.read_text()) for path in clone.glob("papermill_runs/adhoc/rows/*.json")
    ]


def texts(notebook: nbformat.NotebookNode) -> str:
    """All that the cells printed or displayed as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [
        str(output.get("text", ""))
        + json.dumps(output.get("data", {}).get("text/markdown", ""))
        for output in outputs
    ]
    tables = [json.dumps(output.get("data", {}).get("text/plain", "")) for output in outputs]
    return "\n".join(data + tables)


def displayed(notebook: nbformat.NotebookNode) -> str:
    """All that the cells displayed, as a report shows it; nothing of what they printed."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [output["data"] for output in outputs if "data" in output]
    return json.dumps(data, ensure_ascii=False)


def report(clone: Path, study: str, **parameters) -> str:
    """What the report of a study shows, which needs no other file and has no code in it."""
    folder = clone / "papermill_runs" / study
    text = write_report([folder], folder, clone, **parameters).read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text) and "import " not in re.sub(
        'data:[^"]*', "", text
    )
    return text


def num_pictures(notebook: nbformat.NotebookNode) -> int:
    """How many pictures the cells display."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("10_train", {"repetiton": 3}, "repetiton: not a parameter of this"),
        ("10_train", {"epochs": 0}, "epochs is 0: give 1 or more"),
        ("10_train", {"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ("11_gpu_vs_tpu", {"allows": "mode"}, "allows: not a parameter of .* it has runs, "),
        ("30_train_scenario", {"batch_size": -1}, "batch_size is -1: give 1 or more"),
    ],
)
def test_a_parameter_that_cannot_be_stops_a_notebook(clone, kernel, name, given, message):
    """papermill runs it with whatever it is given; the notebook stops before anything is done."""
    with pytest.raises(papermill.PapermillExecutionError, match=f"SystemExit: {message}"):
        execute(clone, name, kernel, **given)
    assert not (clone / "papermill_runs").exists()


def test_00_shows_the_whole_chain(clone, kernel):
    """The machine, four pictures and an answer, from nothing."""
    notebook = execute(clone, "00_start_here", kernel)
    assert num_pictures(notebook) >= 3 and "probability of referable disease" in texts(notebook)


def test_01_prepares_a_folder_with_a_csv(clone, kernel, small_sample):
    """A user's folder and CSV become shards, shown without a name; a file that is no photograph
    is told as rejected.
    """
    photographs = clone / "mine"
    shutil.copytree(small_sample.parent / "photographs", photographs)
    # without it they are a folder of photographs like any other
    (photographs / "sample.json").unlink()
    (photographs / "images" / "scribble.jpg").write_text("not a photograph")
    with (photographs / "labels.csv").open("a") as file:
        file.write("scribble.jpg,900,left,0\n")
    parameters = {
        "images": "mine",
        "labels": "mine/labels.csv",
        "out": "prepared",
        "num_shown": 8,
    }
    notebook = execute(clone, "01_prepare_fundus", kernel, **parameters)
    manifest = json.loads((clone / "prepared" / "manifest.json").read_text())
    assert manifest["num_photographs"] == 33 and manifest["num_rejected"] == 1
    said = texts(notebook)
    assert "1 rejected" in said and "not a picture" in said
    assert num_pictures(notebook) == 1
    names = [path.stem for path in (photographs / "images").iterdir()]
    assert len(names) == 33 and not any(name in json.dumps(notebook) for name in names)
    banners = [
        o
        for c in notebook.cells
        for o in c.get("outputs", [])
        if o.get("metadata", {}).get("shows_photographs")
    ]
    assert len(banners) == 1


def test_10_alone_writes_a_row_that_11_reads(clone, kernel, small_sample):
    """Run by papermill it trains and writes a valid row; notebook 11 draws figure 1 from it, in
    Portuguese.
    """
    wishes = {
        "data_dir": str(small_sample),
        "epochs": 2,
        "image_size": 48,
    }
    execute(clone, "10_train", kernel, **wishes, repetition=3)
    (path,) = (clone / "papermill_runs" / "adhoc" / "rows").glob("*.json")
    row = json.loads(path.read_text())
    assert (row["study"], row["repetition"], row["seed"], row["status"]) == (
        "adhoc",
        3,
        23,
        "ok",
    )
    assert 0 < row["first_step_s"] < row["train_s"] < row["wall_s"] and len(row["epoch_s"]) == 2
    assert (
        row["data_kind"] == "synthetic"
        and row["accelerator"]
        and row["keras"]
        and 0 <= row["metric_auc_test"] <= 1
    )
    left = clone / "papermill_runs" / "adhoc" / "runs" / row["run_id"]
    assert read_folder(left / "model").version == row["model_version"]
    assert len(read_predictions(left / "predictions.csv")[0].test) == row["num_images_test"]
    command = [
        sys.executable,
        "-m",
        "dr_lib",
        "predict",
        left / "model",
        small_sample,
        "--out",
        "again.csv",
    ]
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    written = pd.read_csv(left / "predictions.csv")
    again = pd.read_csv(clone / "again.csv")  # the model says the same
    pd.testing.assert_frame_equal(written, again, atol=1e-5)
    assert (
        str(small_sample.parent) not in path.read_text()
    )  # a row names no folder of this machine
    text = report(clone, "adhoc", lang="pt")
    assert (
        "não comparável" in text
        and '<html lang="pt">' in text
        and text.count("data:image/png") == 1
    )


BLOCK = """from importlib.machinery import PathFinder
find = PathFinder.find_spec
hidden = ("tensorflow", "cv2", "papermill")
is_hidden = lambda name: name.split(".")[0] in hidden
PathFinder.find_spec = lambda name, *more: None if is_hidden(name) else find(name, *more)
"""


@pytest.mark.slow
def test_10_and_11_run_without_tensorflow_and_opencv(clone, small_sample, monkeypatch):
    """As on Colab's TPU runtime, with shards prepared and eight devices: train on JAX, fast, and
    draw figure 1.
    """
    pytest.importorskip("jax")
    (clone / "blocked").mkdir()
    (clone / "blocked" / "sitecustomize.py").write_text(BLOCK)
    monkeypatch.setenv("PYTHONPATH", str(clone / "blocked"))
    request = {
        "data_dir": str(small_sample),
        "epochs": 2,
        "image_size": 48,
        "backend": "auto",
        "mode": "fast",
    }
    notebook = execute(clone, "10_train", num_devices=8, **request)
    (row,) = read_rows(clone)
    assert (row["backend"], row["mode"], row["status"], row["on_device"]) == (
        "jax",
        "fast",
        "ok",
        True,
    )
    assert (row["strategy"], row["num_replicas"], row["num_accelerators"]) == (
        "DataParallel",
        8,
        1,
    )
    assert "jax: installed here are jax" in texts(notebook) and num_pictures(notebook) == 2
    assert num_pictures(execute(clone, "11_gpu_vs_tpu", runs="papermill_runs/adhoc")) == 1


@pytest.mark.slow
def test_10_goes_on_after_a_kill(clone, small_sample):
    """papermill and its kernel killed in the middle, on two devices: the same command ends the same
    run, and the row says so, with the strategy, the replicas and what each epoch dropped."""
    request = {"data_dir": small_sample, "epochs": 9, "image_size": 48, "num_devices": 2}
    command = papermill_command("10_train", **request)
    process = subprocess.Popen(
        command, cwd=clone, stderr=subprocess.DEVNULL, start_new_session=True
    )
    runs = clone / "papermill_runs" / "adhoc" / "runs"
    while not (list(runs.glob("*/checkpoint.npz")) or process.poll() is not None):
        time.sleep(0.05)
    for victim in [
        psutil.Process(process.pid),
        *psutil.Process(process.pid).children(recursive=True),
    ]:
        victim.kill()
    process.wait()
    assert not read_rows(clone)
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    (row,) = read_rows(clone)
    assert (
        row["resumed"] == 1
        and 0 < len(row["epoch_s"]) < 9
        and row["run_id"] == next(runs.iterdir()).name
    )
    assert (row["strategy"], row["num_replicas"], row["num_accelerators"]) == (
        "MirroredStrategy",
        2,
        1,
    )
    assert row["num_images_dropped"] == row["num_images_train"] % 8
    history = (runs / row["run_id"] / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in history[1:]] == [str(epoch) for epoch in range(9)]
    assert not (runs / row["run_id"] / "checkpoint.npz").exists()


@pytest.mark.slow
def test_10_stops_in_time(clone, kernel, small_sample):
    """With no time left it saves after an epoch, says so, and writes no row."""
    request = {"data_dir": str(small_sample), "epochs": 40, "image_size": 48, "max_hours": 1e-6}
    with pytest.raises(papermill.PapermillExecutionError, match="saved after epoch 1 of 40"):
        execute(clone, "10_train", kernel, **request)
    assert not list(clone.glob("papermill_runs/*/rows/*"))
    assert list(clone.glob("papermill_runs/adhoc/runs/*/checkpoint.npz"))


def test_11_without_rows_shows_the_paper_alone(clone, kernel):
    """Opened first, it draws the published bars and says that nothing has been measured."""
    notebook = execute(clone, "11_gpu_vs_tpu", kernel)
    assert num_pictures(notebook) == 1 and "not measured" in texts(notebook)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"data_dir": "nowhere"}, "nowhere has no manifest.json"),
        ({"accelerator": "gpu"}, "this machine has no GPU"),
        ({"model": "resnet"}, "choose small_cnn"),
    ],
)
def test_10_stops_with_what_to_do(clone, kernel, small_sample, parameters, message):
    """A folder, an accelerator or a model that is not there stops the notebook before training;
    no row is written.
    """
    if "gpu" in parameters.values() and os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(papermill.PapermillExecutionError, match=message):
        execute(clone, "10_train", kernel, **({"data_dir": str(small_sample)} | parameters))
    assert not list(clone.glob("papermill_runs/*/rows/*"))


@pytest.fixture
def fresh_kernel() -> Iterator[KernelManager]:
    """A kernel in which nothing has been imported, for one notebook again and again."""
    (manager := KernelManager()).start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)


def test_30_refuses_trains_and_monitors(clone, fresh_kernel):
    """A GPU that is not here and a framework that this kernel lacks are unavailable; a scenario
    is trained.
    """
    for parameters, message in (
        ({"accelerator": "gpu"}, "no NVIDIA GPU"),
        ({"framework": "mxnet"}, "this kernel has no"),
    ):
        if message != "no NVIDIA GPU" or not os.path.exists("/dev/nvidia0"):
            with pytest.raises(
                papermill.PapermillExecutionError, match=f"UnavailableError: {message}"
            ):
                execute(clone, "30_train_scenario", fresh_kernel, **parameters)
    assert not read_rows(clone)
    check_scenario(clone, fresh_kernel, "tensorflow", "mnist", 768, evaluate_every=1)


@pytest.mark.slow
def test_30_trains_in_another_frameworks_kernel(clone):
    """PyTorch in its own environment writes the same row."""
    check_scenario(
        clone, find_kernel_name("dr-torch"), "pytorch", "cifar10", 640, evaluate_every=0
    )


def check_scenario(clone, kernel, framework, dataset, num_images, evaluate_every):
    """One cell of the design: a row with times and utilisation, and samples with every epoch."""
    notebook = execute(
        clone,
        "30_train_scenario",
        kernel,
        framework=framework,
        dataset=dataset,
        epochs=2,
        sample_s=0.2,
        evaluate_every=evaluate_every,
        instance="F4s_v2",
        accelerator="cpu",
    )
    (row,) = read_rows(clone)
    known = (
        "framework",
        "dataset",
        "data_kind",
        "accelerator",
        "num_images_train",
        "num_images_dropped",
    )
    assert [row[name] for name in known] == [
        framework,
        dataset,
        "synthetic",
        "cpu",
        num_images,
        0,
    ]
    assert len(row["epoch_s"]) == 2 and sum(row["epoch_s"]) <= row["train_s"] < row["wall_s"]
    assert (
        len(row["epoch_accuracy"]) == (2 if evaluate_every else 0)
        and row["epoch_loss"][1] < row["epoch_loss"][0]
    )
    assert row["cost_usd"] == pytest.approx(0.169 * (row["train_s"] + row["setup_s"]) / 3600)
    assert 0 < row["cpu_percent_mean"] <= 100 and row["gpu_percent_mean"] is None
    samples = (clone / "papermill_runs" / "adhoc" / row["samples"]).read_text()
    assert [f",{event}," in samples for event in ("start", "epoch 1", "epoch 2", "end")] == [
        True
    ] * 4
    assert "parameters" in texts(notebook)
    streams = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "name" in output
    ]
    # TensorFlow greets there
    assert not [output["text"] for output in streams if output["name"] == "stderr"]


def find_kernel_name(name: str) -> str:
    """The kernel, where it is set up."""
    if not find_kernel(name):
        pytest.skip(f"no kernel {name}: python -m dr_lib kernels sets it up")
    return name


def test_31_without_rows_says_how_to_make_them(clone, kernel):
    """No rows at all: the sentence names the command."""
    with pytest.raises(
        papermill.PapermillExecutionError, match="-m dr_lib run papermill_runs/scenarios_small"
    ):
        execute(clone, "31_factor_effects", kernel, runs="papermill_runs/none")


@pytest.mark.slow
def test_a_factorial_study_from_its_file_to_its_report(clone, tmp_path_factory, monkeypatch):
    """Two data sets by two networks, all cold, and a framework that is not there: rows, notebook
    31, report.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("marks")))
    find_kernel_name("dr-torch")  # it starts in a third of TensorFlow's time
    study = clone / "papermill_runs" / "trial.yaml"
    study.parent.mkdir(exist_ok=True)
    study.write_text(
        "notebook: 30_train_scenario\nrepetitions: 1\ninstance: F4s_v2\n"
        "parameters: {image_size: 32, data_share: 0.005, batch_size: 50, epochs: 3, sample_s:"
        " 0.2, accelerator: cpu}\nfactors: {framework: [pytorch, mxnet], dataset: [mnist, cifar10],"
        " network: [1, 2]}\nkernel: {framework: {pytorch: dr-torch, mxnet: no-such-kernel}}\n"
    )
    command = [sys.executable, "-m", "dr_lib"]
    ran = subprocess.run(
        [*command, "run", study], cwd=clone, check=True, capture_output=True, text=True
    )
    assert "scenarios skipped: 4, no Jupyter kernel no-such-kernel" in ran.stdout
    with pytest.raises(DrError, match="a bill is for runs with a price"):
        report(clone, "trial", bill_usd=1.0, instance="local")
    text = report(clone, "trial", bill_usd=1.0, lang="pt")
    assert (
        "s de tempo adicional por execução" in text
        and "início do papermill e do kernel" in text
    )
    assert (
        "no Jupyter kernel no-such-kernel" in text
        and 'a Rede 2 leva "no mínimo 10%" mais tempo' in text
    )
    folder = study.with_suffix("")
    for name in ("figure_2_3", "figure_4", "figure_5", "effects", "variation"):
        assert (folder / f"{name}.png").stat().st_size > 10_000 and (
            folder / f"{name}.pdf"
        ).read_bytes()[:4] == b"%PDF"
    assert "\\toprule" in (folder / "variation.tex").read_text()
    variation = pd.read_csv(folder / "variation.csv")
    assert variation["share"].sum() == pytest.approx(1) and "dataset" in set(variation["term"])
    planned = subprocess.run(
        [*command, "plan", study], cwd=clone, check=True, capture_output=True, text=True
    ).stdout
    assert "4 completed, 0 to do" in planned and "4 not possible on this machine" in planned


def test_20_leaves_a_model_folder(clone, kernel, small_sample):
    """Five grades, a row with kappa and AUC, and a folder whose manifest holds what serving
    needs.
    """
    wishes = {"data_dir": str(small_sample), "task": "grades", "image_size": 48, "epochs": 2}
    notebook = execute(clone, "10_train", kernel, **wishes)
    (row,) = read_rows(clone)
    folder = read_folder(clone / "papermill_runs" / "adhoc" / "runs" / row["run_id"] / "model")
    assert (
        folder.facts["format"] == "keras"
        and folder.facts["image_size"] == 48
        and len(folder.facts["grades"]) == 5
    )
    assert (
        folder.facts["metrics"]["kappa"] == row["metric_kappa_test"]
        and -1 <= row["metric_kappa_test"] <= 1
    )
    assert (
        folder.facts["split_sha256"] == row["split_sha256"]
        and folder.version == row["model_version"]
    )
    command = re.search(
        r"python -m dr_lib export (\S+/model) --data .+ --out exported", texts(notebook)
    )
    assert (clone / command[1]) == folder.path  # as it is pasted into a shell in the root
    assert num_pictures(notebook) == 4 and folder.facts["data_kind"] == "synthetic"
    (predictions,) = read_predictions(folder.path.parent / "predictions.csv")
    test = predictions.test
    assert len(test) == row["num_images_test"] and predictions.is_synthetic
    assert test["grade"].notna().all()
    assert roc_auc_score(test["referable"], test["probability_referable"]) == pytest.approx(
        row["metric_auc_test"]
    )
    assert set(predictions.table["split"]) == {"train", "validation", "test"}
    # the latest predictions of the clone
    evaluated = execute(clone, "12_evaluate", kernel, num_errors=3)
    assert num_pictures(
        evaluated
    ) == 9 and "Its grades agree with a quadratic weighted kappa of" in texts(evaluated)


@pytest.mark.slow
def test_12_reports_on_anybodys_predictions(clone, kernel, tmp_path):
    """Two models compared, in Portuguese, with the checklist beside the page; no validation, no
    operating point.
    """
    paths = [
        write(tmp_path, draw_predictions(noise=noise), name)
        for noise, name in ((1.0, "one"), (5.0, "two"))
    ]
    parameters = {"predictions": ",".join(map(str, paths)), "lang": "pt"}
    page = run_analysis(
        clone / "notebooks" / "12_evaluate.ipynb", tmp_path / "out", clone, **parameters
    )
    text = page.read_text(encoding="utf-8")
    assert (
        "Quão bem o modelo encaminha?" in text
        and "Comparação" in text
        and "import " not in re.sub('data:[^"]*', "", text)
    )
    difference = pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert (difference["model"][0], difference["reference"][0]) == (
        "two",
        "one",
    ) and difference["delta_auc_high"][0] < 0
    items = pd.read_csv(tmp_path / "out" / "checklist.csv").query("guideline == 'STARD-AI'")
    flow = items.set_index("item").loc["24"]
    assert flow["status"] == "filled by this run"
    said = "120 patients offered, 240 photographs; 48 evaluated, 96 photographs"
    assert flow["text"] == said
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card.startswith("# Model card: one") and "*author must fill*" in card
    tables = draw_abroad(), draw_predictions().assign(model_version="v1", dataset="home")
    paths = [
        write(tmp_path, table, name)
        for table, name in zip(tables, ("abroad", "home"), strict=True)
    ]
    asked = {"predictions": ",".join(map(str, paths)), "out": str(tmp_path / "external")}
    said = texts(execute(clone, "12_evaluate", kernel, **asked))
    assert (
        "frozen on the validation split of home and carried over unchanged" in said
        and "External validation" in said
    )
    assert re.search(r"On the data set home, abroad has an AUC of 0\.\d+ \[0\.\d+, ", said)
    assert (
        "home → home, high sensitivity: AUC "
        in (tmp_path / "external" / "MODEL_CARD.md").read_text()
    )
    bare = write(tmp_path, draw_predictions().query("split == 'test'"), "bare")
    notebook = execute(clone, "12_evaluate", kernel, predictions=str(bare))
    assert (
        "No operating point: there are no validation rows" in texts(notebook)
        and num_pictures(notebook) == 8
    )


@pytest.mark.slow
def test_from_a_trained_model_to_what_a_prediction_costs(clone, kernel, small_sample):
    """Notebooks 20, 21, 22 and 23 in turn: trained, exported through the gate, served, asked,
    loaded, priced.
    """
    data = {"data_dir": str(small_sample)}
    execute(clone, "10_train", kernel, task="grades", image_size=48, epochs=2, **data)
    adhoc = clone / "papermill_runs" / "adhoc"
    (trained,) = adhoc.glob("runs/*/model")
    how = {"model_dir": str(trained), "num_rounds": 3, "force": True}
    # its threads are pinned in a new kernel
    exported = execute(clone, "21_export_quantize", **how, **data)
    assert num_pictures(exported) and "litert_int8" in texts(exported)
    (served,) = adhoc.glob("runs/*/exported/litert_int8")
    assert read_folder(served).facts["gate"]["num_images"] > 0
    photographs = {
        "photographs": str(small_sample.parent / "photographs"),
        "instance": "ml.m5.xlarge",
    }
    load = {
        "num_requests": 5,
        "gap_s": 0.0,
        "load_seconds": 0.5,
        "num_compared": 5,
        "bound_ms": 1000.0,
    }
    asked = execute(
        clone, "22_serve_and_load", kernel, served_dir=str(served), **photographs, **load
    )
    assert (
        "5 compared, largest difference of a probability: 0" in texts(asked)
        and num_pictures(asked) == 1
    )
    assert "the server ended with status 0" in texts(asked)
    (row,) = [row for row in read_rows(clone) if row["notebook"] == "22_serve_and_load"]
    assert (
        row["max_rate_per_s"] > 0
        and row["format"] == "litert_int8"
        and row["usd_per_hour"] == 0.23
    )
    sent = pd.read_csv(adhoc / row["requests"])
    assert (
        (sent["load"] == "closed").sum() == 5
        and row["threads"] == row["num_cpus"]
        and row["cost_usd"] is None
    )
    # by another reader of the same requests
    found = find_rates(read_runs(adhoc), adhoc, p99_ms=row["bound_ms"])
    assert found["held_per_s"].tolist() == [row["max_rate_per_s"]]
    gate = read_folder(served).facts["gate"]
    assert (row["gate_passes"], row["gate_auc_difference"]) == (
        gate["passes"],
        gate["auc_difference"],
    )
    assert row["num_predictions"] <= (sent["load"] == "open").sum()
    text = report(clone, "adhoc", notebook="23_serving_cost")
    assert ">None<" not in text
    assert " USD at the price of ml.m5.xlarge, without idle time." in text
    assert "small_cnn in litert_int8 takes " in text
    assert "MobileNet has 3,377,221 parameters." in text
    assert text.count("data:image/png") == 1, "of its network alone"
    # five requests to one deployment are one measurement
    times = pd.read_csv(adhoc / "response_times.csv")
    assert (times["n"].tolist(), times["requests"].tolist()) == ([1], [5]) and times[
        "predict_ms"
    ].gt(0).all()


def write_served(study: Path) -> None:
    """Three deployments that decode in 13.5 ms and predict in 7.29, and one export."""
    for k in range(3):
        table = pd.DataFrame({"load": "closed", "request": range(5), "round_trip_ms": 25.0})
        table = table.assign(decode_ms=13.5, predict_ms=7.29, status=200, error="")
        loaded = table.assign(load="open", response_ms=50.0, rate_per_s=32.0)
        (path := study / f"runs/{k}/requests.csv").parent.mkdir(parents=True)
        pd.concat([table, loaded]).to_csv(path, index=False)
        about = {"run_id": str(k), "requests": f"runs/{k}/requests.csv", "deployment": str(k)}
        priced = {"study": "mine", "priced_as": "ml.m5.xlarge"}
        write_row(
            study, copy_row("22", "litert_int8", **about, **priced) | {"usd_per_hour": 0.23}
        )
    write_row(study, copy_row("21", run_id="e", study="mine"))


REPORTS = {  # the study of each
    "11_gpu_vs_tpu": "trained",
    "23_serving_cost": "mine",
    "31_factor_effects": "scenarios",
    "41_cuda_vs_keras": "mnist",
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_of_ones_own_shows_no_paper(clone, kernel, name):
    """None of the papers' names, columns or numbers stands in the page or a table.

    20.79 ms at 0.23 USD an hour are 1.33 USD a million, and a rate that is held is one number.
    """
    write_studies(clone)
    write_served(clone / "papermill_runs" / "mine")
    choice = {"runs": f"papermill_runs/{REPORTS[name]}", "published": False, "out": "shown"}
    allow = "mode" if name == "11_gpu_vs_tpu" else ""
    executed = execute(clone, name, kernel, allow=allow, **choice)
    text = displayed(executed)
    text += "".join(path.read_text() for path in (clone / "shown").glob("*.csv"))
    assert not re.findall(
        "Araújo|Camargo|Moura|Felice|[pP]ublished|[tT]he paper|mode = paper", text
    )
    assert "SYNTHETIC SAMPLE" not in text  # that is no name of images for timing
    if name == "23_serving_cost":
        assert (
            "takes 20.8 ms per photograph including decoding, of which prediction takes 7.29 ms"
            in text
        )
        assert "a million predictions cost 1.33 USD at the price of ml.m5.xlarge" in text
        assert set(pd.read_csv(clone / "shown" / "endpoints.csv")["rate_per_s"]) == {32.0}
        assert "max_rate_per_s" not in text


@pytest.mark.parametrize(
    ("resumed", "time"),
    [
        (0, "Um treinamento leva 40 s em local, CPU."),
        (1, "nenhum tempo conta: retomada após uma parada: seu tempo está em duas partes."),
    ],
)
def test_a_report_of_grades_has_their_scores(clone, kernel, resumed, time):
    """Beside the time, which may not count; a machine without one is so many times as slow as
    none.
    """
    row = copy_row("10", study="mine", task="grades", train_s=40.0, resumed=resumed)
    own = {"notebook": "20_train_grades", "metric_kappa_test": 0.0}
    write_row(clone / "papermill_runs" / "mine", row | own)
    elsewhere = {"run_id": "other", "platform": "colab", "resumed": 1}
    write_row(clone / "papermill_runs" / "mine", row | own | elsewhere)
    choice = {"runs": "papermill_runs/mine", "published": False, "lang": "pt"}
    text = displayed(execute(clone, "11_gpu_vs_tpu", kernel, **choice))
    auc = write_interval(*(row[f"metric_auc_test{end}"] for end in ("", "_low", "_high")), "pt")
    assert f"uma AUC de teste de {auc}." in text and "," in auc
    assert "Seus graus concordam com um kappa quadrático de 0." in text
    assert time in text
    assert (
        "Nenhum treinamento foi medido" not in text
        and "Em colab, CPU um treinamento leva" not in text
    )


def test_23_without_rows_shows_the_paper_alone(clone, kernel):
    """The published figures, each with its network, and their costs."""
    notebook = execute(clone, "23_serving_cost", kernel)
    assert num_pictures(notebook) == 2 and "Costs from the paper's means" in texts(notebook)
    assert "Figure 1.** Time of a prediction of VGG19 on" in displayed(notebook)


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="asks Linux to end a process with its parent"
)
def test_22_leaves_no_server_behind(clone, small_sample):
    """The runner of its study is killed while requests are sent: papermill, kernel and server
    end too.
    """
    parameters = {"model": "small_cnn", "image_size": 48, "num_requests": 100, "gap_s": 1.0}
    parameters["photographs"] = str(small_sample.parent / "photographs")
    study = {"notebook": "22_serve_and_load", "repetitions": 1, "parameters": parameters}
    (clone / "papermill_runs").mkdir()
    (clone / "papermill_runs" / "serve.yaml").write_text(json.dumps(study))  # YAML holds JSON
    command = [sys.executable, "-m", "dr_lib", "run", "papermill_runs/serve.yaml"]
    with subprocess.Popen(
        command, cwd=clone, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as runner:
        try:
            deadline = time.monotonic() + 120
            family = []
            while (
                not any("dr_lib.rooms.serving" in process.cmdline() for process in family)
                and time.monotonic() < deadline
            ):
                time.sleep(0.5)
                family = psutil.Process(runner.pid).children(recursive=True)
        finally:
            runner.kill()
        assert len(family) >= 3
        assert psutil.wait_procs(family, timeout=10)[1] == []


def test_22_says_why_an_endpoint_does_not_answer(clone, kernel, small_sample):
    """A folder that holds no model, an endpoint without a folder, and a model that the server
    refuses: each is told.
    """
    photographs = str(small_sample.parent / "photographs")
    refused = export_untrained(clone / "refused", "small_cnn", 48).path  # a Keras model
    for asked, message in (
        ({"served_dir": "nowhere"}, "holds no model"),
        ({"url": "http://127.0.0.1:9"}, "give the folder that the endpoint serves"),
        ({"served_dir": str(refused)}, "ping does not return 200; see"),
    ):
        with pytest.raises(papermill.PapermillExecutionError, match=message):
            execute(clone, "22_serve_and_load", kernel, photographs=photographs, **asked)
    (log,) = clone.glob("papermill_runs/adhoc/runs/*/server.log")
    assert "keras cannot be served; export the trained model first: " in log.read_text()
