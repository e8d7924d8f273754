# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Train the referral model once, and time it
#
# **Question.** How long does one training of the referral model take on this machine, and how well does the model
# find eyes that a specialist should see (grade 2 or worse)? **Input.** A folder that notebook 01 prepared, or the
# synthetic sample. **Output.** One row in `papermill_runs/<study>/rows/`, the history, the best model. Ten such runs
# per machine make figure 1 of notebook 11.
#
# **Resumo.** Quanto tempo leva um treinamento do modelo de encaminhamento nesta máquina, e quão bem ele encontra os
# olhos que um especialista deve ver (grau 2 ou mais)? Entrada: uma pasta preparada pelo caderno 01, ou a amostra
# desenhada. Saída: uma linha com tempos e métricas; dez execuções por máquina formam a figura 1 do caderno 11.

# %% tags=["parameters"]
data_dir: str = "sample"  # folder that notebook 01 prepared, or the word sample
mode: str = "paper"  # paper (as published), fast (the same schedule, a faster system) or scaled (a larger batch)
model: str = "small_cnn"  # small_cnn, mobilenet or inception_v3 (the paper; its values stand in gpu_vs_tpu.yaml)
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
last_frozen: str = ""  # last layer of the base to freeze, its outputs are cached, e.g. conv_pw_11_relu of mobilenet
mirror: bool = False  # average the final predictions with those of the mirror images
accelerator: str = "auto"  # auto, cpu, gpu or tpu
backend: str = "auto"  # auto, tensorflow or jax
strategy: str = "auto"  # auto, none, MirroredStrategy, DataParallel or TPUStrategy (untried)
num_devices: int = 0  # GPUs or TPU chips to train on, 0 for all; several of a CPU are virtual, for a rehearsal
precision: str = "auto"  # auto follows the mode, else float32, mixed_float16 or mixed_bfloat16
steps_per_execution: int = 0  # training steps per call of the device, 0 follows the mode
tensorboard: bool = False  # write logs for TensorBoard
results: str = ""  # folder for rows, models and checkpoints; on Colab one on Drive outlives the machine
max_hours: float = 0.0  # save and stop in time, 0 for no limit [h]
seed: int = 20  # of the study, the run adds its repetition
repetition: int = 0  # index of this timed run

# %% [markdown]
# ## Setup

# %%
import os
import subprocess
import sys
from pathlib import Path

address, ref = "", ""
cwd, new, data, repo = Path.cwd(), Path.cwd() / "dr_repo", Path("/kaggle/input"), os.getenv("DR_LIB_REPO", address)
root = next((d for d in [cwd / repo, cwd, *cwd.parents, *sorted(cwd.glob("*"))] if os.path.isdir(d / "dr_lib")), new)
if not os.path.isdir(root / "dr_lib"):  # only the notebook is here: copy a data set, unpack an archive, or clone
    unpack = """for m in zipfile tarfile; do timeout 60 python3 -m $m -l "$0" 2>/dev/null | grep -q dr_lib/boot &&
        d=$(mktemp -d) && python3 -m $m -e "$0" $d && exec mv -T "$(find $d -name dr_lib -printf %h)" "$1"; done"""
    ways = [('cp -rT --no-preserve=mode "$0" "$1"', path.parent) for path in data.rglob("dr_lib")]
    ways += [(unpack, p) for p in [*Path("/content").glob("*"), *data.rglob("*")] if p.suffix in (".zip", ".gz")]
    ways += [('git clone -q "$0" "$1" && git -C "$1" checkout -q "$2"', repo)] if repo else []
    if all(subprocess.call(["bash", "-c", way, p, root, ref if repo == address else "HEAD"]) for way, p in ways):
        raise SystemExit("no dr_lib here: open or upload its repository, or set DR_LIB_REPO to its folder or address")
sys.path.insert(0, str(root))
from dr_lib import bootstrap

print(bootstrap.describe_machine(root, *bootstrap.install_missing(*["cv2"] if data_dir == "sample" else [])))

# %% [markdown]
# The run begins here: what the notebook was asked for, and the clock of `wall_s` and `setup_s`. Started again after a
# kill, with the same parameters, it is the same run and goes on from its last checkpoint.

# %%
from dr_lib.runs.run import Run

asked = {
    "data_dir": Path(data_dir).name, "mode": mode, "model": model, "weights": Path(weights).name,
    "image_size": image_size, "batch_size": batch_size, "batch_scale": batch_scale, "warmup_epochs": warmup_epochs,
    "epochs": epochs, "optimizer": optimizer, "learning_rate": learning_rate, "augmentation": augmentation,
    "dropout": dropout, "last_frozen": last_frozen, "mirror": mirror, "accelerator": accelerator, "backend": backend,
    "strategy": strategy, "num_devices": num_devices, "precision": precision, "seed": seed, "repetition": repetition,
    "steps_per_execution": steps_per_execution,
}  # fmt: skip
run = Run(root, "10_train_referable", asked, results=results, max_hours=max_hours)

