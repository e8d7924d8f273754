# %% [markdown]
# # Train the referral model once, and time it
#
# **Question.** How long does one training of the referral model take on this machine, and how well
# does the model find eyes that a specialist should see (grade 2 or worse)? **Input.** A folder that
# notebook 01 prepared, or the synthetic sample. **Output.** One row in
# `papermill_runs/<study>/rows/`, the history, a model folder. Ten such runs per machine make figure
# 1 of notebook 11. **Time.** Under 90 seconds on two cores with the defaults.
#
# **Resumo.** Quanto tempo leva um treinamento do modelo de encaminhamento nesta máquina, e quão bem
# ele encontra os olhos que um especialista deve ver (grau 2 ou mais)? Entrada: uma pasta preparada
# pelo notebook 01, ou a amostra sintética. Saída: uma linha com tempos e métricas; dez execuções
# por máquina formam a figura 1 do notebook 11.

# %% tags=["parameters"]
# data
data_dir: str = "sample"  # folder that notebook 01 prepared, or the word sample
split: str = "split.csv"  # split table of that folder, or the path of one elsewhere
# model and training
mode: str = "paper"  # paper (our reading of it), fast (same schedule) or scaled (larger batch)
model: str = "small_cnn"  # small_cnn, or a network of keras.applications, e.g. EfficientNetV2B0
weights: str = "none"  # none, imagenet (downloaded) or the path of a weights file without the top
image_size: int = 96  # side of the square input, from the 299 px crop [px]
batch_size: int = 8  # images per step, over all replicas; mode scaled multiplies it
batch_scale: int = 8  # mode scaled, times the batch, and by its square root times the learning rate
warmup_epochs: int = 5  # mode scaled, epochs in which the learning rate rises to its value
epochs: int = 20  # passes over the training set
optimizer: str = "adam"  # rmsprop (Voets et al.) or adam
learning_rate: float = 0.001  # at the start, halved on plateaus
augmentation: str = "flip"  # none, flip or colour
dropout: float = 0.0  # share of the pooled features dropped in training
last_layer: str = ""  # layer of the base that is pooled, e.g. conv_pw_7_relu of mobilenet
last_frozen: str = ""  # last layer of the base to freeze, its outputs are cached
probe_grades: bool = False  # with last_frozen, start the head from a regression of the grade
weigh_classes: bool = False  # let referable and other photographs count the same in the loss
ema_momentum: float = 0.0  # keep the moving average of the weights with this momentum, 0 for none
keep_best: bool = False  # without a validation split, keep the epoch of the best AUC in training
test_time_augmentation: bool = False  # average predictions with those of the mirror images
# machine
accelerator: str = "auto"  # auto, cpu, gpu or tpu
backend: str = "auto"  # auto, tensorflow or jax
strategy: str = "auto"  # auto, none, MirroredStrategy, DataParallel or TPUStrategy (untried)
num_devices: int = 0  # GPUs or TPU chips to train on, 0 for all; several of a CPU are virtual
num_machines: int = 1  # machines that train as one; run --machines 2 rehearses two on this one
precision: str = "auto"  # auto (follows the mode), float32, mixed_float16 or mixed_bfloat16
steps_per_execution: int = 0  # training steps per call of the device, 0 follows the mode
input: str = "auto"  # memory (decoded once), stream (decoded for each batch), or auto (what fits)
tensorboard: bool = False  # write logs for TensorBoard
# where, when, which
results: str = ""  # folder for rows, models and checkpoints; on Colab one on Drive stays
max_hours: float = 0.0  # save and stop in time, 0 for no limit [h]
seed: int = 20  # of the study, the run adds its repetition
repetition: int = 0  # index of this timed run

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

root = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.notebook import setup

setup.set_up(root, *["cv2"] if data_dir == "sample" else [])

# %% [markdown]
# The run begins here: what is to be trained, and the clock of `wall_s` and `setup_s`. Started again
# after a kill, with the same parameters, it is the same run and goes on from its last checkpoint.
#
# Mode *paper* trains as we read the paper: float32, one step per call. *fast* keeps that schedule
# and uses what the device can do. *scaled* also takes a larger batch: the learning rate grows with
# its square root, the rule for optimisers that divide by a running mean of squared gradients
# (Malladi et al. 2022), and rises to that over the first epochs (Goyal et al. 2017).

# %%
from dataclasses import replace

from dr_lib.runs.run import Run
from dr_lib.training.config import TrainingConfig

config = TrainingConfig.from_parameters(globals(), task="referable")
run = Run(root, "10_train_referable", config.describe(), results=results, max_hours=max_hours)
print(
    f"mode {mode}:",
    *(f"{name} {value:.3g}" for name, value in config.schedule._asdict().items()),
    sep="\n- ",
)

# %% [markdown]
# ## Data
#
# The manifest says what was prepared; the shards are checked against it when they are read.

# %%
from dr_lib.data.prepared.folder import Prepared

if data_dir == "sample":
    from dr_lib.data.prepared.sample import open_sample

    config = replace(config, data_dir=open_sample(root / "papermill_runs" / "sample"))
prepared = Prepared(config.data_dir, split)
kind = "the synthetic sample (not photographs)" if prepared.is_synthetic else "photographs"
counts = prepared.photographs["split"].value_counts().to_dict()
num_images = sum(counts.values()) - counts.get("excluded", 0)
print(", ".join(f"{name} {count}" for name, count in counts.items()), end=f": {kind}; ")
print(f"{num_images * 3 * image_size**2 / 2**30:.2g} GiB, decoded")

# %% [markdown]
# What this machine is, how it will train, and why. An accelerator that was asked for and is not
# there stops the notebook.

