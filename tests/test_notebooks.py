"""Notebooks of the spine run headless, leave what they promise, and say what went wrong."""

import json
import os
import re
import shutil
import subprocess
from base64 import b64decode
from io import BytesIO

import matplotlib.pyplot as plt
import pandas as pd
import papermill
import psutil
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.code import hash_code
from dr_lib.training.model_folder import read_folder
from tests.notebooks import (
    execute,
    list_outputs,
    num_pictures,
    papermill_command,
    read_rows,
    report,
    show_without_paper,
    texts,
)
from tests.processes import wait_until
from tests.studies import write_studies


def test_00_shows_the_whole_chain(clone, kernel):
    """The machine, three pictures and an answer, from nothing."""
    notebook = execute(clone, "00_start_here", kernel)
    assert num_pictures(notebook) == 3 and "probability of referable disease" in texts(notebook)


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
    parameters = {"images": "mine", "labels": "mine/labels.csv", "out": "prepared"}
    notebook = execute(clone, "01_prepare_fundus", kernel, num_shown=8, **parameters)
    said = texts(notebook)
    assert "1 rejected" in said and "not a picture" in said and num_pictures(notebook) == 1
    names = [path.stem for path in (photographs / "images").iterdir()]
    assert len(names) == 33 and not any(name in json.dumps(notebook) for name in names)
    metadata = [output.get("metadata", {}) for output in list_outputs(notebook)]
    assert sum(each.get("shows_photographs", False) for each in metadata) == 1


def test_10_alone_writes_a_row_that_11_reads(clone, small_sample, monkeypatch):
    """Run by papermill it trains and writes a valid row; notebook 11 draws figure 1 from it, in
    Portuguese. A user's LaTeX and style for own figures stop and change nothing.
    """
    (clone / "matplotlibrc").write_text("text.usetex: True\ntext.latex.preamble: \\none\n")
    monkeypatch.setenv("MATPLOTLIBRC", str(clone / "matplotlibrc"))
    start_up = clone / "ipython" / "profile_default" / "startup" / "dark.py"
    start_up.parent.mkdir(parents=True)
    start_up.write_text("from matplotlib import style; style.use('dark_background')")
    monkeypatch.setenv("IPYTHONDIR", str(clone / "ipython"))
    wishes = {"data_dir": str(small_sample), "epochs": 2, "image_size": 48, "repetition": 3}
    notebook = execute(clone, "10_train", **wishes)
    (row,) = read_rows(clone)
    data = [output.get("data", {}) for output in list_outputs(notebook)]
    pictures = [b64decode(shown["image/png"]) for shown in data if "image/png" in shown]
    corners = [plt.imread(BytesIO(picture))[0, 0, :3].tolist() for picture in pictures]
    assert corners == [[1, 1, 1]] * 2  # white
    known = {"study": "adhoc", "repetition": 3, "seed": 23, "status": "ok"}
    assert known.items() <= row.items() and row["data_kind"] == "synthetic"
    assert row["code_sha256"] == hash_code(clone, "10_train") and row["commit"] == ""
    assert 0 < row["first_step_s"] < row["train_s"] < row["wall_s"] and len(row["epoch_s"]) == 2
    assert str(small_sample.parent) not in json.dumps(row)  # no folder of this machine
    text = report(clone, "adhoc", lang="pt")
    assert "não comparável" in text and '<html lang="pt">' in text
    assert text.count("<figure") == 1


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
    request = {"data_dir": str(small_sample), "epochs": 2, "image_size": 48, "mode": "fast"}
    notebook = execute(clone, "10_train", num_devices=8, backend="auto", **request)
    (row,) = read_rows(clone)
    known = {"backend": "jax", "mode": "fast", "status": "ok", "on_device": True}
    known |= {"strategy": "DataParallel", "num_replicas": 8, "num_accelerators": 1}
    assert known.items() <= row.items()
    assert "jax: installed here are jax" in texts(notebook) and num_pictures(notebook) == 2
    assert num_pictures(execute(clone, "11_gpu_vs_tpu", runs="papermill_runs/adhoc")) == 1


@pytest.mark.slow
def test_10_goes_on_after_a_kill(clone, small_sample):
    """papermill and its kernel killed in the middle, on two devices: the same command ends the same
    run, and the row says so."""
    request = {"data_dir": small_sample, "epochs": 5, "image_size": 48, "num_devices": 2}
    command = papermill_command("10_train", **request)
    process = subprocess.Popen(
        command, cwd=clone, stderr=subprocess.DEVNULL, start_new_session=True
    )
    runs = clone / "papermill_runs" / "adhoc" / "runs"
    wait_until(lambda: [*runs.glob("*/checkpoint.npz")] or process.poll() is not None, 120)
    for victim in [*psutil.Process(process.pid).children(recursive=True), process]:
        victim.kill()
    process.wait()
    assert not read_rows(clone)
    subprocess.run(command, cwd=clone, check=True, capture_output=True)
    (row,) = read_rows(clone)
    known = {"resumed": 1, "run_id": next(runs.iterdir()).name, "num_replicas": 2}
    assert known.items() <= row.items() and 0 < len(row["epoch_s"]) < 5
    assert len(pd.read_csv(runs / row["run_id"] / "history.csv")) == 5


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
        ({"repetiton": 3}, "repetiton: unknown, choose from results, "),
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


def test_10_of_grades_leaves_a_model_folder(clone, kernel, small_sample):
    """Five grades, a row with kappa and AUC, and the command that exports the model."""
    wishes = {"data_dir": str(small_sample), "task": "grades", "image_size": 48, "epochs": 2}
    notebook = execute(clone, "10_train", kernel, **wishes)
    (row,) = read_rows(clone)
    folder = read_folder(clone / "papermill_runs" / "adhoc" / "runs" / row["run_id"] / "model")
    assert folder.facts["split_sha256"] == row["split_sha256"]
    assert folder.facts["metrics"]["kappa"] == row["metric_kappa_test"]
    command = r"python -m dr_lib export (\S+/model) --data .+ --out exported"
    shown = re.search(command, texts(notebook))[1]
    assert clone / shown == folder.path  # as it is pasted into a shell in the root
    written = pd.read_csv(folder.path.parent / "predictions.csv")
    test = written[written["split"] == "test"]
    assert len(test) == row["num_images_test"] and test["grade"].notna().all()
    found = test[[f"probability_{grade}" for grade in range(2, 5)]].sum(axis=1)
    auc = roc_auc_score(test["grade"] >= 2, found)
    assert auc == pytest.approx(row["metric_auc_test"])


def test_11_of_ones_own_shows_no_paper(clone, kernel):
    """None of the papers' names, columns or numbers stands in the page or a table."""
    write_studies(clone)
    show_without_paper(clone, kernel, "11_gpu_vs_tpu", "trained")
