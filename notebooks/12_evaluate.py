# %% [markdown]
# # Does the model find the patients who need a doctor?
#
# **Question.** Which patients does a model refer, and whom does it miss? Are its probabilities well
# calibrated, and is it useful?
# **Input.** One or more `predictions.csv` files from notebook 10, from `predict` or from any other
# program.
# **Output.** An evaluation by patient, a page for an ethics committee, and a card of facts. Without
# predictions, a small network is first trained on the synthetic sample.
#
# **Resumo.** Quais pacientes um modelo encaminha e quem ele deixa passar? Suas probabilidades são
# bem calibradas, e ele é útil? Entrada: um ou mais `predictions.csv`, do notebook 10, de `predict`
# ou de qualquer outro programa. Saída: uma avaliação por paciente, uma página para o comitê de
# ética e uma ficha de fatos.

# %% tags=["parameters"]
# predictions
predictions: str = ""  # one or more predictions.csv, with commas; empty for the only one
ensemble: bool = False  # @param {type:"boolean"}  # average the models' probabilities
folds: bool = False  # @param {type:"boolean"}  # the files are folds of one recipe
sheet: str = ""  # sheet of a workbook, where several have the columns
columns: str = ""  # columns of the files to use, as pairs of our name and theirs, with commas
# operating points, frozen on the validation split
sensitivity: float = 0.9  # of the point of high sensitivity
specificity: float = 0.9  # of the point of high specificity
thresholds: str = ""  # two thresholds frozen elsewhere, separated by a comma
# report
subgroups: str = ""  # further columns of the predictions that define groups, with commas
num_errors: int = 10  # number of worst errors of each kind to list
private: str = ""  # prepared folder whose patients and files to name, in its private folder
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

setup.set_up(root, "12_evaluate", "nbconvert", "statsmodels")

# %% [markdown]
# ## Data
#
# A row is a photograph: its patient, split, label and probability. What would make the evaluation
# wrong is refused, such as a patient in two splits, copies, or scored training photographs.

# %%
from dr_lib.evaluation.predictions import average_sets, group_by_photographs, read_predictions
from dr_lib.files import split_paths

paths = [Path(root, name) for name in split_paths(predictions)]
if not paths:  # those of the only training of this clone, or of the sample
    from dr_lib.training.train_once import list_trained

    paths = [folder / "predictions.csv" for folder in list_trained(root)]
    names = ", ".join(str(path.relative_to(root)) for path in paths)
    if len(paths) > 1:
        raise SystemExit(f"several trainings: set predictions to one, latest first: {names}")

models = read_predictions(*paths, sheet=sheet, columns=split_paths(columns), folds=folds)
models = average_sets(models) if ensemble else models
model = models[0]
same_patients = group_by_photographs(models)[0]

# %%
import pandas as pd

from dr_lib import Page
from dr_lib.report.style import SAMPLE

if private:
    from dr_lib.data.labels.privacy import find_private, place_private

    prepared = Path(root, private)
    file_names = pd.read_csv(find_private(prepared) / "names.csv", dtype=str)
    out = str(place_private(Path(out), prepared))
    os.umask(0o077)  # nobody else reads what is written
page = Page(out, lang)
say = page.say
counts = say("{} patients, {} photographs")
counts = counts.format(model.test["patient_id"].nunique(), len(model.test))

# %% tags=["title"]
names = "; ".join(dict.fromkeys(each.name for each in models))
words = "Does the model find the patients who need a doctor?"
notice = SAMPLE if model.is_synthetic else ""
page.heading(words, [say("Evaluation"), names, counts], notice)

# %%
from dr_lib.evaluation import points as operating
from dr_lib.evaluation.scores import summarise

points = operating.freeze_points(models, sensitivity, specificity, thresholds, lang)
own = points[0]
measured = operating.measure_points(model, own)
patients = measured[measured["unit"] == operating.UNITS[0]] if len(own) else measured
summary = summarise(model)

# %% [markdown] tags=["heading"]
# ## Patients and photographs · Pacientes e retinografias

# %% [markdown] tags=["en"]
# Here and for groups, counts below five are not shown, and others are rounded to five. Fellow eyes
# are alike, so every interval (95 %) is over patients. Below 30 patients counts stand alone.

# %% [markdown] tags=["pt"]
# Aqui e nos grupos, contagens abaixo de cinco não são mostradas; as demais são arredondadas para
# múltiplos de cinco. Os dois olhos se parecem; por isso, todo intervalo (95 %) é calculado por
# paciente. Abaixo de 30 pacientes, só há contagens.

# %% tags=["report"]
from dr_lib.data.labels.schema import OWN, fold_name
from dr_lib.evaluation.groups import count_flow, publish, round_count
from dr_lib.evaluation.scores import count_below

