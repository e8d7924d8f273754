"""A patient's name in metadata, file names and labels never leaves the private folder."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import papermill
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from dr_lib.data.labels.privacy import open_private, place_private
from dr_lib.errors import DrError
from tests.conftest import ROOT
from tests.data.photograph.pictures import to_file

NAME = "Zulmira Quaresma"
NUMBER = "123.456.789-09"
SECRETS = ("Zulmira", "Quaresma", NUMBER, "12345678909")
# description, artist, ...
TAGS = {0x010E: NAME, 0x013B: NAME, 0x8298: f"(c) {NAME}", 0x9C9D: NAME.encode("utf-16-le")}
# user comment, camera owner's name
OWN_TAGS = {0x9286: b"ASCII\0\0\0" + f"{NAME} {NUMBER}".encode(), 0xA430: NAME}
XMP = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><dc:creator>{NAME}</dc:creator>{NUMBER}'.encode()
XMP += b"</x:xmpmeta>"


def make_exif() -> Image.Exif:
    """EXIF of all kinds that names the patient."""
    exif = Image.Exif()
    exif.update(TAGS)
    exif.get_ifd(0x8769).update(OWN_TAGS)
    return exif


def write_photograph(source: Path, path: Path) -> None:
    """Save a photograph again with metadata of each kind that its format holds."""
    picture = Image.open(source)
    picture.thumbnail((480, 480))
    notes = PngInfo()
    notes.add_text("Author", NAME)
    notes.add_itxt("XML:com.adobe.xmp", XMP.decode())
    options = {
        ".png": {"pnginfo": notes, "exif": make_exif()},
        ".tif": {"tiffinfo": {270: NAME, 700: XMP}},
        ".jpg": {"exif": make_exif(), "xmp": XMP, "comment": f"{NAME} {NUMBER}".encode()},
    }
    picture.save(path, **options[path.suffix])
    assert find_secrets(path.read_bytes())


@pytest.fixture(scope="module")
def clinic(tmp_path_factory, small_sample) -> Path:
    """A clinic's folder, in which everything names its patient, some of it unusable."""
    folder = tmp_path_factory.mktemp("clinic")
    drawn = small_sample.parent / "photographs"
    table = pd.read_csv(drawn / "labels.csv", dtype=str)
    names = []
    for index, row in table.iterrows():
        suffix = (".jpg", ".png", ".tif")[index % 3]
        names.append(f"{NAME} {row['patient']}/{NAME}, {NUMBER}, {index}{suffix}")
        (folder / names[-1]).parent.mkdir(exist_ok=True)
        write_photograph(drawn / row["image"], folder / names[-1])
    table = table.assign(image=names, patient=f"{NAME} " + table["patient"])
    black = Image.new("RGB", (300, 200))
    unusable = {
        "cut.jpg": (folder / names[0]).read_bytes()[:8_000],
        "note.jpg": f"{NAME} {NUMBER}".encode(),
        "black.jpg": to_file(black, ".jpg", comment=NAME.encode()),
    }
    for name, content in unusable.items():
        (folder / f"{NAME} {name}").write_bytes(content)
        table.loc[len(table)] = [f"{NAME} {name}", f"{NAME} alone {name}", "left", "0"]
    table.to_csv(folder / "labels.csv", index=False)
    return folder


def find_secrets(content: bytes) -> set[str]:
    """Which secrets the bytes hold: in UTF-8, Latin-1 or UTF-16, upper or lower case."""
    encodings = ("utf-8", "latin-1", "utf-16-le", "utf-16-be")
    return {
        secret
        for secret in SECRETS
        for encoding in encodings
        if secret.lower().encode(encoding) in content.lower()
    }


def find_leaks(folder: Path) -> list[str]:
    """Which files below a folder hold a secret, in their name or in a notebook's picture too."""
    leaks = []
    for path in folder.rglob("*"):
        contents = [path.name.encode(), path.read_bytes() if path.is_file() else b""]
        if path.suffix == ".ipynb":
            cells = json.loads(path.read_text())["cells"]
            outputs = [output for cell in cells for output in cell.get("outputs", [])]
            pictures = [output.get("data", {}).get("image/png", "") for output in outputs]
            contents += map(base64.b64decode, pictures)
        if any(map(find_secrets, contents)):
            leaks.append(path.name)
    return leaks


@pytest.mark.slow
def test_preparing_tells_no_name(clinic, tmp_path):
    """Shards, tables, manifest and all that the command says: no secret; the private folder
    alone names the files.
    """
    private = tmp_path / "kept"
    command = [sys.executable, "-m", "dr_lib", "prepare", "--images", clinic, "--workers", "2"]
    command += ["--labels", clinic / "labels.csv", "--out", tmp_path / "out"]
    command += ["--private", private]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["num_rejected"] >= 3
    assert "Zulmira" in (private / "rejected.csv").read_text()
    assert not find_secrets(done.stdout + done.stderr)
    assert not find_leaks(tmp_path / "out")


@pytest.mark.slow
def test_notebook_01_tells_no_name(clinic, clone):
    """The executed notebook, its figures and what it wrote: no secret."""
    shutil.copytree(clinic, clone / "mine")
    (clone / "executed").mkdir()
    papermill.execute_notebook(
        clone / "notebooks" / "01_prepare_fundus.ipynb",
        clone / "executed" / "01.ipynb",
        {
            "images": "mine",
            "labels": "mine/labels.csv",
            "out": "prepared",
            "private": "kept",
            "num_shown": 8,
        },
        kernel_name="python3",
        cwd=clone,
        progress_bar=False,
    )
    assert "Zulmira" in (clone / "kept" / "rejected.csv").read_text()
    for written in ("prepared", "executed"):
        assert not find_leaks(clone / written)


def test_a_report_that_shows_patients_is_placed_in_a_private_folder(tmp_path):
    """The one beside the prepared folder, or any other that the caller chose; without one it is
    refused.
    """
    prepared = tmp_path / "prepared"
    with pytest.raises(
        DrError, match=r"no private folder .*prepared\.private: choose an --out"
    ):
        place_private(tmp_path / "out", prepared)
    own = tmp_path / "safe"
    for private in (own, tmp_path / "prepared.private"):
        with open_private(private):
            pass
    beside = tmp_path / "prepared.private" / "evaluation"
    assert place_private(tmp_path / "out", prepared) == beside
    assert place_private(own / ".." / "mine", prepared) == beside
    assert place_private(own / "mine", prepared) == own / "mine"
