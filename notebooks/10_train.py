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
split: str = "split.csv"  # split table of that folder
# model and training
task: str = "referable"  # @param ["referable", "grades"]  # referable or grades
mode: str = "paper"  # @param ["paper", "plain", "fast"]  # plain: by tf.data
model: str = "small_cnn"  # small_cnn, any of keras.applications or package.module:function
weights: str = "none"  # none, imagenet (downloaded) or the path of weights without the top
image_size: int = 96  # side of the square input, from the 299 px crop [px]
batch_size: int = 8  # photographs
batch_size_of: str = "step"  # @param ["step", "replica"]  # of all devices or of each
epochs: int = 20  # passes over the training set
optimizer: str = "adam"  # @param ["rmsprop", "rmsprop_voets", "adam"]  # their code
learning_rate: float = 0.001  # at the start
patience: int = 0  # epochs without a better validation AUC until training stops, 0 for none
augmentation: str = "flip"  # @param ["none", "flip", "colour"]  # none, flip or colour
recipe: str = "full"  # @param ["full", "few"]  # few: of a part of the network the head alone
# machine
accelerator: str = "auto"  # auto, cpu, gpu or tpu
backend: str = "auto"  # auto, tensorflow or jax
num_devices: int = 0  # GPUs or TPU chips, 0 for all that get four photographs of a step
batch_norm: str = "auto"  # local, over each device's part of a step, or global; auto: local
matmul_precision: str = "default"  # default, float32, tf32, bfloat16 or bfloat16_3x
# where, when, which
results: str = ""  # folder for rows, models and checkpoints; on Colab a folder on Drive is kept
seed: int = 20  # seed of the study; the run adds its repetition
repetition: int = 0  # index of this timed run
label: str = ""  # names an arm of a study: a null control has two

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

setup.set_up(root, "10_train", *["cv2", "simplejpeg"] if data_dir == "sample" else [])

# %% [markdown]
# The run starts here, with its configuration. If it is killed, start it again with the same
# parameters: it resumes from its last checkpoint as the same run.
#
# Mode *paper* trains as we interpret the paper: float32, one step per call, photographs decoded
# once. Mode *plain* is the same training as most readers would write it: TFRecords are read and
# decoded by tf.data in each epoch. Mode *fast* keeps the schedule and uses the device's faster
# options.

# %%
from dr_lib import Run, TrainingConfig

config = TrainingConfig.from_parameters(globals())
run = Run(root, "10_train", config.describe(), results=results)
print(f"{config.model}, {config.image_size} px, mode {config.mode}, {config.epochs} epochs")

# %% [markdown]
# The manifest describes the prepared data; the shards are checked against it when they are read.

# %%
from dr_lib import Prepared

if data_dir == "sample":
    from dr_lib import open_sample  # needs OpenCV

    sample = open_sample(root / "papermill_runs" / "sample")
    config = config.model_copy(update={"data_dir": sample})
prepared = Prepared(config.data_dir, config.split)
kind = "photographs"
if prepared.is_synthetic:
    kind = "the synthetic sample (not photographs)"
counts = prepared.photographs["split"].value_counts().to_dict()
print(", ".join(f"{name} {count}" for name, count in counts.items()), end=f": {kind}\n")

# %% [markdown]
# ## The machine and the plan
#
# This cell prints what the machine has, the plan and its reasons. If the requested accelerator is
# missing, the notebook stops.

# %%
from dr_lib import probe

num_images = sum(counts.values()) - counts.get("excluded", 0)
plan = config.plan(probe(), num_images)
print(f"accelerator: {plan.accelerator}")
for name, value in plan.describe().items():
    print(f"{name}: {value}")
print("because", *plan.reasons, sep="\n- ")

# %% [markdown]
# ## Devices and strategy
#
# `activate` imports Keras on the planned backend, and checks by name that the devices are there.
# With several of them each step is divided: on TensorFlow by a MirroredStrategy, whose scope holds
# the network, and on JAX by a DataParallel distribution. A MirroredStrategy normalises each
# device's part of a step by itself (`batch_norm` local), unless it is asked for global.

# %%
from dr_lib import activate
from dr_lib.hardware import make_once

device = activate(plan)
import keras

if plan.strategy == "MirroredStrategy":
    import tensorflow as tf

    strategy = make_once(tf.distribute.MirroredStrategy, *device.names)
    device = device._replace(distribution=strategy)
elif plan.strategy == "DataParallel":
    names = list(device.names)
    distribution = keras.distribution.DataParallel(devices=names, auto_shard_dataset=False)
    keras.distribution.set_distribution(distribution)
