# %% [markdown]
# # Export and quantize: how small, how fast, how right
#
# **Question.** How large is the model and how fast is a prediction in each format, and what does
# that cost in accuracy?
# **Input.** A model folder of notebook 10 (or an untrained network), and the data it was trained
# on. **Output.** One folder for each format that passes the accuracy gate, ready for the server;
# one row. **Time.** One to two minutes on two cores.
#
# **Resumo.** Que tamanho e que tempo de predição o modelo tem em cada formato, e quanto de acurácia
# isso custa? Entrada: uma pasta de modelo do notebook 10 (ou uma rede não treinada) e seus dados.
# Saída: uma pasta por formato para o servidor, se a verificação de acurácia a aprova; uma linha.

# %% tags=["parameters"]
# model
model_dir: str = ""  # model folder that notebook 10 wrote, empty for an untrained network
model: str = "mobilenet"  # any network of notebook 10, if untrained
image_size: int = 96  # input side of an untrained network, 224 in the paper [px]
# data
data_dir: str = "sample"  # prepared folder for calibration and the accuracy gate, or sample
# export
force: bool = False  # @param {type:"boolean"}  # also write what fails the gate
# timing
num_rounds: int = 10  # rounds in which the runtimes are timed in turns
num_threads: int = 1  # threads of one prediction
# where, which
results: str = ""  # folder for rows and exported models
seed: int = 20  # seed of untrained weights; the run adds its repetition
repetition: int = 0  # index of this run

# %% [markdown]
# ## Setup

# %% tags=["active-ipynb"]
# # on Colab and Kaggle: fetch the library, if none is here
# import os
# import shutil
# import subprocess
# import sys
# from pathlib import Path
# from tempfile import TemporaryDirectory
#
# address, ref = "", ""
# cwd = Path.cwd()
# repo = os.getenv("DR_LIB_REPO", address)
# places = [cwd / repo, cwd, *cwd.parents, *sorted(cwd.glob("*"))]
# root = next((d for d in places if os.path.isdir(d / "dr_lib")), cwd / "dr_repo")
# made = os.path.getmtime(root) if os.path.isdir(root / "dr_lib") else 0
# if root == cwd / "dr_repo":  # copy a data set, unpack the newest archive, or clone
#     data = Path("/kaggle/input")
#     found = [] if made else [*data.rglob("dr_lib/report")]
#     with TemporaryDirectory() as unpacked:
#         for path in sorted([*Path("/content").glob("*"), *data.rglob("*")], key=os.path.getmtime):
#             is_archive = path.name.endswith((".zip", ".tar.gz")) and path.is_file()
#             # a larger one holds photographs
#             if is_archive and path.stat().st_size < 1e8 and os.path.getmtime(path) > made:
#                 try:
#                     shutil.unpack_archive(path, Path(unpacked, path.name))
#                     found += Path(unpacked, path.name).rglob("dr_lib/report")
#                 except Exception:
#                     print(f"{path} is incomplete, or no archive: upload it again")
#         for path in found[-1:]:
#             shutil.rmtree(root / "dr_lib", ignore_errors=True)  # results stay
#             subprocess.run(["cp", "-rT", "--no-preserve=mode", path.parents[1], root])
#     version = ref if repo == address else "HEAD"
#     steps = [["clone", "-qn", repo, root], ["-C", root, "checkout", "-q", version]]
#     is_there = found or made
#     if not is_there and (not repo or any(subprocess.call(["git", *step]) for step in steps)):
#         sys.exit("no dr_lib here: open or upload its repository, or set DR_LIB_REPO to it")

# %%
import os
import sys
from pathlib import Path

