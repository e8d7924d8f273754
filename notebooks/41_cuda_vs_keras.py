# %% [markdown]
# # CUDA C or Keras: how much does the language matter?
#
# **Question.** How much of the speed of a small network in CUDA C is due to the language, the GPU
# or the batch size, and do the claims of De Felice Lima and Zola hold on our machines? **Input.**
# The rows that notebook 40 wrote, from any number of machines. **Output.** Figures 1a, 1b and 2 of
# the paper, comparisons at equal batch size, and a verdict on each claim.
# **Time.** Seconds.
#
# **Resumo.** Quanto da rapidez de uma rede pequena em CUDA C se deve à linguagem, à GPU ou ao
# tamanho do lote, e as afirmações do artigo se confirmam nas nossas máquinas? Entrada: as linhas
# deixadas pelo notebook 40. Saída: as figuras 1a, 1b e 2 do artigo, comparações no mesmo lote e um
# veredito para cada afirmação.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/mnist_cuda"  # folders with rows, separated by commas
pool: str = ""  # columns that tell no groups apart, such as driver, comma separated
only: str = ""  # rows to choose by their values, written as docs/studies.md shows
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
# report
published: bool = True  # @param {type:"boolean"}  # beside the paper; false: your own study
lang: str = "en"  # @param ["en", "pt"]  # of the report, en or pt
out: str = ""  # folder for each figure and table as a file, empty for none

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

setup.set_up(root, "41_cuda_vs_keras")

# %% [markdown]
# ## Data
#
# This cell reads all rows of notebook 40 below the folders, one per training run.

# %%
from dr_lib import Page, open_rows
from dr_lib.claims.papers import PAPERS

rows = open_rows(
    PAPERS["D"],
    runs,
    root,
    default="papermill_runs/mnist_cuda",
    pool=pool,
    only=only,
    exclude=exclude,
)
selection = rows.selection
timed = selection.timed
page = Page(out, lang)
say = page.say
print(f"{len(rows.table)} rows, {len(timed)} of them timed")

# %%
timed.filter(["implementation", "batch_size", "repetition", "epoch", "train_s", "accuracy"])

# %% tags=["title"]
page.title(
    "CUDA C or Keras: how much does the language matter?",
    PAPERS["D"] if published else None,
    selection,
)

# %% [markdown]
# ## Method
#
# The clock of an epoch runs while the network trains and stops while it is tested. Two training
# runs on the same host with the same batch size are compared by the time of an epoch. Different
# batch sizes can only be compared by the time to reach an accuracy, because an epoch with larger
# batches has fewer steps and learns less.

# %% [markdown] tags=["heading"]
# ## Result · Resultado

# %% tags=["report"]
from dr_lib.mnist import figures as mnist
from dr_lib.report.groups import NoRunsError

try:
    page.figure(
        mnist.plot_cumulative_time(timed, lang),
        "figure_1a",
        "Training time after each epoch: median and band of all runs. Solid: batch 1; "
        "dashed: 32; dash-dotted: larger.",
    )
    page.figure(
        mnist.plot_time_to_accuracy(timed, lang),
        "figure_1b",
        "Time to reach each accuracy, by which different batch sizes can be compared: median, "
        "where half have reached it, and band of all runs.",
    )
    page.figure(
        mnist.plot_speed_up(timed, lang),
        "figure_2",
        "Speed-up over Keras after each epoch: median and band of all runs. Dotted: different "
        "batch sizes.",
    )
except NoRunsError as error:
    print(error)

# %% tags=["report"]
from dr_lib.mnist.epochs import compare_like_for_like, tabulate_accuracies

accuracies = tabulate_accuracies(timed)
compared = compare_like_for_like(timed)


def name_lines(table):
    """Name what ran in the page's language."""
    named = table.copy()
    for column in table.columns.intersection(["line", "reference"]):
        named[column] = [mnist.name_line(line, say) for line in table[column]]
    return named


page.table(
    name_lines(accuracies),
    "accuracies",
    "Final test accuracy, and median time to reach 90, 95 and 97 % [fastest, slowest].",
)
page.table(
    name_lines(compared),
    "like_for_like",
    "Speed relative to Keras per epoch, on the same host with the same batch size [95 % interval].",
)

# %% tags=["report"]
from dr_lib.claims.page import show_claims
from dr_lib.claims.verdicts import judge_claims

judged = judge_claims("D", selection)
if published:
    show_claims(page, judged)

# %% [markdown]
# ## What this shows

# %% tags=["answer"]
import pandas as pd

from dr_lib.numbers import write_span
from dr_lib.report.answer import Answer, Number, list_limits, say_rests
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import OURS
from dr_lib.statistics.intervals import Interval

sentences = []
numbers = []
means = []
for _, row in compared.iterrows():
    ours = mnist.name_line(row["line"], say)
    words = say("{} is {} times as fast as {}, per epoch, with the same batch size.")
    low, high = (row.get(f"times_as_fast{end}", float("nan")) for end in ("_low", "_high"))
    if pd.isna(low):
        words = say("Too few runs to say how {} and {} compare.")
        sentences.append(words.format(ours, mnist.name_line(row["reference"], say)))
        continue
    if low <= 1 <= high:
        words = say("{} is {} times as fast as {}, per epoch, and may be as fast.")
    times, _, bounds = write_span(row, "times_as_fast", lang).partition(" ")
    keras = mnist.name_line(row["reference"], say)
    sentences.append(words.format(ours, times, keras))
    numbers.append(Number(ours, f"{times} x", bounds, say("times as fast as {}").format(keras)))
    interval = Interval(row["times_as_fast"], low, high, row["n"])
    means.append(Mean(f"{ours}\nn = {row['n']}", interval, OURS))
nothing = say("No training has been timed yet.")
if len(timed):
    nothing = say("No host trained CUDA C and Keras with one batch size: no speed is compared.")
answer = Answer(
    (sentences or [nothing])[0],
    numbers[:2],
    sentences[1:],
    list_limits(timed, say),
    say_rests(timed, say, lang) if len(timed) else "",
)
figure = plot_means({say("times as fast as Keras"): means}, lang, unit="x") if means else None
words = (
    "How many times as fast as Keras an epoch is, on the same host with the same batch size "
    "[95 % interval]."
)
page.answer(answer, figure, "speed", words)

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# Keras is used as usual, with one call of `fit` and arrays in memory, on the CPU. At batch size 1,
# most of its time is overhead per step, not arithmetic. Built for a CPU, the source is C++.

# %% [markdown] tags=["en", "paper"]
# The paper also runs Keras on the CPU, and most likely compares different batch sizes. It gives
# neither its batch size, nor its loss, nor its Keras code: `docs/papers.md` lists our choices,
# after a public CUDA network with the same shapes (github.com/paramhanji/CUDA-CNN, whose README
# reports 97.22 % after 50 epochs).

# %% [markdown] tags=["pt"]
# O Keras é usado como de costume, com uma chamada de `fit` e os dados em memória, na CPU. Com lotes
# de 1, a maior parte do seu tempo é custo fixo de cada passo, não aritmética. Compilada para uma
# CPU, a fonte é C++.

# %% [markdown] tags=["pt", "paper"]
# Também no artigo o Keras roda na CPU, e provavelmente são comparados lotes diferentes. Ele não
# informa o lote, a função de perda nem o código Keras: `docs/papers.md` lista as nossas escolhas,
# segundo uma rede CUDA pública com as mesmas formas (github.com/paramhanji/CUDA-CNN, cujo README
# informa 97,22 % após 50 épocas).

# %% tags=["report"]
page.appendix(selection)
