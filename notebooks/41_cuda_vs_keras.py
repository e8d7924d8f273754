# %% [markdown]
# # CUDA C against Keras: how much is the language?
#
# **Question.** How much of the speed of a small network in CUDA C is the language, the GPU, or the
# size of the batch, and do the claims of De Felice Lima and Zola hold on our machines? **Input.**
# The rows that notebook 40 left, from any number of machines. **Output.** Figures 1a, 1b and 2 of
# the paper, like against like, and a verdict on each claim.
# **Time.** Seconds.
#
# **Resumo.** Quanto da rapidez de uma rede pequena em CUDA C se deve à linguagem, à GPU ou ao
# tamanho do lote, e as afirmações do artigo se confirmam nas nossas máquinas? Entrada: as linhas
# deixadas pelo notebook 40. Saída: as figuras 1a, 1b e 2 do artigo, comparações no mesmo lote e um
# veredito para cada afirmação.

# %% tags=["parameters"]
# rows
runs: str = "papermill_runs/mnist_cuda"  # folders with rows, separated by commas
allow: str = ""  # columns in which pooled rows may differ, such as commit
exclude: str = ""  # marks of runs whose times do not count, such as disturbed
# report
published: bool = True  # hold the rows against the paper, false for a study of your own
lang: str = "en"  # of the report, en or pt
out: str = ""  # folder for each figure and table as a file, empty for none

# %% [markdown]
# ## Setup

# %%
import sys
from pathlib import Path

here = Path.cwd()
root = next(path for path in [here, *here.parents] if (path / "dr_lib").is_dir())
sys.path.insert(0, str(root))
from dr_lib.notebook import setup

setup.set_up(root)

# %% [markdown]
# ## Data
#
# All rows of notebook 40 below the folders, one per training; none at all leaves the paper alone in
# figure 1a.

# %%
from dr_lib.evidence.rows import open_rows
from dr_lib.figures.page import Page

rows = open_rows(
    "D", runs, root, default="papermill_runs/mnist_cuda", allow=allow, exclude=exclude
)
selection = rows.selection
timed = selection.timed
page = Page(out, lang)
say = Page(lang=lang).say
print(f"{len(rows.table)} rows, {len(timed)} of them timed")

# %% tags=["summary"]
page.title(
    "CUDA C against Keras: how much is the language?", "D" if published else "", selection
)

# %% [markdown]
# ## Method
#
# The clock of an epoch runs while the network trains and stands still while it is tested. Two
# trainings are compared on the same host in the same batch, by an epoch's time; batches that are
# unlike can only be compared by the time to reach an accuracy, because an epoch of larger batches
# has fewer steps and learns less.

# %% [markdown]
# ## Result

# %% tags=["report"]
from dr_lib.evidence.select import NoRunsError
from dr_lib.figures import mnist

figure = mnist.plot_cumulative_time(timed, lang, published=published)
page.figure(
    figure,
    "figure_1a",
    "Training time after each epoch. Solid: batch 1; dashed: 32; dash-dotted: larger.",
)
try:
    figure = mnist.plot_time_to_accuracy(timed, lang, published=published)
    page.figure(
        figure,
        "figure_1b",
        "Time to reach each accuracy: what unlike batches can be compared by.",
    )
    figure = mnist.plot_speed_up(timed, lang, published=published)
    page.figure(
        figure, "figure_2", "Speed-up over Keras after each epoch. Dotted: unlike batches."
    )
except NoRunsError as error:
    print(error)

# %% tags=["report"]
from dr_lib.evidence.mnist import compare_like_for_like, tabulate_accuracies

accuracies = tabulate_accuracies(timed)
compared = compare_like_for_like(timed)
page.table(
    accuracies,
    "accuracies",
    "Test accuracy at the end, and the median time to reach 90, 95 and 97 % [fastest, slowest].",
)
page.table(
    compared,
    "like_for_like",
    "Times as fast as Keras per epoch, on the same host in the same batch [95 % interval].",
)

# %% tags=["report"]
if published:
    judged = page.judge("D", selection)

# %% [markdown]
# ## What this shows

# %% tags=["summary"]
from dr_lib.figures.style import name_line

words = say("{} is {} times as fast as {}, per epoch, in the same batch.")
rows = [row for _, row in compared.iterrows()]
sentences = [
    words.format(
        name_line(row["line"], say),
        page.interval(row, "times_as_fast"),
        name_line(row["reference"], say),
    )
    for row in rows
]
if published:
    sentences.append(page.count_verdicts("D", judged))
page.findings(sentences or [say("No training has been timed yet.")])

# %% [markdown] tags=["en"]
# ## Limits
#
# Keras is called as its users call it, one call of `fit` with arrays in memory, on the CPU; most of
# its time at batch 1 is not arithmetic but the way to each step.

# %% [markdown] tags=["en", "paper"]
# The paper, too, has Keras on the CPU, and most likely compares unlike batches. It prints neither
# its batch, its loss nor its Keras code: batches 1 and 32, sigmoid, loss, divisors and learning
# rate are our reading, after a public CUDA network of the same shapes
# (github.com/paramhanji/CUDA-CNN, whose README gives 97.22 % after 50 epochs).

# %% [markdown] tags=["pt"]
# ## Limites
#
# Keras é chamado como seus usuários o chamam, uma chamada de `fit` com os dados em memória, na CPU;
# com lotes de 1 a maior parte do seu tempo não é aritmética, mas o caminho até cada passo.

# %% [markdown] tags=["pt", "paper"]
# Também no artigo o Keras roda na CPU, e provavelmente são comparados lotes diferentes. Ele não dá
# seu lote, nem sua função de perda, nem seu código Keras: lotes de 1 e 32, sigmoide, perda,
# divisores e taxa de aprendizado são nossa leitura, segundo uma rede CUDA pública das mesmas formas
# (github.com/paramhanji/CUDA-CNN, cujo README dá 97,22 % após 50 épocas).

# %% tags=["report"]
page.appendix(selection)
