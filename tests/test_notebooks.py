"""Notebooks run headless, leave what they promise, and say what went wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pandas as pd
import papermill
import psutil
import pytest

from dr_lib.report import write_report
from dr_lib.runs.kernels import find_kernel
from dr_lib.serving.grader.folder import read_folder
from dr_lib.serving.untrained import export_untrained

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def clone(tmp_path) -> Path:
    """The repository as a user has it, without results: what the notebooks write stays out of the real one."""
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def execute(clone: Path, name: str, kernel: str = "python3", **parameters) -> nbformat.NotebookNode:
    """Run a notebook with papermill in the clone and return it executed."""
    out = clone / "out" / f"{name}.ipynb"
    out.parent.mkdir(exist_ok=True)
    return papermill.execute_notebook(
        clone / "notebooks" / f"{name}.ipynb",
        out,
        parameters,
        kernel_name=kernel,
        cwd=clone,
        progress_bar=False,
        stdout_file=None,
    )


def texts(notebook: nbformat.NotebookNode) -> str:
    """All that the cells printed or displayed as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [
        str(output.get("text", "")) + json.dumps(output.get("data", {}).get("text/markdown", "")) for output in outputs
    ]
    tables = [json.dumps(output.get("data", {}).get("text/plain", "")) for output in outputs]
    return "\n".join(data + tables)


def report(clone: Path, study: str, **parameters) -> str:
    """What the report of a study shows, which needs no other file and has no code in it."""
    folder = clone / "papermill_runs" / study
    text = write_report([folder], folder, clone, **parameters).read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text) and "import " not in re.sub('data:[^"]*', "", text)
    return text


def num_pictures(notebook: nbformat.NotebookNode) -> int:
    """How many pictures the cells display."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_00_shows_the_whole_chain(clone):
    """The machine, four pictures and an answer, from nothing."""
    notebook = execute(clone, "00_start_here")
    assert num_pictures(notebook) >= 3 and "probability of referable disease" in texts(notebook)


def test_01_prepares_a_folder_with_a_csv(clone, small_sample):
    """A user's folder and CSV become shards, shown without a name; a file that is no photograph is told as rejected."""
    photographs = clone / "mine"
    shutil.copytree(small_sample.parent / "photographs", photographs)
    (photographs / "sample.json").unlink()  # without it they are a folder of photographs like any other
    (photographs / "images" / "scribble.jpg").write_text("not a photograph")
    with (photographs / "labels.csv").open("a") as file:
        file.write("scribble.jpg,900,left,0\n")
    parameters = {"images": "mine", "labels": "mine/labels.csv", "out": "prepared", "num_shards": 2, "num_shown": 8}
    notebook = execute(clone, "01_prepare_fundus", **parameters)
    manifest = json.loads((clone / "prepared" / "manifest.json").read_text())
    assert manifest["num_photographs"] == 49 and manifest["num_rejected"] == 1
    said = texts(notebook)
    assert (
        "1 rejected" in said and "not a picture" in said and "Refused of 49 photographs: `robust` 1, `voets` " in said
    )
    assert num_pictures(notebook) == 3  # odd files, contact sheet, rejected
    names = [path.stem for path in (photographs / "images").iterdir()]
    assert len(names) == 49 and not any(name in json.dumps(notebook) for name in names)
    banners = [
        o for c in notebook.cells for o in c.get("outputs", []) if o.get("metadata", {}).get("shows_photographs")
    ]
    assert len(banners) == 1


def test_10_alone_writes_a_row_that_11_reads(clone, small_sample):
    """One papermill command trains and writes a valid row; notebook 11 draws figure 1 from it, in Portuguese too."""
    parameters = [
        "-p",
        "data_dir",
        str(small_sample),
        "-p",
        "epochs",
        "2",
        "-p",
        "image_size",
        "48",
        "-p",
        "repetition",
        "3",
    ]
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/10_train_referable.ipynb", "10.ipynb"]
    subprocess.run([*command, *parameters], cwd=clone, check=True, capture_output=True)
    (path,) = (clone / "papermill_runs" / "adhoc" / "rows").glob("*.json")
    row = json.loads(path.read_text())
    assert (row["study"], row["repetition"], row["seed"], row["status"]) == ("adhoc", 3, 23, "ok")
    assert 0 < row["first_step_s"] < row["train_s"] < row["wall_s"] and len(row["epoch_s"]) == 2
    assert row["data_kind"] == "synthetic" and row["accelerator"] and row["keras"] and 0 <= row["metric_auc_test"] <= 1
    assert (clone / "papermill_runs" / "adhoc" / "runs" / row["run_id"] / "best.keras").exists()
    assert str(small_sample.parent) not in path.read_text()  # a row names no folder of this machine
    for lang, found in (("en", "not comparable"), ("pt", "não comparáveis")):
        text = report(clone, "adhoc", lang=lang)
        assert found in text and f'<html lang="{lang}">' in text and text.count("data:image/png") == 1


