"""A model beside several readers: agreement computed by another library, verdicts by drawing."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from dr_lib.errors import DrError
from dr_lib.evaluation.points import choose_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.readers import compare_readers, judge_agreement


def draw(path, num_patients=120, model_error=0.2, reader_error=0.2, seed=0):
    """Write predictions of two eyes a patient, graded by three readers, the third half of them.

    The model and the readers each move the true grade by one with a probability of their own.
    """
    rng = np.random.default_rng(seed)
    n = 2 * num_patients
    true = rng.integers(0, 5, n)

    def grade(error):
        return np.clip(
            true + rng.choice([-1, 0, 1], n, p=[error / 2, 1 - error, error / 2]), 0, 4
        )

    readers = [grade(reader_error).astype(object) for _ in range(3)]
    readers[2][::2] = ""
    model = 0.6 * np.eye(5)[grade(model_error)] + 0.08
    table = pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "patient_id": [f"p{k // 2}" for k in range(n)],
            "split": np.where(np.arange(n) < n // 4, "validation", "test"),
            **{f"grade_{k}": grades for k, grades in enumerate(readers, 1)},
            **{f"probability_{k}": model[:, k] for k in range(5)},
        }
    )
    table.to_csv(path, index=False)
    return read_predictions(path)[0]


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    """Predictions of 120 patients with three readers."""
    return draw(tmp_path_factory.mktemp("readers") / "p.csv")


def test_everybody_is_compared_with_everybody(predictions):
    """Kappa as of scikit-learn, agreement on referral counted by hand, on what both graded."""
    points = choose_points(predictions, sensitivity=0.9, specificity=0.9)
    table = compare_readers(predictions, points).set_index(["who", "against"])
    assert len(table) == 10 and ("model", "reference") in table.index
    test = predictions.test
    pair = test[["grade_1", "grade_3"]].dropna().astype(int)
    row = table.loc[("reader 1", "reader 3")]
    assert row["num_images"] == len(pair) == 90
    assert row["kappa"] == pytest.approx(
        cohen_kappa_score(*pair.to_numpy().T, weights="quadratic")
    )
    alike = (pair["grade_1"] >= 2) == (pair["grade_3"] >= 2)
    assert row["referral_agreement"] == pytest.approx(alike.mean())
    called = test["probability_referable"] >= points["threshold"].iloc[0]
    found = called[test["grade_2"] >= 2].mean()
    assert table.loc[("model", "reader 2"), "sensitivity"] == pytest.approx(found)


@pytest.mark.parametrize("is_apart", [False, True])
def test_the_difference_of_kappa_by_a_jackknife_of_patients(predictions, is_apart):
    """Means of scikit-learn's kappas of the pairs that share photographs, and the same without each
    patient. Where readers 1 and 3 share none, the two other pairs count.
    """
    test = predictions.test.copy()
    if is_apart:
        test.loc[np.arange(len(test)) % 2 == 1, "grade_1"] = np.nan
    table = test[["predicted_grade", "grade_1", "grade_2", "grade_3"]].to_numpy()

    def excess(keep):
        mine = []
        theirs = []
        for first, second in itertools.combinations(range(4), 2):
            pair = table[keep][:, [first, second]]
            pair = pair[~np.isnan(pair).any(axis=1)].astype(int).T
            if pair.size:
                kappas = theirs if first else mine
                kappas.append(cohen_kappa_score(*pair, weights="quadratic"))
        return np.mean(mine) - np.mean(theirs)

    patient = test["patient_id"].to_numpy()
    without = np.array([excess(patient != name) for name in np.unique(patient)])
    deviations = without - without.mean()
    error = np.sqrt((len(without) - 1) * (deviations**2).mean())
    freedom = (deviations**2).sum() ** 2 / (deviations**4).sum()
    row = judge_agreement(predictions._replace(test=test), pd.DataFrame(), 0.1).iloc[0]
    whole = excess(np.ones(len(test), bool))
    low = whole - error * stats.t.ppf(0.975, freedom)
    assert (row["kind"], row["num_patients"]) == ("grade", 90)
    assert (row["excess"], row["excess_low"]) == pytest.approx((whole, low))


def test_readers_without_a_photograph_in_common_decide_nothing(predictions):
    """There is no kappa among them."""
    test = predictions.test.assign(grade_2=np.nan)
    test.loc[np.arange(len(test)) % 2 == 1, "grade_1"] = np.nan
    alone = judge_agreement(predictions._replace(test=test), pd.DataFrame(), 0.1)
    assert alone["excess"].isna().all() and alone["verdict"].tolist() == ["undecided"]


@pytest.mark.parametrize(
    ("num_patients", "error", "verdict"),
    [
        (400, 0.2, "within the readers' agreement"),
        (400, 0.95, "below the readers' agreement"),
        (60, 0.4, "undecided"),
        (12, 0.2, "undecided"),
    ],
)
def test_a_model_is_one_of_the_readers_or_not(tmp_path, num_patients, error, verdict):
    """As good as they are; wrong almost always; between, or of few patients: undecided."""
    found = draw(tmp_path / "p.csv", num_patients, model_error=error)
    assert judge_agreement(found, pd.DataFrame(), 0.05)["verdict"].tolist() == [verdict]


def test_no_readers_no_table(predictions):
    """One reader is none; a margin of 0 is refused."""
    alone = predictions._replace(test=predictions.test.drop(columns=["grade_2", "grade_3"]))
    assert compare_readers(alone, pd.DataFrame()).empty
    assert judge_agreement(alone, pd.DataFrame(), 0.1).empty
    with pytest.raises(DrError, match="margin must be above 0"):
        judge_agreement(predictions, pd.DataFrame(), 0)