flow = publish(count_flow(model))
page.table(flow, "flow", "From the photographs offered to those evaluated.")
named = split_paths(subgroups)
for evaluated in models:
    others = [name.removeprefix(OWN) for name in evaluated.table if name.startswith(OWN)]
    if unused := set(others) - set(map(fold_name, named)):
        words = "Columns of {} that this report does not use: {}. Each photograph counts once."
        page.note(words, evaluated.name, ", ".join(sorted(unused)))
if model.test["grade"].min() > 0:
    page.note("No photograph has grade 0: grades begin with 0 here, not with 1.")
if below := count_below(model.test):
    words = "{} test photographs are referable below grade 2, as by macular oedema."
    page.note(words, round_count(below))

# %% [markdown] tags=["heading"]
# ## Discrimination · Discriminação

# %% [markdown] tags=["en"]
# The operating points are chosen on the validation split, where they reach their goal, and frozen.
# A data set without validation rows uses the thresholds of the same model at home, or `thresholds`.
# A patient is referred if a photograph reaches the threshold, and has the disease if an eye has.

# %% [markdown] tags=["pt"]
# Os pontos de operação são escolhidos na validação, onde alcançam sua meta, e congelados. Um
# conjunto sem linhas de validação usa os limiares do mesmo modelo no de origem, ou `thresholds`.
# Uma pessoa é encaminhada se uma retinografia atinge o limiar, e tem a doença se um olho a tem.

# %% tags=["report"]
from dr_lib.evaluation import figures
from dr_lib.evaluation.comparison import compare_models

page.table(
    summary,
    "summary",
    "Scores over all thresholds [95 % interval].",
    columns="num_images num_patients num_referable prevalence auc brier kappa".split(),
)
page.figure(
    figures.plot_roc(same_patients, measured, lang),
    "roc",
    "ROC curve of the photographs; markers are the operating points of the first model.",
)
page.table(
    own,
    "points",
    "Operating points and the data they were chosen on.",
    columns="point fold threshold source chosen_on validation_diseased".split(),
)
if own.empty:
    page.note("No operating point: there are no validation rows.")
page.table(
    measured,
    "accuracy",
    "The operating points on the test split, of patients and of photographs [95 % interval].",
    columns="unit point tp fn fp tn sensitivity specificity".split(),
)
words = "Each further model beside the first, on the same patients [95 % interval]."
page.table(compare_models(same_patients), "comparison", words)

# %% [markdown] tags=["heading"]
# ## Calibration · Calibração

# %% [markdown] tags=["en"]
# Of the photographs with a probability of 20 %, one in five should be referable. Perfect
# calibration has slope 1 and intercept 0; below a slope of 1 the probabilities are too extreme.

# %% [markdown] tags=["pt"]
# Das retinografias com probabilidade de 20 %, uma em cada cinco deveria ser encaminhável.
# A calibração perfeita tem inclinação 1 e intercepto 0; abaixo de 1 elas são extremas demais.

# %% tags=["report"]
from dr_lib.evaluation.scores import calibrate, weigh_decisions

calibrated, bins = calibrate(model)
page.table(calibrated, "calibration", "Calibration on the test split [95 % interval].")
if calibrated["slope"].isna().any():
    page.note("Not estimable: few patients, one probability, no error, or a wrong 0 or 1.")
page.figure(
    figures.plot_calibration(bins, lang),
    "calibration_curve",
    "Observed share of referable photographs against the mean prediction, in tenths, with 95 % "
    "intervals from 30 patients on.",
)

# %% [markdown] tags=["heading"]
# ## Is it useful? · É útil?

# %% [markdown] tags=["en"]
# A threshold of 10 % means that missing a referable eye is nine times as bad as a needless
# referral. The model is useful where its net benefit, with its band, is above those of referring
# everybody and nobody. Net benefit depends on how many photographs are referable.

# %% [markdown] tags=["pt"]
# Um limiar de 10 % significa que não encaminhar um olho encaminhável é nove vezes pior que um
# encaminhamento desnecessário. O modelo é útil onde seu benefício líquido, com sua faixa, supera os
# de encaminhar todos e ninguém. O benefício líquido depende de quantas são encaminháveis.

# %% tags=["report"]
page.figure(
    figures.plot_decisions(weigh_decisions(model), lang),
    "decision_curve",
    "Net benefit by threshold at a prevalence of {}, that of the test split, with a 95 % band.",
    page.number(model.test["referable"].mean()),
)

# %% [markdown] tags=["heading"]
# ## Groups · Grupos

# %% [markdown] tags=["en"]
# Groups of patients, scored where ten have the disease and ten do not (AUC), or 30 (shares). Where
# the small groups of a factor are together fewer than five patients, the next larger one is not
# shown either. A group does worse if the interval of the difference from all other patients lies
# below 0; of all these comparisons together 5 % may err (Bonferroni).

# %% [markdown] tags=["pt"]
# Grupos de pacientes, avaliados onde dez têm a doença e dez não (AUC), ou 30 (proporções). Onde os
# grupos pequenos de um fator somam menos de cinco pacientes, o seguinte também não é mostrado. Um
# grupo vai pior se o intervalo da diferença para todos os demais pacientes fica abaixo de 0; todas
# essas comparações juntas erram em 5 % (Bonferroni).