print(f"{device.name}: {', '.join(device.names)}")

# %% [markdown]
# ## Network
#
# Uint8 pixels enter the network, which casts, augments and scales them on the device, with the
# preprocessing that its ImageNet weights were trained with. Task *grades* has the layers of the
# serving study (Camargo, Künas, Navaux): global pooling, two layers of 128 and one of 5.
#
# The recipe *few* is for small data sets. It cuts the network after the blocks with the first sixth
# of its parameters (MobileNet's seventh), because lesions are small and the last blocks see large
# structures. It freezes these blocks and initialises the head from a regression of the grade, which
# separates severe from mild. Each photograph and its mirror image pass through the frozen part
# once; that time counts as set-up. In mode *fast* the network is fed with the numbers of
# photographs that lie in the device's memory.

# %%
from dr_lib.training.fit import LOSSES, OPTIMIZERS
from dr_lib.training.models import Ranks
from dr_lib.training.train_once import build_network, choose_inputs, load_sides

sides = load_sides(config, plan, prepared)
keras.utils.set_random_seed(config.run_seed)
with device.scope():
    network = build_network(config, plan)
    fed = choose_inputs(config, plan, network, sides)
    fed.model.compile(
        optimizer=OPTIMIZERS[config.optimizer].build(config.learning_rate),
        loss=LOSSES[config.task],
        weighted_metrics=[Ranks(plan.step_size + max(map(len, fed.targets.values())))],
        jit_compile=plan.jit,
        steps_per_execution=plan.steps_per_execution or 16,  # of validation
    )
    fed.model.optimizer.build(fed.model.trainable_variables)
print(f"{network.name}: {network.count_params():,} parameters, {fed.model.optimizer.name}")

# %% [markdown]
# ## Batches
#
# Every batch is full, so that devices can share it; the remainder of each shuffled epoch is
# dropped. Photographs that do not fit into memory are read from the shards and decoded again for
# each batch, in the same order and with the same bits. In mode *plain* tf.data does it all.

# %%
from dr_lib.training.train_once import make_batches

train_batches, validation_batches = make_batches(config, plan, sides, fed)
if config.mode == "plain":
    import tensorflow as tf

    train_data = (
        tf.data.TFRecordDataset(train_batches.shards)
        .map(train_batches.parse, tf.data.AUTOTUNE)
        .filter(train_batches.is_known)  # photographs of the training side alone
        .shuffle(4096, seed=config.run_seed)  # records of about 40 kB
        .map(train_batches.decode, tf.data.AUTOTUNE)
        .batch(plan.step_size, drop_remainder=True)
        .map(train_batches.note)
        .apply(tf.data.experimental.assert_cardinality(len(train_batches)))
        .prefetch(tf.data.AUTOTUNE)
    )
else:
    train_data = train_batches.feed()
images, truth = train_batches[0]
print(f"{len(train_batches)} batches of {images.shape} {images.dtype} and {truth.shape}")

# %% [markdown]
# ## Callbacks
#
# - `clock` times the epochs and what they consist of, `shuffle` orders the photographs anew by seed
#   and epoch, and `Scores` computes the exact AUC of referable disease.
# - The learning rate is halved after five epochs without a lower loss, and with a `patience`
#   training stops once the validation AUC no longer rises. *rmsprop_voets* does not halve.
# - `checkpoint` keeps the weights of the epoch with the best AUC on the validation split, or in
#   training where there is none (the paper's 70/30), and saves in one file all that a killed
#   training needs to end as if it had not been.

# %%
from dr_lib.training.callbacks import Checkpoint, Clock, Scores
from dr_lib.training.fit import make_schedule
from dr_lib.training.train_once import describe_session, identify

clock = Clock(train_batches)
shuffle = keras.callbacks.LambdaCallback(
    on_epoch_begin=lambda epoch, logs: train_batches.start_epoch(epoch)
)
has_validation = validation_batches is not None
schedule = make_schedule(config.optimizer, config.patience, has_validation)
code = {name: run.identity[name] for name in ("commit", "code_sha256")}
checkpoint = Checkpoint(
    run.folder,
    *schedule,
    monitor="val_auc" if has_validation else "auc",
    identity=identify(config, plan, prepared),
    session={**describe_session(device), **code},
    report=run.show_progress,
    seconds_left=run.seconds_left,
)
callbacks = [clock, shuffle, Scores(), *schedule, checkpoint]
print(", ".join(type(callback).__name__ for callback in callbacks))

