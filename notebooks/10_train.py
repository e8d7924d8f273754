# %% [markdown]
# # Train a network once, and time it
#
# **Question.** How long does one training run take on this machine? How well does the network find
# eyes that a specialist should see (task *referable*: grade 2 or worse), or grade retinopathy from
# 0 to 4 (task *grades*)? **Input.** A folder that notebook 01 prepared, or the synthetic sample.
# **Output.** One row in `papermill_runs/<study>/rows/`, the history, a model folder. Figure 1 of
# notebook 11 is made from ten such runs per machine; notebook 21 exports networks that grade.
# **Time.** Under 90 seconds on two cores with the defaults.
#
# **Resumo.** Quanto tempo leva um treinamento nesta máquina, e quão bem a rede encontra os olhos
# que um especialista deve ver (`task` referable: grau 2 ou mais) ou dá o grau da retinopatia, de 0
# a 4 (`task` grades)? Entrada: uma pasta preparada pelo notebook 01, ou a amostra sintética. Saída:
# uma linha com tempos e métricas, e uma pasta de modelo. O notebook 11 compara as execuções.

# %% tags=["parameters"]
# data
data_dir: str = "sample"  # folder that notebook 01 prepared, or the word sample
split: str = "split.csv"  # split table of that folder, or the path of one elsewhere
# model and training
task: str = "referable"  # referable or grades
mode: str = "paper"  # paper, plain (its program by tf.data) or fast
model: str = "small_cnn"  # small_cnn, any of keras.applications or package.module:function
weights: str = "none"  # none, imagenet (downloaded) or the path of weights without the top
image_size: int = 96  # side of the square input, from the 299 px crop [px]
batch_size: int = 8  # images per step, over all replicas
epochs: int = 20  # passes over the training set
optimizer: str = "adam"  # rmsprop (Voets et al.) or adam
learning_rate: float = 0.001  # at the start
rho: float = 0.9  # of rmsprop: share of the mean squared gradient that each step keeps
epsilon: float = 0.0000001  # added to the mean squared gradient (adam: to its root)
patience: int = 0  # epochs without a better validation AUC until training stops, 0 for none
min_delta: float = 0.0  # smallest rise of the validation AUC that counts as better
augmentation: str = "flip"  # none, flip or colour
recipe: str = "full"  # full, or few, which trains only the head of a part of the network
weigh_grades: bool = False  # give every grade the same total weight in the loss
halve_on_plateau: bool = True  # halve the learning rate after 5 epochs without a lower loss
keep_best: bool = False  # without a validation split, keep the epoch of the best training AUC
# machine
accelerator: str = "auto"  # auto, cpu, gpu or tpu
backend: str = "auto"  # auto, tensorflow or jax
matmul_precision: str = "default"  # default, float32, tf32, bfloat16 or bfloat16_3x
num_devices: int = 0  # GPUs or TPU chips to train on, 0 for all; on a CPU several are virtual
# where, when, which
results: str = ""  # folder for rows, models and checkpoints; on Colab a folder on Drive is kept
max_hours: float = 0.0  # save and stop within this time, 0 for no limit [h]
seed: int = 20  # seed of the study; the run adds its repetition
repetition: int = 0  # index of this timed run
label: str = ""  # names an arm of a study: a null control has two

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

