# %% [markdown]
# # Train a small network in CUDA C, or in Keras
#
# **Question.** How fast can a network of 2,343 parameters learn MNIST in CUDA C, and in Keras?
# **Input.** MNIST, or drawn images for the timing; an NVIDIA GPU with `nvcc`, or a C++ compiler
# alone: the same source builds for both.
# **Output.** One row per implementation, with the time and the test accuracy after each epoch;
# `mnist_cuda.yaml` makes the 40 epochs of De Felice Lima and Zola from this notebook, and notebook
# 41 reads the rows. **Time.** Under 90 seconds on two cores with the defaults; no network.
#
# **Resumo.** Com que rapidez uma rede de 2.343 parâmetros aprende o MNIST em CUDA C e em Keras?
# Entrada: MNIST e uma GPU com `nvcc`, ou só um compilador C++. Saída: uma linha por implementação,
# com tempo e acurácia após cada época; o notebook 41 as lê.

# %% tags=["parameters"]
# what, each as NAME@BATCH
implementation: str = "paper@1,fused@1,minibatch@32,keras_tensorflow@1,keras_tensorflow@32"  # timed
device: str = "auto"  # of CUDA C, auto (a GPU if there is one), gpu or cpu; Keras stays on the CPU
# data
mnist: str = "synthetic"  # keras, the path of an mnist.npz, or synthetic (for timing only)
data_share: float = 0.05  # share of the training images, the first ones, 1 for all as in the paper
# training
epochs: int = 4  # passes over them, 40 in the paper
replicas: int = 4  # networks of other seeds in one launch of CUDA C, 0 for one per core
# where, which
instance: str = ""  # the machine's name in the table of prices, for the cost
results: str = ""  # folder for rows; on Colab one on Drive outlives the machine
seed: int = 20  # of the first weights, the run adds its repetition
repetition: int = 0  # index of this run

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

root = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.notebook import setup

setup.set_up(root)

# %% [markdown]
# What to train. A batch is part of each name: an epoch of larger batches has fewer steps, each with
# more work to do at once, and learns less. A row is one implementation, so a study file asks for
# one at a time.

# %%
import os

from dr_lib.cuda import mnist as cuda_mnist
from dr_lib.runs.run import RUN_VARIABLE, Run, UnavailableError
from dr_lib.training.frameworks.mnist_reference import BACKENDS

NAMES = (*cuda_mnist.IMPLEMENTATIONS, *(f"keras_{backend}" for backend in BACKENDS))
pairs = [item.strip().partition("@")[::2] for item in implementation.split(",")]
if any(name not in NAMES or not batch.isdigit() for name, batch in pairs):
    raise ValueError(
        f"implementation {implementation!r}: write NAME@BATCH, NAME one of {', '.join(NAMES)}"
    )
if len(pairs) > 1 and RUN_VARIABLE in os.environ:
    raise ValueError(
        "a study makes one row a run: make implementation a factor with one NAME@BATCH a level"
    )
if {"keras_tensorflow", "keras_jax"} <= {name for name, _ in pairs}:
    raise ValueError(
        "Keras has one backend in a process: ask for keras_tensorflow or for keras_jax"
    )
wanted = [(name, int(batch)) for name, batch in pairs]

# %% [markdown]
# ## Data
#
# 60,000 handwritten digits to learn from, 10,000 to test on, 28 x 28 bytes each; or drawn patterns
# of that shape and number, whose accuracies mean nothing but that a network learns.

# %%
from dr_lib.data.small_images import load_mnist

x_train, y_train, x_test, y_test = load_mnist(mnist)
num_images = round(data_share * len(x_train))
x_train = x_train[:num_images]
y_train = y_train[:num_images]
print(f"{len(x_train):,} images to learn from, {len(x_test):,} to test on")

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 10, figsize=(10, 1.4))
for axis, image, digit in zip(axes, x_train, y_train, strict=False):
    axis.imshow(image, cmap="gray_r")
    axis.set_title(digit)
    axis.axis("off")
if mnist == "synthetic":
    figure.suptitle("synthetic, for timing only", y=1.2)

# %% [markdown]
# ## Method
#
# **Build.** The source is compiled here, for the GPU that is here or for this processor, and kept
# for the next time.

# %%
from dr_lib import hardware
from dr_lib.cuda.build import build

facts = hardware.probe()
try:
    library = build(device)
except hardware.HardwareError as error:
    raise UnavailableError(str(error)) from error  # a study then skips what needs it
print(
    f"built for the {library.kind.upper()}: {library.device}, {library.num_multiprocessors}"
    " multiprocessors or cores"
)

# %% [markdown]
# The original's way, some forty small kernels for each image, needs a GPU; the other
# implementations do not.

# %%
if library.kind == "cpu" and any(name == "paper" for name, _ in wanted):
    told = "paper needs a GPU: there is none here, or no nvcc, or device is cpu"
    wanted = [(name, batch) for name, batch in wanted if name != "paper"]
    if not wanted:
        raise UnavailableError(told)
    print(told)
print("to train:", *(f"{name} in batches of {batch}" for name, batch in wanted), sep="\n- ")

# %% [markdown]
# **Check.** Before anything is timed: from the same weights, CUDA C and Keras have to give the same
# outputs, and CUDA C's gradients, which are written by hand, have to be those that Keras finds by
# automatic differentiation. The original divides some of its gradients by the number of values that
# they were summed over (576 for the convolution, 216 for the second layer's bias); `fused` does so
# too, so Keras's are divided likewise.

# %%
from dr_lib.training.frameworks.mnist_reference import MnistReference

