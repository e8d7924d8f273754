"""DICOM files that are served: the answer is that of the same PNG, and says no more."""

import base64
import json

import numpy as np
import pytest

from tests.data.photograph.dicoms import CANARY, RLE, add_canaries, write_dicom
from tests.data.photograph.pictures import to_file
from tests.serving.driver import draw_photograph, post, read_facts

pytestmark = pytest.mark.slow
IMAGE = np.ascontiguousarray(draw_photograph()[..., ::-1])


def test_a_dicom_is_answered_as_its_png(port, capfd, caplog):
    """By its content type, without one and in base64; no answer or log repeats what it says."""
    caplog.set_level("DEBUG")
    expected = read_facts(post(port, to_file(IMAGE), "image/png"))
    content = add_canaries(write_dicom(IMAGE, PatientID=CANARY, ImageLaterality="L"))
    text = json.dumps({"image": base64.b64encode(content).decode()})
    answers = [
        post(port, content, None),
        post(port, write_dicom(IMAGE, syntax=RLE), "application/dicom"),
        post(port, text, "application/json"),
    ]
    assert all(read_facts(answer) == expected for answer in answers)
    broken = add_canaries(content[: len(content) // 2])
    answers.append(post(port, broken, "application/dicom"))
    assert answers[-1].status_code == 400
    said = "".join([*capfd.readouterr(), caplog.text, *(answer.text for answer in answers)])
    assert CANARY.lower() not in said.lower()