BLOCK = """from importlib.machinery import PathFinder
find = PathFinder.find_spec
hidden = ("tensorflow", "cv2", "statsmodels", "papermill")
PathFinder.find_spec = lambda name, *more: None if name.split(".")[0] in hidden else find(name, *more)
"""


@pytest.mark.slow
def test_10_and_11_run_without_tensorflow_and_opencv(clone, small_sample, monkeypatch):
    """As on Colab's TPU runtime, with shards prepared: train on JAX, fast, and draw figure 1 from the row."""
    pytest.importorskip("jax")
    (clone / "blocked").mkdir()
    (clone / "blocked" / "sitecustomize.py").write_text(BLOCK)
    monkeypatch.setenv("PYTHONPATH", str(clone / "blocked"))
    asked = {"data_dir": str(small_sample), "epochs": 2, "image_size": 48, "backend": "auto", "mode": "fast"}
    notebook = execute(clone, "10_train_referable", **asked)
    (row,) = [json.loads(path.read_text()) for path in (clone / "papermill_runs" / "adhoc" / "rows").glob("*.json")]
    assert (row["backend"], row["mode"], row["status"], row["on_device"]) == ("jax", "fast", "ok", True)
    assert "jax: installed here are jax" in texts(notebook) and num_pictures(notebook) == 2
    assert num_pictures(execute(clone, "11_gpu_vs_tpu", runs="papermill_runs/adhoc")) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "strategy"),
    [({"num_devices": 2}, "MirroredStrategy"), ({"num_devices": 8, "backend": "jax"}, "DataParallel")],
)
def test_10_simulates_several_devices(clone, small_sample, asked, strategy):
    """Virtual devices of the CPU: the row names the strategy, the replicas and what each epoch dropped."""
    pytest.importorskip(asked.get("backend", "tensorflow"))
    wishes = {"data_dir": str(small_sample), "epochs": 2, "image_size": 48, **asked}
    execute(clone, "10_train_referable", **wishes)
    (row,) = [json.loads(path.read_text()) for path in (clone / "papermill_runs" / "adhoc" / "rows").glob("*.json")]
    assert (row["strategy"], row["num_replicas"]) == (strategy, asked["num_devices"])
    assert row["num_images_dropped"] == row["num_images_train"] % 8 and row["num_accelerators"] == 1


@pytest.mark.slow
def test_10_goes_on_after_a_kill(clone, small_sample):
    """papermill and its kernel killed in the middle: the same command ends the same run, and the row says so."""
    options = ["-p", "data_dir", str(small_sample), "-p", "epochs", "60", "-p", "image_size", "64"]
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/10_train_referable.ipynb", "10.ipynb"]
    process = subprocess.Popen([*command, *options], cwd=clone, stderr=subprocess.DEVNULL, start_new_session=True)
    runs = clone / "papermill_runs" / "adhoc" / "runs"
    while not (list(runs.glob("*/checkpoint.npz")) or process.poll() is not None):
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    for victim in [psutil.Process(process.pid), *children]:
        victim.kill()
    process.wait()
    assert not list((clone / "papermill_runs" / "adhoc").glob("rows/*.json"))
    subprocess.run([*command, *options], cwd=clone, check=True, capture_output=True)
    (path,) = (clone / "papermill_runs" / "adhoc" / "rows").glob("*.json")
    row = json.loads(path.read_text())
    assert row["resumed"] == 1 and 0 < len(row["epoch_s"]) < 60 and row["run_id"] == next(runs.iterdir()).name
    history = (runs / row["run_id"] / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in history[1:]] == [str(epoch) for epoch in range(60)]
    assert not (runs / row["run_id"] / "checkpoint.npz").exists()


