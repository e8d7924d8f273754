# %% [markdown]
# # Does the model find the patients who need a doctor?
#
# **Question.** Which patients does a model refer, and whom does it miss? Are its probabilities well
# calibrated, and is it useful?
# **Input.** One or more `predictions.csv` files from notebook 10, from `predict` or from any other
# program.
# **Output.** An evaluation by patient that follows the reporting guidelines, and the items of
# STARD-AI and TRIPOD+AI that it fills in. Without predictions, a small network is first trained on
# the synthetic sample.
#
# **Resumo.** Quais pacientes um modelo encaminha e quem ele deixa passar? Suas probabilidades são
# bem calibradas, e ele é útil? Entrada: um ou mais `predictions.csv`, do notebook 10, de `predict`
# ou de qualquer outro programa. Saída: uma avaliação por paciente e os itens de STARD-AI e
# TRIPOD+AI que ela preenche.

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
prevalence: str = "0.05,0.2"  # shares of referable photographs elsewhere, with commas between
subgroups: str = ""  # further columns of the predictions that define groups, with commas
num_errors: int = 10  # number of worst errors of each kind to list
private: str = ""  # prepared folder whose photographs to show, in its private folder, or none
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

setup.set_up(root, "12_evaluate", "statsmodels")

# %% [markdown]
# ## Data
#
# The file has one row per photograph: its patient, split, label and probability. Rows that would
# make the evaluation wrong are refused: a patient in two splits, predictions of training
# photographs, copies, synthetic photographs among real ones.

# %%
from dr_lib.evaluation.predictions import (
    average_sets,
    group_by_photographs,
    read_predictions,
)
from dr_lib.files import split_paths

paths = [Path(root, name) for name in split_paths(predictions)]
if not paths:  # those of the only training of this clone, or of the sample
    from dr_lib.training.train_once import list_trained

    paths = [folder / "predictions.csv" for folder in list_trained(root)]
    if len(paths) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in paths)
        raise SystemExit(
            f"several trainings: set predictions to one, the latest first: {names}"
        )

# %%
from dr_lib import Page
from dr_lib.evaluation.comparison import (
    compare_data_sets,
    compare_models,
    follow_first,
    list_elsewhere,
    read_trainings,
)
from dr_lib.evaluation.curves import calibrate, trace_curves, weigh_decisions
from dr_lib.evaluation.flow import count_flow, hide_flow, hides_test
from dr_lib.evaluation.points import (
    ERRORS,
    SOURCES,
    abstain,
    find_called,
    freeze_points,
    keep_usual,
    list_errors,
    list_missed,
    measure_points,
    move_prevalence,
)
from dr_lib.evaluation.scores import (
    FEW,
    count_below,
    count_grades,
    find_worse_eyes,
    read_shares,
    seems_confidence,
    summarise,
    write_few,
)
from dr_lib.evaluation.subgroups import find_crowded, hide_subgroups, split_subgroups
from dr_lib.report.style import SAMPLE
from dr_lib.statistics.clustered import MIN_PATIENTS

chosen = split_paths(columns)
models = read_predictions(*paths, sheet=sheet, columns=chosen, folds=folds)
models = average_sets(models) if ensemble else models
model = models[0]
if private:
    from dr_lib import Prepared
    from dr_lib.data.labels.privacy import place_private, read_names

    prepared = Prepared(Path(root, private))
    out = out and str(place_private(Path(out), prepared.path))
    print(f"this report shows patients; its files: {out or 'none'}")
page = Page(out, lang)
say = page.say
names = "; ".join(dict.fromkeys(m.name for m in models))
counts = say("{} patients, {} photographs").format(
    model.test["patient_id"].nunique(), len(model.test)
)
print(f"{names}; {counts}")

# %% tags=["title"]
notice = SAMPLE if model.is_synthetic else ""
words = "Does the model find the patients who need a doctor?"
page.heading(words, [say("Evaluation"), names, counts], notice)

# %%
shares = read_shares("prevalence", prevalence)
frozen = read_shares("thresholds", thresholds)
points = freeze_points(
    models, sensitivity=sensitivity, specificity=specificity, thresholds=frozen
)
own = points[0]
measured = measure_points(model, own)
patients = measure_points(model, own, by_patient=True)
files = read_names(prepared.path) if private else {}