# %% tags=["report"]
from dr_lib.evaluation.committee import describe_groups
from dr_lib.evaluation.groups import score_groups

groups = publish(score_groups(model, own, named))
page.table(
    groups,
    "subgroups",
    "Groups at the first operating point, by the worse eye [95 % interval].",
    columns="factor level num_patients num_diseased auc sensitivity specificity".split(),
)
if len(own):
    page.note("The first operating point is {}.", say(own["point"][0]))
page.findings([describe_groups(page, groups)])

# %% [markdown] tags=["heading"]
# ## The worst errors · Os piores erros

# %% [markdown] tags=["en"]
# Errors at the first operating point, highest missed grades first, by their line in the file.
# With `-p private data/prepared` it names files, and `missed_patients.csv` lists each patient.

# %% [markdown] tags=["pt"]
# Erros no primeiro ponto de operação, primeiro os graus mais altos não encaminhados, por sua linha
# no arquivo. Com `-p private data/prepared` ela nomeia os arquivos, e `missed_patients.csv` lista
# cada paciente.

# %% tags=["report"]
if len(own):
    errors = operating.list_errors(model, own, num_errors)
    if private:
        missed = operating.list_missed_patients(model, own, file_names)
        words = "Patients who are missed, with all their photographs."
        page.table(missed, "missed_patients", words)
        errors = errors.merge(file_names[["image_id", "file"]], on="image_id", how="left")
    page.table(errors.drop(columns="image_id"), "errors", "The worst errors on the test split.")

# %% tags=["report"]
from dr_lib.claims.page import show_claims
from dr_lib.claims.verdicts import judge_data_sets
from dr_lib.evaluation.comparison import compare_data_sets, read_trainings

data_sets = compare_data_sets(models, points)
if len(group_by_photographs(models)) > 1:
    page.section("External validation")
    page.table(
        data_sets,
        "data_sets",
        "Each model on each data set, at thresholds carried over [95 % interval].",
        columns="model trained_on tested_on num_patients auc point sensitivity specificity".split(),
    )
trainings = read_trainings(models, paths)
judged = judge_data_sets(data_sets, trainings)
if judged["verdict"].ne("not measured").any():
    show_claims(page, judged)
    if unknown := [name for name, training in trainings.items() if not training]:
        words = "How {} was trained is unknown: leave predictions.csv beside the folder model."
        page.note(words, ", ".join(unknown))

# %% [markdown]
# ## What this shows

# %% tags=["answer"]
from dr_lib.evaluation.answer import answer_evaluation
from dr_lib.evaluation.scores import seems_confidence

others = data_sets[data_sets["model"] == model.name].drop_duplicates("tested_on")
others = others[others["tested_on"] != model.dataset]
answer = answer_evaluation(summary.iloc[0], patients, others, page)
if folds:
    words = say("Pooled are {} models of one recipe ({}), each tested on other patients.")
    answer.limits.append(words.format(model.test["fold"].nunique(), model.name))
for other in filter(seems_confidence, models):
    words = say("No probability of {} is low: is it that of the predicted class?")
    answer.limits.append(words.format(other.name))
if model.is_synthetic:
    answer.limits.append(say("The photographs are synthetic."))
for number in flow.loc[flow["stage"] == "ungradable", "num_images"]:
    words = say("{} photographs could not be graded, and are not counted.")
    answer.limits.append(words.format(number))
rests = say("Rests on {} of the test split; intervals of 95 %, by patient; model {}.")
page.answer(answer._replace(rests=rests.format(counts, model.name)))

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# One test split from one source says little about other cameras, graders and populations. The
# intervals cover the sampling of patients, not the spread between training runs. Macular oedema
# counts only if the labels include it. This is not a medical device.

# %% [markdown] tags=["pt"]
# Um teste de uma só origem diz pouco sobre outras câmeras, avaliadores e populações. Os intervalos
# cobrem a amostragem de pacientes, não a variação entre treinamentos. O edema macular só conta se
# os rótulos o incluem. Isto não é um dispositivo médico.

# %% [markdown] tags=["heading"]
# ## Appendix: a card of facts · Apêndice: ficha de fatos

# %% tags=["report"]
from datetime import UTC, datetime

import dr_lib
from dr_lib.code import read_commit, shorten_commit
from dr_lib.evaluation.answer import list_facts
from dr_lib.evaluation.committee import write_committee

facts = list_facts(model, summary.iloc[0], own, measured, page)
commit = shorten_commit(read_commit(root))
made = f"{datetime.now(UTC):%Y-%m-%d}, dr_lib {dr_lib.__version__}, commit {commit}"
card = pd.DataFrame({"fact": [*facts, say("made")], "text": [*facts.values(), made]})
page.table(card, "card", "Facts of the model and of its evaluation.")
committee = write_committee(page, model, summary["auc_low"].iloc[0], patients, groups)
page.write("committee.html", committee.encode())
