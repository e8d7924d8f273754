# %% [markdown]
# # Start here: one photograph through the whole chain
#
# **Question.** What is this machine, and what happens to a photograph between the camera and the
# model's answer?
# **Input.** None: the repository has a photograph of a healthy left eye (Mikael Häggström, CC0).
# **Output.** Pictures of each step. **Time.** Half a minute.
#
# **Resumo.** O que é esta máquina, e o que acontece com uma retinografia entre a câmera e a
# resposta do modelo? Nada é baixado: o repositório tem a fotografia de um olho esquerdo saudável.
# Cada passo é mostrado uma vez, com uma única imagem.

# %% tags=["parameters"]
image_size: int = 96  # side of the network's input [px]
seed: int = 0  # of the network's weights and of the augmentation

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

setup.set_up(root, "00_start_here", "cv2", "simplejpeg")

# %% [markdown]
# This cell detects the machine and how a training run would use it, without importing a framework.

# %%
from dr_lib import Request, choose, probe

facts = probe()
plan = choose(facts, Request("cpu" if facts.gpu_error else "auto"))
chips = [f"{facts.num_tpu_chips} TPU chips"] * bool(facts.num_tpu_chips)
accelerators = ", ".join(facts.gpus or chips or [facts.gpu_error or "no GPU or TPU"])
print(
    f"{facts.num_cpus} cores ({facts.cpu}), {facts.memory_gib:g} GiB of memory, {accelerators}."
)
place = f"{plan.accelerator.upper()}, in Keras on {plan.backend}, in {plan.precision}"
print(f"A training run would use its {place}.")

# %% [markdown]
# ## Data
#
# A fundus camera takes photographs like this one: a bright disc on black. Left, the optic disc,
# where nerve and vessels enter; in the middle, dark, the fovea. A notch in the border tells the
# camera's orientation. `dr_lib/data/retina.md` names author and licence.

# %%
import matplotlib.pyplot as plt
import numpy as np

path = root / "dr_lib" / "data" / "retina.jpg"
photograph = plt.imread(path)
plt.figure(figsize=(5, 5))
plt.imshow(photograph)
plt.title(f"{photograph.shape[1]} x {photograph.shape[0]} px")
_ = plt.axis("off")

# %% [markdown]
# ## Method
#
# **Find the field of view and crop it.** The circle is found on any background, and everything
# outside it becomes black, which removes text in the corners.

# %%
from dr_lib import crop_fundus

crop = crop_fundus(path)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
left.imshow(photograph)
left.add_patch(
    plt.Circle(crop.circle[:2], crop.circle.radius, fill=False, color="cyan", linewidth=2)
)
left.set_title(f"photograph; field of view found: radius {crop.circle.radius:.0f} px")
right.imshow(crop.image)
right.set_title(f"crop: {crop.image.shape[0]} px, status {crop.status}")
for axis in (left, right):
    axis.axis("off")

# %% [markdown]
# **Store it.** Shards hold the crop as JPEG and a pseudonym; training reads them with or without
# TensorFlow. Grades and splits are in separate tables, so a corrected grade needs no new crops.

# %%
from dr_lib import decode_jpeg, encode_jpeg

stored = encode_jpeg(crop.image)
print(f"{len(stored):,} bytes")

# %% [markdown]
# **Augment it.** The network takes uint8 pixels; casting, flips and colour changes happen on the
# device. In notebook 10 this is a layer of the model. With `augmentation="colour"` it shifts the
# hue strongly, as Voets et al. do, so that the network learns not to rely on the camera's colours.
# Some eyes therefore look pink or yellow.

# %%
from dr_lib import activate

activate(plan)  # Keras takes the plan's backend when it is imported

# %%
from dr_lib import build_model

network = build_model("small_cnn", image_size, augmentation="colour", seed=seed)
augment = network.get_layer("augment")
network_input = decode_jpeg(stored, image_size)
augmented = np.array(augment(np.stack([network_input] * 5), training=True))
figure, axes = plt.subplots(1, 6, figsize=(12, 2.3))
for axis, image in zip(axes, [network_input, *augmented], strict=True):
    axis.imshow(image)
    axis.set_title("augmented")
    axis.axis("off")
_ = axes[0].set_title("as stored")

# %% [markdown]
# ## Result
#
# The network gives a probability of referable disease. This one has not been trained, so its answer
# means nothing yet.

# %%
probability = float(network.predict(network_input[None], verbose=0)[0, 0])
print(f"{network.name}: {network.count_params():,} parameters")
print(f"probability of referable disease: {probability:.2f}")

# %% [markdown]
# ## What this shows
#
# The chain from a photograph to an answer runs on this machine. Continue with **01** to prepare
# photographs, **10** to train and time, and **11** to compare machines with the paper.
#
# ## Limits
#
# One photograph of a healthy eye shows the steps. It says nothing about the accuracy of the field
# of view (the tests measure that) or of the model.
