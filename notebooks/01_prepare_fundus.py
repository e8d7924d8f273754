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
images: str = "sample"  # folder of the photographs, root of a known data set, or the word sample
labels: str = ""  # CSV of the labels, empty to find it in a known data set
out: str = "data/prepared"  # folder to write, new or empty
private: str = ""  # folder for what names files or patients, empty for OUT.private
layout: str = "auto"  # name of a known data set (not for the sample)
num_patients: int = 200  # of the sample, where it is not drawn yet
# how it is prepared
size: int = 299  # side of the crops, the largest image_size of a training (not for the sample) [px]
scheme: str = "random"  # random, paper (70/30 without validation) or official (not for the sample)
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

root = next(folder for folder in [Path.cwd(), *Path.cwd().parents] if (folder / "dr_lib").is_dir())
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
    label_file = data_dir.with_name("photographs") / "labels.csv"
else:
    data_dir = Path(out)
    folder = Path(images)
    label_file = Path(labels) if labels else None
private_dir = Path(private) if private else data_dir.with_name(data_dir.name + ".private")
if images != "sample":
    settings = {"layout": layout, "scheme": scheme, "method": method, "size": size, "seed": seed}
    prepare(folder, label_file, data_dir, private=private_dir, **settings)

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
note = (
    "synthetic, not photographs"
    if manifest["data_kind"] == "synthetic"
    else "real photographs: keep private"
)
if manifest["data_kind"] == "photographs":
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
from dr_lib.data.photograph import contact_sheet as sheet
from dr_lib.data.synthetic import draw_odd_files

odd = [sheet.Panel(name, encoded) for name, encoded in draw_odd_files().items()]
sheet.plot_contact_sheet(odd, "Odd files (synthetic, not photographs)")

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
from dr_lib.data.labels.tables import read_labels

labelled = read_labels(folder, label_file, layout=layout).table
photographs = sheet.match_crops(labelled, folder, data_dir, private_dir)
shown = [
    sheet.Panel(f"row {p.row}, grade {p.grade}\n{p.status.replace('+', ', ')}", p.image)
    for p in sheet.choose_photographs(photographs, num_shown, seed).itertuples()
]
sheet.plot_contact_sheet(shown, f"Photographs and their crops ({note})")

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
    panels = [
        sheet.Panel(f"row {p.row}", p.image, p.reason) for p in kinds.head(2)[:16].itertuples()
    ]
    display(sheet.plot_contact_sheet(panels, f"Rejected ({note})"))
    rows = ("row", lambda rows: rows.head(5).tolist())
    display(
        kinds.agg(reason=("reason", "first"), photographs=("row", "size"), rows=rows).reset_index(
            drop=True
        )
    )

# %% [markdown]
# **The papers' preprocessing beside ours**, on photographs chosen at random from the whole label
# table. Where the true circles are known, as of the synthetic sample, both methods are compared
# with them, else `voets` with `robust`.

# %%
chosen = labelled.sample(min(num_compared, len(labelled)), random_state=seed)
truth = None
if manifest["data_kind"] == "synthetic":
    circles = pd.read_csv(folder / "circles.csv", index_col="image")
    circles.index = [str(folder / image) for image in circles.index]
    truth = circles.loc[chosen["image"], ["x", "y", "radius"]]
compared = sheet.compare_methods(chosen["image"], truth)
compared.round(2)

# %% [markdown]
# ## What this shows

# %%
import os

shares = ", ".join(
    f"{name} {n['num_images']} photographs"
    for name, n in manifest["splits"]["split.csv"]["counts"].items()
)
medians = (
    compared["median error [%]"]
    if truth is not None
    else compared["median error [%]"].drop("robust")
)
errors = ", ".join(f"`{name}` {error:.1f} %" for name, error in medians.items())
refused = ", ".join(f"`{name}` {count}" for name, count in compared["refused"].items())
shown_dir = os.path.relpath(data_dir)
beside = "the true circles" if truth is not None else "the circles of `robust`"
Markdown(
    f"**{manifest['num_photographs'] - manifest['num_rejected']}** of {manifest['num_photographs']}"
    f" photographs can be trained on: {shares}. Patients: {manifest['patients']}. Refused of"
    f" {len(chosen)} photographs: {refused}. The median error beside {beside} is {errors} of the"
    f" radius. Give `data_dir={shown_dir}` to notebook 10 or 20."
)

# %% [markdown]
# ## Limits
#
# A patient whose photographs stand under two names can still be in two splits; where the label
# table names no patients, fellow eyes can be too. Grades are taken as the table gives them.