# %% [markdown]
# ## Training
#
# The timed part lasts from the call of `fit` until the device has finished its last step and the
# callbacks theirs. A monitor samples the machine beside it.

# %%
from dr_lib import Monitor
from dr_lib.training.fit import raise_own_error

monitor = Monitor(run.folder / "samples.csv", num_gpus=plan.num_gpus)
num_done = checkpoint.resume(fed.model, config.epochs)
setup_s = run.seconds()
with device.scope(), monitor, raise_own_error(train_batches, validation_batches):
    clock.start()
    fed.model.fit(
        train_data,
        validation_data=validation_batches and validation_batches.feed(),
        initial_epoch=num_done,
        epochs=config.epochs,
        shuffle=False,  # the photographs are shuffled, not their batches once more
        callbacks=callbacks,
        verbose=0,
    )
    times = clock.stop()
way = checkpoint.finish(config.epochs)
print(f"{way['epochs_done']} of {config.epochs} epochs; times resumed: {way['resumed']}")
if times["train_s"]:  # else the epochs were trained before this process
    parts = ("compile", "input", "steps", "validation", "rest")
    divided = ", ".join(f"{part} {times[f'{part}_s']:.2f}" for part in parts)
    print(f"training: {times['train_s']:.2f} s ({divided})")
    print(f"{times['steady_epoch_s']:.3f} s per epoch from the second on")

# %% [markdown]
# ## Scores, row and model
#
# The network with its best weights is saved and scored on the test split. The row holds everything
# that the report and notebook 11 read; for a resumed run it lists all devices, precisions and
# commits that took part. The model folder holds the network and the manifest for serving. Once both
# are written, the checkpoint is deleted.

# %%
from dr_lib.errors import DrError
from dr_lib.training.train_once import score_training

try:
    with device.scope():
        trained = score_training(config, device, prepared, sides, network, checkpoint)
except DrError as error:  # it diverged, and would again
    run.fail(str(error), **device.describe(probe()))
    raise
row = {
    **trained.row,
    **times,
    **way,
    "num_images_dropped": train_batches.num_dropped,
    "setup_s": setup_s,
}
saved = trained.write_model(run.identity["commit"])
path = run.finish(**row, **monitor.summarise(), model_version=saved.version)
checkpoint.path.unlink()
scores = trained.scores
auc = trained.auc
print(f"wrote {run.shown(path)}; model version {saved.version} in {run.shown(saved.path)}")
if config.task == "grades":
    print("to export the model for serving:")
    print(run.write_command("export", saved.path, "--data", prepared.path, "--out", "exported"))
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
if prepared.is_synthetic:
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
# Some grades are far more frequent than others: a network scores well by calling every eye healthy.

# %%
pd.crosstab(prepared.photographs.grade, prepared.photographs.split)

# %% [markdown]
# ## Result

# %%
from dr_lib import plot_history

plot_history(pd.DataFrame(trained.history), kind)

# %% [markdown]
# The referral threshold is chosen on the validation split, for a sensitivity of 90 %; nothing is
# chosen on the test split. The interval is computed over patients, because fellow eyes are not
# independent, on the logit scale. With fewer than ten patients in a class, it is the interval that
# holds for any score.

# %%
bounds = {"auc, lower bound": auc.low, "auc, upper bound": auc.high}
pd.Series({**scores, **bounds}).round(3).to_frame(f"test split of {kind}")

# %%
from IPython.display import Markdown, display

if config.task == "grades":
    graded = trained.probabilities["test"].argmax(axis=1)
    display(pd.crosstab(test.grade, graded, rownames=["true grade"], colnames=["by network"]))

# %% [markdown]
# ## What this shows

# %%
finds = f"finds referable eyes of the test split with an AUC of **{scores['auc']:.3f}**"
if config.task == "grades":
    finds = (
        f"agrees with the true grades with a kappa of **{scores['kappa']:.3f}**, and {finds}"
    )
doubt = saved.facts["warning"]
took = f"took **{row['train_s']:.1f} s**" if row["train_s"] else "was trained before"
Markdown(
    f"One training run of **{config.model}** at {config.image_size} px on"
    f" {row['num_images_train']} images of {kind} {took}"
    f"{', after an interruption,' if row['resumed'] else ''}"
    f" on `{trained.device.name}` (`{row['cpu']}`). It"
    f" {finds} (95 % interval {auc.low:.3f} to {auc.high:.3f}, {row['num_images_test']} images)."
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
