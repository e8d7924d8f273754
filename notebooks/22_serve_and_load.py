# %% [markdown]
# # Serve the model and load the endpoint
#
# **Question.** How long do one request, its decoding and its prediction take, and how many requests
# per second does the endpoint sustain? **Input.** A folder that notebook 21 exported (or an
# untrained network), photographs, and this machine or the address of an endpoint. **Output.** One
# row for notebook 23. **Time.** Under 90 seconds on two cores with the defaults.
#
# **Resumo.** Quanto tempo leva uma requisição ao modelo implantado (decodificar, predizer) e
# quantas requisições por segundo o serviço aguenta? Entrada: uma pasta exportada pelo notebook 21,
# retinografias, esta máquina ou o endereço de um serviço. Saída: uma linha para o notebook 23.

# %% tags=["parameters"]
# model
served_dir: str = ""  # exported folder, or one of several as MODEL/FORMAT; empty for untrained
model: str = "mobilenet"  # any network of notebook 10, if untrained or one of several
image_size: int = 96  # input side of an untrained network, 224 in the paper [px]
format: str = "litert_int8"  # litert_float32, litert_int8 or savedmodel
# data
photographs: str = "sample"  # folder of JPEG or PNG files to send, or the word sample
# endpoint
url: str = ""  # e.g. sagemaker:NAME; empty for a server here
threads: int = 0  # parallel predictions of a server started here, 0 for one per core
# load
num_requests: int = 25  # requests in the closed loop, as in the paper
gap_s: float = 0.2  # pause between requests, 5 in the paper [s]
bound_ms: float = 100.0  # bound that 99 % of the response times must meet under load [ms]
load_seconds: float = 3.0  # duration of each rate tried [s]
num_compared: int = 20  # photographs whose answers are compared with local predictions
# where, which
instance: str = ""  # the machine's name in the price table, for the cost of a prediction
results: str = ""  # folder for rows and tables
seed: int = 20  # seed of arrivals and untrained weights; the run adds its repetition
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

setup.set_up(root, "22_serve_and_load", "cv2", "simplejpeg", *setup.SERVER)

# %%
from dr_lib import Run

endpoint = "remote" if url else "local"
run = Run.of_notebook(root, "22_serve_and_load", globals(), endpoint=endpoint)

# %% [markdown]
# ## Data
#
# The photographs are sent as they are; real ones stay in memory, and nothing here names or shows
# them. Pictures without a retina would be refused and are left out.

# %%
from dr_lib import crop_fundus, open_sample
from dr_lib.data.labels.label_files import find_files
from dr_lib.data.photograph import pixels
from dr_lib.errors import DrError

is_synthetic = photographs == "sample"
source = Path(photographs)
if is_synthetic:
    source = open_sample(root / "papermill_runs" / "sample").parent / "photographs"
kinds = {".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png"}
files = [path for path in find_files(source)[0] if path.suffix.lower() in kinds]
media_type = max(kinds.values(), key=[kinds[path.suffix.lower()] for path in files].count)
files = [path for path in files if kinds[path.suffix.lower()] == media_type][
    : max(100, num_compared)
]
whole = []
stored = []  # crops as records would hold them
for path in files:
    try:
        stored.append(pixels.encode_jpeg(crop_fundus(path).image))
        whole.append(path)
    except DrError:  # no field of view, or no picture
        continue
if not whole:
    raise ValueError(f"photographs: none of the {len(files)} JPEG or PNG files shows a retina")
kind = "synthetic pictures" if is_synthetic else "photographs"
print(f"{len(whole)} {kind} to send, of {len(files)}: {media_type}")

# %% [markdown]
# The model is an exported folder or an untrained network, whose predictions mean nothing but take
# just as long.

# %%
import numpy as np

from dr_lib.training.model_folder import read_folder

if url and not served_dir:
    raise ValueError(
        "served_dir: give the folder that the endpoint serves, to compare its answers"
    )
is_untrained = not served_dir
if is_untrained:
    from dr_lib.serving.untrained import export_untrained

    served_dir = run.folder / "served"
    examples = np.stack([pixels.decode_jpeg(encoded, image_size) for encoded in stored[:50]])
    export_untrained(served_dir, model, image_size, format, examples=examples, seed=run.seed)
folder = Path(served_dir).resolve()
if (folder / model / format).is_dir():
    folder = folder / model / format
served = read_folder(folder)
print(
    f"{served.facts['model']} {served.facts['image_size']} px, {served.facts['format']}, version"
    f" {served.version}"
)
print(f"{served.facts['bytes'] / 2**20:.2f} MiB; weights: {served.facts['weights']}")

# %% [markdown]
# ## Method
#
# The server is the same process as in the container, `python -m dr_lib.serving serve`, on a
# port of the loopback interface. It listens once a warm-up prediction has finished. A SageMaker
# endpoint needs only its name; boto3 signs the requests with the user's credentials.

# %%
import psutil

from dr_lib.serving.server.process import ServerProcess

server = None
url = url.rstrip("/").removesuffix("/invocations")
if not url:
    options = ["--threads", threads] if threads else []
    server = ServerProcess(served.path, run.folder / "server.log", *options)
    url = server.url
ready_s = server.ready_s if server else float("nan")
resident_mib = psutil.Process(server.pid).memory_info().rss / 2**20 if server else float("nan")
print(f"ready after {ready_s:.2f} s, {resident_mib:.0f} MiB resident")

# %% [markdown]
# The paper's experiment is a closed loop: one request at a time, with a pause after each answer. It
# comes first, so that no earlier request has warmed up the server.

# %%
from dr_lib.serving.server import load