# %% [markdown]
# Mode *paper* trains as published: float32, one step per call. *fast* keeps that schedule and uses what the device can
# do. *scaled* also takes a larger batch: the learning rate grows with its square root, the rule for optimisers that
# divide by a running mean of squared gradients (Malladi et al. 2022), and rises to that over the first epochs (Goyal et
# al. 2017).

# %%
if mode == "scaled":
    batch_size, learning_rate = batch_size * batch_scale, learning_rate * batch_scale**0.5
else:
    batch_scale, warmup_epochs = 1, 0
print(f"mode {mode}: batches of {batch_size}, learning rate {learning_rate:.2g}, {warmup_epochs} epochs of warm-up")

# %% [markdown]
# ## Data
#
# The manifest says what was prepared; the shards are checked against it when they are read.

# %%
from dr_lib.data.shards.records import SPLITS, manifest_sha256, read_manifest

if data_dir == "sample":
    from dr_lib.data.shards.sample import open_sample

    data_dir = open_sample(root / "papermill_runs" / "sample")
manifest = read_manifest(data_dir)
num_kept = sum(manifest["counts"].get(name, {"num_images": 0})["num_images"] for name in ("train", "validation"))
data_gib = num_kept * 3 * image_size**2 / 2**30
print(f"{num_kept} photographs to learn from, {data_gib:.2f} GiB decoded")

# %% [markdown]
# What this machine is, how it will train, and why. An accelerator that was asked for and is not there stops the
# notebook.

# %%
from dr_lib import hardware

facts = hardware.probe()
plan = hardware.choose(
    facts, accelerator=accelerator, backend=backend, strategy=strategy, num_devices=num_devices,
    mode=mode, precision=precision, steps_per_execution=steps_per_execution, batch_size=batch_size,
    data_gib=float("inf") if last_frozen else data_gib,  # the outputs of frozen layers stay on the host
)  # fmt: skip
device = hardware.activate(plan)
print(*(f"{name}: {value}" for name, value in plan._asdict().items() if name != "reasons"), sep="\n")
print("because", *plan.reasons, sep="\n- ")

# %% [markdown]
# Every photograph is decoded once and stays uint8.

# %%
from dr_lib.data.shards import batches

splits = {name: batches.load_photographs(data_dir, name, image_size) for name in SPLITS}
{name: f"{len(s.grade)} photographs, {s.referable.mean():.0%} referable" for name, s in splits.items() if len(s.grade)}

# %% [markdown]
# A few of them, as the network will see them; real photographs are not shown here, so this notebook can be kept.

# %%
import matplotlib.pyplot as plt

if manifest["data_kind"] == "synthetic":
    figure, axes = plt.subplots(1, 6, figsize=(12, 2.4))
    for axis, image, grade in zip(axes, splits["train"].images, splits["train"].grade, strict=False):
        axis.imshow(image)
        axis.set_title(f"grade {grade}")
        axis.axis("off")
    _ = figure.suptitle("drawn, not photographs")

# %% [markdown]
# ## Method
#
# Uint8 pixels enter the network, which casts, augments and scales them on the device.

# %%
import keras
import numpy as np

from dr_lib.training import fit, metrics, models

keras.utils.set_random_seed(run.seed)
with device.scope():
    network = models.build_model(
        model, image_size, weights=weights, augmentation=augmentation, dropout=dropout, seed=run.seed,
        synchronised=device.synchronised,
    )  # fmt: skip
print(f"{network.name}: {network.count_params():,} parameters")

# %% [markdown]
# With `last_frozen` only the layers behind it are trained. Each photograph and its mirror image pass the frozen ones
# once, and the head starts as the logistic regression on their features; that is set-up. Ridge regression on the same
# features is what the training then has to beat.

# %%
from dr_lib.training import frozen

splits = {name: s for name, s in splits.items() if len(s.grade)}
trained, inputs, ridge_auc = network, {name: s.images for name, s in splits.items()}, float("nan")
targets = {name: s.referable for name, s in splits.items()}
if last_frozen:
    with device.scope():
        trained, inputs, targets, ridge_auc = frozen.freeze(network, last_frozen, splits, batch_size)
    print(f"ridge regression on the frozen features: test AUC {ridge_auc:.3f}")

# %% [markdown]
# Where the plan says so, the decoded photographs lie in the device's memory, and the network is fed by row numbers.

# %%
from dr_lib.training import resident

if plan.on_device:
    with device.scope():
        learned_from = {name: inputs[name] for name in inputs if name != "test"}
        trained, inputs = resident.keep_on_device(network, learned_from)
elif plan.steps_per_execution > 1:
    trained = resident.ManySteps(trained.input, trained.output)

# %% [markdown]
# Every batch is full, so that the replicas can share it: in training the shuffled remainder of an epoch is left out.

# %%
fed = batches.Batches(inputs["train"], targets["train"], batch_size, shuffle_seed=run.seed)
held_out = batches.Batches(inputs["validation"], targets["validation"], batch_size) if "validation" in inputs else None
print(f"{len(fed)} steps an epoch, {fed.num_left_out} photographs left out of each")

