"""What a report of the evaluation still needs, item by item, and the model card.

Numbers are those of STARD 2015 (Bossuyt et al., BMJ 2015), which STARD-AI (Sounderajah et al.,
Nature Medicine 2025) extends, and of TRIPOD+AI (Collins et al., BMJ 2024); STARD-AI's own items
stand without one. The card has the sections of Mitchell et al. 2019 (Model Cards for Model
Reporting). The words are ours: the guidelines' own say more. Aligned, not certified.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dr_lib.evidence.predictions import Predictions
from dr_lib.markdown import escape
from dr_lib.numbers import write_number, write_span

FILLED = "filled by this run"
OPEN = "author must fill"
NOT_APPLICABLE = "not applicable"
NAMES = {"auc": "AUC", "ppv": "positive predictive value", "npv": "negative predictive value"}
METHODS = (
    "AUC, average precision and Brier score on the logit scale with the variance between patients"
    " (DeLong for clustered data), bootstrap over patients, Wilson with a design effect, net"
    " benefit"
)


class Evaluated(NamedTuple):
    """The tables of an evaluation, each as its function of `evaluation` returns it."""

    predictions: Predictions
    flow: pd.DataFrame
    summary: pd.DataFrame
    points: pd.DataFrame
    measured: pd.DataFrame
    calibrated: pd.DataFrame
    subgroups: pd.DataFrame
    data_sets: pd.DataFrame


def state_facts(evaluated: Evaluated) -> dict[str, str]:
    """What a run can say of the items; a fact that it does not know is empty."""
    predictions, flow, summary, points, measured, calibrated, subgroups, data_sets = evaluated
    test = predictions.test
    counts = flow.groupby("stage")[["num_images", "num_patients"]].sum()
    images = counts["num_images"]
    names_data = "dataset" in predictions.table
    scores = [f"AUC {write_span(summary.iloc[0], 'auc')}"]
    ungradable = [f"excluded {images.get('ungradable', 0)}"]
    thresholds = crossed = outcome = severity = partition = recalibration = ""
    if len(points):
        usual = measured[measured["ungradable"] == "excluded"]
        scores += _list_scores(usual, ["point"], ["sensitivity", "specificity", "ppv", "npv"])
        ungradable.append(f"in a second row counted as referred {len(predictions.ungradable)}")
        crossed = "{point}: TP {tp}, FN {fn}, FP {fp}, TN {tn}".format(**measured.iloc[0])
        frozen = [
            f"{p.point} {write_number(p.threshold)} ({p.source})" for p in points.itertuples()
        ]
        thresholds = "; ".join(frozen)
        if "chosen_on" in points:
            thresholds += f", chosen on {points['chosen_on'].iloc[0]}"
    if {"learned from", "validation"} <= set(counts.index):
        sides = counts.loc[["learned from", "validation", "test"], "num_patients"]
        words = "{} patients learned from, {} of validation, {} of test; none on two sides"
        partition = words.format(*sides)
    if "grade" in test and test["grade"].notna().all():
        grades = (
            test.loc[test["referable"] == 1, "grade"].astype(int).value_counts().sort_index()
        )
        outcome = "referable: grade 2 or worse"
        severity = f"true grade {_list_counts(grades)}"
    if len(calibrated) > 1:
        slopes = [f"slope {write_span(row, 'slope')}" for _, row in calibrated.iterrows()]
        recalibration = " → ".join(slopes)
    people = []
    for factor in ("sex", "age"):
        levels = subgroups[subgroups["factor"] == factor] if len(subgroups) else subgroups
        if len(levels):
            people.append(f"{factor} {_list_counts(levels.set_index('level')['num_patients'])}")
    scored = subgroups.dropna(subset="auc") if "auc" in subgroups else subgroups[:0]
    is_elsewhere = data_sets["tested_on"] != predictions.dataset
    elsewhere = data_sets[is_elsewhere & (data_sets["model"] == predictions.name)]
    places = elsewhere.assign(where=elsewhere["trained_on"] + " → " + elsewhere["tested_on"])
    if elsewhere["point"].notna().any():
        places["where"] += ", " + places["point"]
    return {
        "model": predictions.name,
        "version": predictions.version,
        "synthetic": (
            "synthetic sample, not photographs"
            if predictions.is_synthetic
            else "none: photographs"
        ),
        "tested_on": predictions.dataset if names_data else "",
        "trained_on": data_sets["trained_on"].iloc[0] if names_data else "",
        "methods": METHODS,
        "flow": f"{images['offered']} photographs offered, {images['evaluated']} evaluated",
        "events": (
            f"{len(test)} photographs, {summary['num_referable'].iloc[0]} of them referable"
        ),
        "missing": f"{images['test'] - len(test)} photographs without a usable answer",
        "ungradable": "; ".join([*ungradable, f"not usable {images.get('not usable', 0)}"]),
        "partition": partition,
        "outcome": outcome,
        "severity": severity,
        "characteristics": "; ".join(people),
        "thresholds": thresholds,
        "crossed": crossed,
        "points": "; ".join(scores),
        "recalibration": recalibration,
        "subgroups": "; ".join(_list_scores(scored, ["factor", "level"], ["auc"])),
        "external": "; ".join(
            _list_scores(places, ["where"], ["auc", "sensitivity", "specificity"])
        ),
    }


def fill_checklist(facts: Mapping[str, str]) -> pd.DataFrame:
    """Fill what a run knows, and name what its author has to.

    Args:
        facts: by the names in the column `fact` of checklist.csv.

    Returns:
        A row per item: `guideline`, `item` (its number, where it is known), `topic`, `status`
        (FILLED, OPEN or NOT_APPLICABLE), `text`.
    """
    items = pd.read_csv(
        Path(__file__).with_name("checklist.csv"), dtype=str, keep_default_na=False
    )
    text = items["fact"].map(lambda fact: facts.get(fact, ""))
    status = text.ne("").map({True: FILLED, False: OPEN})
    status = status.mask(items["fact"] == "-", NOT_APPLICABLE)
    return items[["guideline", "item", "topic"]].assign(status=status, text=text)


def write_card(facts: Mapping[str, str]) -> str:
    """The model card as Markdown, of the same facts as the checklist."""
    template = Path(__file__).with_name("model_card.md").read_text(encoding="utf-8")
    return template.format_map(
        {name: escape(text) or f"*{OPEN}*" for name, text in facts.items()}
    )


def _list_scores(table: pd.DataFrame, labels: Sequence[str], names: Sequence[str]) -> list[str]:
    texts = []
    for _, row in table.iterrows():
        scores = []
        for name in names:
            scores.append(f"{NAMES.get(name, name)} {write_span(row, name)}")
        texts.append(f"{' '.join(map(str, row[labels]))}: {', '.join(scores)}")
    return texts


def _list_counts(counts: pd.Series) -> str:
    return ", ".join(f"{level}: {count}" for level, count in counts.items() if count)
