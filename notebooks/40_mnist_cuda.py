# %% [markdown]
# # Train a small network in CUDA C, or in Keras
#
# **Question.** How fast can a network of 2,343 parameters learn MNIST in CUDA C, and in Keras?
# **Input.** MNIST, or synthetic images for timing; an NVIDIA GPU with `nvcc`, or only a C++
# compiler: the same source builds for both.
# **Output.** One row per implementation, with the time and the test accuracy after each epoch;
# `mnist_cuda.yaml` makes the 40 epochs of De Felice Lima and Zola from this notebook, and notebook
# 41 reads the rows. **Time.** Under 90 seconds on two cores with the defaults; no network.
#
# **Resumo.** Com que rapidez uma rede de 2.343 parâmetros aprende o MNIST em CUDA C e em Keras?
# Entrada: MNIST e uma GPU com `nvcc`, ou só um compilador C++. Saída: uma linha por implementação,
# com tempo e acurácia após cada época; o notebook 41 as lê.

# %% tags=["parameters"]
# implementations, each as NAME@BATCH
# fmt: off
implementation: str = "paper@1,fused@1,minibatch@32,keras_tensorflow@1,keras_tensorflow@32"  # timed
# fmt: on
device: str = "auto"  # @param ["auto", "gpu", "cpu"]  # of CUDA C; Keras has the CPU
# data
mnist: str = "synthetic"  # keras, the path of an mnist.npz, or synthetic (for timing only)
data_share: float = 0.05  # share of the training images, the first ones, 1 for all
# training
epochs: int = 4  # passes over the training images, 40 in the paper
# where, which
instance: str = ""  # the machine's name in the price table, for the cost
results: str = ""  # folder for rows; on Colab a folder on Drive is kept
seed: int = 20  # seed of the initial weights; the run adds its repetition
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

setup.set_up(root, "40_mnist_cuda", "cv2")

# %% [markdown]
# This cell reads what to train. The batch size is part of each name: an epoch with larger batches
# has fewer steps, each with more parallel work, and learns less. A row is one implementation, so a
# study file names one at a time.

# %%
import os

from dr_lib import Run
from dr_lib.mnist import cuda as cuda_mnist
from dr_lib.mnist.reference import BACKENDS, MnistReference
from dr_lib.runs.run import RUN_VARIABLE, UnavailableError

KERAS = {f"keras_{backend}": backend for backend in BACKENDS}
NAMES = (*cuda_mnist.IMPLEMENTATIONS, *KERAS)
pairs = [item.strip().partition("@")[::2] for item in implementation.split(",")]
if any(name not in NAMES or not batch.isdigit() for name, batch in pairs):
    raise ValueError(
        f"implementation {implementation!r}: write NAME@BATCH, NAME one of {', '.join(NAMES)}"
    )
if len(pairs) > 1 and RUN_VARIABLE in os.environ:
    raise ValueError(
        "a study writes one row per run: make implementation a factor with one NAME@BATCH per level"
    )
backends = {KERAS[name] for name, _ in pairs if name in KERAS}
if len(backends) > 1:
    raise ValueError("Keras has one backend per process: choose keras_tensorflow or keras_jax")
trainings = [(name, int(batch)) for name, batch in pairs]

# %% [markdown]
# ## Data
#
# MNIST has 60,000 handwritten digits for training and 10,000 for testing, 28 x 28 bytes each; or
# synthetic patterns of the same shape and number, whose accuracies only show that a network learns.

# %%
from dr_lib.data.small_images import load_mnist

x_train, y_train, x_test, y_test = load_mnist(mnist)
num_images = round(data_share * len(x_train))
x_train = x_train[:num_images]
y_train = y_train[:num_images]
print(f"{len(x_train):,} training images, {len(x_test):,} test images")

# %% [markdown]
# ## Method
#
# **Build.** The source is compiled for this machine's GPU, as CUDA C, or for its processor, as C++,
# and the result is kept for the next time.

# %%
from dr_lib import hardware
from dr_lib.mnist.build import build

facts = hardware.probe()
try:
    library = build(device)
except hardware.HardwareError as error:
    raise UnavailableError(str(error)) from error  # a study then skips what needs it
print(f"built for the {library.kind.upper()}: {library.device}")

# %% [markdown]
# The original program launches about forty small kernels per image and needs a GPU; the other
# implementations do not.

# %%
if library.kind == "cpu" and any(name == "paper" for name, _ in trainings):
    reason = "paper needs a GPU: this machine has none, or no nvcc, or device is cpu"
    print(reason)
    trainings = [pair for pair in trainings if pair[0] != "paper"]
    if not trainings:
        raise UnavailableError(reason)

# %% [markdown]
# **Check.** Before anything is timed, CUDA C and Keras must give the same outputs from the same
# weights, and CUDA C's hand-written gradients must equal those that Keras finds by automatic
# differentiation. The original program divides some gradients by the number of values summed (576
# for the convolution, 216 for the second layer's bias). `fused` does so too, and Keras's gradients
# are divided in the same way.

# %%
import pandas as pd

