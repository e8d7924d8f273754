# %% [markdown]
# # Prepare fundus photographs: find the field of view, crop, split, store
#
# **Question.** Which photographs can be used, what do they look like once cropped, and how are they
# divided? **Input.** A folder of photographs with a CSV (`image,grade`, and `patient,eye` where
# known), a known data set, or the synthetic sample. **Output.** Shards of crops, `labels.csv`,
# `split.csv` and `manifest.json` to train from; what was rejected and why, in a private folder.
# **Time.** Under 90 seconds on two cores with the sample; with it drawn before, half of that.
#
# **Resumo.** Quais retinografias podem ser usadas, como ficam depois do recorte e como são
# divididas em treino, validação e teste? Entrada: uma pasta de fotografias com um CSV, ou a amostra
# sintética. Saída: os arquivos de treinamento; o que foi rejeitado, e por quê, fica em uma pasta
# privada.

# %% tags=["parameters"]
# data
images: str = "sample"  # folder of the photographs, root of a known data set, or sample
labels: str = ""  # CSV of the labels, empty to find it in a known data set
out: str = "data/prepared"  # folder to write, new or empty
private: str = ""  # folder for what names files or patients, empty for OUT.private
layout: str = "auto"  # name of a known data set (not for the sample)
num_patients: int = 200  # of the sample, where it is not drawn yet
# how it is prepared
size: int = 299  # side of the crops, the largest image_size of a training [px]
scheme: str = "random"  # random, paper (70/30 without validation) or official
method: str = "robust"  # how the field of view is found, robust or voets (not for the sample)
# what is shown
num_shown: int = 16  # photographs on the contact sheet
num_compared: int = 100  # photographs on which the two methods are compared
seed: int = 0  # of the split (not for the sample) and of what is shown

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

