"""A prepared folder of DICOM files: nothing that they say leaves the private folder."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.prepared.folder import Prepared
from tests.conftest import ROOT
from tests.data.photograph.dicoms import CANARY, add_canaries, write_dicom
from tests.data.photograph.pictures import draw_fov, to_file

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


def test_the_folder_is_that_of_the_same_pngs_and_says_no_more(tmp_path):
    """Crops, patients, eyes and sides are those of PNGs whose table says what the files say; a
    canary in every element is found in the private folder alone.
    """
    files = tmp_path / "files"
    pngs = tmp_path / "pngs"
    files.mkdir()
    pngs.mkdir()
    rows = []
    for number in range(24):
        image = draw_fov(320, 240, 150.0 + number, 120.0, 90.0)
        patient = f"{CANARY}{number // 2}"
        eye = "RL"[number % 2]
        day = f"202403{28 - number % 2}"
        content = write_dicom(image, PatientID=patient, ImageLaterality=eye, StudyDate=day)
        (files / f"{number}.dcm").write_bytes(add_canaries(content))
        (pngs / f"{number}.png").write_bytes(to_file(image))
        rows.append((f"{number}", number // 2 % 5, patient, eye, day))
    broken = write_dicom(image, CANARY, Modality=CANARY, SpecificCharacterSet=CANARY)
    (files / "24.dcm").write_bytes(broken)
    table = pd.DataFrame(rows, columns=["image", "grade", "patient", "eye", "visit"])
    table.to_csv(f"{pngs}.csv", index=False)
    table.loc[24, ["image", "grade"]] = ["24", 0]
    table[["image", "grade"]].to_csv(f"{files}.csv", index=False)

    written = [prepare(files) + prepare(pngs)]
    out = tmp_path / "files.out"
    written += [path.read_bytes().decode("latin-1") for path in out.rglob("*")]
    assert not [text for text in written if CANARY.lower() in text.lower()]
    assert CANARY.lower() in (tmp_path / "files.out.private" / "names.csv").read_text()
    found, expected = (
        Prepared(tmp_path / f"{name}.out").photographs.sort_values("row", ignore_index=True)
        for name in ("files", "pngs")
    )
    columns = ["eye", "visit", "perceptual_hash"]
    assert found[columns].equals(expected[columns])
    for patients in (found["patient_id"], expected["patient_id"]):
        assert pd.factorize(patients)[0].tolist() == [number // 2 for number in range(24)]
    assert found["visit"].astype(str).tolist() == ["1", "0"] * 12
