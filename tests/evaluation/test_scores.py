"""An evaluation against counts by hand, R, scikit-learn, and dcurves."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, roc_auc_score

from dr_lib.errors import DrError
from dr_lib.evaluation.comparison import compare_data_sets, compare_models, read_trainings
from dr_lib.evaluation.curves import calibrate, weigh_decisions
from dr_lib.evaluation.errors import list_errors, list_missed_patients
from dr_lib.evaluation.groups import count_flow, publish, score_groups
from dr_lib.evaluation.points import (
    Goals,
    choose_points,
    freeze_points,
    measure_points,
    read_thresholds,
)
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import seems_confidence, summarise
from dr_lib.evaluation.table import Predictions
from tests.report.predictions import draw_abroad, draw_predictions, write

COUNTS = ["tp", "fn", "fp", "tn"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Predictions:
    """One model's predictions of 600 photographs, 240 of them in the test split."""
    (model,) = read_predictions(write(tmp_path_factory.mktemp("one"), draw_predictions(300)))
    return model._replace(unscored=None)


@pytest.fixture
def points(model) -> pd.DataFrame:
    """Its operating points."""
    return choose_points(model, Goals())


def test_operating_points_come_from_the_validation_split(model, points):
    """Other test photographs change nothing; other validation photographs do; each point reaches
    what was asked for.
    """
    y = model.validation["referable"] == 1
    p = model.validation["probability_referable"]
    first, second = points["threshold"]
    assert (p[y] >= first).mean() >= 0.9 > (p[y] > first).mean()
    assert (p[~y] < second).mean() >= 0.9
    other = model._replace(test=model.test.assign(probability_referable=0.5))
    assert choose_points(other, Goals()).equals(points)
    # no threshold passes nine of ten healthy ones
    unsure = model.validation.assign(probability_referable=1.0)
    points = choose_points(model._replace(validation=unsure), Goals())
    assert points["point"].tolist() == ["high sensitivity"]


def test_without_validation_no_operating_point_is_fitted_on_the_test_split(model):
    """There are none; two that were frozen elsewhere are taken as they are; anything else is
    refused.
    """
    bare = model._replace(validation=model.validation[:0])
    nothing = choose_points(bare, Goals())
    assert nothing.empty and measure_points(bare, nothing).empty
    given = choose_points(bare, Goals(thresholds=[0.2, 0.6]))
    assert given["threshold"].tolist() == [0.2, 0.6]
    for wrong in ([0.2], [0.6, 0.2], [21, 75], [np.nan, 0.6]):
        with pytest.raises(DrError, match="give two between 0 and 1, such as 0.21,0.75"):
            choose_points(bare, Goals(thresholds=wrong))
    assert read_thresholds("0.21, 0.75") == [0.21, 0.75] and read_thresholds("") == []
    with pytest.raises(DrError, match="such as 0.21,0.75"):
        read_thresholds("0,21;0,75")


def test_a_very_good_model_has_its_points_in_order(model):
    """By hand: 0.8 finds 19 of 20 and 0.5 passes 19 of 20; both reach both, the lower one is the
    more sensitive.
    """
    table = {
        "referable": [1] * 20 + [0] * 20,
        "probability_referable": [0.8] * 19 + [0.5] + [0.3] * 19 + [0.5],
    }
    validation = pd.DataFrame(table).assign(patient_id=range(40))
    points = choose_points(model._replace(validation=validation), Goals())
    assert points["threshold"].tolist() == [0.5, 0.8]
    assert points["validation_diseased"].tolist() == [20, 20]


def test_thresholds_are_carried_to_another_data_set_unchanged(tmp_path):
    """Those of home's validation, whichever file is named first; scores by scikit-learn; a model
    without points has an AUC alone.
    """
    home = draw_predictions(300).assign(model_version="v1", dataset="home")
    found = read_predictions(write(tmp_path, draw_abroad(), "b"), write(tmp_path, home, "a"))
    abroad, own = freeze_points(found, Goals())
    assert abroad["threshold"].equals(own["threshold"]) and set(abroad["chosen_on"]) == {"home"}
    assert set(abroad["source"]) == {"carried over unchanged"}
    table = compare_data_sets(found, [abroad, own])
    sets = table["trained_on"] + " " + table["tested_on"]
    assert sets.unique().tolist() == ["home abroad", "home home"]
    test = found[0].test
    y = test["referable"] == 1
    p = test["probability_referable"]
    assert table["auc"][1] == pytest.approx(roc_auc_score(y, p))
    (tn, fp), (fn, tp) = confusion_matrix(y, p >= own["threshold"][1])
    assert table.loc[1, COUNTS].tolist() == [tp, fn, fp, tn]
    bare = compare_data_sets(found[:1], freeze_points(found[:1], Goals()))
    assert len(bare) == 1 and bare["trained_on"][0] == "" and bare["point"].isna().all()


