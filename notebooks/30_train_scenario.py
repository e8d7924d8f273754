# %% [markdown]
# # Train one scenario of the factorial design, monitored
#
# **Question.** What does one training run cost in time, money and utilisation, for one framework,
# data set, image side and network on this machine? **Input.** MNIST or CIFAR-10, from
# keras.datasets, from a file, or synthetic (for timing only).
# **Output.** One row in `papermill_runs/<study>/rows/` and the samples of a monitor that ran during
# training. The studies `scenarios_cpu.yaml` and `scenarios_gpu.yaml` make the 240 runs of Moura
# Filho and Sousa; notebook 31 reads the rows.
# **Time.** Half a minute with the defaults.
#
# **Resumo.** Quanto custa um treinamento em tempo, dinheiro e utilização, para um framework,
# conjunto de dados, lado da imagem e rede nesta máquina? Saída: uma linha e as amostras de um
# monitor que acompanhou o treinamento; `scenarios_cpu.yaml` e `scenarios_gpu.yaml` fazem as
# 240 execuções do artigo, e o notebook 31 lê as linhas.

# %% tags=["parameters"]
# factors
framework: str = "tensorflow"  # tensorflow (by Keras), pytorch, mxnet, keras_jax or keras_torch
dataset: str = "mnist"  # @param ["mnist", "cifar10"]  # mnist or cifar10
image_size: int = 32  # side of the square input, 32 or 64 [px]
network: int = 1  # 1 or 2 for Rede 1 or Rede 2, which has one more block of convolutions
accelerator: str = "auto"  # @param ["auto", "cpu", "gpu"]  # auto: a GPU if there is one
# data
data_source: str = "synthetic"  # keras, the path of an .npz file, or synthetic (for timing)
data_share: float = 0.0128  # share of the images, 1 for all; MNIST keeps 6 to CIFAR-10's 5
# training
batch_size: int = 128  # images per step
epochs: int = 3  # passes over the training set, 10 in the paper
learning_rate: float = 0.01  # learning rate of stochastic gradient descent with momentum 0.9
evaluate_every: int = 0  # epochs between tests of the accuracy, 0 for one at the end
# machine
threads: int = 0  # CPUs that the process is pinned to, 0 for all available
sample_s: float = 1.0  # period of the monitor, at most 10, as in the paper [s]
instance: str = ""  # the machine's name in the price table, for the cost
# where, which
results: str = ""  # folder for rows and samples; on Colab a folder on Drive is kept
seed: int = 20  # seed of the study; the run adds its repetition
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

setup.set_up(root, "30_train_scenario", "cv2")

# %% [markdown]
# ## 1. Understand the environment / Entender o ambiente
#
# This cell describes the machine. This process and the framework's, which it starts, are pinned to
# the same CPUs. Unpinned, each framework would choose its own number of threads, and the comparison
# would be one of defaults.

# %%
from dr_lib import Run, probe
from dr_lib.hardware.plans import find_arithmetic
from dr_lib.runs.run import UnavailableError
from dr_lib.scenarios.threads import pin

facts = probe()
if accelerator != "cpu" and facts.gpu_error:
    raise UnavailableError(facts.gpu_error)
if accelerator == "gpu" and not facts.gpus:
    raise UnavailableError("no NVIDIA GPU on this machine")
device = "gpu" if facts.gpus and accelerator != "cpu" else "cpu"
num_threads = pin(threads)
print(f"{facts.cpu}, {num_threads} of {facts.num_cpus} CPUs, {facts.memory_gib} GiB;", end=" ")
print(*facts.gpus or ["no GPU"])

# %% [markdown]
# ## 2. Plan the experiment / Planejar o experimento
#
# One cell of the design: the factors are framework, data set, image side, network and accelerator.
# A study file sets them and the order; the clock of `setup_s` starts here.

# %%
run = Run.of_notebook(root, "30_train_scenario", globals())
work = f"{framework}, {dataset}, {image_size} px, Rede {network}"
print(f"{work}, on the {device.upper()}")

# %% [markdown]
# ## 3. Configure / Configurar
#
# The data are resized and kept as bytes. Synthetic images have the shapes and counts of the real
# ones and serve only for timing.

# %%
from dr_lib.data.small_images import load_images

