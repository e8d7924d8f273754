"""An evaluation against counts by hand, scikit-learn, and dcurves."""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import LinearConstraint, milp
from sklearn.metrics import (
    average_precision_score,
    cohen_kappa_score,
    confusion_matrix,
    roc_auc_score,
)

from dr_lib.errors import DrError
from dr_lib.evaluation import checklist
from dr_lib.evaluation.answer import limit_ungradable
from dr_lib.evaluation.comparison import (
    compare_data_sets,
    compare_models,
    follow_first,
    read_trainings,
)
from dr_lib.evaluation.curves import calibrate, weigh_decisions
from dr_lib.evaluation.flow import count_flow, hide_flow
from dr_lib.evaluation.points import (
    abstain,
    choose_points,
    freeze_points,
    list_errors,
    list_missed,
    measure_points,
    move_prevalence,
)
from dr_lib.evaluation.predictions import Predictions, read_predictions
from dr_lib.evaluation.scores import (
    count_below,
    count_grades,
    read_shares,
    seems_confidence,
    summarise,
)
from dr_lib.evaluation.subgroups import find_crowded, hide_subgroups, split_subgroups
from tests.report.predictions import draw_abroad, draw_predictions, write

ROOT = Path(__file__).resolve().parents[2]
ASKED = {"sensitivity": 0.9, "specificity": 0.9}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Predictions:
    """One model's predictions of 600 photographs, 240 of them in the test split."""
    return read_predictions(write(tmp_path_factory.mktemp("one"), draw_predictions(300)))[0]


@pytest.fixture
def points(model) -> pd.DataFrame:
    """Its operating points."""
    return choose_points(model, **ASKED)


@pytest.mark.parametrize("by_patient", [False, True])
def test_shares_of_fewer_than_30_patients_are_counted(model, points, by_patient):
    """29 patients with the disease and 30 without it, two photographs each: 29 are few."""
    people = model.test.groupby("patient_id")["referable"].max()
    chosen = [*people.index[people == 1][:29], *people.index[people == 0][:30]]
    few = model.test[model.test["patient_id"].isin(chosen)].copy()
    few["referable"] = few["patient_id"].map(people)
    small = model._replace(test=few, ungradable=model.ungradable[:0])
    row = measure_points(small, points, by_patient=by_patient).iloc[0]
    assert row["sensitivity_counted"] == row["tp"] + row["fn"] == 29 * (1 if by_patient else 2)
    assert np.isnan(row["specificity_counted"])
    assert row["sensitivity"] * row["sensitivity_counted"] == pytest.approx(row["tp"])


def test_operating_points_come_from_the_validation_split(model, points):
    """Other test photographs change nothing; other validation photographs do; each point reaches
    what was asked for.
    """
    y = model.validation["referable"] == 1
    p = model.validation["probability_referable"]
    first, second = points["threshold"]
    assert (p[y] >= first).mean() >= 0.9 > (p[y] > first).mean()
    assert (p[~y] < second).mean() >= 0.9 and set(points["validation_patients"]) == {90}
    other = model._replace(test=model.test.assign(probability_referable=0.5))
    assert choose_points(other, **ASKED).equals(points)
    # no threshold passes nine of ten healthy ones
    unsure = model.validation.assign(probability_referable=1.0)
    points = choose_points(model._replace(validation=unsure), **ASKED)
    assert points["point"].tolist() == ["high sensitivity"]


def test_without_validation_no_operating_point_is_fitted_on_the_test_split(model):
    """There are none; two that were frozen elsewhere are taken as they are; anything else is
    refused.
    """
    bare = model._replace(validation=model.validation[:0])
    nothing = choose_points(bare, **ASKED)
    assert nothing.empty and measure_points(bare, nothing).empty
    assert choose_points(bare, **ASKED, thresholds=[0.2, 0.6])["threshold"].tolist() == [
        0.2,
        0.6,
    ]
    for wrong in ([0.2], [0.6, 0.2]):
        with pytest.raises(DrError, match="give two between 0 and 1, such as 0.21,0.75"):
            choose_points(bare, **ASKED, thresholds=wrong)
    with pytest.raises(DrError, match="sensitivity must be between 0 and 1, not 90"):
        choose_points(model, sensitivity=90, specificity=0.9)
    with pytest.raises(DrError, match="prevalence must be between"):
        move_prevalence(nothing, [0.1, 1])


def test_a_very_good_model_has_its_points_in_order(model):
    """By hand: 0.8 finds 19 of 20 and 0.5 passes 19 of 20; both reach both, the lower one is the
    more sensitive.
    """
    table = {
        "referable": [1] * 20 + [0] * 20,
        "probability_referable": [0.8] * 19 + [0.5] + [0.3] * 19 + [0.5],
    }
    validation = pd.DataFrame(table).assign(patient_id=range(40))
    points = choose_points(model._replace(validation=validation), **ASKED)
    assert points["threshold"].tolist() == [0.5, 0.8]
    assert points["validation_sensitivity"].tolist() == pytest.approx([1, 0.95])
    assert points["validation_specificity"].tolist() == pytest.approx([0.95, 1])


