"""The synthetic sample: reproducible, clinically proportioned, and not to be graded by its
colours.
"""

import cv2
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.synthetic import choose_grades, draw_sample
from dr_lib.errors import DrError


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Both eyes of three patients."""
    return draw_sample(tmp_path_factory.mktemp("drawn") / "sample", num_patients=3, workers=2)


def read_files(folder):
    """The bytes of every file, by its name."""
    files = filter(lambda path: path.is_file(), folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_labels_name_every_photograph_once(sample):
    """The table has a left and a right eye of each patient, and the folder no photograph
    besides.
    """
    labels = pd.read_csv(sample / "labels.csv")
    assert list(labels) == ["image", "patient", "eye", "grade"]
    names = "images/" + labels["patient"] + "_" + labels["eye"] + ".jpg"
    assert (labels["image"] == names).all() and names.nunique() == 6
    assert len([*(sample / "images").iterdir()]) == 6


def test_grades_have_the_shares_of_messidor_2():
    """Of 400 eyes 233, 62, 80, 17 and 8, by hand from 1,017, 270, 347, 75, 35; most patients
    have one in both eyes.
    """
    left, right = choose_grades(200, 7).T
    assert np.bincount([*left, *right]) == pytest.approx([233, 62, 80, 17, 8], abs=1)
    assert 0.6 < (left == right).mean() < 0.95


def test_one_worker_draws_what_two_do(sample, tmp_path):
    """To the byte. Nothing is drawn into a folder that holds something."""
    calls = []
    draw_sample(tmp_path, num_patients=3, workers=0, progress=lambda *at: calls.append(at))
    assert read_files(tmp_path) == read_files(sample)
    assert calls == [(done, 6) for done in (2, 4, 6)]
    with pytest.raises(DrError, match="choose another folder"):
        draw_sample(tmp_path)


def test_the_sample_keeps_its_pictures(sample):
    """Mean red of each, as it was drawn in November 2026: thresholds and the gallery rest on it."""
    photographs = sorted((sample / "images").iterdir())
    reds = [cv2.imread(str(path))[:, :, 2].mean() for path in photographs]
    assert reds == pytest.approx([75.36, 89.88, 67.16, 63.80, 151.89, 139.65], abs=0.1)


@pytest.mark.slow
def test_colours_do_not_grade_the_sample(tmp_path):
    """As many eyes as it has, cropped as they will be: AUC of at most 0.65 by a logistic regression
    on colours alone, of the eyes of patients that it has not seen.
    """
    labels = pd.read_csv(draw_sample(tmp_path / "drawn") / "labels.csv")
    crops = [crop_fundus(tmp_path / "drawn" / image).image for image in labels["image"]]
    pixels = np.reshape(crops, (len(crops), -1, 3)) / 255
    bins = [[np.histogram(p[:, c], 16, (0, 1))[0] / len(p) for c in range(3)] for p in pixels]
    features = np.hstack([pixels.mean(1), pixels.std(1), np.reshape(bins, (len(crops), -1))])
    scores = cross_val_predict(
        make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=2000)),
        features,
        labels["grade"] >= 2,
        groups=labels["patient"],
        cv=GroupKFold(5),
        method="decision_function",
    )
    assert roc_auc_score(labels["grade"] >= 2, scores) <= 0.65