# %% tags=["report"]
from dr_lib.evaluation import figures

if private and len(own):
    from IPython.display import Markdown, display

    notice = say("This report shows photographs of patients: keep it private.")
    display(Markdown(f"> **{notice}**"), metadata={"shows_photographs": True})

    def open_crops(rows):
        known = prepared.photographs[prepared.photographs["image_id"].isin(rows["image_id"])]
        return dict(zip(known["image_id"], prepared.open_crops(known)[:], strict=True))

    page.section("Missed eyes")
    missed = list_missed(model, own, files)
    page.note(
        "{} of {} eyes with referable disease are missed at {}; the worst come first.",
        len(missed),
        int(model.test["referable"].sum()),
        say(own["point"].iloc[0]),
    )
    page.table(
        missed.drop(columns="image_id"),
        "missed",
        "Missed eyes, and why the reference says that they are referable.",
    )
    missed = missed.head(num_errors)
    if len(missed):
        page.figure(
            figures.plot_photographs(missed, open_crops(missed), lang),
            "errors",
            "Missed eyes, as the model saw them.",
        )

# %% tags=["report"]
from dr_lib.claims.page import show_claims
from dr_lib.claims.verdicts import judge_data_sets

data_sets = compare_data_sets(models, points)
if len(group_by_photographs(models)) > 1:
    page.section("External validation")
    page.figure(
        figures.plot_data_sets(data_sets, lang), "data_sets", "Each model on each data set."
    )
    scores = "trained_on tested_on num_patients auc point sensitivity specificity".split()
    if data_sets["model"].nunique() > 1:
        scores.insert(0, "model")
    page.table(
        data_sets.drop(columns="data_kind"),
        "data_sets",
        "Each model on each data set, at thresholds carried over [95 % interval].",
        columns=scores,
    )
    for number, other, at in list_elsewhere(models, points):
        there, curves = calibrate(other)
        page.figure(
            figures.plot_calibration(curves, lang),
            f"calibration_{number}",
            "Observed outcomes against predictions on {}, with a 95 % band over patients, above "
            "the numbers of photographs (log).",
            other.dataset,
        )
        words = "Calibration on this data set [95 % interval]."
        page.table(there, f"calibration_{number}", words)
        if len(other.graded):
            page.figure(
                figures.plot_confusion(count_grades(other), lang),
                f"confusion_{number}",
                "Photographs of {} by true and predicted grade.",
                other.dataset,
            )
        if len(at):
            wrong = list_errors(other, at, num_errors).drop(columns="image_id")
            page.table(wrong, f"errors_{number}", "The worst errors on this data set.")
trainings = read_trainings(models, paths)
judged = judge_data_sets(data_sets, trainings)
if judged["verdict"].ne("not measured").any():
    show_claims(page, judged)
    if unknown := [name for name, training in trainings.items() if not training]:
        page.note(
            "How {} was trained is unknown, so no claim is compared: leave predictions.csv beside "
            "the folder model of its run.",
            ", ".join(unknown),
        )

# %% [markdown] tags=["heading"]
# ## Patients and photographs · Pacientes e retinografias

# %% [markdown] tags=["en"]
# This section counts the photographs that were offered, those that could not be used, and those
# evaluated; reasons are quoted from the file. Fellow eyes are alike, so every interval below (95 %)
# is computed over patients. AUC, average precision and Brier score use closed forms on the logit
# scale with the spread between patients; other scores use closed forms, a jackknife or a bootstrap
# of patients.

# %% [markdown] tags=["pt"]
# Esta seção conta as retinografias disponíveis, as que não puderam ser usadas e as avaliadas; os
# motivos são citados do arquivo. Os dois olhos se parecem; por isso, todo intervalo abaixo (95 %) é
# calculado por paciente. AUC, precisão média e escore de Brier usam fórmulas na escala logit com a
# variação entre pacientes; as demais métricas usam fórmulas, um jackknife ou um bootstrap de
# pacientes.

# %%
import pandas as pd

from dr_lib.data.labels.schema import OWN, fold_name

flow = count_flow(model)
shown = flow if private else hide_flow(flow)
shown

