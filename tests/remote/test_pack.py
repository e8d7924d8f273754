"""What is uploaded: all that a machine needs to train alike, and nothing that names a photograph
or a person.
"""

import shutil
import subprocess
import zipfile
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dr_lib.code import read_commit
from dr_lib.data.prepared.folder import Prepared, verify
from dr_lib.data.prepared.split import split
from dr_lib.errors import DrError
from dr_lib.remote import pack, remote_script
from dr_lib.runs.study import Study, load_study
from tests.runs.conftest import write_prepared, write_study

CUT = ["image_id", "content_id", "row", "patient_id", "grade", "referable"]


def pack_up(house: Path, **changes) -> str:
    """Pack a study into the folder upload of the house; what that is, in words."""
    path = write_study(house, **changes)
    (house / "upload").mkdir(exist_ok=True)
    (house / "requirements.txt").write_text("papermill>=2.6\n")
    return pack.pack_up(path, load_study(path, house), house, house / "upload")


@pytest.fixture
def packed(house, small_sample, monkeypatch) -> Path:
    """What the remote machine unpacks of a study on a prepared folder that has secrets in it and
    beside it.
    """
    data = house / "data" / "prepared"
    shutil.copytree(small_sample, data)
    split(data, seed=5, out="split-own.csv")
    head = "provider,instance,region,currency,usd_per_hour,date,source\n"
    prices = "Google,colab,,USD,0.1,2026-01-01,x\nmine,other,,USD,9,2026-01-01,from Ana\n"
    for name, text in {
        "dr_lib/module.py": "",
        "dr_lib/.ipynb_checkpoints/module.py": "shows Ana",
        "notebooks/other.ipynb": "shows Ana",
        "COMMIT": "0123abcd-dirty",  # in place of git
        "data/prepared/notes.txt": "the photograph of Ana",
        "data/prepared.private/names.csv": "Ana",
        "data/weights.h5": "weights",
        "own.csv": head + prices,
    }.items():
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        (house / name).write_text(text)
    notebook = nbformat.read(house / "notebooks" / "quick.ipynb", as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("display_data", {"text/plain": "Ana"})]
    nbformat.write(notebook, house / "notebooks" / "quick.ipynb")
    monkeypatch.setenv("DR_LIB_PRICES", str(house / "own.csv"))
    monkeypatch.setattr(pack, "PART_BYTES", 200_000)
    monkeypatch.setattr(remote_script, "INSTALL", "")
    monkeypatch.setattr(remote_script, "HOME", house / "there")
    parameters = {
        "data_dir": "data/prepared",
        "weights": "data/weights.h5",
        "split": "split-own.csv",
    }
    made = pack_up(house, parameters=parameters, instance="colab")
    assert len(list((house / "upload").iterdir())) > 1
    assert "crops of data/prepared with pseudonyms, grades and split, no file names" in made
    remote_script.set_up(str(house / "upload"))
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
    here = packed.parent / "data" / "prepared"
    for name in ("split.csv", "split-own.csv"):
        assert Prepared(data, name).describe() == Prepared(here, name).describe()


def test_nothing_else_leaves(packed):
    """The code, the study file, the prepared folder without what is not its own, the weights
    that were named, one price, and the notebook without its outputs, which may be photographs.
    """
    files = [path for path in packed.rglob("*") if path.is_file()]
    names = {str(path.relative_to(packed)) for path in files} - {"upload.zip"}
    study = {"papermill_runs/trial.yaml", "COMMIT", "data/weights.h5", "requirements.txt"}
    study |= {"notebooks/quick.ipynb", "dr_lib/module.py", "dr_lib/runs/prices.csv"}
    assert {name for name in names if not name.startswith("data/prepared/")} == study
    assert read_commit(packed) == "0123abcd-dirty"
    assert not any(b"Ana" in path.read_bytes() for path in files)
    there, here = (
        nbformat.read(root / "notebooks" / "quick.ipynb", 4) for root in (packed, packed.parent)
    )
    assert there.cells[1].source == here.cells[1].source


def test_no_file_that_git_ignores_leaves(house):
    """Of the library goes what git knows, and what is new."""
    (house / "dr_lib").mkdir()
    for name in ("known.py", "new.py", "ignored.py"):
        (house / "dr_lib" / name).touch()
    (house / ".gitignore").write_text("ignored.py\n")
    for command in (["init", "-q"], ["add", ".gitignore", "dr_lib/known.py"]):
        subprocess.run(["git", "-C", house, *command], check=True)
    pack_up(house)
    with zipfile.ZipFile(house / "upload" / f"{pack.PART}000") as archive:
        names = archive.namelist()
    assert {"dr_lib/known.py", "dr_lib/new.py"} <= set(names)
    assert "dr_lib/ignored.py" not in names


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"data_dir": "{house}/prepared"}, "outside the repository: link it into data/"),
        ({"data_dir": "photographs"}, "is not prepared"),
        ({"split": "../../own.csv"}, "own.csv"),
    ],
)
def test_only_prepared_folders_of_the_repository_are_packed(house, parameters, said):
    """A folder of photographs is refused, and so is a path that no other machine has: not even the
    name of a split table from elsewhere is packed.
    """
    (house / "photographs").mkdir()
    write_prepared(house / "prepared", "random", "split.csv")
    values = {name: value.format(house=house) for name, value in parameters.items()}
    with pytest.raises(DrError, match=said):
        pack_up(house, parameters=values)
    assert not list((house / "upload").iterdir())


def test_a_network_of_ones_own_goes_along_or_is_refused(tmp_path):
    """As a file of the repository; elsewhere the run would end late: no module of that name."""
    models = ["own.nets:build", "small_cnn", "dr_lib.training.lite0:build_lite0"]
    study = Study(notebook="10_train", repetitions=1, factors={"model": models})
    for name in ("dr_lib/training/lite0.py", "own/nets.py"):
        with pytest.raises(DrError, match="is not sent: put it into the repository, as "):
            pack._list_networks(study, tmp_path)
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    assert pack._list_networks(study, tmp_path) == ["own/nets.py"]
