"""A SavedModel, which the serving paper ran, behind the same contract as LiteRT."""

import pytest

from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.untrained import export_untrained
from dr_lib.training.model_folder import (
    ModelFolderError,
    list_files,
    read_folder,
    write_folder,
)


def test_it_answers_as_litert_does_and_goes_on_when_its_files_are_overwritten(tmp_path, jpeg):
    """One network in two formats: the same keys and, but for rounding, the same probabilities.

    A manifest with another size is told in a sentence that names the folder. A copy of another
    model overwrites the files in place, or cuts them short: no answer changes. What is no model any
    more is told.
    """
    answers = []
    for name, kind in (
        ("savedmodel", "SavedModel that TensorFlow"),
        ("litert_float32", "LiteRT model that this runtime"),
    ):
        folder = export_untrained(tmp_path / name, "small_cnn", 48, name, seed=3)
        predictor = Predictor(folder, 2)
        predictor.warm_up()
        answers.append(predictor(jpeg))
        wrong = folder._replace(facts=folder.facts | {"image_size": 32})
        with pytest.raises(ModelFolderError, match=f"^{folder.path}: .*: export it again$"):
            Predictor(wrong, 1).warm_up()
        files = list_files(folder.artifact)
        for num_bytes in (files[0].stat().st_size, 0):
            for path in files:
                with path.open("r+b") as file:
                    file.write(bytes(num_bytes))
                    file.truncate(num_bytes)
            assert predictor(jpeg)["probabilities"] == answers[-1]["probabilities"]
        with pytest.raises(ModelFolderError, match="does not match manifest.json"):
            read_folder(folder.path)
        folder = write_folder(folder.path, folder.facts["artifact"], folder.facts)
        with pytest.raises(ModelFolderError, match=f"not a {kind} can run"):
            Predictor(folder, 1)
    assert answers[0].keys() == answers[1].keys() and answers[0]["machine"]["threads"] == 2

    assert answers[0]["probabilities"] == pytest.approx(answers[1]["probabilities"], abs=1e-5)