backends = [name.removeprefix("keras_") for name, _ in wanted if name.startswith("keras_")]
backend = next(iter([*backends, *facts.backends]), BACKENDS[0])
weights = cuda_mnist.initial_weights(seed)
rates = {1: cuda_mnist.LEARNING_RATES["fused"], 32: cuda_mnist.LEARNING_RATES["minibatch"]}
references = {
    batch: MnistReference(backend, weights, batch_size=batch, learning_rate=rate)
    for batch, rate in rates.items()
}
DIVISORS = {"conv_kernel": 576, "conv_bias": 576, "pool_bias": 216}


# %%
def find_error(found, expected, divisor=1):
    return float(abs(found - expected / divisor).max() / abs(expected / divisor).max())


def find_errors(name, batch):
    x = x_train[:batch]
    y = y_train[:batch]
    reference = references[batch]
    divisors = DIVISORS if name in ("paper", "fused") else {}
    found = cuda_mnist.gradients(library, weights, x, y, implementation=name)
    exact = reference.gradients(x, y)
    outputs = cuda_mnist.forward(library, weights, x_test[:100], implementation=name)
    gradient_error = max(find_error(found[key], exact[key], divisors.get(key, 1)) for key in exact)
    return {
        "gradient_error": gradient_error,
        "forward_error": find_error(outputs, reference.forward(x_test[:100])),
    }


# %%
import pandas as pd

batches = {name: 32 if name == "minibatch" else 1 for name in cuda_mnist.IMPLEMENTATIONS}
checked = {name: find_errors(name, batch) for name, batch in batches.items()}
if max(max(errors.values()) for errors in checked.values()) > 1e-5:
    raise RuntimeError(f"CUDA C and Keras disagree: {checked}")
pd.DataFrame(checked).T.map("{:.1e}".format)

# %% [markdown]
# **Time.** The clock of an epoch runs while the network trains and stands still while it is tested.
# Keras begins from the same weights, sees the images in the same order, and is called once for all
# epochs. At batch 1 it learns with the original's loss and plain SGD, in larger batches with
# softmax and Adam, as `minibatch` does.


# %%
def train_cuda(name, batch, run):
    num_replicas = replicas or library.num_multiprocessors
    return cuda_mnist.train(
        library,
        x_train,
        y_train,
        x_test,
        y_test,
        implementation=name,
        epochs=epochs,
        batch_size=batch,
        seed=run.seed,
        replicas=1 if name == "paper" else num_replicas,
    )


# %%
def train_keras(name, batch, run):
    first = cuda_mnist.initial_weights(run.seed)
    rate = rates[1 if batch == 1 else 32]
    reference = MnistReference(
        name.removeprefix("keras_"), first, batch_size=batch, learning_rate=rate
    )
    how = {
        "epochs": epochs,
        "on_epoch_end": lambda epoch: run.show_progress(epoch, epochs),
    }
    return reference.train(x_train, y_train, x_test, y_test, **how)


# %% [markdown]
# One row per implementation: `train_s` is the time after the last epoch, of the slowest replica;
# two lists of lists hold the time and the accuracy after each epoch of each replica.

# %%
from dr_lib.evidence.mnist import summarise_trainings

machine = facts.describe()
machine |= {
    "num_accelerators": 1,
    "data_kind": "synthetic" if mnist == "synthetic" else "given",
    "num_images_train": len(x_train),
    "num_images_test": len(x_test),
}
machine |= {"num_parameters": sum(array.size for array in weights.values())}
paths = []
for name, batch in wanted:
    request = {
        "implementation": name,
        "batch_size": batch,
        "data_share": data_share,
        "epochs": epochs,
        "seed": seed,
    }
    request |= {
        "replicas_asked": replicas,
        "device": device,
        "mnist": Path(mnist).name,
        "repetition": repetition,
    }
    run = Run(root, "40_mnist_cuda", request, results=results, instance=instance)
    is_keras = name.startswith("keras_")
    setup_s = run.seconds()
    table = (train_keras if is_keras else train_cuda)(name, batch, run)
    about = {"framework": "keras"} | references[1].versions() if is_keras else {"framework": "cuda"}
    about |= {
        "accelerator": library.device if library.kind == "gpu" and not is_keras else "cpu",
        "setup_s": setup_s,
    }
    about |= {"learning_rate": cuda_mnist.LEARNING_RATES.get(name, rates[1 if batch == 1 else 32])}
    paths.append(
        run.finish(**summarise_trainings(table), **machine, **about, **checked.get(name, {}))
    )
    print(f"{name}@{batch}: wrote {run.shown(paths[-1])}")

# %% [markdown]
# ## Result
#
# Accuracy at the end, and the time until each accuracy was first reached: median over replicas,
# fastest to slowest. Notebook 41 draws the paper's figures from rows like these, and judges its
# claims.

# %%
from dr_lib.evidence.mnist import compare_like_for_like, tabulate_accuracies
from dr_lib.evidence.select import select_runs
from dr_lib.runs.row import read_row

trained = ("framework", "implementation", "batch_size", "learning_rate", "backend")
timed = select_runs(pd.DataFrame([read_row(path) for path in paths]), may_differ=trained).timed
tabulate_accuracies(timed).round(2)

# %% [markdown]
# ## What this shows

# %%
compared = compare_like_for_like(timed)
for row in compared.to_dict("records"):
    print(
        f"{row['line']} is {row['times_as_fast']:.3g} times as fast as {row['reference']}, per"
        " epoch, in the same batch"
    )
if compared.empty:
    print("one implementation was trained; what it is held against is in other rows")

# %% [markdown]
# ## Limits
#
# A short run on a share of the images says how fast an epoch is, not what 40 epochs of all of them
# reach. Replicas share one launch: they show how much the seed matters, are no repetitions of its
# time, and on a CPU slow each other down; a study trains one network a run and repeats the run.
# `paper` is not timed where there is no GPU.
