"""A prepared folder of DICOM files: nothing that they say leaves the private folder."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.prepared.folder import Prepared
from tests.conftest import ROOT
from tests.data.photograph.dicoms import CANARY, add_canaries, write_dicom
from tests.data.photograph.pictures import draw_fov

pytestmark = pytest.mark.slow


def prepare(images: Path) -> str:
    """Run the command; return what it wrote to the terminal."""
    options = ["--images", images, "--labels", f"{images}.csv", "--out", f"{images}.out"]
    result = subprocess.run(
        [sys.executable, "-W", "always", "-m", "dr_lib", "prepare", "--workers", "2", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_the_folder_says_no_more_than_eye_patient_and_visit(tmp_path):
    """Patients, eyes and visits are those that the files state; a canary in every element is found
    in the private folder alone.
    """
    files = tmp_path / "files"
    files.mkdir()
    rows = ["image,grade", "24,0"]
    for number in range(24):
        image = draw_fov(320, 240, 150.0 + number, 120.0, 90.0)
        content = write_dicom(
            image,
            PatientID=f"{CANARY}{number // 2}",
            ImageLaterality="RL"[number % 2],
            StudyDate=f"202403{28 - number % 2}",
        )
        (files / f"{number}.dcm").write_bytes(add_canaries(content))
        rows.append(f"{number},{number // 2 % 5}")
    broken = write_dicom(image, CANARY, Modality=CANARY, SpecificCharacterSet=CANARY)
    (files / "24.dcm").write_bytes(broken)
    Path(f"{files}.csv").write_text("\n".join(rows))

    written = [prepare(files)]
    out = tmp_path / "files.out"
    written += [path.read_bytes().decode("latin-1") for path in out.rglob("*")]
    assert not [text for text in written if CANARY.lower() in text.lower()]
    assert CANARY.lower() in (tmp_path / "files.out.private" / "names.csv").read_text()
    found = Prepared(out).photographs.sort_values("row")
    assert pd.factorize(found["patient_id"])[0].tolist() == [k // 2 for k in range(24)]
    assert found["eye"].tolist() == ["right", "left"] * 12
    assert found["visit"].astype(str).tolist() == ["1", "0"] * 12