here = Path.cwd()
places = [here / os.getenv("DR_LIB_REPO", "."), here, *here.parents, *sorted(here.glob("*"))]
root = next(path for path in places if (path / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.report import setup

setup.set_up(root, "21_export_quantize", "cv2", "simplejpeg", "ai_edge_litert")

# %%
from dr_lib import Run

run = Run.of_notebook(root, "21_export_quantize", globals())

# %% [markdown]
# ## Data
#
# TensorFlow uses as many threads as the other runtimes; this must be set before it computes
# anything.

# %%
from dr_lib import hardware

facts = hardware.probe()
threading = hardware.import_tensorflow().config.threading
threading.set_intra_op_parallelism_threads(num_threads)
threading.set_inter_op_parallelism_threads(num_threads)
device = hardware.activate(
    hardware.choose(facts, hardware.Request(accelerator="cpu", backend="tensorflow"))
)
print(f"{facts.cpu}, {num_threads} of {facts.num_cpus} cores per prediction")

# %%
from dr_lib.serving.untrained import export_untrained
from dr_lib.training.model_folder import read_folder

is_trained = bool(model_dir)
if not is_trained:
    model_dir = run.folder / "model"
    export_untrained(model_dir, model, image_size, seed=run.seed)
source = read_folder(Path(model_dir))
model = source.facts["model"]
image_size = source.facts["image_size"]
print(
    f"{model}, {image_size} px, {source.facts['num_parameters']:,} parameters; weights:"
    f" {source.facts['weights']}"
)

# %% [markdown]
# The scales of int8 come from crops of the training split; the accuracy gate uses the test split.

# %%
from dr_lib import Prepared, open_sample
from dr_lib.data.prepared.folder import find_split
from dr_lib.serving.export.export import open_examples

if data_dir == "sample":
    data_dir = open_sample(root / "papermill_runs" / "sample")
prepared = Prepared(data_dir, find_split(data_dir, source.facts["split_sha256"]))
data_kind = prepared.manifest["data_kind"]
calibration, labelled = open_examples(prepared, source.facts)
print(
    f"{len(calibration)} crops for calibration, {len(labelled.grade)} for the accuracy gate: "
    f"{data_kind}"
)

# %% [markdown]
# ## Method
#
# Every format is compared with the Keras network on the test split. A format passes if no
# probability moves by more than 0.01. Otherwise the gate counts patients: of the referable ones
# whom the network refers, how many does the format no longer refer, and of the others whom it does
# not, how many are referred now? It passes if the one-sided 95 % bounds of both shares are below
# 5 %. With few patients, even an equally good format fails; the reason then says how many would be
# needed. An untrained network has nothing to lose, so its exports are forced.

# %%
import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown

from dr_lib.serving.export import FORMATS
from dr_lib.serving.export.export import export_model

exported = export_model(
    source.path,
    run.folder / "exported",
    formats=FORMATS,
    calibration=calibration,
    labelled=labelled,
    force=force or not is_trained,
)
table = exported.drop(columns=["num_images", "num_patients", "warning", "forced", "folder"])
HTML(table.to_html(index=False, float_format="%.3g"))

# %% [markdown]
# ## Result
#
# The runtimes predict the same picture in turns, so that disturbances of the machine affect all of
# them: the median of five calls, after one that brings the weights back into the caches. A first
# round, which compiles and allocates, is left out.
# `keras_predict` is `model.predict`, which the paper timed. `savedmodel` is the same network
# without that call's overhead, and the reference of the speed-up: medians over rounds.

# %%
from functools import partial
from timeit import repeat

from dr_lib.serving.export.convert import load_network
from dr_lib.serving.grader.models import open_model

crop = labelled.images[:1]
network = load_network(source.artifact, model)
runtimes = {"keras_predict": partial(network.predict, crop, verbose=0)}
for row in exported[exported["folder"] != ""].itertuples():
    artifact = read_folder(Path(row.folder)).artifact
    runtimes[row.format] = partial(open_model(row.format, artifact, num_threads), crop)
times = pd.DataFrame(
    {
        name: 1000 * np.median(repeat(predict, number=1, repeat=6)[1:])
        for name, predict in runtimes.items()
    }
    for _ in range(1 + num_rounds)
)[1:]
reference = "savedmodel" if "savedmodel" in runtimes else "keras_predict"
speed = times.median().sort_values().to_frame("ms")
speed["speedup"] = speed.loc[reference, "ms"] / speed["ms"]
speed.map("{:.3g}".format)

# %% [markdown]
# This cell writes the row and its tables.

# %%
exported.drop(columns="folder").to_csv(run.folder / "exported.csv", index=False)
times.to_csv(run.folder / "times.csv", index=False)
names = ("model", "image_size", "num_parameters", "weights")
by_format = exported.set_index("format")
row = run.finish(
    **{
        **device.describe(facts),
        **{name: source.facts[name] for name in names},
        "model_version": source.version,
        "data_kind": data_kind,
        **by_format["artifact_mib"].add_suffix("_mib").to_dict(),
        **by_format["passes"].add_suffix("_passes").to_dict(),
        **speed["ms"].add_suffix("_ms").to_dict(),
    }
)
print(f"wrote {run.shown(row)}, exported models in {run.shown(run.folder / 'exported')}")

# %%
title = f"{model}, {image_size} px: one prediction, median [ms]"
_ = speed["ms"].plot.barh(title=title, color="#404040", ylabel="")

# %% [markdown]
# ## What this shows

# %%
from dr_lib.markdown import escape

fastest = speed.iloc[0]
overhead = speed.loc["keras_predict"]
refused = exported.loc[~exported["passes"], "format"]
verdict = "every format passes the accuracy gate"
if len(refused):
    verdict = f"the gate refuses {', '.join(refused)}"
if not is_trained:
    verdict = "the network is untrained, so its accuracy was not judged"
smallest = exported["artifact_mib"].min()
Markdown(
    f"**{escape(model)}** at {image_size} px: the fastest runtime is {fastest.name} "
    f"with **{fastest.ms:.2f} ms** a prediction, **{fastest.speedup:.1f} times** as fast as "
    f"{reference}; `model.predict` takes {overhead.ms:.1f} ms. "
    f"The smallest artifact has {smallest:.2f} MiB, the SavedModel "
    f"{by_format.loc['savedmodel', 'artifact_mib']:.2f}; {verdict}."
)

# %% [markdown]
# ## Limits
#
# The times apply to this processor: the gain of int8 depends on its instructions (VNNI, AMX). The
# accuracy gate sees only this labelled set; its bounds show how little a small set can prove. A
# synthetic sample says nothing about disease.