here = Path.cwd()
root = next(path for path in [here, *here.parents] if (path / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.notebook import setup

setup.set_up(root, "cv2")

# %% [markdown]
# ## Data
#
# Nothing is lost in silence: photographs in = records + rejected. A mistake in the label table
# stops here, before time is spent.

# %%
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.sample import open_sample
from dr_lib.data.prepared.split import describe_moves

if images == "sample":
    data_dir = open_sample(root / "papermill_runs" / "sample", num_patients=num_patients)
    folder = data_dir.with_name("photographs")
    label_file = folder / "labels.csv"
else:
    data_dir = Path(out)
    folder = Path(images)
    label_file = Path(labels) if labels else None
private_dir = Path(private) if private else data_dir.with_name(data_dir.name + ".private")
if images != "sample":
    prepare(
        folder,
        label_file,
        data_dir,
        private=private_dir,
        layout=layout,
        scheme=scheme,
        method=method,
        size=size,
        seed=seed,
    )

# %%
prepared = Prepared(data_dir)
manifest = prepared.manifest
print(f"{manifest['num_photographs']} photographs in, {manifest['num_rejected']} rejected")
print(*manifest["notices"], *describe_moves(manifest["splits"]["split.csv"]), sep="\n")

# %% [markdown]
# Real photographs are personal health data: the outputs of this notebook then stay private.

# %%
from IPython import get_ipython
from IPython.display import Markdown, display

get_ipython().run_line_magic("matplotlib", "inline")  # a figure that a cell ends in is shown
is_synthetic = manifest["data_kind"] == "synthetic"
note = "synthetic, not photographs" if is_synthetic else "real photographs: keep private"
if not is_synthetic:
    warning = (
        "> **This notebook shows real photographs. Clear its outputs before you share or publish"
        " it.**"
    )
    display(Markdown(warning), metadata={"shows_photographs": True})

# %% [markdown]
# ## Method
#
# Each photograph is cropped to its field of view at 299 px, black outside: it is what differs from
# the background, of whatever colour, inside a circle. `method="voets"` repeats the steps of Voets
# et al. 2019, faults included. Not all files are good, so here are some odd ones, synthetic: on top
# the file with the circle of `robust` (solid) and of `voets` (dashed), beneath it the crop of each,
# `robust` first, or the reason why there is none. A crop's status says whether it is `clipped` by
# the frame, `doubtful` because it looks unlike a retina (it is kept, for a dark haemorrhage does
# too), an `ellipse` made round again, `full_frame` without a dark border, or of a `truncated` file.

# %%
# %matplotlib inline
import textwrap

import matplotlib.pyplot as plt
import numpy as np

from dr_lib.data.photograph.crop import METHODS, crop_fundus, turn_upright
from dr_lib.data.photograph.decode import decode, open_picture
from dr_lib.data.photograph.errors import NoFundusError, UnreadableImageError
from dr_lib.data.synthetic import draw_odd_files
from dr_lib.hardware import without_stderr

RINGS = {"robust": ("#00e5ff", "-"), "voets": ("#ff40ff", "--")}


def crop_or_explain(source, method):
    """Crop a photograph, or say why it cannot be used."""
    try:
        with without_stderr():  # the decoder complains of damaged files
            return crop_fundus(source, method=method)
    except (UnreadableImageError, NoFundusError) as error:
        return str(error)


def show_upright(ax, source):
    """Show a photograph, small, in the pixels of the whole."""
    try:
        with without_stderr():
            picture = open_picture(source)
            longer = max(picture.width, picture.height)
            reduction = next((k for k in (8, 4, 2) if longer >= k * 320), 1)
            image = turn_upright(decode(picture, reduction), picture.orientation)
    except UnreadableImageError:
        write(ax, "no picture")
        return
    height, width = (reduction * side - 0.5 for side in image.shape[:2])
    ax.imshow(image, extent=(-0.5, width, height, -0.5))


def write(ax, words):
    """Write words in the place of a picture."""
    ax.imshow(np.full((1, 1, 3), 235, np.uint8), extent=(0, 1, 0, 1))
    text = ax.text(0.5, 0.5, textwrap.fill(words, 22), ha="center", va="center")
    text.set(fontsize="x-small", parse_math=False)


def show_panels(panels, title, num_columns=8):
    """Show photographs, (caption, source, reason) each, with circles and, beneath, both crops.

    One with a reason, why it was rejected, is not cropped. A caption names no file.
    """
    parts = 1 if all(reason for *_, reason in panels) else 1 + len(METHODS)
    rows = -(-len(panels) // num_columns)
    size = 1.55 * num_columns, 0.4 + (0.35 + 1.55 * parts) * rows
    figure, axes = plt.subplots(
        parts * rows, num_columns, figsize=size, layout="constrained", squeeze=False
    )
    for ax in axes.flat:
        ax.set_axis_off()
    for number, (caption, source, reason) in enumerate(panels):
        row, column = divmod(number, num_columns)
        first, *others = axes[row * parts : (row + 1) * parts, column]
        first.set_title(caption, fontsize="small", parse_math=False)
        show_upright(first, source)
        for ax, method in zip(others, METHODS, strict=False):
            crop = reason or crop_or_explain(source, method)
            if isinstance(crop, str):
                write(ax, crop)
                continue
            ax.imshow(crop.image)
            x, y, radius = crop.circle
            colour, line = RINGS[method]
            first.add_patch(
                plt.Circle((x, y), radius, fill=False, lw=1.2, edgecolor=colour, linestyle=line)
            )
    figure.suptitle(title)


odd = [(name, encoded, "") for name, encoded in draw_odd_files().items()]
show_panels(odd, "Odd files (synthetic, not photographs)")

# %% [markdown]
# Patients are divided so that no one stands on two sides, with the same shares of grades
# everywhere. Patients who share a picture, in copies saved otherwise, are one group; the later of
# two equal files is excluded. Names are replaced by keyed hashes. Labels and split are tables, so
# another seed or a corrected grade takes seconds (`python -m dr_lib split`).

# %%
import pandas as pd

parts = prepared.photographs
counts = parts.pivot_table(
    index="split", columns="grade", values="image_id", aggfunc="count", fill_value=0
)
counts["patients"] = parts.groupby("split")["patient_id"].nunique()
counts

# %%
division = manifest["splits"]["split.csv"]
num_images, num_patients = division["largest_group"].values()
print(
    f"{division['num_groups']} groups; photographs and patients of the largest: {num_images} and"
    f" {num_patients}"
)
print(f"{division['num_excluded']} photographs excluded")

# %% [markdown]
# **For other tools** the split is written as labelled TFRecords, train, validation and test, which
# `tf.data` reads; on the command line it is `python -m dr_lib split DATA_DIR --records OUT`.

# %%
import tempfile
from importlib.util import find_spec

from dr_lib.data.prepared.split import export_records
from dr_lib.hardware import import_tensorflow

with tempfile.TemporaryDirectory() as labelled:
    shards = export_records(data_dir, Path(labelled))
    print(f"{len(shards)} shards")
    if find_spec("tensorflow"):  # Colab's TPU runtime has none
        tf = import_tensorflow()
        features = {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        }
        train = tf.data.TFRecordDataset(
            [str(path) for path in shards if path.name.startswith("train")]
        )
        parsed = train.batch(8).map(lambda examples: tf.io.parse_example(examples, features))
        batch = next(iter(parsed))
        crop = tf.io.decode_jpeg(batch["image/encoded"][0])
        print(f"a crop of {tuple(crop.shape)}, grades {batch['image/class/label'].numpy()}")

# %% [markdown]
# ## Result
#
# The contact sheet: photographs of every status and every grade, then others at random, by row of
# the label table.

# %%
from dr_lib.data.labels.privacy import name_image, pseudonym
from dr_lib.data.labels.tables import read_labels
from dr_lib.errors import DrError

labelled = read_labels(folder, label_file, layout=layout).table
salt = (private_dir / "salt").read_bytes()
names = [pseudonym(salt, "image", name_image(path, folder)) for path in labelled["image"]]
photographs = parts.merge(labelled[["image"]].assign(image_id=names), on="image_id")
if len(photographs) < len(parts):
    raise DrError(f"{data_dir} was not prepared from these photographs")

shuffled = photographs.sample(frac=1, random_state=seed)
is_known = shuffled["status"].duplicated() & shuffled["grade"].duplicated()
chosen = pd.concat([shuffled[~is_known], shuffled[is_known]])[:num_shown]
shown = [
    (f"row {p.row}, grade {p.grade}\n{p.status.replace('+', ', ')}", p.image, "")
    for p in chosen.sort_values(["grade", "row"]).itertuples()
]
show_panels(shown, f"Photographs and their crops ({note})")

# %% [markdown]
# How often each status occurs, and how large the fields of view are.

# %%
radii = photographs.groupby("status")["radius"].agg(["count", "min", "median", "max"])
radii.set_axis(
    ["photographs", "smallest radius [px]", "median [px]", "largest [px]"], axis=1
).round()

# %% [markdown]
# What could not be used, by row of the label table; `rejected.csv` in the private folder names the
# files.

# %%
rejected = pd.read_csv(private_dir / "rejected.csv").query(
    "data_dir == @data_dir.absolute().__fspath__()"
)
print(f"{len(rejected)} rejected")
if len(rejected):
    # whatever rows and sizes it names
    kinds = rejected.groupby(rejected["reason"].str.replace(r"\d+", "", regex=True))
    panels = [(f"row {p.row}", p.image, p.reason) for p in kinds.head(2)[:16].itertuples()]
    show_panels(panels, f"Rejected ({note})")
    rows = ("row", lambda rows: rows.head(5).tolist())
    summary = kinds.agg(reason=("reason", "first"), photographs=("row", "size"), rows=rows)
    display(summary.reset_index(drop=True))

# %% [markdown]
# **The papers' preprocessing beside ours**, on photographs chosen at random from the whole label
# table. Where the true circles are known, as of the synthetic sample, both methods are compared
# with them, else `voets` with `robust`.

# %%
NOWHERE = (np.nan, np.nan, np.nan)  # of a photograph that is refused
sampled = labelled.sample(min(num_compared, len(labelled)), random_state=seed)["image"]
circles = {}
for name in METHODS:
    crops = [crop_or_explain(image, name) for image in sampled]
    circles[name] = np.array([getattr(crop, "circle", NOWHERE) for crop in crops])
reference = circles["robust"]
if is_synthetic:
    true_circles = pd.read_csv(folder / "circles.csv", index_col="image")
    true_circles.index = [str(folder / image) for image in true_circles.index]
    reference = true_circles.loc[sampled, ["x", "y", "radius"]].to_numpy()

errors = {}
for name, circle in circles.items():
    x, y, radius = (circle - reference).T
    errors[name] = 100 * np.maximum(np.hypot(x, y), np.abs(radius)) / reference[:, 2]
errors = pd.DataFrame(errors)
compared = pd.DataFrame(
    {
        "photographs": len(sampled),
        "refused": {name: np.isnan(circle[:, 0]).sum() for name, circle in circles.items()},
        "median error [%]": errors.median(),
        "95th percentile [%]": errors.quantile(0.95),
    }
)
compared.round(2)

# %% [markdown]
# ## What this shows

# %%
import os

counts = division["counts"].items()
shares = ", ".join(f"{name} {count['num_images']} photographs" for name, count in counts)
medians = compared["median error [%]"]
medians = medians if is_synthetic else medians.drop("robust")
deviations = ", ".join(f"`{name}` {error:.1f} %" for name, error in medians.items())
refused = ", ".join(f"`{name}` {count}" for name, count in compared["refused"].items())
beside = "the true circles" if is_synthetic else "the circles of `robust`"
num_photographs = manifest["num_photographs"]
Markdown(
    f"**{num_photographs - manifest['num_rejected']}** of {num_photographs} photographs can be"
    f" trained on: {shares}. Patients: {manifest['patients']}. Refused of {len(sampled)}"
    f" photographs: {refused}. The median error beside {beside} is {deviations} of the radius. Give"
    f" `data_dir={os.path.relpath(data_dir)}` to notebook 10."
)

# %% [markdown]
# ## Limits
#
# A patient whose photographs stand under two names can still be in two splits; where the label
# table names no patients, fellow eyes can be too. Grades are taken as the table gives them.
