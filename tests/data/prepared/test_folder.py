"""A prepared folder: no damage to shards, labels or split passes, and what is read is what was
prepared.
"""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.prepared import crops
from dr_lib.data.prepared.folder import (
    Prepared,
    find_split,
    read_manifest,
    verify,
)
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.split import split
from dr_lib.errors import DrError
from tests.data.prepared.test_prepare import write_photographs


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder of 40 photographs in three shards."""
    folder = tmp_path_factory.mktemp("whole")
    photographs = write_photographs(folder / "photographs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crops, "SHARD_SIZE", 16)
        prepare(photographs, folder / "labels.csv", folder / "out", workers=0)
    return folder / "out"


DAMAGES = {
    "a bit": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "cut": lambda content: content[:-1],
    "longer": lambda content: content + b"\n",
}


@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
def test_every_damage_is_named(whole, tmp_path, damage):
    """Of any file: verifying names it and no other, and nothing is read to train from."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    files = read_manifest(folder)["files"]
    for name in files:
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        if damage != "missing":
            (folder / name).write_bytes(DAMAGES[damage](content))
        with pytest.raises(ShardError) as caught:
            verify(folder)
        assert [file for file in files if file in str(caught.value)] == [name]
        with pytest.raises(ShardError):
            for side in ("train", "validation", "test"):
                Prepared(folder).load(side, 32, stream=True)
        (folder / name).write_bytes(content)
    assert len(files) == 11 and verify(folder)


def test_the_private_folder_is_not_taken_for_the_prepared_one(whole):
    """Neither is written into the other."""
    photographs = whole.parent / "photographs"
    labels = whole.parent / "labels.csv"
    private = whole.with_name("out.private")
    before = sorted(whole.parent.rglob("*"))
    for out, names, words in (
        (private / "new", None, "is private, the prepared folder is not"),
        (whole, whole, "is private, the prepared folder is not"),
        (whole, whole / "names", "which may be shared: choose another --private"),
    ):
        with pytest.raises(DrError, match=words):
            prepare(photographs, labels, out, private=names)
    assert sorted(whole.parent.rglob("*")) == before


@pytest.mark.parametrize("content", [None, "{", '{"files": {}}'])
def test_a_missing_or_damaged_manifest_says_to_prepare(tmp_path, content):
    """A folder that was not prepared to its end is refused with what to do, once."""
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ShardError, match="repare") as caught:
        Prepared(tmp_path)
    assert str(caught.value).count("again") <= 2


def test_a_split_is_found_by_its_hash(whole, tmp_path):
    """By which a model knows it; a table that `split` did not write is none."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    split(folder, seed=5, out="split-mine.csv")
    found = Prepared(folder, "split-mine.csv").describe()
    assert find_split(folder, found["split_sha256"]) == "split-mine.csv"
    assert find_split(folder, "0" * 64) == "split.csv"
    shutil.copy(folder / "split-mine.csv", folder / "split-own.csv")
    with pytest.raises(ShardError, match="no split table split-own.csv"):
        Prepared(folder, "split-own.csv")


def test_a_folder_s_name_makes_no_public_data_set(whole, tmp_path):
    """In predictions one's own photographs in a folder called eyepacs are not EyePACS."""
    prepared = Prepared(shutil.copytree(whole, tmp_path / "eyepacs"))
    ids = prepared.photographs["image_id"].to_numpy()
    predicted = [(ids, np.full((len(ids), 1), 0.5))]
    prepared.write_predictions(tmp_path / "out.csv", predicted, "a model", "v1")
    assert set(pd.read_csv(tmp_path / "out.csv")["dataset"]) == {"eyepacs/"}
