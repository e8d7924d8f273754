"""The figures of an evaluation, read back."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dr_lib.evidence import evaluation
from dr_lib.evidence.predictions import Predictions, read_predictions
from dr_lib.figures import evaluation as figures
from tests.evidence.predictions import draw_abroad, draw_predictions, write
from tests.figures.reading import is_whole, words

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Predictions:
    """Predictions of which one test photograph was too dark to answer for."""
    table = draw_predictions().assign(reason="", data_kind="synthetic")
    dark = table.index[table["split"] == "test"][0]
    table.loc[dark, [f"probability_{g}" for g in range(5)]] = np.nan
    table.loc[dark, "reason"] = "too dark, $5 of $6"
    table["sex"] = np.where(table["patient_id"] < "p060", "F", "")
    return read_predictions(write(tmp_path_factory.mktemp("one"), table))[0]


def test_the_flow_names_every_loss(model):
    """Offered, learned from, validation, test, the one without an answer and its reason,
    evaluated.
    """
    figure = figures.plot_flow(evaluation.count_flow(model))
    text = words(figure)
    for line in (
        "offered\n240 photographs, 120 patients",
        "ungradable (too dark, $5 of $6): 1 photographs, 1 patients",
    ):
        assert line in text
    assert "evaluated\n95 photographs, 48 patients" in text and is_whole(figure)


def test_curves_pass_through_the_operating_points(model):
    """Both points lie on the ROC curve, at their sensitivity; the numbers of the axes have
    commas in Portuguese.
    """
    points = evaluation.choose_points(model, sensitivity=0.9, specificity=0.9)
    measured = evaluation.measure_points(model, points)
    figure = figures.plot_curves(evaluation.trace_curves(model), measured, "pt")
    corners = figure.axes[0].get_lines()[0].get_xydata()
    for row in measured[measured["ungradable"] == "excluded"].itertuples():
        place = np.array([1 - row.specificity, row.sensitivity])
        between = (corners[:-1] <= place + 1e-9) & (place <= corners[1:] + 1e-9)
        assert between.all(axis=1).any()
    bars = [
        np.array(line)
        for part in figure.axes[0].collections
        for line in getattr(part, "get_segments", list)()
    ]
    across = sorted(line[:, 0].tolist() for line in bars if line[0, 1] == line[1, 1])
    shown = measured[measured["ungradable"] == "excluded"]
    assert across == sorted(
        (1 - shown[["specificity_high", "specificity_low"]]).to_numpy().tolist()
    )
    figure.draw_without_rendering()
    assert "0,2" in words(figure) and "alta sensibilidade" in words(figure) and is_whole(figure)


def test_the_facts_of_the_checklist_are_those_of_this_run(model):
    """Patients by known sex and band of age, whole grades of the referable, subgroups with a
    score.
    """
    points = evaluation.choose_points(model, sensitivity=0.9, specificity=0.9)
    measured = evaluation.measure_points(model, points)
    subgroups = evaluation.split_subgroups(model, points)
    tables = evaluation.summarise(model), points, measured, evaluation.calibrate(model)[0]
    data_sets = evaluation.compare_data_sets([model], [points])
    facts = figures.state_facts(model, evaluation.count_flow(model), *tables, subgroups, data_sets)
    assert facts["ungradable"] == "excluded 1; in a second row counted as referred 1; not usable 0"
    people = model.test.groupby("patient_id")[["sex", "age"]].first()
    assert f"sex F: {(people['sex'] == 'F').sum()}; age < 40: " in facts["characteristics"]
    grades = model.test["grade"].value_counts()
    assert facts["severity"] == f"true grade 2: {grades[2]}, 3: {grades[3]}, 4: {grades[4]}"
    assert facts["subgroups"].count("AUC") == subgroups["auc"].notna().sum()
    bare = model._replace(test=model.test.drop(columns="grade"))
    assert "outcome" not in figures.state_facts(
        bare, evaluation.count_flow(model), *tables, subgroups, data_sets
    )
    assert facts["thresholds"].endswith("(validation), chosen on mine.csv")
    assert "; high sensitivity: sensitivity " in facts["accuracy"] and facts["crossed"].startswith(
        "high sensitivity: "
    )
    for name in ("sensitivity", "specificity", "ppv", "npv"):  # at both points
        assert all(f"{value:.3g} [" in facts["points"] for value in measured[name][:2])
    known = [
        pd.read_csv(ROOT / f"dr_lib/evidence/{name}.csv")["fact"].dropna()
        for name in ("checklist", "model_card")
    ]
    assert set(pd.concat(known)) - {"-"} - set(facts) == {"partition", "recalibration"} - set(facts)


def test_an_auc_without_an_interval_says_why(model):
    """In the facts, of which model card and checklist are made: of how many patients it is."""
    sure = model._replace(test=model.test.assign(probability_referable=model.test["referable"]))
    points = evaluation.choose_points(model, sensitivity=0.9, specificity=0.9)
    summary = evaluation.summarise(sure)
    facts = figures.state_facts(
        sure,
        evaluation.count_flow(sure),
        summary,
        points,
        evaluation.measure_points(sure, points),
        evaluation.calibrate(sure)[0],
        evaluation.split_subgroups(sure, points),
        evaluation.compare_data_sets([sure], [points]),
    )
    said = "AUC 1 (48 patients; no interval: drawn again, they always give the same AUC)"
    assert facts["accuracy"].startswith(said) and facts["points"].startswith(said)
    assert "(24 patients; no interval" in facts["subgroups"]
    assert "1 (48 pacientes; sem intervalo: " in figures.describe_auc(summary.iloc[0], "pt")


def test_each_data_set_has_its_line_and_the_carried_thresholds_their_marks(tmp_path):
    """Trained at home, tested at home and abroad, in Portuguese; left and right are translated
    in the facts.
    """
    home = draw_predictions().assign(model_version="v1", dataset="home")
    found = read_predictions(write(tmp_path, home, "a"), write(tmp_path, draw_abroad(), "b"))
    points = evaluation.freeze_points(found, sensitivity=0.9, specificity=0.9)
    table = evaluation.compare_data_sets(found, points)
    figure = figures.plot_data_sets(table, "pt")
    assert all(
        words_ in words(figure) for words_ in ("home → home", "home → abroad", "alta sensibilidade")
    )
    drawn = [line.get_xdata() for line in figure.axes[1].get_lines()]
    assert sorted(np.concatenate(drawn)) == pytest.approx(
        sorted(table["sensitivity"])
    ) and is_whole(figure)
    bars = figure.axes[1].containers[0].lines[2][0].get_segments()
    at = table[table["point"] == evaluation.POINTS[0]]
    assert [bar[:, 0] for bar in bars] == [
        pytest.approx(x) for x in at[["sensitivity_low", "sensitivity_high"]].to_numpy()
    ]