def test_a_training_is_known_by_the_version_of_its_model(tmp_path):
    """From the folder beside either of its files; of an ensemble what all have in common, and
    nothing where one is unknown.
    """
    versions = ["0" * 12, "1" * 12, "2" * 12]
    paths = [tmp_path / version / "predictions.csv" for version in versions]
    for number, version in enumerate(versions[:2]):  # the third one is of an earlier version
        manifest = {
            "sha256": f"{version}{52 * 'f'}",
            "crop_method": "voets",
            "trained_with": {"rho": 4e-5, "seed": number},
        }
        (tmp_path / version / "model").mkdir(parents=True)
        (tmp_path / version / "model" / "manifest.json").write_text(json.dumps(manifest))
    model = Predictions("", *[pd.DataFrame()] * 3, is_synthetic=False)
    named = [versions[1], " ".join(versions[:2]), " ".join(versions), ""]
    models = [model._replace(name=version, version=version) for version in named]
    shared = {"rho": 4e-5, "crop_method": "voets"}
    found = read_trainings(models, [*paths, "elsewhere.csv"])
    assert list(found.values()) == [shared | {"seed": 1}, shared, {}, {}]
    for text in ("", "[]", "{", '{"sha256": 1}'):
        (tmp_path / versions[1] / "model" / "manifest.json").write_text(text)
        assert read_trainings(models[:1], paths) == {versions[1]: {}}


