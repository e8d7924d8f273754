"""What is uploaded: all that a machine needs to train alike, and nothing that names a photograph
or a person.
"""

import shutil
import subprocess
import tarfile
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dr_lib.code import read_commit
from dr_lib.data.prepared.folder import Prepared, verify
from dr_lib.errors import DrError
from dr_lib.rooms.remote import pack, remote_script
from dr_lib.runs.study import load_study
from tests.runs.conftest import write_study

CUT = ["image_id", "row", "patient_id", "grade", "referable"]


@pytest.fixture
def packed(house, small_sample, monkeypatch) -> Path:
    """What the remote machine unpacks of a study on a prepared folder that has secrets in it and
    beside it.
    """
    (house / "dr_lib").mkdir()
    (house / "dr_lib" / "module.py").touch()
    (house / "dr_lib" / ".ipynb_checkpoints").mkdir()
    for file in (
        house / "dr_lib" / ".ipynb_checkpoints" / "module.py",
        house / "notebooks" / "other.ipynb",
    ):
        file.write_text("shows Ana")
    (house / "COMMIT").write_text("0123abcd-dirty")  # in place of git
    (house / "requirements.txt").write_text("papermill>=2.6\n")
    data = house / "data" / "prepared"
    shutil.copytree(small_sample, data)
    (data / "notes.txt").write_text("the photograph of Ana")
    (data.parent / "prepared.private").mkdir()
    (data.parent / "prepared.private" / "names.csv").write_text("Ana")
    manifest = data / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"notices": []', '"notices": ["Ana.csv"]'))
    own = pd.read_csv(data / "split.csv", dtype=str).assign(name="Ana")
    own.to_csv(data / "own.csv", index=False)
    (house / "data" / "weights.h5").write_bytes(b"weights")
    parameters = {"data_dir": "data/prepared", "weights": "data/weights.h5", "level": "own.csv"}
    head = "provider,instance,region,currency,usd_per_hour,date,source\n"
    prices = "Google,colab,,USD,0.1,2026-01-01,x\nmine,other,,USD,9,2026-01-01,from Ana\n"
    (house / "own.csv").write_text(head + prices)
    monkeypatch.setenv("DR_LIB_PRICES", str(house / "own.csv"))
    path = write_study(house, parameters=parameters, instance="colab")
    upload = house / "upload"
    upload.mkdir()
    monkeypatch.setattr(pack, "PART_BYTES", 200_000)
    monkeypatch.setattr(remote_script, "INSTALL", "")
    made = pack.pack_up(path, load_study(path, house), house, upload)
    assert len(list(upload.iterdir())) > 1
    assert "crops of data/prepared with pseudonyms, grades and split, no file names" in made
    remote_script.set_up(str(upload), str(house / "there"))
    return house / "there"


def test_the_prepared_folder_is_cut_and_still_whole(packed, small_sample):
    """It is verified there, divides the same crops alike, and its rows name the same data,
    labels and split.
    """
    data = packed / "data" / "prepared"
    verify(data)
    assert pd.read_csv(data / "labels.csv").columns.tolist() == CUT
    known = Prepared(small_sample).photographs
    there = Prepared(data).photographs
    pd.testing.assert_frame_equal(there, known.drop(columns=["eye", "official"]))
    assert Prepared(data).describe() == Prepared(small_sample).describe()
    here = packed.parent / "data" / "prepared"
    # of which a column stayed here
    assert Prepared(data, "own.csv").describe() == Prepared(here, "own.csv").describe()
    assert "name" not in pd.read_csv(data / "own.csv") and len(
        Prepared(data, "own.csv").photographs
    ) == len(known)


def test_nothing_else_leaves(packed):
    """The code, the study file, the prepared folder without what is not its own, and the weights
    that were named.
    """
    others = [
        path
        for path in packed.rglob("*")
        if path.is_file() and path.parent != packed / "data" / "prepared"
    ]
    names = {str(path.relative_to(packed)) for path in others}
    study = {"papermill_runs/trial.yaml", "COMMIT", "data/weights.h5", "requirements.txt"}
    study.add("prices.csv")
    assert read_commit(packed) == "0123abcd-dirty"
    assert names == study | {"notebooks/quick.ipynb", "dr_lib/module.py"}
    assert not any(b"Ana" in path.read_bytes() for path in packed.rglob("*") if path.is_file())


def test_no_file_that_git_ignores_leaves(house):
    """Of the library goes what git knows, and what is new; a notebook goes without its outputs,
    which may be photographs.
    """
    (house / "dr_lib").mkdir()
    for name in ("known.py", "new.py", "ignored.py"):
        (house / "dr_lib" / name).touch()
    (house / ".gitignore").write_text("ignored.py\n")
    for command in (["init", "-q"], ["add", ".gitignore", "dr_lib/known.py"]):
        subprocess.run(["git", "-C", house, *command], check=True)
    path = write_study(house)
    (house / "upload").mkdir()
    pack.pack_up(path, load_study(path, house), house, house / "upload")
    with tarfile.open(house / "upload" / f"{pack.PART}000") as archive:
        names = archive.getnames()
    assert {"dr_lib/known.py", "dr_lib/new.py"} <= set(
        names
    ) and "dr_lib/ignored.py" not in names
    notebook = nbformat.read(house / "notebooks" / "quick.ipynb", as_version=4)
    notebook.cells[1].outputs = [
        nbformat.v4.new_output("display_data", {"image/png": "aGVsbG8="})
    ]
    nbformat.write(notebook, house / "notebooks" / "quick.ipynb")
    pack.pack_up(path, load_study(path, house), house, house / "upload")
    with tarfile.open(house / "upload" / f"{pack.PART}000") as archive:
        packed = archive.extractfile("notebooks/quick.ipynb").read()
    assert b"aGVsbG8=" not in packed
    assert nbformat.reads(packed, 4).cells[1].source == notebook.cells[1].source


@pytest.mark.parametrize("split", ["/etc/own.csv", "../../own.csv"])
def test_a_split_table_from_elsewhere_is_refused(house, small_sample, split):
    """Not even its name is packed, whether it is there or not."""
    (house / "upload").mkdir()
    path = write_study(house, parameters={"split": split})
    with pytest.raises(DrError, match="split table '.*own.csv' in sample"):
        pack.pack_up(path, load_study(path, house), house, house / "upload")
    assert not list((house / "upload").iterdir())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder / "prepared", "outside the repository: link it into data/"),
        (lambda folder: "photographs", "is not prepared"),
    ],
)
def test_only_prepared_folders_of_the_repository_are_packed(house, make, said):
    """A folder of photographs is refused, and so is a path that no other machine has."""
    for folder in ("prepared", "photographs"):
        (house / folder).mkdir()
    for name in ("manifest.json", "split.csv"):
        (house / "prepared" / name).touch()
    path = write_study(house, parameters={"data_dir": str(make(house))})
    with pytest.raises(DrError, match=said):
        pack.pack_up(path, load_study(path, house), house, house)