def test_thresholds_are_carried_to_another_data_set_unchanged(tmp_path):
    """Those of home's validation, whichever file is named first; counts by hand; other
    photographs change nothing.
    """
    home = draw_predictions(300).assign(model_version="v1", dataset="home")
    found = read_predictions(write(tmp_path, draw_abroad(), "b"), write(tmp_path, home, "a"))
    abroad, own = freeze_points(found, **ASKED)
    assert abroad["threshold"].equals(own["threshold"]) and set(abroad["chosen_on"]) == {"home"}
    assert set(abroad["source"]) == {"carried over unchanged"}
    table = compare_data_sets(found, [abroad, own])
    sets = table["trained_on"] + " " + table["tested_on"]
    assert sets.unique().tolist() == ["home abroad", "home home"]
    test = found[0].test
    y = test["referable"] == 1
    p = test["probability_referable"]
    called = p >= own["threshold"][1]
    shares = [called[y].mean(), 1 - called[~y].mean(), roc_auc_score(y, p)]
    assert table.loc[1, ["sensitivity", "specificity", "auc"]].tolist() == pytest.approx(shares)
    worse = {"c": draw_abroad(noise=5.0), "d": draw_predictions(300, noise=5.0)}
    others = [write(tmp_path, t.assign(model_version="v2"), name) for name, t in worse.items()]
    two = read_predictions(tmp_path / "a.csv", *others, tmp_path / "b.csv")
    (followed,) = follow_first(two, freeze_points(two, **ASKED)).to_dict("records")
    called = test.assign(called=p >= own["threshold"][0]).groupby("patient_id")["called"].max()
    found_ill = called[y.groupby(test["patient_id"]).max()]
    assert (followed["tested_on"], followed["auc"]) == ("abroad", table["auc"][0])
    assert (followed["tp"], followed["fn"]) == (found_ill.sum(), (~found_ill).sum())
    bare = compare_data_sets(found[:1], freeze_points(found[:1], **ASKED))
    assert len(bare) == 1 and np.isnan(bare["sensitivity"][0]) and bare["trained_on"][0] == ""


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
    model = Predictions("", *[pd.DataFrame()] * 4, is_synthetic=False)
    named = [versions[1], " ".join(versions[:2]), " ".join(versions), ""]
    models = [model._replace(name=version, version=version) for version in named]
    shared = {"rho": 4e-5, "crop_method": "voets"}
    found = read_trainings(models, [*paths, "elsewhere.csv"])
    assert list(found.values()) == [shared | {"seed": 1}, shared, {}, {}]
    for text in ("", "[]", "{", '{"sha256": 1}'):
        (tmp_path / versions[1] / "model" / "manifest.json").write_text(text)
        assert read_trainings(models[:1], paths) == {versions[1]: {}}


def test_an_operating_point_by_hand(model, points):
    """Counts add up, shares are their quotients, and an ungradable healthy eye that is referred
    is a false alarm.
    """
    dark = model.test[model.test["referable"] == 0].head(3)
    table = measure_points(model._replace(ungradable=dark), points)
    row = table.iloc[0]
    y = model.test["referable"] == 1
    called = model.test["probability_referable"] >= points["threshold"][0]
    (tn, fp), (fn, tp) = confusion_matrix(y, called)
    assert row[["tp", "fn", "fp", "tn"]].tolist() == [tp, fn, fp, tn]
    assert row["lr_plus"] == pytest.approx(tp / (tp + fn) / (fp / (fp + tn)))
    assert table.loc[2, ["ungradable", "fp"]].tolist() == ["counted as referred", fp + 3]
    never = points.assign(threshold=1.1)  # not even a probability of 1 is referred
    referred = measure_points(model._replace(ungradable=dark), never)
    assert referred["fp"].tolist() == [0, 0, 3, 3]
    # its own prevalence
    moved = move_prevalence(table[:1], [y.mean()]).iloc[0]
    assert moved[["ppv", "npv"]].tolist() == pytest.approx([tp / (tp + fp), tn / (tn + fn)])


