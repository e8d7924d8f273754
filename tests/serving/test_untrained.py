"""An untrained network that answers: unlike answers to unlike photographs, in every format."""

import cv2
import numpy as np
import pytest

from dr_lib.serving.export.runtimes import open_runtime
from dr_lib.serving.untrained import export_untrained
from tests.serving.driver import draw_photograph


@pytest.mark.parametrize(
    ("model", "format_name"),
    [
        ("small_cnn", "litert_int8"),
        pytest.param("mobilenet", "litert_int8", marks=pytest.mark.slow),
        pytest.param("vgg19", "litert_int8", marks=pytest.mark.slow),
    ],
)
def test_its_answers_differ_from_one_photograph_to_another(tmp_path, model, format_name):
    """On photographs that it was not scaled on: else a server that mixes up its photographs
    would look right.
    """
    photographs = np.stack(
        [cv2.resize(draw_photograph(seed, 96, 96), (32, 32)) for seed in range(24)]
    )
    folder = export_untrained(tmp_path, model, 32, format_name, examples=photographs[:16])
    predict = open_runtime(format_name, folder.artifact, num_threads=0)
    answers = np.concatenate([predict(image[None]) for image in photographs[16:]])
    assert np.ptp(answers, axis=0).max() > 0.1 and len(np.unique(answers.round(3), axis=0)) == 8