# %% tags=["report"]
page.figure(
    figures.plot_flow(shown, lang), "flow", "From the photographs offered to those evaluated."
)
page.write("flow.csv", shown.to_csv(index=False).encode())
sources = [source for evaluated in models for source in evaluated.sources]
if (shown["num_images"] == "–").any():  # the number of rows would tell
    sources = [source._replace(rows="–") for source in sources]
for source in sources:
    if source.encoding == "windows-1252":
        page.note("{} is not UTF-8 and was read as {}.", source.file, source.encoding)
named = split_paths(subgroups)
for evaluated in models:
    others = [name.removeprefix(OWN) for name in evaluated.table if name.startswith(OWN)]
    if unused := set(others) - set(map(fold_name, named)):
        page.note(
            "Columns of {} that this report does not use: {}. Each photograph counts once.",
            evaluated.name,
            ", ".join(sorted(unused)),
        )
if "grade" in model.test and model.test["grade"].min() > 0:
    page.note("No photograph has grade 0: grades begin with 0 here, not with 1.")
below = [count_below(table) for table in (model.table, model.test)]
if below[0]:
    page.note(
        "{} photographs, {} of the test split, are referable with a grade below 2, as by macular "
        "oedema: the column referable is the label.",
        *(below if private else map(write_few, below)),
    )

# %% [markdown] tags=["heading"]
# ## Discrimination · Discriminação

# %% [markdown] tags=["en"]
# The operating points are chosen on the validation split and frozen: nothing is chosen on the test
# split. Their names state the goal on the validation split; the tables below show what is reached
# on the test split. A data set without validation rows uses the unchanged thresholds of the same
# model from the model's own data set, if that file is also given, or the two values of
# `thresholds`; otherwise it has no operating points.

# %% [markdown] tags=["pt"]
# Os pontos de operação são escolhidos na validação e congelados: nada é escolhido no teste. Os
# nomes dizem a meta na validação; as tabelas abaixo, o que se alcança no teste. Um conjunto de
# dados sem linhas de validação usa, sem mudança, os limiares do mesmo modelo no conjunto de origem,
# se esse arquivo também for dado, ou os dois valores de `thresholds`; do contrário, não há pontos
# de operação.

# %% tags=["report"]
from dr_lib.statistics.clustered import MIN_GRADED

summary = summarise(model)
page.table(
    summary,
    "summary",
    "Scores over all thresholds [95 % interval].",
    columns=["num_images", "num_patients", "num_referable", "prevalence", "auc"]
    + ["average_precision", "brier", "kappa"],
)
if len(model.graded) and summary["kappa_low"].isna().iloc[0]:
    page.note(
        "This kappa has no interval: that takes {} patients, of whom two are graded wrongly.",
        MIN_GRADED,
    )
if summary.filter(like="_low").isna().iloc[0].any():
    page.note(
        "A score without an interval is uncertain: these patients are too few to bound it."
    )

# %%
curves = trace_curves(model)
curves["roc"].tail()

# %% tags=["report"]
page.figure(
    figures.plot_roc(curves, measured, summary.iloc[0], lang),
    "roc",
    "ROC curve with its 95 % band, pointwise, over patients.",
)
page.figure(
    figures.plot_precision(curves, measured, summary.iloc[0], lang),
    "precision_recall",
    "Precision-recall curve; markers as in the ROC curve.",
)
page.table(
    own,
    "points",
    "Operating points and the data they were chosen on.",
    columns=["point", "fold", "threshold", "source", "validation_patients"]
    + ["validation_diseased", "validation_sensitivity", "validation_specificity"],
)
if own.empty:
    page.note(
        "No operating point: there are no validation rows, and the test split must not be "
        "used to choose one."
    )
if len(own) == 1:
    page.note(
        "The validation split does not reach a specificity of {}: that operating point is left"
        " out.",
        page.number(specificity),
    )
if "chosen_on" in own:
    if own["source"].iloc[0] == SOURCES[2]:
        page.note(
            "The thresholds were frozen on the validation split of {} and carried over unchanged.",
            own["chosen_on"].iloc[0],
        )
    if own["validation_specificity"].iloc[0] >= specificity:
        page.note(
            "On the validation split, every threshold between the two reaches the requested "
            "sensitivity and specificity."
        )
    if own["validation_diseased"].min() < MIN_PATIENTS:
        page.note(
            "The thresholds rest on {} patients with the disease; with fewer than {} they depend "
            "on chance.",
            own["validation_diseased"].min(),
            MIN_PATIENTS,
        )