def test_the_decision_curve_is_that_of_dcurves():
    """Twelve eyes of six patients, the net benefits that the package dcurves 1.1.7 gives, of the
    model and of all.
    """
    positive = [1, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0]
    test = pd.DataFrame({"referable": positive, "patient_id": np.arange(12) // 2})
    scores = "0.9 0.8 0.7 0.65 0.6 0.55 0.4 0.35 0.3 0.2 0.15 0.1"
    test["probability_referable"] = list(map(float, scores.split()))
    curve = weigh_decisions(Predictions("", test, test, test, test[:0], False))
    curve = curve.set_index("threshold")
    rows = curve.loc[[0.1, 0.25, 0.5]]
    for name, values in (
        ("net_benefit", [0.351852, 0.305556, 0.166667]),
        ("refer_all", [0.351852, 0.222222, -0.166667]),
        ("gain_over_all", [0, 0.083333, 0.333333]),
    ):
        assert rows[name].tolist() == pytest.approx(values, abs=1e-6)
    assert curve["gain_over_none"].tolist() == curve["net_benefit"].tolist()
    # up to 0.1 the model refers all, as does that strategy
    is_bare = curve["gain_over_all_low"].isna()
    assert (is_bare == (curve.index <= 0.1)).all()
    assert (curve["gain_over_all_low"] <= curve["gain_over_all"])[~is_bare].all()
    assert (curve["gain_over_none_low"] < curve["net_benefit"]).all()
    assert (curve["gain_over_none_high"] > curve["net_benefit"]).all()


def test_a_decision_curve_at_another_prevalence(model, points):
    """By hand: sens x pi - (1 - spec) x (1 - pi) x odds; at that of the test split, as without."""
    y = model.test["referable"] == 1
    called = model.test["probability_referable"] >= 0.5
    net = called[y].mean() * 0.08 - called[~y].mean() * 0.92
    curve = weigh_decisions(model, 0.08).iloc[-1]
    assert (curve["threshold"], curve["refer_all"]) == (0.5, pytest.approx(0.08 - 0.92))
    assert curve["net_benefit"] == curve["gain_over_none"] == pytest.approx(net)
    assert curve["gain_over_all"] == pytest.approx(net - 0.08 + 0.92)
    for name in ("gain_over_none", "gain_over_all"):
        assert curve[f"{name}_low"] < curve[name] < curve[f"{name}_high"]
    own = weigh_decisions(model)
    same = weigh_decisions(model, y.mean())
    for name in ("net_benefit", "refer_all", "recalibrated", "gain_over_all"):
        assert same[name].tolist() == pytest.approx(own[name].tolist())


def test_a_patient_is_referred_by_the_worse_eye(model, points):
    """By hand: A has a missed and a found eye, B a false alarm, C one missed eye, D is two healthy
    eyes, E an ungradable referable one beside a healthy one; grades 3 and 4 apart.
    """
    columns = ["patient_id", "grade", "probability_referable"]
    rows = [("A", 4, 0.1), ("A", 2, 0.9), ("B", 0, 0.9), ("B", 1, 0.1), ("C", 3, 0.1)]
    rows += [("D", 0, 0.1), ("D", 1, 0.2), ("E", 0, 0.1)]
    test = pd.DataFrame(rows, columns=columns).assign(
        referable=lambda t: (t["grade"] >= 2) * 1.0
    )
    dark = test[:1].assign(patient_id="E", grade=3, probability_referable=np.nan)
    few = model._replace(test=test, ungradable=dark)
    at = points.assign(threshold=0.5)[:1]
    table = measure_points(few, at, by_patient=True).set_index("ungradable")
    counts = table[["tp", "fn", "fp", "tn"]].to_numpy().tolist()
    assert counts == [[1, 1, 1, 2], [2, 1, 1, 1]]
    usual = table.loc["excluded"]
    assert usual[["sensitivity", "ppv", "sensitivity_severe"]].tolist() == [0.5] * 3
    # Wilson's interval of 1 of 2, by hand
    assert usual["sensitivity_low"] == pytest.approx(0.0945, abs=1e-4)
    eyes = measure_points(few, at).iloc[0]
    assert (eyes["tp"], eyes["fn"], eyes["sensitivity_severe"]) == (1, 2, 0)
    # two visits are one patient
    twice = few._replace(test=test.assign(visit=[1, 2, 1, 1, 1, 1, 1, 1]))
    again = measure_points(twice, at, by_patient=True)
    assert again[["tp", "fn", "fp", "tn"]].to_numpy().tolist() == counts


def draw_groups(rng) -> pd.DataFrame:
    """Photographs of 40 to 800 patients by site, the city it lies in, who has a pump, and eye; of
    each kind at least 10 patients.
    """
    num = int(40 * 20 ** rng.random())
    site = rng.choice(5, num, p=rng.dirichlet(np.full(5, 0.7)))
    ill = rng.random(num) < rng.uniform(0.2, 0.8)
    ill[:20] = np.arange(20) < 10
    people = pd.DataFrame(
        {
            "patient_id": [f"p{k}" for k in range(num)],
            "referable": ill * 1.0,
            "own site": site.astype(str),
            "own city": np.array(["a", "a", "b", "b", "c"])[site],
            "own pump": np.where(rng.random(num) < rng.choice([0.03, 0.3]), "yes", "no"),
            "sex": rng.choice(["female", "male", ""], num, p=[0.5, 0.45, 0.05]),
        }
    )
    eyes = pd.concat([people.assign(eye="left"), people.assign(eye="right")])
    eyes = eyes[rng.random(2 * num) < rng.choice([0.5, 0.97])]
    lost = people[~people["patient_id"].isin(eyes["patient_id"])].assign(eye="left")
    return pd.concat([eyes, lost], ignore_index=True)


def find_told(shown: pd.DataFrame, test: pd.DataFrame) -> list[str]:
    """Find the counts of 1 to 4 patients that cannot be anything from 1 to 4, by integer
    programming over the shown counts and the denominators of the shown scores.

    Known are also the size of the test split, its patients with the disease, and which combinations
    of levels exist. Counts are of the levels of each factor, and of two and three factors crossed:
    of all, of those with the disease, without it, and of the rest.
    """
    columns = {"site": "own site", "city": "own city", "pump": "own pump"}
    columns |= {"sex": "sex", "eye": "eye"}
    ill = test.groupby("patient_id")["referable"].max() == 1
    sets = {"all": ill | True}
    for factor, column in columns.items():
        for level in sorted(set(test[column]) - {""}):
            is_here = test[column] == level
            sets[f"{factor} {level}"] = is_here.groupby(test["patient_id"]).any()
    kinds = pd.DataFrame(sets)
    kinds["ill"] = ill
    sizes = kinds.value_counts()
    types = dict(zip(kinds, sizes.index.to_frame().to_numpy().T, strict=True))
    sizes = sizes.to_numpy()
    known = [types["all"], types["ill"]]
    for row in shown.itertuples():
        here = types[f"{row.factor} {row.level}"]
        known += [here] * (row.num_patients != "–")
        is_scored = np.isfinite(getattr(row, "auc", np.nan))
        known += [here & types["ill"]] * int(row.num_diseased != "–" or is_scored)
    levels = list(sets)[1:]
    counted = {
        " x ".join(dict.fromkeys(some)): np.logical_and.reduce([types[name] for name in some])
        for some in itertools.combinations_with_replacement(levels, 3)
    }
    counted.update({f"not {name}": ~types[name] for name in levels})
    known = np.array(known, dtype=float)
    equal = LinearConstraint(known, known @ sizes, known @ sizes)
    possible = [sizes]
    told = []
    for name, of in counted.items():
        is_ill = types["ill"]
        for words, kind in (("", of), (" ill", of & is_ill), (" well", of & ~is_ill)):
            if not 0 < sizes @ kind < 5:
                continue
            for sign, bound in ((1, 1), (-1, 4)):
                if min(sign * each @ kind for each in possible) > sign * bound:
                    found = milp(sign * kind, constraints=equal, integrality=1)
                    possible.append(found.x.round())
                    if found.fun > sign * bound:
                        told.append(f"{name}{words} is not {bound}")
    return told


def audit(rng, *, is_naive: bool = False) -> list[str]:
    """Find what a test split's shown subgroups tell; naive ones mask few patients one by one."""
    test = draw_groups(rng).assign(probability_referable=0.5)
    model = Predictions("", test, test, test, test[:0], False)
    groups = split_subgroups(model, pd.DataFrame(), ["site", "city", "pump"])
    shown = hide_subgroups(groups, model)
    if is_naive:
        counts = groups[["num_patients", "num_diseased"]]
        shown = groups.assign(**counts.mask((counts < 5).any(axis=1), "–"))
    return find_told(shown, test)


@pytest.mark.parametrize("number", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_no_hidden_count_can_be_computed(number):
    """In test splits with nested, crossed and incomplete groups. Where counts are masked one by
    one they are found out: the audit sees that.
    """
    rng = np.random.default_rng(0)
    assert not any(audit(rng) for _ in range(number))
    assert all(audit(rng, is_naive=True) for _ in range(2))


def test_few_patients_of_a_subgroup_are_hidden(tmp_path):
    """In every count of it; columns of the user's own are groups, if they are few. A number, or a
    name, for each photograph is none.
    """
    table = draw_predictions(300)
    rare = table.loc[table["split"] == "test", "patient_id"].unique()[:2]
    table["Site 1"] = np.where(table["patient_id"].isin(rare), "b", "a")
    table = table.assign(name=table["image_id"], quality=table.index / 600, predicted_grade="a")
    (own,) = read_predictions(write(tmp_path, table))
    at = choose_points(own, **ASKED)
    groups = split_subgroups(own, at, ["Site 1"])
    assert find_crowded(own).to_dict() == {"quality": 240}
    assert set(groups["factor"]) == {"camera", "eye", "age", "site_1"}
    groups = groups.query("factor == 'site_1'")
    assert groups["num_patients"].tolist() == [118, 2] and groups["auc"].notna().any()
    hidden = hide_subgroups(groups, own).set_index(["factor", "level"])
    assert hidden.replace("–", np.nan).isna().all(axis=None)
    for column in ("name", "nowhere", "quality"):
        with pytest.raises(
            DrError, match=f"subgroups: {column} is not a column with 2 to 20 groups"
        ):
            split_subgroups(own, at, [column])


@pytest.mark.parametrize(
    ("probability", "is_doubted"),
    [
        (lambda five: five.max(axis=1), True),  # of the predicted of five classes
        (lambda five: (five.iloc[:, 2:].sum(axis=1) - 0.5).abs() + 0.5, True),  # of two
        (lambda five: five.iloc[:, 2:].sum(axis=1), False),
        (lambda five: 0.2 + five.iloc[:, 2:].sum(axis=1) / 2, False),  # unsure, and right
        (lambda five: 0.9, False),  # all alike
    ],
)
def test_the_probability_of_the_predicted_class_is_doubted(model, probability, is_doubted):
    """It is high where the class is sure, referable or not."""
    five = model.test[[f"probability_{grade}" for grade in range(5)]]
    test = model.test.assign(probability_referable=probability(five))
    assert seems_confidence(model._replace(test=test)) == is_doubted


def test_referable_below_grade_2_is_the_label_and_counted(tmp_path):
    """As by macular oedema: the AUC is that of the label, of scikit-learn."""
    table = draw_predictions()
    is_wet = (table["grade"] == 1) & (table.index % 3 == 0)
    table["referable"] = ((table["grade"] >= 2) | is_wet).astype(int)
    (read,) = read_predictions(write(tmp_path, table))
    test = table[table["split"] == "test"]
    assert count_below(read.test) == (is_wet & (table["split"] == "test")).sum() > 0
    p = test[["probability_2", "probability_3", "probability_4"]].sum(axis=1).clip(upper=1)
    expected = roc_auc_score(test["referable"], p)
    assert summarise(read)["auc"][0] == pytest.approx(expected)
    assert "or marked as referable" in checklist.state_facts(evaluate(read))["outcome"]


def test_shares_are_read_as_people_write_them():
    """Points, per cent, decimal commas between semicolons; words are refused in a sentence."""
    for text in ("0.05,0.2", "5%, 20 %", "0,05;0,2"):
        assert read_shares("prevalence", text) == pytest.approx([0.05, 0.2])
    with pytest.raises(
        DrError, match="prevalence few: give numbers with decimal points, such as 0.05,0.2"
    ):
        read_shares("prevalence", "few")


def test_equally_sure_photographs_are_left_out_at_random(model, points):
    """All are as near to the threshold: not those that come last in the file."""
    same = model.test.sort_values("referable").assign(probability_referable=0.9)
    table = abstain(model._replace(test=same), points)
    assert table[["specificity", "sensitivity"]].notna().all(axis=None)


def test_small_subgroups_are_counted_and_not_scored(model, points):
    """By camera, eye and band of age; one with fewer than 10 patients with disease has no score."""
    few = model._replace(test=model.test.assign(camera=["rare"] * 12 + ["A"] * 228))
    table = split_subgroups(few, points).set_index(["factor", "level"])
    assert table.loc["age"].index.tolist() == ["< 40", "40-59", ">= 60"]
    assert table.loc[("age", "40-59"), "auc_low"] < table.loc[("age", "40-59"), "auc"]
    assert table.loc["camera", "num_images"].to_dict() == {"A": 228, "rare": 12}
    assert table.loc["camera", "num_patients"].to_dict() == {"A": 114, "rare": 6}
    auc = table.loc["camera", "auc"]
    assert auc["A"] > 0.8 and np.isnan(auc["rare"])
    bare = model._replace(test=model.test.drop(columns=["eye", "camera", "age"]))
    assert hide_subgroups(split_subgroups(bare, points), bare).empty


def test_abstention_leaves_the_surest_and_errors_come_worst_first(model, points):
    """None is left out at 0, half at 50 %; the first error missed has the highest grade of those
    missed.
    """
    abstained = abstain(model, points)
    assert abstained["num_images"].iloc[[0, -1]].tolist() == [240, 120]
    assert abstained["sensitivity"].iloc[-1] >= abstained["sensitivity"].iloc[0]
    errors = list_errors(model, points.assign(threshold=0.7), 4)
    assert model.table.loc[errors["line"], "image_id"].tolist() == errors["image_id"].tolist()
    missed, alarms = (errors[errors["error"] == kind] for kind in ("missed", "false alarm"))
    worst = model.test.query("probability_referable < 0.7 and referable == 1")["grade"]
    assert missed["grade"].tolist() == worst.nlargest(4).tolist()
    assert alarms["probability_referable"].is_monotonic_decreasing and len(alarms) == 4


def test_missed_eyes_are_named_and_say_why_they_are_referable(model, points):
    """By a grade, by another label below grade 2, or by a label without grades; no other file."""
    points = points.assign(threshold=0.7)
    test = model.test.sort_values("grade")
    test = test[test["probability_referable"] < 0.7].groupby("grade", as_index=False).head(1)
    test = test[test["grade"].isin([0, 1, 2])].assign(referable=[0, 1, 1])
    names = {image: f"{image}.jpg" for image in test["image_id"]}
    missed = list_missed(model._replace(test=test), points, names)
    assert missed[["grade", "why"]].to_numpy().tolist() == [
        [2, "grade 2 or worse"],
        [1, "labelled referable below grade 2"],
    ]
    assert missed["file"].tolist() == [f"{image}.jpg" for image in missed["image_id"]]
    bare = model._replace(test=test.drop(columns="grade"))
    missed = list_missed(bare, points, {})
    assert missed["why"].tolist() == ["labelled referable"] * 2
    assert not {"file", "grade", "referable"} & set(missed)


def test_a_worse_model_is_shown_to_be_worse(tmp_path, points, model):
    """Five times the noise, rows in another order: the interval lies below 0; to itself none."""
    worse = draw_predictions(noise=5.0).sample(frac=1, random_state=1)
    found = read_predictions(
        write(tmp_path, draw_predictions(), "one"), write(tmp_path, worse, "two")
    )
    row = compare_models(found, [points, points]).iloc[0]
    tests = [m.test for m in found]
    aucs = [roc_auc_score(test["referable"], test["probability_referable"]) for test in tests]
    assert row["delta_auc"] == pytest.approx(aucs[1] - aucs[0]) and row["delta_auc_high"] < 0
    pairs = [(test["grade"], test["predicted_grade"]) for test in tests]
    kappas = [cohen_kappa_score(*pair, weights="quadratic") for pair in pairs]
    assert row["delta_kappa"] == pytest.approx(kappas[1] - kappas[0])
    assert row["delta_kappa_high"] < 0
    same = compare_models([found[0], found[0]], [points, points]).iloc[0]
    assert (same["delta_auc"], same["delta_sensitivity"], same["delta_kappa"]) == (0, 0, 0)
    assert same.filter(regex="_low$|_high$").isna().all()


def test_recalibration_is_learned_on_the_validation_split(model):
    """Probabilities pushed to the extremes: the slope falls below 1, and the recalibrated one
    comes nearer to 1.
    """

    def push(table):
        odds = 1 / table["probability_referable"] - 1
        return table.assign(probability_referable=1 / (1 + odds**3))

    pushed = model._replace(test=push(model.test), validation=push(model.validation))
    table, curves = calibrate(pushed)
    raw, recalibrated = table["slope"]
    assert raw < 1 and abs(np.log(recalibrated)) < abs(np.log(raw))
    assert table["brier"][1] < table["brier"][0]
    assert curves["recalibrated"][["num_referable", "num_others"]].sum(axis=None) == 240
    turned = model.validation.assign(
        probability_referable=1 - model.validation["probability_referable"]
    )
    for validation in (model.validation[:0], turned):  # the second would turn the ranking round
        assert len(calibrate(pushed._replace(validation=validation))[0]) == 1


def test_the_flow_counts_photographs_and_patients(tmp_path):
    """Two rejected ones of unknown patients, an excluded copy, one too dark: each with its
    reason.
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
        ["offered", "", 120, 242],
        ["not usable", "no field of view", 0, 2],
        ["excluded", "a copy", 1, 1],
        ["learned from", "", 36, 71],
        ["validation", "", 36, 72],
        ["test", "", 48, 96],
        ["ungradable", "too dark", 1, 1],
        ["evaluated", "", 48, 95],
    ]
    shown = hide_flow(flow)[["num_patients", "num_images"]].to_numpy().tolist()
    # who was left out would be the sum without the others
    assert shown[:3] == [["–", "–"], [0, "< 5"], ["< 5", "< 5"]]
    assert shown[3:] == [[36, 71], [36, 72], ["–", "–"], ["< 5", "< 5"], [48, 95]]
    for number, is_private, words in ((1, False, "Some"), (1, True, "1"), (9, False, "9")):
        flow.loc[6, ["num_patients", "num_images"]] = number
        (said,) = limit_ungradable(flow, str, is_private=is_private)
        assert said == f"{words} photographs could not be graded, and are not counted."
    assert limit_ungradable(flow.drop(index=6), str, is_private=True) == []


@pytest.mark.parametrize(
    ("left_out", "sums"),
    [
        (("excluded", 3, 6, 1), ["offered"]),
        (("excluded", 4, 4, 2), ["offered"]),  # no two others below 5 add up to 8
        (("ungradable", 1, 6, 1), ["offered", "test"]),
    ],
)
def test_few_patients_with_many_photographs_are_not_found_by_subtraction(left_out, sums):
    """The sums of which they are the rest are not shown."""
    stage, num_patients, num_images, reasons = left_out
    is_tested = stage == "ungradable"
    rows = [
        ("offered", 30 + reasons * num_patients, 60 + reasons * num_images),
        *[(stage, num_patients, num_images)] * reasons,
        ("test", 30 + is_tested * num_patients, 60 + is_tested * num_images),
        ("evaluated", 30, 60),
    ]
    flow = pd.DataFrame(rows, columns=["stage", "num_patients", "num_images"])
    shown = hide_flow(flow).set_index("stage")
    assert set(shown.loc[[stage], "num_patients"]) == {"< 5"}
    assert set(shown.loc[[stage], "num_images"]) <= {"< 5", "–"}
    assert set(shown.index[shown["num_patients"] == "–"]) == set(sums)


@pytest.fixture
def evaluated(tmp_path) -> checklist.Evaluated:
    """All tables of a model that could not answer for one test photograph."""
    table = draw_predictions().assign(reason="")
    dark = table.index[table["split"] == "test"][0]
    table.loc[dark, [f"probability_{g}" for g in range(5)]] = np.nan
    table.loc[dark, "reason"] = "too dark"
    table["sex"] = np.where(table["patient_id"] < "p060", "F", "")
    return evaluate(read_predictions(write(tmp_path, table))[0])


def evaluate(model: Predictions) -> checklist.Evaluated:
    """The tables of an evaluation."""
    points = choose_points(model, **ASKED)
    return checklist.Evaluated(
        model,
        count_flow(model),
        summarise(model),
        points,
        measure_points(model, points),
        measure_points(model, points, by_patient=True),
        calibrate(model)[0],
        hide_subgroups(split_subgroups(model, points), model),
        compare_data_sets([model], [points]),
    )


def test_the_facts_of_the_checklist_are_those_of_this_run(evaluated):
    """Patients by known sex and band of age, by worst grade, subgroups with a score; few of them
    are no number.
    """
    model = evaluated.predictions
    subgroups = evaluated.subgroups
    measured = evaluated.measured
    facts = checklist.state_facts(evaluated)
    few = "excluded < 5; counted as referred in a second row < 5; not usable 0"
    assert facts["ungradable"] == few and "–" not in facts["characteristics"]
    num_women = model.test.query("sex == 'female'")["patient_id"].nunique()
    shown = evaluated._replace(subgroups=split_subgroups(model, evaluated.points))
    people = checklist.state_facts(shown)["characteristics"]
    assert f"sex female: {num_women}; age < 40: " in people
    grades = model.test.groupby("patient_id")["grade"].max().value_counts()
    assert grades[4] >= 5 and facts["severity"].endswith(f", 4: {grades[4]}")
    assert facts["synthetic"] == facts["version"] == facts["tested_on"] == "unknown"
    assert facts["subgroups"].count("AUC") == subgroups["auc"].notna().sum()
    test, ungradable = (t.drop(columns="grade") for t in (model.test, model.ungradable))
    facts = checklist.state_facts(evaluate(model._replace(test=test, ungradable=ungradable)))
    assert not facts["outcome"] and "sensitivity_severe" not in facts["points"]
    assert facts["thresholds"].endswith("(validation), chosen on mine.csv")
    assert "; by photograph high sensitivity: sensitivity " in facts["points"]
    assert facts["crossed"].startswith("high sensitivity: TP ")
    for name in ("sensitivity", "specificity", "ppv", "npv"):  # at both points
        assert all(f"{value:.3f} [" in facts["points"] for value in measured[name][:2])
    items = pd.read_csv(ROOT / "dr_lib/evaluation/checklist.csv")["fact"].dropna()
    assert set(items) <= set(facts)


def test_the_checklist_fills_what_a_run_knows_and_no_more():
    """With nothing known all is the author's; a fact fills its items if a number stands in it.

    The numbers are those of TRIPOD+AI's Table 2, and of a public self-assessment by STARD-AI.
    """
    empty = checklist.fill_checklist({"recalibration": "slope – → slope –"})
    assert set(empty["status"]) == {checklist.OPEN} and not (empty["text"] != "").any()
    filled = checklist.fill_checklist({"flow": "610 offered"})
    rows = filled[filled["status"] == checklist.FILLED]
    assert rows["item"].tolist() == ["24", "20a"] and set(rows["text"]) == {"610 offered"}
    numbers = filled.groupby("guideline")["item"].agg(" ".join)
    assert numbers["TRIPOD+AI"] == (
        "1 2 3a 3b 3c 4 5a 5b 6a 6b 6c 7 8a 8b 8c 9a 9b 9c 10 11 12a 12b 12c 12d 12e 12f 12g 13"
        " 14 15 16 17 18a 18b 18c 18d 18e 18f 19 20a 20b 20c 21 22 23a 23b 24 25 26 27a 27b 27c"
    )
    assert numbers["STARD-AI"] == (
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15a 15b 15c 15d 16a 16b 16c 17a 17b 18 19 20 21 22 23"
        " 24 25 26a 26b 27 28 29 30 31 32 33 34 35 36 37 38 39 40a 40b"
    )


def test_scores_and_bounds_are_those_of_r(tmp_path):
    """600 patients, one photograph each, as R 4.2.2 has them: pROC 1.18 (AUC, and by its variance
    `plogis(qlogis(a) +- qt(.975, 190) * sd / (a * (1 - a)))`), prop.test(correct = FALSE), vcd
    1.4-11 (weights = "Fleiss-Cohen", `tanh(atanh(k) +- qnorm(.975) * ASE / (1 - k^2))`), glm with
    sandwich 3.0's vcovHC(type = "HC1") and `qt(.975, 599)`.
    """
    table = draw_predictions(1500, seed=3)
    path = write(tmp_path, table[table["eye"] == "right"])
    (model,) = read_predictions(path)
    points = choose_points(model, **ASKED)
    scores = summarise(model).iloc[0]
    fit = calibrate(model)[0].iloc[0]
    (_, sensitive), (_, specific) = measure_points(model, points).iterrows()
    assert (scores["num_images"], scores["num_patients"]) == (600, 600)
    test = model.test
    true = test["grade"]
    predicted = test["predicted_grade"]
    precision = average_precision_score(test["referable"], test["probability_referable"])
    assert scores["average_precision"] == pytest.approx(precision)
    assert scores["grade_accuracy"] == (true == predicted).mean()
    assert scores["prevalence"] == test["referable"].mean() < scores["prevalence_high"]
    assert count_grades(model).to_numpy().tolist() == confusion_matrix(true, predicted).tolist()
    expected = [
        # drawn to H.-McNeil's
        (scores, "auc", 0.880938056043, 0.8496619524, 0.9064241212, 3e-4),
        (scores, "kappa", 0.741822801, 0.697293, 0.780522, 2e-3),  # a jackknife
        (scores, "brier", 0.152932030018, 0.130446397479, 0.178497975053, 3e-5),
        (fit, "slope", 0.301371398962, 0.249921821631, 0.352820976293, 1e-8),
        (fit, "intercept", -0.678234856461, -1.230241954815, -0.126227758108, 1e-5),
        (sensitive, "sensitivity", 0.8376963351, 0.7788376622, 0.8832390887, 1e-9),
        (sensitive, "specificity", 0.706601467, 0.6607159582, 0.7486421535, 1e-9),
        (sensitive, "ppv", 0.5714285714, 0.5128828889, 0.6280408513, 1e-9),
        (sensitive, "npv", 0.903125, 0.8657748321, 0.9309113023, 1e-9),
        (specific, "sensitivity", 0.6387434555, 0.5685031058, 0.7035129237, 1e-9),
        (specific, "specificity", 0.9046454768, 0.8722998944, 0.9294606675, 1e-9),
        (specific, "ppv", 0.7577639752, 0.6860782501, 0.8174358573, 1e-9),
        (specific, "npv", 0.8428246014, 0.8058217111, 0.8738797803, 1e-9),
    ]
    for row, name, value, low, high, tolerance in expected:
        assert row[name] == pytest.approx(value, abs=1e-9), name
        bounds = row[[f"{name}_low", f"{name}_high"]].tolist()
        assert bounds == pytest.approx([low, high], abs=tolerance), name


def test_where_it_comes_from_stands_beside_the_tables(tmp_path):
    """SHA-256 as of the standard library, rows, date and version, draws and seed."""
    path = write(tmp_path, draw_predictions())
    text = checklist.write_readme(read_predictions(path)[0].sources, "2026-01-02, dr_lib 1")
    assert f"mine.csv 240 {hashlib.sha256(path.read_bytes()).hexdigest()}" in text
    assert "2026-01-02, dr_lib 1" in text and "of 2,000 draws of patients (seed 0)" in text


def test_the_model_card_says_what_is_known_and_names_what_is_not(evaluated):
    """The nine sections of Mitchell et al. 2019 in their order; a fact stands once, the rest is
    the author's. What a file says is no markup.
    """
    facts = dict.fromkeys(checklist.state_facts(evaluated), "") | {"model": "m"}
    card = checklist.write_card(facts | {"points": "AUC 0.9"})
    sections = [line[3:] for line in card.splitlines() if line.startswith("## ")]
    assert "; ".join(sections) == (
        "Model details; Intended use; Factors; Metrics; Evaluation data; Training data;"
        " Quantitative analyses; Ethical considerations; Caveats and recommendations"
    )
    assert card.count("AUC 0.9") == 1
    assert card.count("*author must fill*") == card.count("\n- **") - 2
    card = checklist.write_card(facts | {"points": "<b>", "version": "*1*", "model": "<i>m"})
    assert card.startswith("# Model card: &lt;i&gt;m\n")
    assert "**: &lt;b&gt;\n" in card and "**: \\*1\\*\n" in card
