# %% [markdown]
# # Train a network to grade retinopathy from 0 to 4
#
# **Question.** How well do the serving study's networks (Camargo, Künas, Navaux: MobileNet and
# VGG19) grade diabetic retinopathy? **Input.** A folder that notebook 01 prepared, or the synthetic
# sample. **Output.** A row, and a model folder with all that serving needs: the model, its manifest
# and a model card. Notebook 21 exports it. **Time.** Under 90 seconds on two cores with the
# defaults.
#
# **Resumo.** Quão bem as redes do estudo de implantação (MobileNet e VGG19) dão o grau da
# retinopatia diabética, de 0 a 4? Entrada: uma pasta preparada pelo notebook 01, ou a amostra
# sintética. Saída: uma linha com métricas e uma pasta de modelo com tudo o que o servidor precisa;
# o notebook 21 a exporta.

# %% tags=["parameters"]
# data
data_dir: str = "sample"  # folder that notebook 01 prepared, or the word sample
split: str = "split.csv"  # split table of that folder, or the path of one elsewhere
# model and training
model: str = "small_cnn"  # small_cnn, mobilenet or vgg19 (the paper has the last two)
weights: str = "none"  # none, imagenet (downloaded) or the path of a weights file without the top
image_size: int = 96  # side of the square input, 224 in the paper [px]
batch_size: int = 8  # images per step, over all replicas
epochs: int = 20  # passes over the training set
optimizer: str = "adam"  # rmsprop or adam
learning_rate: float = 0.001  # at the start, halved on plateaus
augmentation: str = "flip"  # none, flip or colour
weigh_grades: bool = False  # let each grade count the same in the loss, however rare it is
# machine
accelerator: str = "auto"  # auto, cpu, gpu or tpu
backend: str = "auto"  # auto, tensorflow or jax
num_machines: int = 1  # machines that train as one; run --machines 2 rehearses two on this one
input: str = "auto"  # memory (decoded once), stream (decoded for each batch), or auto (what fits)
mode: str = "paper"  # paper (float32, one step per call) or fast (what the device can do)
# what is explained
explain: str = ""  # folder of lesion masks, or test for the test split
# where, when, which
results: str = ""  # folder for rows, models and checkpoints; on Colab one on Drive stays
max_hours: float = 0.0  # save and stop in time, 0 for no limit [h]
seed: int = 20  # of the study, the run adds its repetition
repetition: int = 0  # index of this run

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

root = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.notebook import setup

setup.set_up(root, *["cv2"] if data_dir == "sample" or explain else [])

# %%
from dataclasses import replace

from dr_lib.runs.run import Run
from dr_lib.training.config import TrainingConfig

config = TrainingConfig.from_parameters(globals(), task="grades")
run = Run(root, "20_train_grades", config.describe(), results=results, max_hours=max_hours)

# %% [markdown]
# ## Data

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

# %%
from dr_lib import hardware

plan = config.plan(hardware.probe(), num_images)
print(f"Keras on {plan.backend}, because", *plan.reasons, sep="\n- ")

# %% [markdown]
# ## Method
#
# As in the paper: the base, global average pooling, two layers of 128 and one of 5. Unlike there,
# each base gets the preprocessing its weights were trained with, inside the network: [-1, 1] for
# MobileNet, mean-free BGR for VGG19.
#
# The epoch with the best AUC of referable disease on the validation split is kept; without that
# split, the last.

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
print(f"{trained.network.name}: {row['num_parameters']:,} parameters on {trained.device.name}")
print(
    f"training: {timing.train_s:.2f} s, of which {timing.first_step_s:.2f} s for the first call",
    end=", ",
)
print(f"resumed {timing.resumed} times")

# %% [markdown]
# The grades are far from equally frequent: without weights a network does well by calling every eye
# healthy.

# %%
import numpy as np
import pandas as pd

from dr_lib.data.labels.grades import GRADES
from dr_lib.training.graders import weigh_grades as find_weights

table = pd.DataFrame(
    {name: pd.Series(s.grade).value_counts() for name, s in trained.splits.items()}
)
table = table.reindex(range(len(GRADES))).fillna(0).astype(int)
table["weight in the loss"] = (
    pd.Series(find_weights(trained.splits["train"].grade)).round(2) if weigh_grades else 1.0
)
table.set_axis(GRADES).rename_axis(kind)

# %% [markdown]
# ## Result

# %%
from dr_lib.figures.training_time import plot_history

plot_history(trained.history, kind)

# %% [markdown]
# The threshold of referral is chosen on the validation split, for a sensitivity of 90 %; the test
# split is only looked at. The interval is a bootstrap over patients.

# %%
shown = scores | {"auc, lower bound": auc.low, "auc, upper bound": auc.high}
pd.Series(shown).round(3).to_frame(f"test split of {kind}")

# %%
import seaborn as sns