# %% [markdown] tags=["en"]
# A patient is referred if any photograph reaches the threshold, and has the disease if any eye is
# referable: the worse eye at any visit counts, or the only one. FN are patients with the disease
# who would be sent home. These four counts describe the whole test split, and are shown even where
# they are small.

# %% [markdown] tags=["pt"]
# Uma pessoa é encaminhada se uma das retinografias atinge o limiar, e tem a doença se um dos olhos
# é encaminhável: conta o pior olho de qualquer visita, ou o único. FN são pacientes com a doença
# que seriam mandados para casa. Estas quatro contagens descrevem o teste inteiro, e são mostradas
# mesmo quando pequenas.

# %% tags=["report"]
if len(own) and not private and hides_test(flow):
    # a second row would tell how many photographs could not be used
    measured = keep_usual(measured)
    patients = keep_usual(patients)
same = [name for name in ["ungradable"] if name in measured and measured[name].nunique() == 1]
counted = ["point", "tp", "fn", "fp", "tn", "sensitivity", "specificity", "ungradable"]
words = "Performance of the operating points for patients of the test split [95 % interval]."
page.table(patients.drop(columns=same), "patients", words, columns=counted)
words = (
    "Performance of the operating points on the photographs of the test split [95 % interval]."
)
page.table(measured.drop(columns=same), "accuracy", words, columns=counted)

# %% [markdown] tags=["en"]
# Predictive values depend on how many photographs are referable, and data sets are often enriched.
# The predictive values elsewhere follow from the likelihood ratios (Bayes), if the spectrum of the
# disease is the same there.

# %% [markdown] tags=["pt"]
# Valores preditivos dependem de quantas retinografias são encaminháveis, e conjuntos de dados
# costumam ser enriquecidos. Os valores preditivos em outro lugar seguem das razões de
# verossimilhança (Bayes), se lá o espectro da doença for o mesmo.

# %% tags=["report"]
moved = move_prevalence(measured, shares)
page.table(moved, "prevalence", "Predictive values at another prevalence [95 % interval].")

# %% [markdown] tags=["heading"]
# ## Calibration · Calibração

# %% [markdown] tags=["en"]
# Of the photographs with a probability of 20 %, one in five should be referable. Perfect
# calibration has slope 1 and intercept 0 (calibration in the large); a slope below 1 means that the
# probabilities are too extreme. The recalibration is learned on the validation split and shown
# separately; it does not change the ranking.

# %% [markdown] tags=["pt"]
# Das retinografias com probabilidade de 20 %, uma em cada cinco deveria ser encaminhável.
# A calibração perfeita tem inclinação 1 e intercepto 0; uma inclinação abaixo de 1 indica que as
# probabilidades são extremas demais. A recalibração é aprendida na validação e mostrada à parte;
# ela não muda a ordenação.

# %%
from dr_lib.statistics.recalibration import NEAR

calibrated, smoothed = calibrate(model)
pd.concat(smoothed).dropna()

# %% tags=["report"]
page.figure(
    figures.plot_calibration(smoothed, lang),
    "calibration",
    "Observed outcomes against predictions, with a 95 % band over patients, above the numbers of "
    "photographs (log). No curve is drawn where fewer than {} photographs are near, or where its "
    "band is wider than {} or has no width.",
    figures.MIN_NEAR,
    page.number(figures.MAX_BAND),
)
page.table(calibrated, "calibration", "Calibration on the test split [95 % interval].")
if len(model.validation) and len(calibrated) == 1:
    page.note(
        "No recalibration: on the validation split the slope is not above 0, or not finite."
    )
num_clipped = (~model.test["probability_referable"].between(NEAR, 1 - NEAR)).sum()
if num_clipped:
    page.note(
        "{} probabilities are closer to 0 or 1 than {} and are clipped there; the fit depends "
        "on it.",
        num_clipped,
        page.number(NEAR),
    )

# %% [markdown] tags=["heading"]
# ## Is it useful? · É útil?

