# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Prepare fundus photographs: find the disc, crop, split, store
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/REPO/blob/main/notebooks/01_prepare_fundus.ipynb)
# [![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)](https://kaggle.com/kernels/welcome?src=https://github.com/OWNER/REPO/blob/main/notebooks/01_prepare_fundus.ipynb)
#
# **Question.** Which photographs can be used, what do they look like once cropped, and how are they divided?
# **Input.** A folder of photographs with a CSV (`image,grade`, and `patient,eye` where known), a known data set, or the
# drawn sample. **Output.** Shards, `split.csv` and `manifest.json` to train from; what was rejected and why, in a
# private folder.
#
# **Resumo.** Quais retinografias podem ser usadas, como ficam depois do recorte e como são divididas em treino,
# validação e teste? Entrada: uma pasta de fotografias com um CSV, ou a amostra desenhada. Saída: os arquivos de
# treinamento; o que foi rejeitado, e por quê, fica em uma pasta privada.

# %% tags=["parameters"]
images: str = "sample"  # folder of the photographs, root of a known data set, or the word sample
labels: str = ""  # CSV of the labels, empty to find it in a known data set
out: str = "data/prepared"  # folder to write, new or empty
private: str = ""  # folder for what names files or patients, empty for the name of out with .private behind it
layout: str = "auto"  # name of a known data set
split: str = "drawn"  # drawn, paper (70/30 without validation) or official
method: str = "robust"  # how the disc is found, robust or voets
num_shards: int = 8  # files per split
num_patients: int = 200  # of the sample, where it is not drawn yet
seed: int = 0  # of the split

# %% [markdown]
# ## Setup
#
# The library comes from the folder around this notebook; a fresh Colab or Kaggle machine clones it, and adds the
# packages that it lacks.

# %%
import subprocess
import sys
from pathlib import Path

address = "https://github.com/OWNER/REPO"  # of the repository, for a machine that holds only this notebook
here = Path.cwd()
root = next((d for d in (here, here / "REPO", *here.parents) if (d / "dr_lib").is_dir()), None)
if root is None and "OWNER" in address:
    raise SystemExit("dr_lib is not here: open this notebook inside a clone, or set address to the repository's")
if root is None:
    root = here / "REPO"
    subprocess.run(["git", "clone", "--depth=1", address, root], check=True)
sys.path.insert(0, str(root))

# %%
from dr_lib.bootstrap import install_missing

print("packages added:", *install_missing("cv2") or ["none"])

# %% [markdown]
# ## Data
#
# Nothing is lost in silence: photographs in = records + rejected. A mistake in the label table stops here, before time
# is spent.

# %%
from dr_lib.data.prepare import prepare
from dr_lib.data.records import read_manifest
from dr_lib.data.sample import open_sample

if images == "sample":
    data_dir = open_sample(root / "papermill_runs" / "sample", num_patients=num_patients)
    private_dir = data_dir.with_name("records.private")
else:
    data_dir = Path(out)
    private_dir = Path(private) if private else data_dir.with_name(data_dir.name + ".private")
    settings = {"layout": layout, "split": split, "method": method, "num_shards": num_shards, "seed": seed}
    prepare(Path(images), Path(labels) if labels else None, data_dir, private=private_dir, **settings)

# %%
manifest = read_manifest(data_dir)
print(f"{manifest['num_photographs']} photographs in, {manifest['num_rejected']} rejected")
print(*manifest["notices"], sep="\n")

# %% [markdown]
# Real photographs are personal health data: the outputs of this notebook then stay private.

# %%
from IPython.display import Markdown, display

if manifest["data_kind"] == "photographs":
    warning = "> **This notebook shows real photographs. Clear its outputs before you share or publish it.**"
    display(Markdown(warning), metadata={"shows_photographs": True})

# %% [markdown]
# ## Method
#
# Each photograph is cropped to its disc at 299 px, black outside; patients are divided so that no one stands on two
# sides, with the same shares of grades everywhere. Names are replaced by keyed hashes.

# %%
import pandas as pd

parts = pd.read_csv(data_dir / "split.csv")
counts = parts.pivot_table(index="split", columns="grade", values="image_id", aggfunc="count", fill_value=0)
counts["patients"] = parts.groupby("split")["patient_id"].nunique()
counts

# %% [markdown]
# ## Result
#
# Two crops of each grade.

# %%
import matplotlib.pyplot as plt

from dr_lib.data.crops import decode_jpeg
from dr_lib.data.records import read_split

train = read_split(data_dir, "train")
figure, axes = plt.subplots(2, 5, figsize=(12, 5), layout="constrained")
for grade in range(5):
    for axis, record in zip(axes[:, grade], [r for r in train if r.grade == grade], strict=False):
        axis.imshow(decode_jpeg(record.encoded))
    axes[0, grade].set_title(f"grade {grade}")
for axis in axes.flat:
    axis.axis("off")
_ = figure.suptitle("drawn, not photographs" if manifest["data_kind"] == "drawn" else "real photographs: keep private")

# %% [markdown]
# How large the discs are in the photographs, and what the crop had to say of them: `clipped` by the frame, `ellipse`
# straightened, `full_frame` without a dark border, `truncated` file.

# %%
import seaborn as sns

radii = [record.radius for name in ("train", "validation", "test") for record in read_split(data_dir, name)]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
sns.histplot(radii, ax=left, bins=30).set(xlabel="radius of the disc [px]", ylabel="photographs")
_ = sns.countplot(parts, y="status", ax=right).set(xlabel="photographs", ylabel="status of the crop")

# %% [markdown]
# What could not be used, by row of the label table; `rejected.csv` in the private folder names the files.

# %%
rejected = pd.read_csv(private_dir / "rejected.csv")
print(f"{len(rejected)} rejected")
rejected.groupby("reason")["row"].agg(["count", lambda rows: rows.head(5).tolist()]).set_axis(
    ["photographs", "rows"], axis=1
)

# %% [markdown]
# ## What this shows

# %%
shares = ", ".join(f"{name} {n['num_images']} photographs" for name, n in manifest["counts"].items())
Markdown(
    f"**{manifest['num_photographs'] - manifest['num_rejected']}** of {manifest['num_photographs']} photographs can be "
    f"trained on: {shares}. The patients are {manifest['patients']}. Give `data_dir={data_dir.name}` to notebook 10."
)

# %% [markdown]
# ## Limits
#
# A patient whose photographs stand under two names can still be in two splits; where the label table names no patients,
# fellow eyes can be too. Grades are taken as the table gives them.