test = trained.splits["test"]
graded = trained.probabilities["test"].argmax(axis=1)
table = pd.crosstab(
    pd.Categorical(test.grade, range(5)), pd.Categorical(graded, range(5)), dropna=False
)
axis = sns.heatmap(table, annot=True, fmt="d", cmap="Blues", cbar=False, square=True)
axis.tick_params(axis="y", rotation=0)
_ = axis.set(xlabel="grade by the network", ylabel="true grade", title=f"Test split: {kind}")

# %% [markdown]
# The model folder: the network, the manifest that serving reads, the model card.

# %%
from dr_lib.serving.grader.folder import write_trained
from dr_lib.training.train_once import BEST

saved = write_trained(run.folder / BEST, config, trained, run.identity["commit"])
print(f"model version {saved.version} in {run.shown(saved.path)}")

# %%
from dr_lib.command import write_lasting_command
from dr_lib.training.recorder import CHECKPOINT

path = run.finish(**row, **summarise(samples), model_version=saved.version)
(run.folder / CHECKPOINT).unlink(missing_ok=True)  # one of several machines wrote it
print(f"wrote {run.shown(path)}; to export the model for serving:")
folder = run.shown(saved.path)
data = run.shown(config.data_dir)
print(write_lasting_command("export", folder, "--data", data, "--out", "exported"))

# %% [markdown]
# Where does the network look? Grad-CAM (Selvaraju et al. 2017) maps what raises the probability of
# referable disease. Beside each map stands its control, the same network with random weights
# (Adebayo et al. 2018): a map that is like its control explains nothing. Where lesions are known,
# the table says how many times as much of the top 5 % of a map lies in them as of the field of
# view: 1 is chance, and several draws of random weights show how far it goes by chance. Real
# photographs are shown only where `explain` asks for it.

# %%
images = []
masks = None
patients = test.patient_id
unit = "patients"
sample = Path(config.data_dir).parent / "photographs"
is_synthetic = prepared.is_synthetic
if explain not in ("", "test"):
    from dr_lib.data.lesions import load_masked

    images, masks = load_masked(Path(explain), image_size)
    is_synthetic = False
    patients = range(len(images))
    unit = "photographs"  # whose they are, the folder does not say
elif explain or is_synthetic:
    referable = np.flatnonzero(test.referable)[:100]
    images = test.images[referable]
    patients = test.patient_id[referable]
    if (sample / "sample.json").exists():  # where the drawn lesions are is drawn again
        from dr_lib.data.lesions import crop_mask
        from dr_lib.data.photograph.crop import Circle
        from dr_lib.data.synthetic import draw_masks

        known = prepared.photographs.set_index("image_id").loc[test.image_id[referable]]
        circles = known[["x", "y", "radius"]].itertuples(index=False)
        pairs = zip(draw_masks(sample, known["row"].tolist()), circles, strict=True)
        masks = np.stack([crop_mask(mask, Circle(*circle), image_size) for mask, circle in pairs])
print(f"{len(images)} photographs to explain")

# %%
from IPython.display import Markdown, display

from dr_lib.training import explain as explanations

if len(images):
    maps, control = explanations.explain(trained.network, images, seed=run.seed)
if masks is not None:
    looks = {"network": maps} | {f"control {k}": look for k, look in enumerate(control, 1)}
    overlap = {
        name: explanations.measure_overlap(look, masks, images, patients)
        for name, look in looks.items()
    }
    table = pd.DataFrame(overlap, ["ratio to chance", "lower bound", "upper bound", unit]).T.round(
        2
    )
    display(table.rename_axis("top 5 % of a map in lesions"))

# %%
from dr_lib.figures.explanations import plot_explanations

if len(images):
    if not is_synthetic:
        notice = "> **This notebook shows photographs of patients: keep it private.**"
        display(Markdown(notice), metadata={"shows_photographs": True})
    shown = [x if x is None else x[:4] for x in (images, maps, control[0], masks)]
    display(plot_explanations(*shown, is_synthetic=is_synthetic))

# %% [markdown]
# ## What this shows

# %%
Markdown(
    f"**{model}** at {image_size} px, trained on {counts['train']} images of {kind} in"
    f" **{timing.train_s:.1f} s**, agrees with the true grades of the test split with a quadratic"
    f" weighted kappa of **{scores['kappa']:.3f}** and finds referable eyes with an AUC of"
    f" **{scores['auc']:.3f}** (95 % interval {auc.low:.3f} to {auc.high:.3f}, {counts['test']}"
    " images)."
    + (
        ""
        if auc.low > 0.5
        else " That interval holds 0.5, a coin's AUC: **the network has not been shown to learn.**"
    )
)

# %% [markdown]
# ## Limits
#
# The defaults train a small network from random weights, to show the way: give photographs,
# `model=mobilenet`, `weights=imagenet` and `image_size=224` for a model worth serving, as
# `papermill_runs/grades.yaml` does. Kappa depends on how the grades are distributed. A synthetic
# sample says how the software works, nothing about disease.