# %% [markdown] tags=["en"]
# A threshold of 10 % means that missing a referable eye is nine times as bad as a needless
# referral. At each threshold, the model's net benefit must exceed that of referring everybody and
# that of referring nobody: it is useful where both gains, with their bands, are above 0. A gain has
# no band where the model refers all photographs, as the strategy does, or none. Net benefit depends
# on how many photographs are referable; the curves at another prevalence take sensitivity and
# specificity to be the same there.

# %% [markdown] tags=["pt"]
# Um limiar de 10 % significa que não encaminhar um olho encaminhável é nove vezes pior que um
# encaminhamento desnecessário. Em cada limiar, o benefício líquido do modelo deve superar o de
# encaminhar todos e o de não encaminhar ninguém: ele é útil onde os dois ganhos, com suas faixas,
# estão acima de 0. Um ganho não tem faixa onde o modelo encaminha todas as retinografias, como a
# estratégia, ou nenhuma. O benefício líquido depende de quantas são encaminháveis; as curvas em
# outra prevalência supõem a mesma sensibilidade e especificidade.

# %%
weighed = {share: weigh_decisions(model, share) for share in (None, *shares)}
weighed[None].head()

# %% tags=["report"]
for share, decisions in weighed.items():
    name = "decision_curve" if share is None else f"decision_curve_{share:g}"
    page.figure(
        figures.plot_decisions(decisions, lang),
        name,
        "Net benefit by threshold at a prevalence of {}, that of the test split; right, the "
        "model's gains with 95 % bands over patients."
        if share is None
        else "Net benefit by threshold at a prevalence of {}; right, the model's gains with 95 % "
        "bands over patients.",
        page.number(summary["prevalence"].iloc[0] if share is None else share),
    )
    page.write(f"{name}.csv", decisions.to_csv(index=False).encode())

# %% [markdown] tags=["heading"]
# ## Behind the scores · Por trás das métricas

# %% tags=["report"]
page.figure(
    figures.plot_distributions(model, own, lang),
    "distributions",
    "Predicted probabilities by true class: density, middle half and median; below 20 photographs "
    "each of them. Lines: thresholds.",
)
if len(model.graded):
    page.figure(
        figures.plot_confusion(count_grades(model), lang),
        "confusion",
        "Photographs by true and predicted grade, shaded by their share of the true grade.",
    )
    if num_others := len(model.test) - len(model.graded):
        page.note(
            "{} photographs without a grade are not counted in the grades and kappa.",
            num_others,
        )

# %% tags=["report"]
from dr_lib.report.style import translate

groups = split_subgroups(model, own, named)
groups = groups if private else hide_subgroups(groups, model)
words = (
    "Subgroups at high sensitivity; scored if they have at least 10 patients with and 10 "
    "without disease."
)
is_hidden = groups.get("num_patients", pd.Series(dtype=object)) == "–"
if not is_hidden.all():
    page.table(groups, "subgroups", words)
if is_hidden.any():
    page.note(
        "Not shown: {}. Alone or crossed with the groups above, they have fewer than {} patients "
        "with or without the disease; larger groups can be shown.",
        ", ".join(
            translate(factor, lang) for factor in groups.loc[is_hidden, "factor"].unique()
        ),
        FEW,
    )
crowded = find_crowded(model)
for name, count in crowded.items():
    page.note("{} has {} values: no subgroups.", name, count)
if groups.empty and crowded.empty:
    page.note(
        "No subgroup can be formed: camera, eye, quality, age and sex are not in the predictions."
    )

# %% [markdown] tags=["heading"]
# ## When the model abstains · Quando o modelo se abstém

# %% [markdown] tags=["en"]
# How good are the model's remaining answers if a person grades the photographs nearest to the
# threshold?

# %% [markdown] tags=["pt"]
# Quão boas são as demais respostas do modelo, se uma pessoa avalia as retinografias mais próximas
# do limiar?

# %%
shown = abstain(model, own) if len(own) else own
shown.head()

# %% tags=["report"]
if len(own):
    page.figure(
        figures.plot_abstention(shown, lang),
        "abstention",
        "Accuracy on the photographs left to the model, with 95 % bands over patients.",
    )

# %% [markdown] tags=["heading"]
# ## The worst errors · Os piores erros

# %% [markdown] tags=["en"]
# The table lists errors at the point of high sensitivity, highest missed grades first, each by its
# line in the predictions file. Names and photographs are shown only if the prepared folder is
# given: `evaluate -p private data/prepared`.

