"""A patient's name in metadata, file names and labels never leaves the private folder."""

import base64
import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import papermill
import pytest
from PIL import Image

from dr_lib.data.labels.privacy import open_private

ROOT = Path(__file__).resolve().parents[3]
NAME, NUMBER = "Zulmira Quaresma", "123.456.789-09"
SECRETS = ("Zulmira", "Quaresma", NUMBER, "12345678909")


def write_photograph(source: Path, path: Path) -> None:
    """Save a photograph again with metadata that name the patient."""
    picture, exif = Image.open(source), Image.Exif()
    exif.update({0x010E: NAME, 0x013B: f"{NAME} {NUMBER}", 0x9C9D: NAME.encode("utf-16-le")})  # description, artist
    picture.thumbnail((480, 480))
    picture.save(path, exif=exif)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory, small_sample) -> Path:
    """A clinic's folder, in which everything names its patient, some of it unusable."""
    folder = tmp_path_factory.mktemp("clinic")
    drawn = small_sample.parent / "photographs"
    rows = []
    for index, row in enumerate(pd.read_csv(drawn / "labels.csv", dtype=str).itertuples()):
        inside = Path(f"{NAME} {row.patient}") / f"{NAME}, {NUMBER}, {index}{('.jpg', '.png', '.tif')[index % 3]}"
        (folder / inside).parent.mkdir(exist_ok=True)
        write_photograph(drawn / "images" / Path(row.image).name, folder / inside)
        rows.append((str(inside), f"{NAME} {row.patient}", row.eye, row.grade))
    unusable = {"cut.jpg": (folder / rows[0][0]).read_bytes()[:8_000], "note.jpg": f"{NAME} {NUMBER}".encode()}
    unusable |= {"scan.png": bytes(128) + b"DICM" + NAME.encode(), "empty.jpg": b""}
    for name, content in unusable.items():
        (folder / f"{NAME} {name}").write_bytes(content)
        rows.append((f"{NAME} {name}", f"{NAME} alone {name}", "left", "0"))
    pd.DataFrame(rows, columns=["image", "patient", "eye", "grade"]).to_csv(folder / "labels.csv", index=False)
    return folder


def find_secrets(content: bytes) -> list[str]:
    """Which secrets the bytes hold: in UTF-8 or UTF-16, upper or lower case."""
    lower = content.lower()
    return [s for s in SECRETS if any(s.lower().encode(code) in lower for code in ("utf-8", "utf-16-le", "utf-16-be"))]


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_a_folder_that_was_there_keeps_its_mode(tmp_path, mode):
    """It is the user's, who may share it; a new one is the owner's alone."""
    (tmp_path / "mine").mkdir(mode)
    for name, expected in (("mine", mode), ("new", 0o700)):
        with open_private(tmp_path / name):
            pass
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == expected
        assert stat.S_IMODE((tmp_path / name / "salt").stat().st_mode) == 0o600


def list_contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file below a folder and its name, and the pictures inside notebooks too."""
    for path in sorted(folder.rglob("*")):
        yield f"the name of {path.name}", path.name.encode()
        if path.is_file():
            yield path.name, path.read_bytes()
        if path.suffix == ".ipynb":
            cells = json.loads(path.read_text())["cells"]
            pictures = [o.get("data", {}).get("image/png", "") for c in cells for o in c.get("outputs", [])]
            yield from ((f"a picture in {path.name}", base64.b64decode(picture)) for picture in pictures)


@pytest.mark.slow
def test_the_search_finds_what_there_is(clinic):
    """In the clinic's own files the name is found everywhere, in every format: the search is not blind."""
    assert all("Zulmira" in find_secrets(path.read_bytes()) for path in clinic.glob("*/*"))
    assert find_secrets("ZULMIRA".encode("utf-16-le")) == ["Zulmira"]


@pytest.mark.slow
def test_notebook_01_tells_no_name(clinic, tmp_path):
    """The executed notebook, its figures and what it wrote: no secret."""
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(clinic, tmp_path / "mine")
    parameters = {"images": "mine", "labels": "mine/labels.csv", "out": "prepared", "private": "kept"}
    (tmp_path / "executed").mkdir()
    papermill.execute_notebook(
        tmp_path / "notebooks" / "01_prepare_fundus.ipynb",
        tmp_path / "executed" / "01.ipynb",
        parameters | {"num_shown": 8},
        kernel_name="python3",
        cwd=tmp_path,
        progress_bar=False,
    )
    assert "Zulmira" in (tmp_path / "kept" / "rejected.csv").read_text()
    for written in ("prepared", "executed"):
        for name, content in list_contents(tmp_path / written):
            assert find_secrets(content) == [], name