here = Path.cwd()
root = next(path for path in [here, *here.parents] if (path / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.report import setup

setup.set_up(root, "10_train", *["cv2", "simplejpeg"] if data_dir == "sample" else [])

# %% [markdown]
# The run starts here, with its configuration and the clock of `wall_s` and `setup_s`. If it is
# killed, start it again with the same parameters: it resumes from its last checkpoint as the same
# run.
#
# Mode *paper* trains as we interpret the paper: float32, one step per call. Mode *plain* is the
# same training as most readers would write it: `fit` decodes the shards' JPEGs by tf.data in each
# epoch. In every mode batch normalisation is Keras's own, so on TensorFlow two GPUs normalise the
# halves of a batch apart (column `batch_norm`). Mode *fast* keeps the schedule and uses the
# device's faster options.

# %%
from dr_lib import Run, TrainingConfig

config = TrainingConfig.from_parameters(globals())
run = Run(root, "10_train", config.describe(), results=results, max_hours=max_hours)
print(f"mode {mode}: batch_size {batch_size}, learning_rate {learning_rate:.3g}")

# %% [markdown]
# ## Data
#
# The manifest describes the prepared data; the shards are checked against it when they are read.

# %%
from dr_lib import Prepared

if data_dir == "sample":
    from dr_lib import open_sample  # needs OpenCV

    sample = open_sample(root / "papermill_runs" / "sample")
    config = config.model_copy(update={"data_dir": sample})
prepared = Prepared(config.data_dir, split)
is_synthetic = prepared.is_synthetic
kind = "the synthetic sample (not photographs)" if is_synthetic else "photographs"
counts = prepared.photographs["split"].value_counts().to_dict()
num_images = sum(counts.values()) - counts.get("excluded", 0)
print(", ".join(f"{name} {count}" for name, count in counts.items()), end=f": {kind}; ")
print(f"{num_images * 3 * image_size**2 / 2**30:.2g} GiB, decoded")

# %% [markdown]
# This cell prints the machine, the training plan and the reasons. If the requested accelerator is
# missing, the notebook stops.

# %%
from dr_lib import probe

plan = config.plan(probe(), num_images)
print(f"accelerator: {plan.accelerator}")
for name, value in plan.describe().items():
    print(f"{name}: {value}")
print("because", *plan.reasons, sep="\n- ")

# %% [markdown]
# ## Method
#
# Uint8 pixels enter the network, which casts, augments and scales them on the device, with the
# preprocessing that its ImageNet weights were trained with. They are decoded once and kept in
# memory, on the device if the plan says so. If they do not fit, they are read from the shards and
# decoded again for each batch, in the same order and with the same bits. Every batch is full, so
# that replicas can share it; the remainder of each shuffled epoch is dropped.
#
# Task *grades* has the layers of the serving study (Camargo, Künas, Navaux): global pooling, two
# layers of 128 and one of 5.
#
# The recipe *few* is for small data sets. It cuts the network after the blocks with the first sixth
# of its parameters (MobileNet's seventh), because lesions are small and the last blocks see large
# structures. It freezes these blocks and initialises the head from a regression of the grade, which
# separates severe from mild. Each photograph and its mirror image pass through the frozen part
# once; that time counts as set-up.
#
# The timed part lasts from the call of `fit` to the end of the last epoch. The epoch with the best
# AUC of referable disease on the validation split is kept; without a validation split (the paper's
# 70/30), the last epoch is kept or, with `keep_best`, the one with the best AUC in training. With
# `patience`, training stops once the validation AUC no longer rises by more than `min_delta`.

# %%
from dr_lib import Monitor, train_once

# samples the machine beside the timed part, its energy among them
monitor = Monitor(run.folder / "samples.csv", num_gpus=plan.num_gpus)
trained = train_once(
    config,
    plan,
    run.folder,
    prepared=prepared,
    commit=run.identity["commit"],
    code_sha256=run.identity["code_sha256"],
    elapsed_s=run.seconds,
    report=run.show_progress,
    seconds_left=run.seconds_left,
    monitor=monitor,
    fail=run.fail,
)
row = trained.row
scores = trained.scores
auc = trained.auc
dropped = row["num_images_dropped"]
print(
    f"{trained.network.name}: {row['num_parameters']:,} parameters, {dropped} photographs dropped"
)
parts = ("compile", "input", "steps", "validation", "checkpoint", "callbacks")
divided = ", ".join(f"{part} {row[f'{part}_s']:.2f}" for part in parts)
print(f"training: {row['train_s']:.2f} s ({divided})")
print(f"arithmetic: {row['matmul_precision']} (Dense), {row['conv_precision']} (Conv2D)")
print(
    f"{row['epochs_done']} of {epochs} epochs, {row['steady_epoch_s']:.3f} s per epoch from the "
    f"second on; times resumed: {row['resumed']}"
)

# %% [markdown]
# The row holds everything that the report and notebook 11 read. For a resumed run it lists all
# devices, precisions and commits that took part. The model folder holds the network and the
# manifest for serving. Once both are written, the checkpoint is deleted.

# %%
saved = trained.write_model(run.identity["commit"])
path = run.finish(**row, **monitor.summarise(), model_version=saved.version)
trained.delete_checkpoint()
print(f"wrote {run.shown(path)}; model version {saved.version} in {run.shown(saved.path)}")
if task == "grades":
    print("to export the model for serving:")
    data = Path(config.data_dir)
    print(run.write_command("export", saved.path, "--data", data, "--out", "exported"))
print("to try the model on another prepared folder, and to evaluate it on both:")
print(run.write_command("predict", saved.path, "OTHER", "--external", "--out", "other.csv"))
print(run.write_command("evaluate", trained.predictions, "other.csv", "--out", "evaluation"))

# %% [markdown]
# The top row shows photographs, the bottom row the same photographs after augmentation. Real
# photographs are not shown, so this notebook can be kept.

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

train = trained.splits["train"]
test = trained.splits["test"]
if is_synthetic:
    augment = trained.network.get_layer("augment")
    changed = np.asarray(augment(train.images[:6], training=True), np.float32)
    figure, axes = plt.subplots(2, 6, figsize=(12, 4.2))
    for axis, image in zip(axes.ravel(), [*train.images[:6], *changed], strict=True):
        axis.imshow(image)
        axis.axis("off")
    for axis, grade in zip(axes[0], train.grade, strict=False):
        axis.set_title(f"grade {grade}")
    _ = figure.suptitle("synthetic, not photographs")

# %% [markdown]
# Some grades are far more frequent than others: without weights, a network scores well by calling
# every eye healthy.

# %%
trained.count_grades().rename_axis(kind)

# %% [markdown]
# ## Result

# %%
from dr_lib import plot_history

history = pd.DataFrame(trained.history)
history.tail()

# %%
plot_history(history, kind)

# %% [markdown]
# The referral threshold is chosen on the validation split, for a sensitivity of 90 %; nothing is
# chosen on the test split. The interval is computed over patients, because fellow eyes are not
# independent, on the logit scale. With fewer than ten patients in a class, it is the interval that
# holds for any score.

# %%
bounds = {"auc, lower bound": auc.low, "auc, upper bound": auc.high}
pd.Series({**scores, **bounds}).round(3).to_frame(f"test split of {kind}")

# %%
if task == "grades":
    import seaborn as sns

    graded = trained.probabilities["test"].argmax(axis=1)
    categories = [pd.Categorical(grade, range(5)) for grade in (test.grade, graded)]
    table = pd.crosstab(*categories, dropna=False)
    _, axis = plt.subplots()
    sns.heatmap(table, annot=True, fmt="d", cmap="Blues", cbar=False, square=True, ax=axis)
    axis.tick_params(axis="y", rotation=0)
    _ = axis.set(
        xlabel="grade by the network", ylabel="true grade", title=f"Test split: {kind}"
    )

# %% [markdown]
# ## What this shows

# %%
from IPython.display import Markdown

finds = f"finds referable eyes of the test split with an AUC of **{scores['auc']:.3f}**"
if task == "grades":
    finds = (
        f"agrees with the true grades with a kappa of **{scores['kappa']:.3f}**, and {finds}"
    )
doubt = saved.facts["warning"]
Markdown(
    f"One training run of **{model}** at {image_size} px on {counts['train']} images of {kind} took"
    f" **{row['train_s']:.1f} s** on `{trained.device.name}` (`{row['cpu']}`). It"
    f" {finds} (95 % interval {auc.low:.3f} to {auc.high:.3f}, {counts['test']} images)."
    + (f" **{doubt}**" if doubt else "")
)

# %% [markdown]
# ## Limits
#
# One run says nothing about the spread: repeat it (`-p repetition 1`, 2, ...) or run a study file,
# and compare the runs in notebook 11. The interval of the AUC covers only this test split and this
# training run; kappa depends on the distribution of grades. The defaults train a small network from
# random weights as a demonstration; `papermill_runs/grades.yaml` trains a model worth serving. A
# synthetic sample shows how the software works and what it costs, but nothing about disease.
