"""An untrained network: a folder that is served, in every format, by the seed of its weights."""

import cv2
import numpy as np
import pytest

from dr_lib.rooms.serving.export.runtimes import open_runtime
from dr_lib.rooms.serving.untrained import export_untrained
from tests.rooms.serving.driver import draw_photograph


@pytest.mark.parametrize(
    ("model", "format_name"),
    [
        ("small_cnn", "litert_int8"),
        pytest.param("vgg19", "litert_int8", marks=pytest.mark.slow),
    ],
)
def test_it_answers_by_its_seed(tmp_path, model, format_name):
    """Probabilities for every photograph, the same by the same seed, others by another."""
    photographs = np.stack(
        [cv2.resize(draw_photograph(seed, 96, 96), (32, 32)) for seed in range(16)]
    )
    answers = []
    for seed in (3, 3, 4):
        folder = export_untrained(
            tmp_path, model, 32, format_name, examples=photographs, seed=seed
        )
        predict = open_runtime(format_name, folder.artifact, num_threads=0)
        answers.append(np.concatenate([predict(image[None]) for image in photographs]))
    assert answers[0].sum(axis=1) == pytest.approx(1, abs=0.02)
    assert (answers[0] == answers[1]).all() and (answers[0] != answers[2]).any()