images = load_images(dataset, image_size, data_source, share=data_share, seed=seed)
num_images = len(images.x_train)
num_steps, num_dropped = divmod(num_images, batch_size)
print(f"{images.kind}: {num_images} images, {num_steps} steps per epoch,", end=" ")
print(f"{num_dropped} dropped in each")

# %% [markdown]
# The network starts from the same initial weights in every framework. Each framework trains in a
# process of its own, with the Python that has it. That process is given the images and the weights,
# and has built the network when this cell ends.

# %%
from dr_lib.scenarios.frameworks.architecture import draw_weights, list_layers
from dr_lib.scenarios.trainer import Trainer

weights = draw_weights(network, image_size, images.x_train.shape[-1], run.seed)
print(*(" ".join(map(str, layer)) for layer in list_layers(weights)), sep=", ")
num_parameters = sum(array.size for array in weights)
print(f"{num_parameters:,} parameters")
trainer = Trainer(
    images,
    weights,
    run.folder / "framework.log",
    framework=framework,
    learning_rate=learning_rate,
    batch_size=batch_size,
    seed=run.seed,
    epochs=epochs,
    evaluate_every=evaluate_every,
    accelerator=device,
)
print(*(f"{name} {version}" for name, version in trainer.versions.items()), sep=", ")
backend = trainer.versions["backend"]
arithmetic = find_arithmetic(device, facts.compute_capability, backend)
print(f"arithmetic: {arithmetic}")

# %% [markdown]
# ## 4. Measure / Medir
#
# The framework's process times itself, while another process samples the machine and that process,
# as the paper's monitor did. An epoch's time ends when the device has finished its work; the test
# accuracy is measured between epochs.

# %%
from dr_lib import Monitor
from dr_lib.errors import DrError

epoch_s = []
losses = []
setup_s = run.seconds()
samples = run.folder / "samples.csv"
num_gpus = int(device == "gpu")
with Monitor(samples, period_s=sample_s, num_gpus=num_gpus, pid=trainer.pid) as monitor:
    try:
        for number, (loss, seconds) in enumerate(trainer.train(), start=1):
            run.show_progress(number, epochs)
            epoch_s.append(seconds)
            losses.append(loss)
    except DrError as error:  # it diverged, or the process died
        run.fail(str(error))
        raise
measured = trainer.finish()
shown_s = ", ".join(f"{seconds:.2f}" for seconds in epoch_s)
print(f"trained in {measured['train_s']:.2f} s, epochs {shown_s} s, loss {losses[-1]:.3f}")

# %% [markdown]
# ## 5. Analyse / Analisar
#
# The row holds everything that the report and notebook 31 read.

# %%
from statistics import median

from dr_lib.runs.row import read_row

steady_epoch_s = median(epoch_s[1:] or epoch_s)
path = run.finish(
    data_kind=images.kind,
    num_images_train=num_images,
    num_images_test=len(images.x_test),
    num_images_dropped=num_dropped,
    num_parameters=num_parameters,
    accelerator=facts.gpus[0] if device == "gpu" else "cpu",
    num_accelerators=1,
    threads=num_threads,
    setup_s=setup_s,
    epoch_s=epoch_s,
    steady_epoch_s=steady_epoch_s,
    images_per_s=num_steps * batch_size / steady_epoch_s,
    epoch_loss=losses,
    samples=samples.relative_to(run.study_dir).as_posix(),
    **monitor.summarise(),
    **facts.describe(),
    **trainer.versions,
    **arithmetic,
    **measured,
)
print(f"wrote {run.shown(path)}")

# %% [markdown]
# ## What this shows

# %%
row = read_row(path)
print(
    f"Time: {work}: {num_images} {images.kind} images in {row['train_s']:.2f} s ({epochs} epochs,"
    f" {steady_epoch_s:.3f} s each from the second on, {row['images_per_s']:.0f} images/s) on"
    f" {row['accelerator']}; {row['metric_accuracy_test']:.1%} of the test images are correct."
)
shown = "cost_usd gpu_energy_j cpu_percent_mean memory_percent_mean gpu_percent_mean"
for column in shown.split():
    print(f"{column}: {row.get(column)}")

# %% [markdown]
# ## Limits
#
# One run says nothing about the spread: a study file repeats it in random order. Accuracies on
# synthetic images only show that the network learns. `docs/papers.md` lists our choices where the
# paper leaves layers, optimiser and more open.
