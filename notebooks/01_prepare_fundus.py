# %% [markdown]
# # Prepare fundus photographs: find the field of view, crop, split, store
#
# **Question.** Which photographs can be used, what do they look like after cropping, and how are
# they split? **Input.** A folder of photographs with a CSV (`image,grade` and optionally
# `patient,eye`), a known data set, or the synthetic sample. **Output.** Shards of crops,
# `labels.csv`, `split.csv` and `manifest.json` for training; the rejected photographs and the
# reasons, in a private folder.
# **Time.** Under 90 seconds on two cores with the sample; half of that if the sample already
# exists.
#
# **Resumo.** Quais retinografias podem ser usadas, como ficam depois do recorte e como são
# divididas em treino, validação e teste? Entrada: uma pasta de fotografias com um CSV, ou a amostra
# sintética. Saída: os arquivos de treinamento; o que foi rejeitado, e por quê, fica em uma pasta
# privada.

# %% tags=["parameters"]
# data
images: str = "sample"  # folder of the photographs, root of a known data set, or sample
labels: str = ""  # table of the labels, empty to find it in a known data set
sheet: str = ""  # sheet of a workbook, where several have the columns
columns: str = ""  # columns of the table to use, as pairs of our name and theirs, with commas
out: str = "data/prepared"  # new or empty folder to write
private: str = ""  # folder for everything that names files or patients, empty for OUT.private
# preparation (not for the sample)
size: int = 299  # side of the crops, the largest possible image_size of a training [px]
scheme: str = "random"  # @param ["random", "paper", "official"]  # paper: 70/30, no validation
method: str = "robust"  # @param ["robust", "voets"]  # finds the field of view
# display
num_shown: int = 24  # crops on the contact sheet

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

setup.set_up(root, "01_prepare_fundus", "cv2", "simplejpeg", "tifffile", "imagecodecs")

# %% [markdown]
# ## Data
#
# No photograph is dropped silently: each one becomes a record or is listed as rejected. A mistake
# in the label table stops this notebook here, before any time is spent.

# %%
from dr_lib import Prepared, open_sample, prepare

if images == "sample":
    data_dir = open_sample(root / "papermill_runs" / "sample")
else:
    data_dir = Path(out)
    done = prepare(
        images,
        labels,
        data_dir,
        private=private,
        scheme=scheme,
        method=method,
        size=size,
        sheet=sheet,
        columns=columns,
    )
    print(*done["said"], sep="\n")
prepared = Prepared(data_dir)
manifest = prepared.manifest
num_photographs = manifest["num_photographs"]
print(f"{num_photographs} photographs, {manifest['num_rejected']} rejected")
print(*manifest["notices"], sep="\n")

# %% [markdown]
# Real photographs are personal health data: keep the outputs of this notebook private if it shows
# them.

# %%
from IPython.display import Markdown, display

note = "synthetic, not photographs"
if not prepared.is_synthetic:
    note = "real photographs: keep private"
    warning = (
        "> **This notebook shows real photographs. Clear its outputs before you share or publish"
        " it.**"
    )
    display(Markdown(warning), metadata={"shows_photographs": True})

# %% [markdown]
# ## Method
#
# Each photograph is cropped to its field of view at 299 px, black outside. The field of view is the
# circle that differs from the background, whatever the background's colour. `method="voets"`
# repeats the steps of Voets et al. 2019, including their faults. A crop's status says whether it is
# `clipped` by the frame, `doubtful` because it looks unlike a retina or its file is damaged (it is
# kept, because a dark haemorrhage can look so too), an `ellipse` that was made round, `enlarged`
# from fewer pixels, or `full_frame` without a dark border. The table shows
# how often each status occurs and how large the fields of view are:

# %%
parts = prepared.photographs
radii = parts.groupby("status")["radius"].agg(["count", "min", "median", "max"])
radii.set_axis(
    ["photographs", "smallest radius [px]", "median [px]", "largest [px]"], axis=1
).round()

# %% [markdown]
# Patients are split so that nobody is on two sides and all sides have the same shares of grades.
# Patients who share a picture, even in copies that were saved differently, form one group; the
# later of two identical files is excluded. Names are replaced by keyed hashes. Labels and split are
# tables, so a new seed or a corrected grade takes seconds (`python -m dr_lib split`, `prepare`),
# and so does the export of labelled TFRecords for other tools (`python -m dr_lib split DATA_DIR
# --records OUT`).

# %%
counts = parts.pivot_table(
    index="split", columns="grade", values="image_id", aggfunc="count", fill_value=0
)
counts["patients"] = parts.groupby("split")["patient_id"].nunique()
counts

# %%
division = manifest["splits"]["split.csv"]
print(f"{division['num_groups']} groups, {division['num_excluded']} photographs excluded")

# %% [markdown]
# ## Result
#
# The contact sheet shows crops of every status and every grade, then random others, with their row
# in the label table.

# %%
import matplotlib.pyplot as plt
import pandas as pd

shuffled = parts.sample(frac=1, random_state=0)
is_known = shuffled["status"].duplicated() & shuffled["grade"].duplicated()
chosen = pd.concat([shuffled[~is_known], shuffled[is_known]])[:num_shown]
chosen = chosen.sort_values(["grade", "row"], ignore_index=True)
crops = prepared.open_crops(chosen)
num_rows = -(-len(chosen) // 8)
figure, axes = plt.subplots(
    num_rows, 8, figsize=(12, 0.4 + 1.9 * num_rows), layout="constrained", squeeze=False
)
for axis in axes.flat:
    axis.axis("off")
for axis, image, row in zip(axes.flat, crops[:], chosen.itertuples(), strict=False):
    axis.imshow(image)
    status = row.status.replace("+", ", ")
    axis.set_title(f"row {row.row}, grade {row.grade}\n{status}", fontsize="small")
_ = figure.suptitle(f"Crops ({note})")

# %% [markdown]
# The table counts the photographs that could not be used; `rejected.csv` in the private folder
# names the files.

# %%
pd.Series(manifest["rejected"], name="photographs", dtype=int).rename_axis("reason").to_frame()

# %% [markdown]
# ## What this shows

# %%
import os

shares = ", ".join(
    f"{name} {count['num_images']} photographs" for name, count in division["counts"].items()
)
Markdown(
    f"**{num_photographs - manifest['num_rejected']}** of {num_photographs} photographs can "
    f"be used for training: {shares}. In notebook 10, set "
    f"`data_dir={os.path.relpath(data_dir)}`."
)

# %% [markdown]
# ## Limits
#
# A patient whose photographs are listed under two names can still be in two splits, and so can
# fellow eyes if the label table names no patients. Grades are used as the table gives them.
