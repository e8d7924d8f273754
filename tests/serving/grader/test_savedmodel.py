"""A SavedModel, which the serving paper ran, behind the same contract as LiteRT."""

import shutil

import pytest

from dr_lib.serving.grader.folder import ModelFolderError, read_folder, write_folder
from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.untrained import export_untrained


def test_it_answers_as_litert_does(tmp_path, jpeg):
    """One network in two formats: the same keys and, but for rounding, the same probabilities; what is none is told."""
    answers = []
    for name in ("savedmodel", "litert_float32"):
        folder = export_untrained(tmp_path / name, "small_cnn", 48, name, seed=3)
        predictor = Predictor(folder, 2, max_pixels=10**7)
        predictor.warm_up()
        answers.append(predictor(jpeg))
    assert answers[0].keys() == answers[1].keys() and answers[0]["machine"]["threads"] == 2
    assert answers[0]["probabilities"] == pytest.approx(answers[1]["probabilities"], abs=1e-5)
    folder = read_folder(tmp_path / "savedmodel")
    shutil.rmtree(folder.artifact / "variables")
    with pytest.raises(ModelFolderError, match="not a SavedModel that TensorFlow can run"):
        Predictor(write_folder(folder.path, folder.facts["artifact"], folder.facts), 1, max_pixels=10**7)