asked_at = url if url.startswith("sagemaker:") else f"{url}/invocations"
send = load.open_sender(asked_at, media_type)
requests = load.run_closed_loop(send, whole, num_requests=num_requests, gap_s=gap_s)
closed = load.summarise_load(requests)
if closed["num_failed"]:
    raise RuntimeError(f"{closed['num_failed']} requests failed: {closed['error']}")
requests[load.TIMES].describe().round(2)

# %% [markdown]
# The endpoint's answers must equal those computed here by the steps of training with the same
# artifact: the same crop, stored and read as a record, and the same network.

# %%
from dr_lib.serving.grader.models import open_model

network = open_model(served.facts["format"], served.artifact, 1)
largest = 0.0
num_answers = min(len(whole), max(1, num_compared))
for path, encoded in zip(whole[:num_answers], stored, strict=False):
    answer, error = load.read_answer(*send(path.read_bytes()))
    if error:
        raise RuntimeError(error)
    if answer["model_version"] != served.version:
        raise ValueError(
            f"served_dir holds version {served.version}, the endpoint serves"
            f" {answer['model_version']}"
        )
    expected = network(pixels.decode_jpeg(encoded, served.facts["image_size"])[None])[0]
    largest = max(largest, float(abs(expected - answer["probabilities"]).max()))
print(f"{num_answers} compared, largest difference of a probability: {largest:.2g}")
if largest > 1e-5:  # the order of additions; a mistake is far above
    raise RuntimeError(
        f"the endpoint's answers differ from this notebook's predictions by up to {largest:.2g}"
    )

# %% [markdown]
# ## Result
#
# The load test is an open loop: requests arrive at a fixed rate without waiting for earlier
# answers. The response time starts when a request was due, so a stalled server cannot hide the
# stall; the service time starts when it was sent. The rate rises until more than 1 % of the
# response times exceed the bound.

# %%
import time

from dr_lib import Monitor

with Monitor(run.folder / "samples.csv", num_gpus=0) as monitor:
    started = time.monotonic()
    tried = load.find_max_rate(
        send, whole, bound_ms=bound_ms, seconds=load_seconds, seed=run.seed
    )
    load_s = time.monotonic() - started
held = tried[tried["held"]]
max_rate_per_s = held["rate_per_s"].max() if len(held) else 0.0
print(f"sustains {max_rate_per_s:.1f} requests/s with 99 % within {bound_ms:.0f} ms:")
tried.drop(columns=load.TIMES).sort_values("rate_per_s").round(3)

# %%
if server:
    print("the server ended with status", server.stop())

# %%
from dr_lib import hardware
from dr_lib.serving.sagemaker.account import SCHEME

tried.to_csv(run.folder / "tried.csv", index=False)
machine = answer.get("machine", {})  # processor, CPUs and threads, as the server itself says
if url == SCHEME:  # made for this run
    machine["instance_type"] = instance
facts = hardware.probe().describe() if server else {"platform": "remote"}
names = ("model", "format", "image_size", "num_parameters", "weights")
row = run.finish(
    **{
        "accelerator": "cpu",
        "num_accelerators": 0,
        **facts,
        **machine,
        **{name: served.facts[name] for name in names},
        "model_version": served.version,
        "artifact_mib": served.facts["bytes"] / 2**20,
        "data_kind": "synthetic" if is_synthetic else "photographs",
        "largest_difference": largest,
        "ready_s": ready_s,
        "resident_mib": resident_mib,
        "max_rate_per_s": max_rate_per_s,
        "load_s": load_s,
        **{name: closed[name] for name in load.TIMES},
        # energy of this machine while it was loaded, the client's share among it
        **(monitor.summarise() if server else {}),
        "num_predictions": int((tried["n"] - tried["num_failed"]).sum()) if server else None,
        "gate_passes": served.facts.get("gate", {}).get("passes"),
    }
)
print(f"wrote {run.shown(row)}")

# %%
ax = tried.sort_values("rate_per_s").plot(
    x="rate_per_s",
    y=["p50_ms", "p95_ms", "p99_ms"],
    xlabel="requests per second",
    ylabel="response time [ms]",
    marker="o",
    loglog=True,
)
_ = ax.axhline(bound_ms, color="black", ls="--")

# %% [markdown]
# ## What this shows

# %%
from IPython.display import Markdown

from dr_lib.markdown import escape

median = requests[load.TIMES].median()
Markdown(
    f"**{escape(served.facts['model'])}** ({escape(served.facts['format'])}) answers one request of"
    f" the {kind} in **{median.round_trip_ms:.1f} ms** (median of {len(requests)}), of which"
    f" {median.decode_ms:.1f} ms for decoding and cropping and {median.predict_ms:.1f} ms for"
    f" predicting, and holds **{max_rate_per_s:.1f} requests a second** with 99 % of them within"
    f" {bound_ms:.0f} ms."
)

# %% [markdown]
# ## Limits
#
# Client and server share this machine, so the client takes processor time from the server, and
# there is no network between them. The paper's calls crossed the internet and took about 195 ms
# more than their predictions. Tests of a few seconds say little about the 99th percentile, and
# fewer than 100 answers have none (NaN; all of them must then meet the bound): set `load_seconds`
# to 60 for a rate to plan with. An untrained network's answers mean nothing.
#
# **Deploy it.** [docs/serving.md](../docs/serving.md) builds the container, for ARM machines too,
# and measures paper B's eight endpoints of SageMaker in one command.
#
# Beyond one machine, the endpoint scales by target tracking (`aws application-autoscaling
# put-scaling-policy`) on `SageMakerVariantInvocationsPerInstance`, its requests per minute and
# instance. Set `TargetValue` somewhat below 60 times the rate that this notebook found on that
# instance.