DIVISORS = {"conv_kernel": 576, "conv_bias": 576, "pool_bias": 216}
backend = next(iter([*backends, *facts.backends]), BACKENDS[0])
weights = cuda_mnist.initial_weights(seed)


def choose_rate(batch):
    return cuda_mnist.LEARNING_RATES["fused" if batch == 1 else "minibatch"]


def open_reference(weights, batch):
    rate = choose_rate(batch)
    return MnistReference(backend, weights, batch_size=batch, learning_rate=rate)


def find_error(ours, theirs):
    return float(abs(ours - theirs).max() / abs(theirs).max())


# %%
references = {batch: open_reference(weights, batch) for batch in (1, 32)}
x_check = x_test[:100]
errors = {}
for name in cuda_mnist.IMPLEMENTATIONS:
    batch = 32 if name == "minibatch" else 1
    x = x_train[:batch]
    y = y_train[:batch]
    divisors = {} if name == "minibatch" else DIVISORS
    theirs = references[batch].gradients(x, y)
    ours = cuda_mnist.gradients(library, weights, x, y, implementation=name)
    outputs = cuda_mnist.forward(library, weights, x_check, implementation=name)
    errors[name] = {
        "gradient_error": max(
            find_error(ours[key], theirs[key] / divisors.get(key, 1)) for key in theirs
        ),
        "forward_error": find_error(outputs, references[batch].forward(x_check)),
    }
table = pd.DataFrame(errors).T
if table.max(axis=None) > 1e-5:
    raise RuntimeError(f"CUDA C and Keras disagree: {errors}")
table.map("{:.1e}".format)

# %% [markdown]
# **Time.** The clock of an epoch runs while the network trains and stops while it is tested. Keras
# starts from the same weights, sees the images in the same order, and is called once for all
# epochs. At batch size 1 it uses the original's loss and plain SGD, with larger batches softmax and
# Adam, as `minibatch` does.


# %%
def train(name, batch, run):
    data = (x_train, y_train, x_test, y_test)
    if name in KERAS:
        reference = open_reference(cuda_mnist.initial_weights(run.seed), batch)
        show = lambda epoch: run.show_progress(epoch, epochs)  # noqa: E731
        return reference.train(*data, epochs=epochs, on_epoch_end=show)
    return cuda_mnist.train(
        library,
        *data,
        implementation=name,
        epochs=epochs,
        batch_size=batch,
        seed=run.seed,
    )


# %% [markdown]
# One row per implementation: `train_s` is the time after the last epoch; two lists hold the time of
# each epoch and the accuracy after it.

# %%
from dr_lib import Monitor
from dr_lib.errors import DrError
from dr_lib.mnist.epochs import summarise_training
from dr_lib.training.versions import read_versions

paths = []
for name, batch in trainings:
    values = {**globals(), "implementation": name}
    run = Run.of_notebook(root, "40_mnist_cuda", values, batch_size=batch)
    is_keras = name in KERAS
    setup_s = run.seconds()
    try:
        with Monitor(run.folder / "samples.csv") as monitor:
            trained = train(name, batch, run)
    except DrError as error:  # it diverged
        run.fail(str(error))
        raise
    path = run.finish(
        framework="keras" if is_keras else "cuda",
        accelerator="cpu" if is_keras else library.device,
        num_accelerators=1,
        data_kind="synthetic" if mnist == "synthetic" else "given",
        num_images_train=len(x_train),
        num_images_test=len(x_test),
        num_parameters=cuda_mnist.NUM_PARAMETERS,
        learning_rate=cuda_mnist.LEARNING_RATES.get(name) or choose_rate(batch),
        setup_s=setup_s,
        **summarise_training(*trained),
        **monitor.summarise(),
        **facts.describe(),
        **(read_versions("keras", backend) if is_keras else errors[name]),
    )
    paths.append(path)
    print(f"{name}@{batch}: wrote {run.shown(path)}")

# %% [markdown]
# ## Result
#
# Notebook 41 draws the paper's figures from such rows and judges its claims.

# %%
from dr_lib import groups
from dr_lib.runs.row import read_row

of_one_batch = ["framework", "learning_rate"]
rows = pd.DataFrame([read_row(path) for path in paths])
selection = groups.select_runs(rows, may_differ=of_one_batch)
table = groups.tabulate_groups(selection, ["steady_epoch_s", "train_s"])
table.filter(["group", "n", "steady_epoch_s", "train_s", "metric_accuracy_test"]).round(2)

# %% [markdown]
# ## What this shows

# %%
compared = groups.compare_groups(selection, "steady_epoch_s")
for row in compared.itertuples():
    print(
        f"an epoch of {row.slower} takes {row.times_as_long:.3g} times as long as {row.faster}"
    )
if compared.empty:
    print("only one implementation was trained; compare it with other rows in notebook 41")

# %% [markdown]
# ## Limits
#
# A short run on a share of the images shows how fast an epoch is, not what 40 epochs on all images
# reach. A study repeats the run with other seeds. `paper` is not timed without a GPU.