def test_the_decision_curve_is_that_of_dcurves(model):
    """Twelve eyes of six patients, the net benefits that the package dcurves 1.1.7 gives, of the
    model and of all; so few have no band, 120 patients have one.
    """
    positive = [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    test = pd.DataFrame({"referable": positive, "patient_id": np.arange(12) // 2})
    scores = "0.9 0.8 0.7 0.65 0.6 0.55 0.4 0.35 0.3 0.2 0.15 0.1"
    test["probability_referable"] = list(map(float, scores.split()))
    curve = weigh_decisions(model._replace(test=test)).set_index("threshold")
    rows = curve.loc[[0.1, 0.25, 0.5]]
    assert rows["net_benefit"].tolist() == pytest.approx(
        [0.351852, 0.305556, 0.166667], abs=1e-6
    )
    assert rows["refer_all"].tolist() == pytest.approx(
        [0.351852, 0.222222, -0.166667], abs=1e-6
    )
    assert curve["net_benefit_low"].isna().all()
    wide = weigh_decisions(model)
    assert (wide["net_benefit_low"] < wide["net_benefit"]).all()
    assert (wide["net_benefit_high"] > wide["net_benefit"]).all()


def test_a_patient_is_referred_by_the_worse_eye(model, points):
    """By hand: A has a missed and a found eye, B a false alarm, C one missed eye, D is two healthy
    eyes; two visits are one patient; so few have no shares.
    """
    columns = ["patient_id", "grade", "probability_referable"]
    rows = [("A", 4, 0.1), ("A", 2, 0.9), ("B", 0, 0.9), ("B", 1, 0.1), ("C", 3, 0.1)]
    rows += [("D", 0, 0.1), ("D", 1, 0.2)]
    test = pd.DataFrame(rows, columns=columns)
    test["referable"] = (test["grade"] >= 2) * 1.0
    at = points.assign(threshold=0.5)[:1]
    table = measure_points(model._replace(test=test), at).set_index("unit")
    assert table.loc["patients", COUNTS].tolist() == [1, 1, 1, 1]
    assert table.loc["photographs", COUNTS].tolist() == [1, 2, 1, 3]
    assert table[["sensitivity", "specificity"]].isna().all(axis=None)
    twice = measure_points(model._replace(test=test.assign(visit=range(7))), at)
    assert twice.loc[0, COUNTS].tolist() == [1, 1, 1, 1]


def test_a_photograph_without_a_probability_makes_nobody_healthy(tmp_path, points):
    """By hand, of 0.5: A's ill eye and both of B's are not scored, and both are missed; C is left
    out; D is called by the other eye; E is healthy.
    """
    rows = [("A", 3, None), ("A", 0, 0.1), ("B", 2, None), ("B", 2, None), ("C", 0, None)]
    rows += [("C", 1, 0.2), ("D", 4, None), ("D", 0, 0.9), ("E", 0, 0.1), ("F", 2, 0.9)]
    table = pd.DataFrame(rows, columns=["patient_id", "grade", "probability_referable"])
    table["image_id"] = [f"i{k}" for k in table.index]
    table = table.assign(split="test", reason="blurred", camera="one")
    (model,) = read_predictions(write(tmp_path, table))
    at = points.assign(threshold=0.5)[:1]
    found = measure_points(model, at).loc[0, [*COUNTS, "left_out", "fn_unscored"]]
    assert found.tolist() == [2, 2, 0, 1, 1, 2]
    names = table[["image_id"]].assign(patient=table["patient_id"], file=table["image_id"])
    missed = list_missed_patients(model, at, names)
    assert missed["patient"].tolist() == ["A", "A", "B", "B"]
    group = score_groups(model, at).iloc[0]
    assert group[["num_patients", "num_diseased"]].tolist() == [6, 4]


def test_groups_are_scored_and_none_of_their_counts_names_anybody(model, points, tmp_path):
    """Cameras, bands of age and a column of the file by the worse eye; below five and rounded to
    five; a column of numbers forms no group, and is refused if it is asked for.
    """
    test = model.test.assign(**{"own site": "A", "own number": range(240)})
    test.loc[test["patient_id"].isin(test["patient_id"].unique()[:4]), "own site"] = "B"
    other = model._replace(test=test)
    groups = score_groups(other, points, ["site"]).set_index(["factor", "level"])
    people = test.groupby("patient_id")[["referable", "camera"]].max()
    ill = people.query("camera == 'A'")["referable"].sum()
    assert groups.loc[("camera", "A"), ["num_patients", "num_diseased"]].tolist() == [60, ill]
    assert [level for factor, level in groups.index if factor == "age"] == [
        "0-39",
        "40-59",
        "60+",
    ]
    shown = publish(groups.reset_index()).set_index(["factor", "level"])
    assert shown.loc[("site", "B"), "num_patients"] == "< 5"
    assert np.isnan(shown.loc[("site", "B"), "auc"])
    assert shown.loc[("site", "A"), "num_patients"] == "not shown"  # 120 less it is B
    assert np.isnan(shown.loc[("site", "A"), "sensitivity"])  # 0.84 of 38 is 32
    counts = shown["num_patients"].drop(["site"], level=0).astype(int)
    assert (counts % 5 == 0).all() and counts[("camera", "A")] == 60
    shares = shown[["auc", "sensitivity"]].dropna() * 100  # 0.8571 is 6 of 7
    assert np.allclose(shares, shares.round())
    with pytest.raises(DrError, match="number is not a column with 1 to 20 groups"):
        score_groups(other, points, ["number"])


def draw_group(found: int, missed: int, passed: int, alarms: int, camera: str) -> pd.DataFrame:
    """Patients of one photograph each: called by 0.9, not called by 0.1."""
    number = found + missed + passed + alarms
    called = np.repeat([0.9, 0.1, 0.1, 0.9], [found, missed, passed, alarms])
    table = pd.DataFrame({"probability_referable": called, "camera": camera})
    table["patient_id"] = [f"{camera}{k}" for k in range(number)]
    table["referable"] = (np.arange(number) < found + missed) * 1.0
    return table


@pytest.mark.parametrize(
    ("groups", "worse"),
    [
        # by statsmodels' newcomb, of four comparisons at 97.5 %: 38 and 30 of 40 differ by 0.2
        # [0.017, 0.379], 38 and 31 by 0.175 [-0.003, 0.353], at 95 % [0.021, 0.329]
        ([(38, 2, 35, 5, "A"), (30, 10, 35, 5, "B")], [False, True]),
        ([(38, 2, 35, 5, "A"), (31, 9, 35, 5, "B")], [False, False]),
        ([(38, 2, 35, 5, "A"), (16, 13, 35, 5, "B")], [None, None]),  # 29 are too few
    ],
)
def test_a_group_does_worse_by_the_interval_of_the_difference(model, points, groups, worse):
    """Of the sensitivity; their specificity is alike."""
    test = pd.concat([draw_group(*group) for group in groups], ignore_index=True)
    found = score_groups(model._replace(test=test), points.assign(threshold=0.5))
    assert found["sensitivity_is_lower"].tolist() == worse
    assert not found["specificity_is_lower"].any()


def test_errors_come_worst_first_and_missed_patients_have_their_names(model, points):
    """By line of the file; in private both eyes of a patient of whom no eye is called, with the
    record number and files.
    """
    points = points.assign(threshold=0.7)
    errors = list_errors(model, points, 4)
    assert model.table.loc[errors["line"], "image_id"].tolist() == errors["image_id"].tolist()
    missed, alarms = (errors[errors["error"] == kind] for kind in ("missed", "false alarm"))
    worst = model.test.query("probability_referable < 0.7 and referable == 1")["grade"]
    assert missed["grade"].tolist() == worst.nlargest(4).tolist()
    assert alarms["probability_referable"].is_monotonic_decreasing and len(alarms) == 4
    names = pd.DataFrame({"image_id": model.test["image_id"]})
    names["file"] = names["image_id"] + ".jpg"
    names["patient"] = "record of " + model.test["patient_id"]
    people = model.test.groupby("patient_id")[["referable", "probability_referable"]].max()
    expected = people.query("referable == 1 and probability_referable < 0.7").index
    listed = list_missed_patients(model, points, names)
    assert set(listed["patient"]) == set("record of " + expected)
    assert len(listed) == 2 * len(expected) and listed["file"].str.endswith(".jpg").all()
    assert listed["grade"].max() == listed["grade"][:2].max()


def test_a_worse_model_is_shown_to_be_worse(tmp_path):
    """Five times the noise, rows in another order: the interval lies below 0; that of the
    same probabilities is 0 and has none, nor has that of two perfect ones.
    """
    tables = [draw_predictions(300), draw_predictions(300, noise=5.0), draw_predictions(300)]
    tables[1] = tables[1].sample(frac=1, random_state=1)
    paths = [write(tmp_path, table, name) for table, name in zip(tables, "abc", strict=True)]
    found = read_predictions(*paths)
    table = compare_models(found)
    aucs = [roc_auc_score(m.test["referable"], m.test["probability_referable"]) for m in found]
    assert table["delta_auc"].tolist() == pytest.approx([aucs[1] - aucs[0], 0])
    assert table[["auc", "reference_auc"]].to_numpy()[0].tolist() == pytest.approx(aucs[1::-1])
    assert table["delta_auc_high"][0] < 0
    assert table.loc[1, ["delta_auc_low", "delta_auc_high"]].isna().all()
    right = [
        m._replace(test=m.test.assign(probability_referable=m.test["referable"])) for m in found
    ]
    assert compare_models(right)[["delta_auc_low", "delta_auc_high"]].isna().all(axis=None)
    assert table["model"].tolist() == ["b", "c"]


def test_calibration_is_counted_in_tenths(model):
    """Each tenth has 24 photographs and the share that is referable; extreme probabilities have a
    slope below 1.
    """
    summary, bins = calibrate(model)
    y = model.test.sort_values("probability_referable")["referable"]
    assert bins["num_images"].sum() == 240 and len(bins) == 10
    assert bins["observed"].iloc[-1] == y[-24:].mean()
    odds = 1 / model.test["probability_referable"] - 1
    extreme = model.test.assign(probability_referable=1 / (1 + odds**2))
    assert calibrate(model._replace(test=extreme))[0]["slope"][0] < summary["slope"][0]
    constant = model.test.assign(probability_referable=0.5)
    summary, bins = calibrate(model._replace(test=constant))
    assert np.isnan(summary["slope"][0]) and bins["num_images"].tolist() == [240]
    half = model.test.assign(probability_referable=np.maximum(np.arange(240) / 240, 0.5))
    assert calibrate(model._replace(test=half))[1]["num_images"].tolist() == [
        121,
        23,
        *[24] * 4,
    ]


def test_the_flow_counts_photographs_and_patients(tmp_path):
    """Two rejected ones of unknown patients, an excluded copy, one too dark: each with its reason;
    published, no difference of two counts names anybody.
    """
    table = draw_predictions().assign(reason="")
    more = pd.DataFrame(
        {"image_id": ["r1", "r2"], "split": "rejected", "reason": "no field of view"}
    )
    table = pd.concat([table, more]).reset_index(drop=True)
    table.loc[0, ["split", "reason"]] = ["excluded", "a copy"]
    dark = table.index[table["split"] == "test"][0]
    table.loc[dark, [f"probability_{g}" for g in range(5)]] = None
    table.loc[dark, "reason"] = "too dark"
    flow = count_flow(read_predictions(write(tmp_path, table))[0])
    assert flow.to_numpy().tolist() == [
        ["not usable", "no field of view", 0, 2],
        ["excluded", "a copy", 1, 1],
        ["learned from", "", 36, 71],
        ["validation", "", 36, 72],
        ["evaluated", "", 48, 95],
        ["ungradable", "too dark", 1, 1],
    ]
    shown = publish(flow)[["num_patients", "num_images"]].to_numpy().tolist()
    assert shown[:3] == [["0", "< 5"], ["< 5", "< 5"], ["35", "70"]]


def test_probabilities_of_the_predicted_class_are_suspected(model):
    """None is below a half, though most photographs are not referable; a usual model is not."""
    p = model.test["probability_referable"]
    confident = model.test.assign(probability_referable=np.maximum(p, 1 - p))
    assert seems_confidence(model._replace(test=confident)) and not seems_confidence(model)


def test_scores_and_bounds_are_those_of_r(tmp_path):
    """600 patients, one photograph each, as R 4.2.2 has them: pROC 1.18 (AUC, and by its variance
    `plogis(qlogis(a) +- qt(.975, 190) * sd / (a * (1 - a)))`), prop.test(correct = FALSE), glm with
    sandwich 3.0's vcovHC(type = "HC1") and, here, `qt(.975, 190)`; kappa and Brier score by
    resampling near vcd 1.4-11's and pROC's own bounds.
    """
    table = draw_predictions(1500, seed=3)
    (model,) = read_predictions(write(tmp_path, table[table["eye"] == "right"]))
    points = choose_points(model, Goals())
    scores = summarise(model).iloc[0]
    fit = calibrate(model)[0].iloc[0]
    (_, sensitive), (_, specific), *_ = measure_points(model, points).iterrows()
    assert (scores["num_images"], scores["num_patients"]) == (600, 600)
    kappa = cohen_kappa_score(
        model.graded["grade"], model.graded["predicted_grade"], weights="quadratic"
    )
    assert scores["kappa"] == pytest.approx(kappa)
    expected = [
        (scores, "auc", 0.880938056043, 0.8496619524, 0.9064241212, 3e-4),
        (scores, "kappa", 0.741822801, 0.697293, 0.780522, 4e-3),
        (scores, "brier", 0.152932030018, 0.130446397479, 0.178497975053, 3e-3),
        (fit, "slope", 0.301371398962, 0.249921821631, 0.352820976293, 4e-4),
        (fit, "intercept", -0.678234856461, -1.230241954815, -0.126227758108, 4e-3),
        (sensitive, "sensitivity", 0.8376963351, 0.7788376622, 0.8832390887, 1e-9),
        (sensitive, "specificity", 0.706601467, 0.6607159582, 0.7486421535, 1e-9),
        (specific, "sensitivity", 0.6387434555, 0.5685031058, 0.7035129237, 1e-9),
        (specific, "specificity", 0.9046454768, 0.8722998944, 0.9294606675, 1e-9),
    ]
    for row, name, value, low, high, tolerance in expected:
        assert row[name] == pytest.approx(value, abs=1e-9), name
        bounds = row[[f"{name}_low", f"{name}_high"]].tolist()
        assert bounds == pytest.approx([low, high], abs=tolerance), name
