"""An evaluation against counts by hand, R, scikit-learn, and dcurves."""

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, roc_auc_score

from dr_lib.errors import DrError
from dr_lib.evaluation import points as operating
from dr_lib.evaluation import scores
from dr_lib.evaluation.comparison import compare_data_sets, compare_models, read_trainings
from dr_lib.evaluation.groups import count_flow, publish, score_groups
from dr_lib.evaluation.points import choose_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.table import Predictions
from dr_lib.files import write_json
from tests.evaluation.test_committee import draw
from tests.report.predictions import draw_abroad, draw_predictions, write

COUNTS = ["tp", "fn", "fp", "tn"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Predictions:
    """One model's predictions of 600 photographs, 240 of them in the test split."""
    (model,) = read_predictions(write(tmp_path_factory.mktemp("one"), draw_predictions(300)))
    return model


def replace_test(model, **columns) -> Predictions:
    """The test split alone, with other columns."""
    return model._replace(table=model.test.assign(**columns))


@pytest.fixture
def points(model) -> pd.DataFrame:
    """Its operating points."""
    return choose_points(model)


def test_operating_points_come_from_the_validation_split(model):
    """Each reaches what was asked for there, or is left out, whatever the test split holds; by hand
    0.8 finds 19 of 20 and 0.5 passes 19 of 20, and the lower one is the more sensitive. Without
    validation there is none.
    """
    side = model.validation
    y = side["referable"] == 1
    p = side["probability_referable"]
    alone = model.table.assign(
        probability_referable=p.reindex(model.table.index, fill_value=0.5)
    )
    first, second = choose_points(model._replace(table=alone))["threshold"]
    assert (p[y] >= first).mean() >= 0.9 > (p[y] > first).mean()
    assert (p[~y] < second).mean() >= 0.9
    perfect = np.where(y, 0.8, 0.3)
    perfect[[np.argmax(y), np.argmin(y)]] = 0.5
    good = model._replace(table=side.assign(probability_referable=perfect))
    assert choose_points(good)["threshold"].tolist() == [0.5, 0.8]
    bare = replace_test(model)
    assert measure_points(bare, choose_points(bare)).empty


@pytest.mark.parametrize("text", ["0.2", "0.6,0.2", "21,75", "nan,0.6"])
def test_thresholds_of_elsewhere_are_two_in_order(text):
    """They are read as they are, and anything else is refused."""
    assert operating.read_thresholds("0.21, 0.75") == [0.21, 0.75]
    with pytest.raises(DrError, match="give two between 0 and 1, such as 0.21,0.75"):
        operating.read_thresholds(text)


def test_thresholds_are_carried_to_another_data_set_unchanged(tmp_path):
    """Those of home's validation, whichever file is named first; scores by scikit-learn."""
    home = draw_predictions(300).assign(model_version="v1", dataset="home")
    found = read_predictions(write(tmp_path, draw_abroad(), "b"), write(tmp_path, home, "a"))
    abroad, own = operating.freeze_points(found)
    assert abroad["threshold"].equals(own["threshold"])
    assert set(abroad["source"]) == {"carried over unchanged"} != set(own["source"])
    assert set(abroad["chosen_on"]) == {"home"}
    table = compare_data_sets(found, [abroad, own])
    assert set(table["trained_on"]) == {"home"}
    y = found[0].test["referable"] == 1
    p = found[0].test["probability_referable"]
    assert table["auc"][1] == pytest.approx(roc_auc_score(y, p))
    (tn, fp), (fn, tp) = confusion_matrix(y, p >= own["threshold"][1])
    assert table.loc[1, COUNTS].tolist() == [tp, fn, fp, tn]


def test_a_training_is_known_by_the_version_of_its_model(tmp_path):
    """From the folder beside either of its files; of an ensemble what all have in common, and
    nothing where one is unknown, or of no version.
    """
    shared = {"crop_method": "voets"}
    for version in ("a", "b"):
        (tmp_path / version / "model").mkdir(parents=True)
        manifest = shared | {"sha256": version * 64, "trained_with": {"seed": version}}
        write_json(tmp_path / version / "model" / "manifest.json", manifest)
    paths = [tmp_path / version / "predictions.csv" for version in ("a", "b")]
    known = ["b" * 12, f"{'a' * 12} {'b' * 12}", f"{'a' * 12} {'c' * 12}", ""]
    models = [Predictions(version, pd.DataFrame(), version) for version in known]
    found = read_trainings(models, paths)
    assert [*found.values()] == [shared | {"seed": "b"}, shared, {}, {}]


def test_the_decision_curve_is_that_of_dcurves(model):
    """Twelve eyes of six patients, the net benefits that the package dcurves 1.1.7 gives, of the
    model and of all; so few have no band, 120 patients have one.
    """
    test = pd.DataFrame({"referable": [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0], "split": "test"})
    test["patient_id"] = test.index // 2
    p = "0.9 0.8 0.7 0.65 0.6 0.55 0.4 0.35 0.3 0.2 0.15 0.1"
    test["probability_referable"] = list(map(float, p.split()))
    curve = scores.weigh_decisions(model._replace(table=test)).set_index("threshold")
    expected = [[0.351852, 0.351852], [0.305556, 0.222222], [0.166667, -0.166667]]
    found = curve.loc[[0.1, 0.25, 0.5], ["net_benefit", "refer_all"]]
    assert found.to_numpy() == pytest.approx(np.array(expected), abs=1e-6)
    assert curve["net_benefit_low"].isna().all()
    wide = scores.weigh_decisions(model)
    assert (wide["net_benefit_low"] < wide["net_benefit"]).all()


PEOPLE = [("A", 4, 0.1), ("A", 2, 0.9), ("B", 0, 0.9), ("B", 1, 0.1), ("C", 3, 0.1)]
PEOPLE += [("D", 0, 0.1), ("D", 1, 0.2), ("E", 3, None), ("E", 0, 0.1), ("F", 2, None)]
PEOPLE += [("G", 0, None), ("G", 1, 0.2), ("H", 4, None), ("H", 0, 0.9)]


def test_a_patient_is_referred_by_the_worse_eye(tmp_path, points):
    """By hand, at 0.5: A has a missed and a found eye, B a false alarm, C one missed eye, D is two
    healthy eyes. Of E, F, G and H an eye has no probability: E and F are missed, G is left out, and
    H is called by the other eye, or at another visit, when it may have another grade. So few have
    no shares.
    """
    table = pd.DataFrame(PEOPLE, columns=["patient_id", "grade", "probability_referable"])
    table["image_id"] = [f"i{k}" for k in table.index]
    table = table.assign(split="test", reason="blurred", eye="left", visit=table.index)
    (model,) = read_predictions(write(tmp_path, table))
    at = points.assign(threshold=0.5)[:1]
    found = measure_points(model, at).set_index("unit")
    assert found.loc["patients", COUNTS].tolist() == [2, 3, 1, 1]
    assert found.loc["patients", ["left_out", "fn_unscored"]].tolist() == [1, 2]
    assert found.loc["photographs", COUNTS].tolist() == [1, 2, 2, 5]
    assert found[["sensitivity", "specificity"]].isna().all(axis=None)
    names = table[["image_id"]].assign(patient=table["patient_id"], file="a.jpg")
    missed = operating.list_missed_patients(model, at, names)
    assert missed["patient"].tolist() == [*"CEEF"]
    errors = operating.list_errors(model, at, 1)
    assert errors[["error", "line"]].to_numpy().tolist() == [["missed", 2], ["false alarm", 15]]


def test_groups_are_scored_and_rounded(model, points):
    """Cameras, bands of age and a column of the file by the worse eye; a column of numbers forms
    no group, and is refused if it is asked for.
    """
    is_first = model.test["patient_id"].isin(model.test["patient_id"].unique()[:4])
    columns = {"own site": np.where(is_first, "B", "A"), "own number": range(240)}
    other = replace_test(model, **columns)
    shown = publish(score_groups(other, points, ["site"])).set_index(["factor", "level"])
    assert [*shown.loc["age"].index] == ["0-39", "40-59", "60+"]
    assert set(shown.loc["site", "num_patients"]) == {"not shown"}  # 120 less A is B
    assert shown.loc["site", ["auc", "sensitivity"]].isna().all(axis=None)
    counts = shown["num_patients"].drop(["site"], level=0).astype(int)
    assert (counts % 5 == 0).all() and counts[("camera", "A")] == 60
    shares = shown[["auc", "sensitivity"]].dropna() * 100  # 0.8571 is 6 of 7
    assert np.allclose(shares, shares.round())
    with pytest.raises(DrError, match="number is not a column with 1 to 20 groups"):
        score_groups(other, points, ["number"])


@pytest.mark.parametrize(("total", "levels"), [(6, 2), (13, 3), (30, 3)])
def test_no_hidden_count_is_what_a_total_leaves(total, levels):
    """Who knows the exact total and this code tries all counts: each hidden one may be another."""
    tried = [
        counts
        for counts in itertools.product(range(total + 1), repeat=levels)
        if sum(counts) == total
    ]
    table = pd.DataFrame(
        {
            "factor": np.repeat(np.arange(len(tried)), levels),
            "num_patients": 100,
            "num_diseased": np.ravel(tried),
            "sensitivity": 0.9,
        }
    )
    shown = publish(table)
    is_hidden = shown["num_diseased"] == "not shown"
    assert is_hidden[table["num_diseased"].between(1, 4)].all()
    assert shown["sensitivity"].isna().equals(is_hidden)
    pages = shown["num_diseased"].to_numpy().reshape(-1, levels)
    found = pd.DataFrame(tried).groupby(list(pages.T)).nunique()
    for page, candidates in found.iterrows():
        assert all(candidates[np.array(page) == "not shown"] > 1)


@pytest.mark.parametrize(
    ("found", "missed", "worse"),
    # by statsmodels' newcomb, of four comparisons at 97.5 %: 38 and 30 of 40 differ by 0.2
    # [0.017, 0.379], 38 and 31 by 0.175 [-0.003, 0.353]; 29 are too few
    [(30, 10, [False, True]), (31, 9, [False, False]), (16, 13, [None, None])],
)
def test_a_group_does_worse_by_the_interval_of_the_difference(
    model, points, found, missed, worse
):
    """Of the sensitivity; their specificity is alike."""
    tables = draw(38, 2, 5, 35, camera="A"), draw(found, missed, 5, 35, camera="B")
    test = pd.concat(tables, ignore_index=True)
    test["patient_id"] += test["camera"]
    test["referable"] = test["grade"] // 2
    groups = score_groups(model._replace(table=test), points.assign(threshold=0.5))
    assert groups["sensitivity_is_lower"].tolist() == worse
    assert not groups["specificity_is_lower"].any()


def test_a_worse_model_is_shown_to_be_worse(tmp_path):
    """Five times the noise, rows in another order: the interval lies below 0; that of the
    same probabilities is 0 and has none.
    """
    good = draw_predictions(300)
    bad = draw_predictions(300, noise=5.0).sample(frac=1, random_state=1)
    tables = {"a": good, "b": bad, "c": good}
    found = read_predictions(*(write(tmp_path, table, name) for name, table in tables.items()))
    table = compare_models(found)
    aucs = [roc_auc_score(m.test["referable"], m.test["probability_referable"]) for m in found]
    assert table["delta_auc"].tolist() == pytest.approx([aucs[1] - aucs[0], 0])
    assert table["delta_auc_high"][0] < 0 and np.isnan(table["delta_auc_high"][1])


def test_the_flow_counts_photographs_and_patients(tmp_path):
    """Two rejected ones of unknown patients, an excluded copy, one too dark, one that nobody can
    grade, though a model did: each with its reason; published, no difference of two counts names
    anybody.
    """
    table = draw_predictions().assign(reason="", gradable="yes").astype({"grade": object})
    more = {"image_id": ["r1", "r2"], "split": "rejected", "reason": "no field of view"}
    table = pd.concat([table, pd.DataFrame(more)]).reset_index(drop=True)
    table.loc[0, ["split", "reason"]] = ["excluded", "a copy"]
    dark, vague = table.index[table["split"] == "test"][:2]
    table.loc[dark, [f"probability_{g}" for g in range(5)]] = None
    table.loc[dark, "reason"] = "too dark"
    table.loc[vague, ["grade", "gradable", "reason"]] = ["", "no", "vague"]
    flow = count_flow(read_predictions(write(tmp_path, table))[0])
    assert flow.astype(str).agg(" ".join, axis=1).tolist() == [
        "not usable no field of view 0 2",
        "excluded a copy 1 1",
        "learned from  36 71",
        "validation  36 72",
        "evaluated  47 94",
        "ungradable too dark 1 1",
        "ungradable vague 1 1",
    ]
    shown = publish(flow)[["num_patients", "num_images"]]
    assert shown[:3].to_numpy().tolist() == [["0", "< 5"], ["< 5", "< 5"], ["35", "70"]]


def test_probabilities_of_the_predicted_class_are_suspected(model):
    """None is below a half, though most photographs are not referable; a usual model is not."""
    p = model.test["probability_referable"]
    confident = replace_test(model, probability_referable=np.maximum(p, 1 - p))
    assert scores.seems_confidence(confident) and not scores.seems_confidence(model)


def test_scores_and_bounds_are_those_of_r(tmp_path):
    """600 patients, one photograph each, as R 4.2.2 has them: pROC 1.18 (AUC, and by its variance
    `plogis(qlogis(a) +- qt(.975, 190) * sd / (a * (1 - a)))`), prop.test(correct = FALSE), glm with
    sandwich 3.0's vcovHC(type = "HC1") and, here, `qt(.975, 190)`; kappa and Brier score by
    resampling near vcd 1.4-11's and pROC's own bounds.
    """
    table = draw_predictions(1500, seed=3)
    (model,) = read_predictions(write(tmp_path, table[table["eye"] == "right"]))
    found = scores.summarise(model).iloc[0]
    fit, bins = scores.calibrate(model)
    at = measure_points(model, choose_points(model))
    assert (found["num_images"], found["num_patients"]) == (600, 600)
    kappa = cohen_kappa_score(
        model.graded["grade"], model.graded["predicted_grade"], weights="quadratic"
    )
    assert found["kappa"] == pytest.approx(kappa)
    y = model.test.sort_values("probability_referable")["referable"]
    assert bins["num_images"].sum() == 600 and len(bins) == 10
    assert bins["observed"].iloc[-1] == y[-60:].mean()
    expected = [
        (found, "auc", 0.880938056043, 0.8496619524, 0.9064241212, 3e-4),
        (found, "kappa", 0.741822801, 0.697293, 0.780522, 4e-3),
        (found, "brier", 0.152932030018, 0.130446397479, 0.178497975053, 3e-3),
        (fit.iloc[0], "slope", 0.301371398962, 0.249921821631, 0.352820976293, 4e-4),
        (fit.iloc[0], "intercept", -0.678234856461, -1.230241954815, -0.126227758108, 4e-3),
        (at.iloc[0], "sensitivity", 0.8376963351, 0.7788376622, 0.8832390887, 1e-9),
        (at.iloc[0], "specificity", 0.706601467, 0.6607159582, 0.7486421535, 1e-9),
        (at.iloc[1], "sensitivity", 0.6387434555, 0.5685031058, 0.7035129237, 1e-9),
        (at.iloc[1], "specificity", 0.9046454768, 0.8722998944, 0.9294606675, 1e-9),
    ]
    for row, name, value, low, high, tolerance in expected:
        assert row[name] == pytest.approx(value, abs=1e-9), name
        bounds = row[[f"{name}_low", f"{name}_high"]].tolist()
        assert bounds == pytest.approx([low, high], abs=tolerance), name
