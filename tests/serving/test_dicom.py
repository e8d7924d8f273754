"""DICOM files that are graded and served: the answer is that of the same PNG, and says no more."""

import base64
import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from tests.data.photograph.dicoms import CANARY, RLE, add_canaries, write_dicom
from tests.data.photograph.pictures import to_file
from tests.serving.driver import draw_photograph, post

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("always")
def test_a_dicom_is_graded_as_its_png(served_folder, tmp_path, capfd, caplog, recwarn):
    """In a table; what is none is refused without a word of it."""
    folder = tmp_path / "eyes"
    pngs = tmp_path / "pngs"
    folder.mkdir()
    pngs.mkdir()
    for number in range(4):
        image = np.ascontiguousarray(draw_photograph(number)[..., ::-1])
        content = write_dicom(image, PatientID=f"{CANARY}{number // 2}")
        (folder / f"IM{number}").write_bytes(add_canaries(content))
        (pngs / f"{number}.png").write_bytes(to_file(image))
    (folder / "IM4").write_bytes(add_canaries(write_dicom(image, CANARY)))
    recwarn.clear()  # of writing them
    caplog.clear()
    said = ""
    for name, photographs in (("dicom", folder), ("png", pngs)):
        words = [served_folder, photographs, "--out", tmp_path / f"{name}.csv"]
        result = CliRunner().invoke(main, ["predict", *map(str, words)])
        assert result.exit_code == 0, result.output
        said += result.output
    said += "".join([*capfd.readouterr(), caplog.text])
    said += "".join(str(warning.message) for warning in recwarn)
    said += "".join(path.read_text() for path in tmp_path.glob("*.csv"))
    assert CANARY.lower() not in said.lower()
    graded = pd.read_csv(tmp_path / "dicom.csv").iloc[:4].drop(columns="file")
    expected = pd.read_csv(tmp_path / "png.csv").drop(columns="file")
    pd.testing.assert_frame_equal(graded, expected, check_dtype=False)


def test_a_dicom_is_answered_as_its_png(port, capfd, caplog):
    """By its content type, without one and in base64; no answer, log or number repeats what it
    says.
    """
    caplog.set_level("DEBUG")
    image = np.ascontiguousarray(draw_photograph()[..., ::-1])
    expected = post(port, to_file(image), "image/png").facts
    content = add_canaries(write_dicom(image, PatientID=CANARY, ImageLaterality="L"))
    text = json.dumps({"image": base64.b64encode(content).decode()})
    answers = [
        post(port, content, "application/dicom"),
        post(port, content, None),
        post(port, write_dicom(image, syntax=RLE), "application/dicom"),
        post(port, text, "application/json"),
    ]
    assert [answer.status for answer in answers] == [200] * 4
    assert all(answer.facts == expected for answer in answers)
    for broken in (
        write_dicom(image, CANARY),
        write_dicom(image, Modality=CANARY, PixelData=None),
        add_canaries(content[: len(content) // 2]),
    ):
        refused = post(port, broken, "application/dicom")
        assert refused.status == 400
        assert b"the DICOM" in refused.body or b"damaged" in refused.body
        answers.append(refused)
    said = "".join([*capfd.readouterr(), caplog.text, *map(str, answers)])
    assert CANARY.lower() not in said.lower()
