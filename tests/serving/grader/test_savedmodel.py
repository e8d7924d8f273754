"""A SavedModel, which the serving paper ran, behind the same contract as LiteRT."""

import os
import shutil

import pytest

from dr_lib.serving.grader.folder import ModelFolderError, list_files, read_folder, write_folder
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


@pytest.mark.parametrize("name", ["savedmodel", "litert_float32", "litert_float16"])
def test_a_replaced_artifact_changes_no_answer(tmp_path, jpeg, name):
    """Overwritten in place and cut short while it is served, as a copy of another model does it."""
    folder = export_untrained(tmp_path, "small_cnn", 48, name)
    predictor = Predictor(folder, 2, max_pixels=10**7)
    before = predictor(jpeg)["probabilities"]
    for path in list_files(folder.artifact):
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
    assert predictor(jpeg)["probabilities"] == before
    for path in list_files(folder.artifact):
        os.truncate(path, 0)
    assert predictor(jpeg)["probabilities"] == before
    with pytest.raises(ModelFolderError):
        Predictor(folder, 1, max_pixels=10**7)
