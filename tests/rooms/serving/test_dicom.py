"""DICOM files that are graded and served: the answer is that of the same PNG, and says no more."""

import base64
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tests.data.photograph.dicoms import CANARY, RLE, add_canaries, write_dicom
from tests.data.photograph.pictures import to_file
from tests.rooms.serving.driver import ROOT, draw_photograph, post

pytestmark = pytest.mark.slow


def test_a_dicom_is_graded_as_its_png(served_folder, tmp_path):
    """In a table and for a person, whose PatientID is not written: two files of one are one; what
    is none is refused without a word of it.
    """
    folder = tmp_path / "eyes"
    folder.mkdir()
    for number in range(4):
        image = np.ascontiguousarray(draw_photograph(number)[..., ::-1])
        content = write_dicom(image, PatientID=f"{CANARY}{number // 2}")
        (folder / f"IM{number}").write_bytes(add_canaries(content))
        (tmp_path / f"{number}.png").write_bytes(to_file(image))
    (folder / "IM4").write_bytes(add_canaries(write_dicom(image, CANARY)))
    syntax = b"1.2.840.10008.1.2.1\0"
    (folder / "IM5").write_bytes(content.replace(syntax, CANARY.encode().ljust(20, b"\0"), 1))
    pngs = [tmp_path / f"{number}.png" for number in range(4)]
    said = ""
    for paths, options in (([folder], ["--by-patient"]), (pngs, [])):
        out = tmp_path / f"{len(paths)}.csv"
        command = ["predict", served_folder, *paths, "--out", out, *options]
        result = subprocess.run(
            [sys.executable, "-W", "always", "-m", "dr_lib", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        said += result.stdout + result.stderr
    said += "".join(path.read_text() for path in tmp_path.glob("*.csv"))
    assert CANARY.lower() not in said.lower()
    graded, expected = (
        pd.read_csv(tmp_path / f"{name}.csv").iloc[:4].drop(columns="file") for name in (1, 4)
    )
    pd.testing.assert_frame_equal(graded, expected, check_dtype=False)
    people = pd.read_csv(tmp_path / "1.patients.csv")
    assert people["num_photographs"].tolist() == [2, 3, 1]
    assert people["patient"].tolist()[0] == f"patient of {folder / 'IM0'}"


def test_a_dicom_is_answered_as_its_png(port, capfd, caplog):
    """By its content type, without one and in base64; no answer, log or number repeats what it
    says.
    """
    caplog.set_level("DEBUG")
    image = np.ascontiguousarray(draw_photograph()[..., ::-1])
    expected = post(port, to_file(image), "image/png").facts
    content = add_canaries(write_dicom(image, PatientID=CANARY, ImageLaterality="L"))
    answers = [post(port, content, kind) for kind in ("application/dicom", None)]
    answers.append(post(port, write_dicom(image, syntax=RLE), "application/dicom"))
    text = json.dumps({"image": base64.b64encode(content).decode()})
    answers.append(post(port, text, "application/json"))
    assert [answer.status for answer in answers] == [200] * 4
    assert all(answer.facts == expected for answer in answers)
    for broken in (
        write_dicom(image, CANARY),
        write_dicom(image, Modality=CANARY, PixelData=None),
        add_canaries(content[: len(content) // 2]),
    ):
        answers.append(post(port, broken, "application/dicom"))
        assert (
            answers[-1].status == 400 and "the DICOM" in json.loads(answers[-1].body)["error"]
        )
    out, err = capfd.readouterr()
    said = "".join([out, err, caplog.text, *(str(answer) for answer in answers)])
    assert CANARY.lower() not in said.lower()
