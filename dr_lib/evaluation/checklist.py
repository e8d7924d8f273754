"""The reporting checklist of an evaluation, its model card, and the sources of its tables.

The numbers of TRIPOD+AI are those of Table 2 of the statement (Collins et al., BMJ
2024;385:e078378), all 52. Those of STARD-AI (Sounderajah et al., Nature Medicine 2025;31:3283) are
those of a public self-assessment by its 40 items: the journal's own table could not be read. The
card has the sections of Mitchell et al. 2019 (Model Cards for Model Reporting). The words are ours:
the guidelines' own say more. Aligned, not certified.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.evaluation.flow import hide_flow, hides_test
from dr_lib.evaluation.points import keep_usual
from dr_lib.evaluation.predictions import Predictions, Source
from dr_lib.evaluation.scores import (
    FEW,
    count_below,
    find_worse_eyes,
    write_few,
)
from dr_lib.markdown import escape
from dr_lib.numbers import write_probability, write_span
from dr_lib.report.style import translate
from dr_lib.statistics.bootstrap import MAX_DRAWS, MAX_WEIGHTS
from dr_lib.statistics.clustered import MIN_PATIENTS

FILLED = "filled by this run"
OPEN = "author must fill"
NAMES = {
    "auc": "AUC",
    "ppv": "positive predictive value",
    "npv": "negative predictive value",
    "sensitivity_severe": "sensitivity for grades 3 and 4",
}
METHODS = {  # of the intervals, 95 %, over patients
    "AUC, average precision, Brier score": (
        "on the logit scale, variance between patients (DeLong et al. 1988, Obuchowski 1997), t"
        " quantile; where few patients carry the variance of the AUC, drawn towards that of Hanley"
        f" and McNeil (1982); below {MIN_PATIENTS} patients of a class Hoeffding's (1963)"
    ),
    "kappa (quadratic weights) and its difference": (
        "jackknife over patients (a single kappa on Fisher's scale), t quantile with as many"
        " degrees of freedom as patients carry the spread"
    ),
    "differences of sensitivity and specificity, gains of the decision curve": (
        "Tango's score interval (1998), with the effective number of photographs; where that is"
        " estimated, t quantile"
    ),
    "ROC curve, calibration curve": (
        f"percentile bootstrap of {MAX_DRAWS:,} draws of patients (seed 0); beyond"
        f" {MAX_WEIGHTS // MAX_DRAWS:,} photographs, of {MAX_WEIGHTS:,} divided by their number"
    ),
    "sensitivity, specificity, predictive values, shares": (
        "Wilson's, with the effective number of photographs by the design effect (Rao and "
        "Scott 1992)"
    ),
    "likelihood ratios": "from the two shares, on the log scale (Zou and Donner 2008)",
    "predictive values at another prevalence": "from the likelihood ratios (Bayes)",
    "calibration slope and intercept": "logistic regression, sandwich variance over patients",
}


class Evaluated(NamedTuple):
    """The tables of an evaluation, each as its function returns it.

    Counts of the subgroups are as they may be shown, see `hide_subgroups`.
    """

    predictions: Predictions
    flow: pd.DataFrame
    summary: pd.DataFrame
    points: pd.DataFrame
    measured: pd.DataFrame
    patients: pd.DataFrame  # what the points do for these
    calibrated: pd.DataFrame
    subgroups: pd.DataFrame
    data_sets: pd.DataFrame


def state_facts(evaluated: Evaluated, lang: str = "en") -> dict[str, str]:
    """State what a run knows of the items, in en or pt; a missing fact is empty, or unknown.

    Fewer than five patients or photographs are no fact, for they may be known by it.
    """
    say = partial(translate, lang=lang)
    predictions = evaluated.predictions
    test = predictions.test
    unknown = say("unknown")  # the file does not say
    names_data = "dataset" in predictions.table
    synthetic = unknown
    if predictions.is_synthetic:
        synthetic = say("synthetic sample, not photographs")
    elif "photographs" in set(predictions.table.get("data_kind", ())):
        synthetic = say("none: photographs")
    version = predictions.version or unknown
    outcome = ""
    if "grade" in test and test["grade"].notna().all():
        outcome = say("referable: grade 2 or worse")
        if count_below(test):
            outcome += say(", or marked as referable")
    folds = ""
    if "fold" in test:
        words = say("the results pool {} models, each tested on other patients")
        folds = words.format(test["fold"].nunique())
    return {
        "model": say("{}, version {}").format(predictions.name, version),
        "version": version,
        "synthetic": synthetic,
        "tested_on": predictions.dataset if names_data else unknown,
        "trained_on": evaluated.data_sets["trained_on"].iloc[0] if names_data else unknown,
        "methods": "; ".join(f"{say(names)}: {say(how)}" for names, how in METHODS.items()),
        "outcome": outcome,
        "folds": folds,
        **_state_people(evaluated, say),
        **_state_scores(evaluated, say, lang),
    }


def _state_people(evaluated: Evaluated, say: Callable[[str], str]) -> dict[str, str]:
    """State who was offered, left out and evaluated."""
    predictions, flow, summary, points, _, _, _, subgroups, _ = evaluated
    num_images = len(predictions.test)
    worse = find_worse_eyes(predictions.test)
    counts = flow.groupby("stage")[["num_images", "num_patients"]].sum()
    images = counts["num_images"]
    offered = hide_flow(flow).set_index("stage").loc["offered"]
    is_masked = hides_test(flow)
    missing = _write_sum(images["test"] - num_images, is_masked)
    number = _write_sum(images.get("ungradable", 0), is_masked)
    ungradable = [say("excluded {}").format(number)]
    if len(points):
        number = _write_sum(len(predictions.ungradable), is_masked)
        ungradable.append(say("counted as referred in a second row {}").format(number))
    ungradable.append(say("not usable {}").format(write_few(images.get("not usable", 0))))
    partition = severity = ""
    if {"learned from", "validation"} <= set(counts.index):
        # not those of test: who was left out there may be few
        sides = counts.loc[["learned from", "validation", "evaluated"], "num_patients"]
        words = say("{} patients learned from, {} of validation, {} of test; none on two sides")
        partition = words.format(*sides)
    is_ill = worse["referable"] == 1
    if "grade" in worse and predictions.test["grade"].notna().all():
        grades = worse.loc[is_ill, "grade"].astype(int).value_counts()
        if grades.min() >= FEW:
            counts = _list_counts(grades.sort_index())
            severity = say("patients by worst grade {}").format(counts)
    people = []
    for factor in ("sex", "age") if len(subgroups) else ():
        levels = subgroups[subgroups["factor"] == factor].set_index("level")["num_patients"]
        if len(levels) and "–" not in set(levels):
            people.append(f"{say(factor)} {_list_counts(levels)}")
    return {
        "flow": say("{} patients offered, {} photographs; {} evaluated, {} photographs").format(
            offered["num_patients"], offered["num_images"], len(worse), num_images
        ),
        "events": say(
            "{} patients, {} with disease; {} photographs, {} of them referable"
        ).format(
            len(worse), write_few(is_ill.sum()), num_images, summary["num_referable"].iloc[0]
        ),
        "missing": say("{} photographs without a usable answer").format(missing),
        "ungradable": "; ".join(ungradable),
        "partition": partition,
        "severity": severity,
        "characteristics": "; ".join(people),
    }


def _state_scores(evaluated: Evaluated, say: Callable[[str], str], lang: str) -> dict[str, str]:
    """State the thresholds, and the scores of the model, of subgroups and on other data sets."""
    predictions, _, summary, points, measured, patients, *rest = evaluated
    calibrated, subgroups, data_sets = rest
    list_scores = partial(_list_scores, say=say, lang=lang)
    scores = [f"AUC {write_span(summary.iloc[0], 'auc', lang)}"]
    thresholds = crossed = recalibration = ""
    if len(points):
        by_photograph = keep_usual(measured).assign(unit="by photograph")
        both = pd.concat([by_photograph, keep_usual(patients).assign(unit="by patient")])
        names = ["sensitivity", "sensitivity_severe", "specificity", "ppv", "npv"]
        scores += list_scores(both, ["unit", "point"], names)
        first = measured.iloc[0]
        counts = say("TP {}, FN {}, FP {}, TN {}").format(*first[["tp", "fn", "fp", "tn"]])
        crossed = f"{say(first['point'])}: {counts}"
        thresholds = "; ".join(
            f"{say(p.point)} {write_probability(p.threshold, lang)} ({say(p.source)})"
            for p in points.itertuples()
        )
        if "chosen_on" in points:
            thresholds += say(", chosen on {}").format(points["chosen_on"].iloc[0])
    if len(calibrated) > 1:
        words = say("slope {}")
        slopes = [
            words.format(write_span(row, "slope", lang)) for _, row in calibrated.iterrows()
        ]
        recalibration = " → ".join(slopes)
    scored = subgroups.dropna(subset="auc") if "auc" in subgroups else subgroups[:0]
    is_elsewhere = data_sets["tested_on"] != predictions.dataset
    elsewhere = data_sets[is_elsewhere & (data_sets["model"] == predictions.name)]
    places = elsewhere.assign(where=elsewhere["trained_on"] + " → " + elsewhere["tested_on"])
    if elsewhere["point"].notna().any():
        places["where"] += ", " + places["point"].map(say)
    external = list_scores(places, ["where"], ["auc", "sensitivity", "specificity"])
    return {
        "thresholds": thresholds,
        "crossed": crossed,
        "points": "; ".join(scores),
        "recalibration": recalibration,
        "subgroups": "; ".join(list_scores(scored, ["factor", "level"], ["auc"])),
        "external": "; ".join(external),
    }


def fill_checklist(facts: Mapping[str, str], lang: str = "en") -> pd.DataFrame:
    """Fill in what a run knows, and mark what its author must fill in.

    Args:
        facts: by the names in the column `fact` of checklist.csv.
        lang: of topics and statuses, en or pt.

    Returns:
        A row per item: `guideline`, `item` (its number), `topic`, `status` (FILLED where a number
        stands in the fact, else OPEN), `text`.
    """
    items = pd.read_csv(
        Path(__file__).with_name("checklist.csv"), dtype=str, keep_default_na=False
    )
    text = items["fact"].map(lambda fact: facts.get(fact, ""))
    is_filled = text.str.contains(r"\d")
    say = partial(translate, lang=lang)
    return items[["guideline", "item"]].assign(
        topic=items["topic"].map(say),
        status=is_filled.map({True: say(FILLED), False: say(OPEN)}),
        text=text.where(is_filled, ""),
    )


def write_readme(sources: Sequence[Source], made_by: str) -> str:
    """Write the README next to the tables: their source files and the methods of the intervals.

    Args:
        sources: of the predictions.
        made_by: date, version and commit.
    """
    files = [f"- {escape(' '.join(map(str, row)))}" for row in sources]
    methods = [f"- {names}: {method}" for names, method in METHODS.items()]
    parts = [
        "# Tables of an evaluation",
        f"Made on {made_by}. `x_low` and `x_high` are the bounds of the 95 % interval of `x`.",
        "Files, rows, SHA-256, encoding:",
        "\n".join(files),
        "Methods of the intervals:",
        "\n".join(methods),
    ]
    return "\n\n".join(parts) + "\n"


def write_card(facts: Mapping[str, str], lang: str = "en") -> str:
    """Write the model card as Markdown, with the same facts as the checklist, in en or pt."""
    name = "model_card.pt.md" if lang == "pt" else "model_card.md"
    template = Path(__file__).with_name(name).read_text(encoding="utf-8")
    missing = f"*{translate(OPEN, lang)}*"
    return template.format_map({name: escape(text) or missing for name, text in facts.items()})


def _list_scores(
    table: pd.DataFrame,
    labels: Sequence[str],
    names: Sequence[str],
    say: Callable[[str], str],
    lang: str,
) -> list[str]:
    texts = []
    for _, row in table.iterrows():
        scores = []
        for name in row.index.intersection(names, sort=False):
            scores.append(f"{say(NAMES.get(name, name))} {write_span(row, name, lang)}")
        label = " ".join(say(str(value)) for value in row[labels])
        texts.append(f"{label}: {', '.join(scores)}")
    return texts


def _list_counts(counts: pd.Series) -> str:
    return ", ".join(f"{level}: {count}" for level, count in counts.items())


def _write_sum(count: int, is_masked: bool) -> str:
    """Write a sum of counts, unless it would reveal a masked count by subtraction."""
    return f"≥ {FEW}" if is_masked and count >= FEW else write_few(count)