# %%
from dr_lib import hardware

plan = config.plan(hardware.probe(), num_images)
print(
    *(f"{name}: {value}" for name, value in plan._asdict().items() if name != "reasons"), sep="\n"
)
print("because", *plan.reasons, sep="\n- ")

# %% [markdown]
# ## Method
#
# Uint8 pixels enter the network, which casts, augments and scales them on the device. They are
# decoded once and lie in memory, the device's where the plan says so; or, where more is there than
# fits, they are read from the shards and decoded again for each batch, in the same order and to the
# same bits. Every batch is full, so that replicas can share it: the shuffled remainder of an epoch
# is dropped.
#
# With `last_frozen` only the layers behind it are trained. Each photograph and its mirror image
# pass the frozen ones once, and the head starts as a linear probe (logistic regression) on their
# features; that is set-up. A linear probe (ridge regression) on the same features is what the
# training then has to beat.
#
# Any network of keras.applications can be trained, with the preprocessing that its ImageNet weights
# were trained with. With `last_layer` it ends early: lesions are small, and the last blocks see
# large things. With `probe_grades` the head starts from a regression of the grade, which tells
# severe from mild. With `ema_momentum` the moving average of the weights is validated and kept, in
# place of the weights.
#
# The timed part goes from the call of `fit` to the end of the last epoch. The epoch with the best
# AUC on the validation split is kept; without one (the paper's 70/30) the last, or with `keep_best`
# the one with the best AUC in training.

# %%
from dr_lib.runs.monitor import Monitor, summarise
from dr_lib.training.train_once import train_once

samples = run.folder / "samples.csv"  # of the machine beside the timed part, its energy among them
trained = train_once(
    config,
    plan,
    run.folder,
    prepared=prepared,
    commit=run.identity["commit"],
    elapsed_s=run.seconds,
    report=run.show_progress,
    seconds_left=run.seconds_left,
    monitor=Monitor(samples, num_gpus=plan.num_gpus),
)
timing = trained.timing
row = trained.row
scores = trained.scores
auc = trained.auc
print(
    f"{trained.network.name}: {row['num_parameters']:,} parameters, {row['num_images_dropped']}"
    " photographs dropped"
)
print(
    f"training: {timing.train_s:.2f} s, of which {timing.first_step_s:.2f} s for the first call",
    end=", ",
)
print(f"{timing.steady_epoch_s:.3f} s an epoch from the second on; resumed {timing.resumed} times")

# %% [markdown]
# What the network saw: photographs, and below them the same as the augmentation changes them. Real
# ones are not shown, so this notebook can be kept.

# %%
import matplotlib.pyplot as plt
import numpy as np

if prepared.is_synthetic:
    first = trained.splits["train"].images[:6]
    grades = trained.splits["train"].grade
    changed = np.asarray(trained.network.get_layer("augment")(first, training=True), np.float32)
    figure, axes = plt.subplots(2, 6, figsize=(12, 4.2))
    for axis, image in zip(axes.ravel(), [*first, *changed], strict=True):
        axis.imshow(image)
        axis.axis("off")
    for axis, grade in zip(axes[0], grades, strict=False):
        axis.set_title(f"grade {grade}")
    _ = figure.suptitle("synthetic, not photographs")

# %% [markdown]
# ## Result

# %%
from dr_lib.figures.training_time import plot_history

plot_history(trained.history, kind)

# %% [markdown]
# The threshold is chosen on the validation split; the test split is only looked at. The interval is
# a bootstrap over patients, for fellow eyes are not independent.

# %%
import pandas as pd

shown = {"auc, lower bound": auc.low, "auc, upper bound": auc.high}
shown |= {"auc of the linear probe": row["metric_linear_probe_auc_test"]}
pd.Series(scores | shown).dropna().round(3).to_frame(f"test split of {kind}")

# %% [markdown]
# The row: everything the report and notebook 11 will read. Of a training that was resumed it names
# all devices, precisions and commits that took part. With the row and the model folder there,
# nothing is left to go on with.

# %%
from dr_lib.command import write_lasting_command
from dr_lib.serving.grader.folder import write_trained
from dr_lib.training.recorder import CHECKPOINT
from dr_lib.training.train_once import BEST, PREDICTIONS

saved = write_trained(run.folder / BEST, config, trained, run.identity["commit"])
path = run.finish(**row, **summarise(samples), model_version=saved.version)
(run.folder / CHECKPOINT).unlink(missing_ok=True)  # one of several machines wrote it
print(
    f"wrote {run.shown(path)}; to try the model on another prepared folder, and to evaluate it on"
    " both:"
)
folder = run.shown(saved.path)
print(write_lasting_command("predict", folder, "OTHER", "--external", "--out", "other.csv"))
predictions = run.shown(run.folder / PREDICTIONS)
print(write_lasting_command("evaluate", predictions, "other.csv", "--out", "evaluation"))

# %% [markdown]
# ## What this shows

# %%
from IPython.display import Markdown

from dr_lib.markdown import escape

Markdown(
    f"One training of **{model}** on {counts['train']} images of {kind} took **{timing.train_s:.1f}"
    f" s** on {escape(trained.device.name)} ({escape(row['cpu'])}), and finds referable eyes of the"
    f" test split with an AUC of **{scores['auc']:.3f}** (95 % interval {auc.low:.3f} to"
    f" {auc.high:.3f}, {counts['test']} images)."
)

# %% [markdown]
# ## Limits
#
# One run says nothing about the spread: repeat it (`-p repetition 1`, 2, ...) or run a study file,
# and compare in notebook 11. The interval of the AUC is that of this test split and this training
# alone. A synthetic sample says how the software works and what it costs, nothing about disease.