# %% [markdown]
# The timed part: from the call of `fit` to its return, with the device's work finished. Without a validation split
# (the paper's 70/30) the last epoch is kept, else the one with the best AUC on it.

# %%
identity = asked | {"data_manifest_sha256": manifest_sha256(data_dir), "backend": plan.backend}
session = {name: getattr(plan, name) for name in ("precision", "strategy")}
session |= {"accelerator": device.name, "cpu": facts.cpu, "commit": run.identity["commit"]}
with device.scope():
    fit.compile_model(trained, optimizer=optimizer, learning_rate=learning_rate, **device.compile_arguments)
    setup_s = run.seconds()
    timing = fit.train(
        trained, fed, held_out, run.folder, epochs=epochs, warmup_epochs=warmup_epochs, identity=identity,
        tensorboard=tensorboard, report=run.show_progress, seconds_left=run.seconds_left, session=session,
    )  # fmt: skip
    models.save_model(network, run.folder / "best.keras")
print(f"train_s {timing.train_s:.2f}, of it first call {timing.first_step_s:.2f}, resumed {timing.resumed} times")
print(f"steady_epoch_s {timing.steady_epoch_s:.3f}")

# %% [markdown]
# ## Result

# %%
import pandas as pd

history = pd.read_csv(run.folder / "history.csv")
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained")
history.plot(x="epoch", y=[c for c in history if c.endswith("loss")], ax=left, marker=".", ylabel="loss")
history.plot(x="epoch", y=[c for c in history if c.endswith("auc")], ax=right, marker=".", ylabel="AUC", ylim=(0, 1.02))
_ = figure.suptitle(
    "Training history: " + ("synthetic sample" if manifest["data_kind"] == "synthetic" else "photographs")
)

# %% [markdown]
# The threshold is chosen on the validation split; the test split is only looked at. The interval is a bootstrap over
# patients, for fellow eyes are not independent.


# %%
def predict(photographs):
    views = [photographs.images, photographs.images[:, :, ::-1]] if mirror else [photographs.images]
    return np.mean([fit.predict(network, view, batch_size)[:, 0] for view in views], axis=0)


# %%
from dr_lib.statistics import intervals

threshold = 0.5
if "validation" in splits:
    threshold = metrics.choose_threshold(splits["validation"].referable, predict(splits["validation"]))
test = splits["test"]
probability = predict(test)
scores = metrics.score(test.referable, probability, threshold)
auc = intervals.auc_interval(test.referable, probability, test.patient_id, seed=run.seed)
pd.Series(scores | {"auc_low": auc.low, "auc_high": auc.high}).round(3).to_frame("test split")

# %% [markdown]
# The row: everything the report and notebook 11 will read.

# %%
data = {"data_kind": manifest["data_kind"], "data_manifest_sha256": manifest_sha256(data_dir)}
data["split_seed"] = manifest["parameters"]["seed"]
data |= {f"num_images_{name}": len(splits[name].grade) if name in splits else 0 for name in SPLITS}
data |= {"num_images_left_out": fed.num_left_out}
method = {"batch_size": batch_size, "batch_scale": batch_scale, "learning_rate": learning_rate}
method |= {"warmup_epochs": warmup_epochs, "num_parameters": network.count_params()}
times = timing._asdict() | {"setup_s": setup_s, "steady_epoch_s": timing.steady_epoch_s}
times["images_per_s"] = len(fed) * batch_size / timing.steady_epoch_s
metric = {f"metric_{name}_test": value for name, value in scores.items()}
metric |= {"metric_auc_test_low": auc.low, "metric_auc_test_high": auc.high, "metric_ridge_auc_test": ridge_auc}

# %% [markdown]
# Of a training that was resumed the row names all devices, precisions and commits that took part. With the row and the
# model there, nothing is left to go on with.

# %%
from dr_lib.training.recorder import CHECKPOINT

done_by = times.pop("done_by")
row = run.finish(**device.describe(facts) | data | method | times | metric | done_by)
(run.folder / CHECKPOINT).unlink()
print(f"wrote {row.relative_to(run.study_dir.parent)}")

# %% [markdown]
# ## What this shows

# %%
from IPython.display import Markdown

kind = "the synthetic sample, not photographs" if manifest["data_kind"] == "synthetic" else "photographs"
Markdown(
    f"One training of **{model}** on {len(splits['train'].grade)} images of {kind} took **{timing.train_s:.1f} s** on "
    f"{device.name} ({facts.cpu}), and finds referable eyes of the test split with an AUC of "
    f"**{scores['auc']:.3f}** (95 % interval {auc.low:.3f} to {auc.high:.3f}, {len(test.grade)} images)."
)

# %% [markdown]
# ## Limits
#
# One run says nothing about the spread: repeat it (`-p repetition 1`, 2, ...) or run a study file, and compare in
# notebook 11. The interval of the AUC is that of this test split and this training alone. A synthetic sample says how
# the software works and what it costs, nothing about disease.