# %% [markdown] tags=["pt"]
# A tabela lista os erros no ponto de alta sensibilidade, primeiro os graus mais altos não
# encaminhados, cada um por sua linha no arquivo de predições. Identificadores e retinografias só
# são mostrados se a pasta preparada for indicada: `evaluate -p private data/prepared`.

# %% tags=["report"]
if len(own):
    errors = list_errors(model, own, num_errors)
    if files:
        errors.insert(1, "file", [files.get(image, "") for image in errors["image_id"]])
    shown = errors if private and not files else errors.drop(columns="image_id")
    page.table(shown, "errors", "The worst errors on the test split.")

# %% tags=["report"]
alarms = errors[errors["error"] == ERRORS[1]] if private and len(own) else ()
if len(alarms):
    page.figure(
        figures.plot_photographs(alarms, open_crops(alarms), lang),
        "alarms",
        "False alarms, as the model saw them.",
    )

# %% tags=["report"]
compared = compare_models(models, points)
if len(compared):
    page.section("Comparison")
    page.table(
        compared,
        "comparison",
        "Differences from the first model, on the same patients [95 % interval].",
    )
    page.note(
        "A difference has an interval from {} patients with the disease (sensitivity), from {} "
        "without it (specificity), and from {} patients of whom two are graded differently "
        "(kappa).",
        MIN_PATIENTS,
        MIN_PATIENTS,
        MIN_GRADED,
    )

# %% [markdown] tags=["heading"]
# ## Reporting guidelines · Diretrizes de relato

# %% [markdown] tags=["en"]
# The items follow STARD-AI and TRIPOD+AI in our own words; the guidelines say more. The author
# fills in what a run cannot know, as listed in `checklist.csv` and `MODEL_CARD.md`. Item numbers of
# TRIPOD+AI are from Table 2 of its statement. Those of STARD-AI are from a public self-assessment,
# because its own table was not accessible.

# %% [markdown] tags=["pt"]
# Os itens seguem STARD-AI e TRIPOD+AI em palavras nossas; as diretrizes dizem mais. O autor
# preenche o que uma execução não pode saber, listado em `checklist.csv` e `MODEL_CARD.md`. Os
# números dos itens de TRIPOD+AI são da Tabela 2 da declaração; os de STARD-AI, de uma autoavaliação
# pública, pois a tabela original não estava acessível.

# %% tags=["report"]
from dr_lib.evaluation import checklist
from dr_lib.evaluation.committee import write_committee
from dr_lib.runs.folds import find_folds

tables = (flow, summary, own, measured, patients, calibrated, groups, data_sets)
evaluated = checklist.Evaluated(model, *tables)
facts = checklist.state_facts(evaluated, lang)
facts["folds"] = facts["folds"] or find_folds(paths[0].with_name("model"))["sentence"]
items = checklist.fill_checklist(facts, lang)
filled = items[items["text"] != ""]
filled = filled.assign(item=filled["guideline"] + " " + filled["item"])
filled = filled.replace({"text": {facts["methods"]: say("see the methods in the appendix")}})
by_text = filled.groupby("text", sort=False, as_index=False)
page.table(
    by_text.agg({"item": "; ".join, "topic": "first"})[["item", "topic", "text"]],
    "checklist_filled",
    "Guideline items that this run fills in.",
)
page.write("checklist.csv", items.to_csv(index=False).encode())
page.write("MODEL_CARD.md", checklist.write_card(facts, lang).encode())
by_patient = split_subgroups(model, own, named, by_patient=True)
by_patient = hide_subgroups(by_patient, model)
page.write("committee.html", write_committee(page, evaluated, by_patient).encode())

# %% [markdown] tags=["heading"]
# ## From photographs to patients · Das retinografias aos pacientes

# %% [markdown] tags=["en"]
# Each patient gets one answer: referral, if any photograph reaches the threshold of high
# sensitivity. `predict MODEL FOLDER --by-patient` gives it for new photographs, at the threshold
# frozen in the model's folder. With `-p private data/prepared`, this page lists the answers for
# patients of the test split. This is not a medical device.