@pytest.mark.slow
def test_10_stops_in_time(clone, small_sample):
    """With no time left it saves after an epoch, says so, and writes no row."""
    with pytest.raises(papermill.PapermillExecutionError, match="saved after epoch 1 of 40"):
        execute(clone, "10_train_referable", data_dir=str(small_sample), epochs=40, image_size=48, max_hours=1e-6)
    assert not list(clone.glob("papermill_runs/*/rows/*"))
    assert list(clone.glob("papermill_runs/adhoc/runs/*/checkpoint.npz"))


def test_11_without_rows_shows_the_paper_alone(clone):
    """Opened first, it draws the published bars and says that nothing has been measured."""
    notebook = execute(clone, "11_gpu_vs_tpu")
    assert num_pictures(notebook) == 1 and "not measured" in texts(notebook)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"data_dir": "nowhere"}, "nowhere has no manifest.json"),
        ({"accelerator": "gpu"}, "no GPU is here"),
        ({"model": "resnet"}, "choose from"),
    ],
)
def test_10_stops_with_what_to_do(clone, small_sample, parameters, message):
    """A folder, an accelerator or a model that is not there stops the notebook before training; no row is written."""
    if "gpu" in parameters.values() and os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(papermill.PapermillExecutionError, match=message):
        execute(clone, "10_train_referable", **({"data_dir": str(small_sample)} | parameters))
    assert not list(clone.glob("papermill_runs/*/rows/*"))


@pytest.mark.parametrize(
    ("framework", "dataset", "evaluate_every"), [("tensorflow", "mnist", 1), pytest.param("pytorch", "cifar10", 0)]
)
def test_30_trains_a_scenario_and_monitors_it(clone, framework, dataset, evaluate_every):
    """One cell of the design: a row with times and utilisation, and samples with every epoch; a kernel that is not
    there is told."""
    kernel = "python3" if framework == "tensorflow" else find_kernel_name("dr-torch")
    notebook = execute(
        clone, "30_train_scenario", kernel, framework=framework, dataset=dataset, epochs=2, sample_s=0.2,
        evaluate_every=evaluate_every, instance="F4s_v2", accelerator="cpu",
    )  # fmt: skip
    (row,) = (json.loads(path.read_text()) for path in clone.glob("papermill_runs/adhoc/rows/*.json"))
    assert (row["framework"], row["dataset"], row["data_kind"], row["accelerator"]) == (
        framework,
        dataset,
        "synthetic",
        "cpu",
    )
    assert row["num_images_train"] == {"mnist": 768, "cifar10": 640}[dataset] and row["num_images_dropped"] == 0
    assert len(row["epoch_s"]) == 2 and sum(row["epoch_s"]) <= row["train_s"] < row["wall_s"]
    assert len(row["epoch_accuracy"]) == (2 if evaluate_every else 0) and row["epoch_loss"][1] < row["epoch_loss"][0]
    assert row["cost_usd"] == pytest.approx(0.169 * (row["train_s"] + row["setup_s"]) / 3600)
    assert 0 < row["cpu_percent_mean"] <= 100 and row["gpu_percent_mean"] is None
    samples = (clone / "papermill_runs" / "adhoc" / row["samples"]).read_text()
    assert [f",{event}," in samples for event in ("start", "epoch 1", "epoch 2", "end")] == [True] * 4
    assert "parameters" in texts(notebook)


def test_30_says_what_this_machine_cannot_do(clone):
    """A GPU that is not here, and a framework that this kernel does not have, stop it as unavailable."""
    if os.path.exists("/dev/nvidia0"):
        pytest.skip("this machine has a GPU")
    with pytest.raises(papermill.PapermillExecutionError, match="UnavailableError: no NVIDIA GPU"):
        execute(clone, "30_train_scenario", accelerator="gpu")
    with pytest.raises(papermill.PapermillExecutionError, match="UnavailableError: this kernel has no mxnet"):
        execute(clone, "30_train_scenario", framework="mxnet")
    assert not list(clone.glob("papermill_runs/adhoc/rows/*"))


def find_kernel_name(name: str) -> str:
    """The kernel, where it is set up."""
    if not find_kernel(name):
        pytest.skip(f"no kernel {name}: python -m dr_lib kernels sets it up")
    return name


def test_31_without_rows_says_how_to_make_them(clone):
    """No rows at all: the sentence names the command."""
    with pytest.raises(papermill.PapermillExecutionError, match="python -m dr_lib run papermill_runs/scenarios_small"):
        execute(clone, "31_factor_effects", runs="papermill_runs/none")


