# %% [markdown]
# # Where does a network look?
#
# **Question.** Which regions of a photograph raise the probability of referable disease?
# **Input.** The model folder of a run of notebook 10, and a folder that notebook 01 prepared.
# **Output.** Maps beside their control; no row, because nothing is timed. **Time.** Half a minute;
# a minute more if no network has been trained.
#
# **Resumo.** Que regiões de uma retinografia aumentam a probabilidade de doença referível? Entrada:
# a pasta de modelo de uma execução do notebook 10 e uma pasta preparada pelo notebook 01. Saída:
# mapas ao lado do seu controle. Nenhuma linha é escrita: nada é cronometrado.

# %% tags=["parameters"]
model_dir: str = ""  # model folder of a run of notebook 10; empty for the latest
data_dir: str = "sample"  # prepared folder with the test photographs to map, or sample
num_photographs: int = 100  # photographs to map, at most
num_shown: int = 4  # photographs to show
seed: int = 20  # of the control's random weights

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

setup.set_up(root, "13_explain", "cv2", "simplejpeg")

# %% [markdown]
# ## Data
#
# Without `model_dir` this cell uses the latest run of this clone; in a clone without runs, a
# network learns the sample. The photographs are referable ones of the test split, which the network
# has not learned from.

# %%
from dr_lib import activate, choose, open_sample, probe
from dr_lib.training.train_once import list_trained

model_dir = model_dir or list_trained(root)[0] / "model"
activate(choose(probe()))
if data_dir == "sample":
    data_dir = open_sample(root / "papermill_runs" / "sample")

# %%
import numpy as np

from dr_lib import Prepared
from dr_lib.data.prepared.folder import find_split
from dr_lib.explain.grad_cam import load_network

network, facts = load_network(model_dir)
image_size = facts["image_size"]
prepared = Prepared(data_dir, find_split(data_dir, facts["split_sha256"]))
is_synthetic = prepared.is_synthetic
test = prepared.load("test", image_size)
referable = np.flatnonzero(test.referable)[:num_photographs]
images = test.images[referable]
print(f"{facts['model']}, {image_size} px; {len(images)} photographs to explain")
print(f"trained by run {Path(model_dir).parent.name}")

# %% [markdown]
# ## Method
#
# Grad-CAM (Selvaraju et al. 2017) maps what raises the probability of referable disease. Next to
# each map is its control, from the same network with random weights (Adebayo et al. 2018): a map
# that resembles its control explains nothing.

# %%
from dr_lib.explain.grad_cam import grad_cam, randomise

maps = grad_cam(network, images)
control = grad_cam(randomise(network, seed), images)

# %% [markdown]
# ## Result

# %%
from IPython.display import Markdown, display

from dr_lib.explain.figures import plot_explanations

if not is_synthetic:
    notice = "> **This notebook shows photographs of patients: keep it private.**"
    display(Markdown(notice), metadata={"shows_photographs": True})
shown = [each[:num_shown] for each in (images, maps, control)]
plot_explanations(*shown, is_synthetic=is_synthetic)

# %% [markdown]
# ## What this shows

# %% [markdown]
# Compare each map with its control: what both show is no reason of the network.

# %% [markdown]
# ## Limits
#
# A map says what the probability depends on, not why, and it is as coarse as the network's last
# maps. One network is not its recipe: another repetition may look elsewhere. In a synthetic
# photograph lesions are drawn, and nothing is said about disease.
