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
IMAGE = np.ascontiguousarray(draw_photograph()[..., ::-1])


def test_a_dicom_is_graded_as_its_png(served_folder, tmp_path, capfd, caplog):
    """In a table; what is none is refused without a word of it."""
    files = {
        "dicom": add_canaries(write_dicom(IMAGE, PatientID=CANARY)),
        "broken": add_canaries(write_dicom(IMAGE, CANARY)),
        "png": to_file(IMAGE),
    }
    caplog.clear()  # of writing them
    for name, content in files.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "IM1").write_bytes(content)
        words = [served_folder, folder, "--out", tmp_path / f"{name}.csv"]
        result = CliRunner().invoke(main, ["predict", *map(str, words)])
        assert result.exit_code == 0, result.output
        print(result.output)
    said = "".join([*capfd.readouterr(), caplog.text])
    said += "".join(path.read_text() for path in tmp_path.glob("*.csv"))
    assert CANARY.lower() not in said.lower()
    tables = [pd.read_csv(tmp_path / f"{name}.csv") for name in ("dicom", "png", "broken")]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert tables[2]["error"].notna().all()


def test_a_dicom_is_answered_as_its_png(port, capfd, caplog):
    """By its content type, without one and in base64; no answer or log repeats what it says."""
    caplog.set_level("DEBUG")
    expected = post(port, to_file(IMAGE), "image/png").facts
    content = add_canaries(write_dicom(IMAGE, PatientID=CANARY, ImageLaterality="L"))
    text = json.dumps({"image": base64.b64encode(content).decode()})
    answers = [
        post(port, content, None),
        post(port, write_dicom(IMAGE, syntax=RLE), "application/dicom"),
        post(port, text, "application/json"),
    ]
    assert all(answer.facts == expected for answer in answers)
    broken = add_canaries(content[: len(content) // 2])
    answers.append(post(port, broken, "application/dicom"))
    assert answers[-1].status == 400
    said = "".join([*capfd.readouterr(), caplog.text, *map(str, answers)])
    assert CANARY.lower() not in said.lower()