@pytest.mark.slow
def test_a_factorial_study_from_its_file_to_its_report(clone):
    """Two data sets by two networks, twice, and a framework that is not there: rows, notebook 31, report."""
    study = clone / "papermill_runs" / "trial.yaml"
    study.parent.mkdir(exist_ok=True)
    study.write_text(
        "notebook: 30_train_scenario\nrepetitions: 2\ninstance: F4s_v2\nrepeat_disturbed: 0\n"
        "parameters: {image_size: 32, data_share: 0.005, batch_size: 50, epochs: 3, sample_s: 0.2, accelerator: cpu}\n"
        "factors: {framework: [tensorflow, mxnet], dataset: [mnist, cifar10], network: [1, 2]}\n"
        "kernel: {framework: {mxnet: no-such-kernel}}\n"
    )
    command = [sys.executable, "-m", "dr_lib"]
    ran = subprocess.run([*command, "run", study], cwd=clone, check=True, capture_output=True, text=True)
    assert "4 scenarios skipped: no Jupyter kernel no-such-kernel" in ran.stdout
    text = report(clone, "trial", bill_usd=1.0)
    assert "s of overhead a run" in text and "start of papermill and kernel" in text
    assert "no Jupyter kernel no-such-kernel" in text and "Rede 2 takes at least 10 % more time" in text
    assert "Artigo" not in text and "custo de uma execução" in report(clone, "trial", lang="pt")
    folder = study.with_suffix("")
    for name in ("figure_2_3", "figure_4", "figure_5", "effects", "variation", "cost_front"):
        assert (folder / f"{name}.png").stat().st_size > 10_000 and (folder / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    assert "\\toprule" in (folder / "variation.tex").read_text()
    variation = pd.read_csv(folder / "variation.csv")
    assert variation["share"].sum() == pytest.approx(1) and "dataset" in set(variation["term"])
    planned = subprocess.run([*command, "plan", study], cwd=clone, check=True, capture_output=True, text=True).stdout
    assert "8 completed, 0 to do" in planned and "8 that this machine cannot make" in planned


def test_20_leaves_a_model_folder(clone, small_sample):
    """Five grades, a row with kappa and AUC, and a folder whose manifest holds what serving needs."""
    wishes = {"data_dir": str(small_sample), "model": "small_cnn", "image_size": 48, "epochs": 2}
    notebook = execute(clone, "20_train_grades", **wishes)
    (row,) = [json.loads(path.read_text()) for path in (clone / "papermill_runs" / "adhoc" / "rows").glob("*.json")]
    folder = read_folder(clone / "papermill_runs" / "adhoc" / "runs" / row["run_id"] / "model")
    assert folder.facts["format"] == "keras" and folder.facts["image_size"] == 48 and len(folder.facts["grades"]) == 5
    assert folder.facts["metrics"]["kappa"] == row["metric_kappa_test"] and -1 <= row["metric_kappa_test"] <= 1
    assert (
        folder.facts["data_manifest_sha256"] == row["data_manifest_sha256"] and folder.version == row["model_version"]
    )
    assert num_pictures(notebook) == 2 and "SYNTHETIC SAMPLE" in (folder.path / "README.md").read_text()


@pytest.mark.slow
def test_from_a_trained_model_to_what_a_prediction_costs(clone, small_sample):
    """Notebooks 20, 21, 22 and 23 in turn: trained, exported through the gate, served, asked, loaded, priced."""
    data = {"data_dir": str(small_sample)}
    execute(clone, "20_train_grades", model="small_cnn", image_size=48, epochs=2, **data)
    adhoc = clone / "papermill_runs" / "adhoc"
    (trained,) = adhoc.glob("runs/*/model")
    exported = execute(
        clone, "21_export_quantize", model_dir=str(trained), num_rounds=3, force=True, sweep=True, **data
    )
    assert num_pictures(exported) >= 2 and "litert_int8" in texts(exported)
    (served,) = adhoc.glob("runs/*/exported/litert_int8")
    assert read_folder(served).facts["gate"]["num_images"] > 0
    photographs = {"photographs": str(small_sample.parent / "photographs"), "instance": "ml.m5.xlarge"}
    load = {"num_requests": 5, "gap_s": 0.0, "load_seconds": 0.5, "num_compared": 5, "bound_ms": 1000.0}
    asked = execute(clone, "22_serve_and_load", served_dir=str(served), **photographs, **load)
    assert "5 compared, largest difference of a probability: 0" in texts(asked) and num_pictures(asked) == 1
    assert "the server ended with status 0" in texts(asked)
    rows = [json.loads(path.read_text()) for path in adhoc.glob("rows/*.json")]
    (row,) = [row for row in rows if row["notebook"] == "22_serve_and_load"]
    assert row["max_rate_per_s"] > 0 and row["format"] == "litert_int8" and row["usd_per_hour"] == 0.23
    sent = pd.read_csv(adhoc / row["requests"])
    assert (sent["load"] == "closed").sum() == 5 and row["threads"] == row["num_cpus"] and row["cost_usd"] is None
    assert row["max_rate_per_s"] in set(sent.loc[sent["load"] == "open", "rate_per_s"])
    text = report(clone, "adhoc", notebook="23_serving_cost")
    assert "small_cnn in litert_int8 predicts in" in text and "MobileNet has 3377221 parameters." in text
    assert text.count("data:image/png") == 5
    requests = pd.read_csv(adhoc / "response_times.csv")
    assert requests["n"].tolist() == [5] and (requests["predict_ms_low"] < requests["predict_ms"]).all()


def test_23_without_rows_shows_the_paper_alone(clone):
    """The published figures, their costs, and the correction: cheaper an hour, dearer a prediction for VGG19."""
    notebook = execute(clone, "23_serving_cost")
    assert num_pictures(notebook) == 3
    for sentence in (
        "24.3 % cheaper than ml.m5.xlarge; per prediction, vgg19 is 14.2 % dearer",
        "mobilenet is 12.4 % cheaper",
    ):
        assert sentence in texts(notebook)


@pytest.mark.slow
def test_22_untrained_serves_on_the_spot(clone, small_sample):
    """Without a folder it makes a network, says that nobody trained it, and serves that."""
    load = {"num_requests": 3, "gap_s": 0.0, "load_seconds": 0.5, "num_compared": 3, "bound_ms": 1000.0}
    photographs = str(small_sample.parent / "photographs")
    asked = execute(
        clone, "22_serve_and_load", model="small_cnn", image_size=48, photographs=photographs, **load
    )  # fmt: skip
    assert "untrained" in texts(asked) and "3 compared, largest difference of a probability: 0" in texts(asked)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to end a process with its parent")
def test_22_leaves_no_server_behind(clone, small_sample):
    """The runner of its study is killed while requests are sent: papermill, kernel and server end too."""
    parameters = {"model": "small_cnn", "image_size": 48, "num_requests": 100, "gap_s": 1.0}
    parameters["photographs"] = str(small_sample.parent / "photographs")
    study = {"notebook": "22_serve_and_load", "repetitions": 1, "parameters": parameters}
    (clone / "papermill_runs").mkdir()
    (clone / "papermill_runs" / "serve.yaml").write_text(json.dumps(study))  # YAML holds JSON
    command = [sys.executable, "-m", "dr_lib", "run", "papermill_runs/serve.yaml"]
    with subprocess.Popen(command, cwd=clone, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as runner:
        try:
            deadline, family = time.monotonic() + 120, []
            while not any("dr_lib.serving" in process.cmdline() for process in family) and time.monotonic() < deadline:
                time.sleep(0.5)
                family = psutil.Process(runner.pid).children(recursive=True)
        finally:
            runner.kill()
        assert len(family) >= 3
        assert psutil.wait_procs(family, timeout=10)[1] == []


def test_22_says_why_an_endpoint_does_not_answer(clone, small_sample):
    """A folder that holds no model, an endpoint without a folder, and a model that the server refuses: each is told."""
    photographs = str(small_sample.parent / "photographs")
    with pytest.raises(papermill.PapermillExecutionError, match="holds no model"):
        execute(clone, "22_serve_and_load", served_dir="nowhere", photographs=photographs)
    with pytest.raises(papermill.PapermillExecutionError, match="give the folder that the endpoint serves"):
        execute(clone, "22_serve_and_load", url="http://127.0.0.1:9", photographs=photographs)
    refused = export_untrained(clone / "refused", "small_cnn", 48).path  # a Keras model
    with pytest.raises(papermill.PapermillExecutionError, match="ping does not say 200; see"):
        execute(clone, "22_serve_and_load", served_dir=str(refused), photographs=photographs)
    (log,) = clone.glob("papermill_runs/adhoc/runs/*/server.log")
    assert "keras is not served, export it as LiteRT or SavedModel first" in log.read_text()