# %% [markdown] tags=["pt"]
# Cada paciente recebe uma só resposta: encaminhamento, se uma das retinografias atinge o limiar de
# alta sensibilidade. `predict MODEL FOLDER --by-patient` a dá para novas retinografias, com o
# limiar congelado na pasta do modelo; com `-p private data/prepared` esta página a lista
# para os pacientes do teste. Isto não é um dispositivo médico.

# %% tags=["report"]
if private and len(own):
    people = find_worse_eyes(model.test)
    people["referred"] = find_called(people, own)
    shown = people[["patient_id", "probability_referable", "referred"]]
    page.table(shown, "referrals", "One answer per patient.")

# %% [markdown]
# ## What this shows

# %% tags=["answer"]

from dr_lib.evaluation.answer import answer_evaluation, limit_ungradable

aims = [
    say("{} % sensitivity").format(page.number(100 * sensitivity)),
    say("{} % specificity").format(page.number(100 * specificity)),
]
if frozen:
    aims = [f"{say('by you')}, {page.number(threshold)}" for threshold in frozen]
others = follow_first(models, points)
answer = answer_evaluation(summary.iloc[0], keep_usual(patients), aims, others, lang)
if folds:
    words = say("Pooled are {} models of one recipe ({}), each tested on other patients.")
    words = words.format(model.test["fold"].nunique(), model.name)
    answer = answer._replace(sentence=f"{words} {answer.sentence}")
for m in filter(seems_confidence, models):
    words = say(
        "No probability of {} is below {}, although {} of {} photographs are not referable: is it "
        "the probability of the predicted class, instead of referable disease?"
    )
    is_healthy = m.test["referable"] == 0
    lowest = page.number(m.test["probability_referable"].min())
    answer.limits.append(words.format(m.name, lowest, is_healthy.sum(), len(is_healthy)))
if model.is_synthetic:
    answer.limits.append(say("The photographs are synthetic."))
answer.limits.extend(limit_ungradable(flow, say, is_private=bool(private)))
rests = say("Rests on {} of the test split; intervals of 95 %, by patient; model {}.")
rests = rests.format(counts, model.name)
page.answer(answer._replace(rests=rests))

# %% [markdown] tags=["heading"]
# ## Limits · Limites

# %% [markdown] tags=["en"]
# One test split from one source says little about other cameras, graders and populations: evaluate
# there too, with the same thresholds. The intervals cover the sampling of patients, not the spread
# between training runs. Referable means what the labels say, by default grade 2 or worse; macular
# oedema counts only if the labels include it. Subgroups are described, not tested. This is not a
# medical device. An AUC near 1 rests on few errors: its interval is deliberately wide, and contains
# the true value more often than 95 % of the time.

# %% [markdown] tags=["pt"]
# Um teste de uma só origem diz pouco sobre outras câmeras, avaliadores e populações: avalie lá, com
# os mesmos limiares. Os intervalos cobrem a amostragem de pacientes, não a variação entre
# treinamentos. Encaminhável é o que dizem os rótulos, por padrão grau 2 ou mais; o edema macular só
# conta se eles o incluem. Subgrupos são descritos, não testados. Isto não é um dispositivo médico.
# Uma AUC perto de 1 depende de poucos erros: seu intervalo é largo de propósito e contém o valor
# verdadeiro em mais de 95 % das vezes.

# %% [markdown] tags=["heading"]
# ## Appendix: files and methods · Apêndice: arquivos e métodos

# %% tags=["report"]
from datetime import UTC, datetime

import dr_lib
from dr_lib.code import read_commit, shorten_commit
from dr_lib.hardware.facts import read_version

packages = ("numpy", "scipy", "sklearn", "statsmodels")
versions = ", ".join(f"{name} {read_version(name)}" for name in packages)
commit = shorten_commit(read_commit(root))
ours = f"dr_lib {dr_lib.__version__}, commit {commit}"
made_by = f"{datetime.now(UTC):%Y-%m-%d}, {ours}, {versions}"
page.findings([f"{made_by}."])
page.table(pd.DataFrame(sources), "sources", "The files that were evaluated.")
methods = pd.DataFrame(checklist.METHODS.items(), columns=["interval", "method"])
page.table(methods, "methods", "How each interval is computed.")
page.write("README.md", checklist.write_readme(sources, made_by).encode())
