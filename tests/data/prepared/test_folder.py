"""A prepared folder: no damage to shards, labels or split passes, and what is read is what was
prepared.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.prepared.folder import Prepared, read_manifest, verify
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.records import ShardError
from dr_lib.errors import DrError
from tests.data.prepared.test_prepare import write_photographs


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder of 40 photographs in three shards."""
    folder = tmp_path_factory.mktemp("whole")
    photographs = write_photographs(folder / "photographs")
    prepare(photographs, folder / "labels.csv", folder / "out", shard_size=16, workers=0)
    return folder / "out"


DAMAGES = {
    "a bit": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "cut": lambda content: content[:-1],
    "longer": lambda content: content + b"\n",
}


@pytest.mark.parametrize("damage", [*DAMAGES, "missing"])
def test_every_damage_is_named(whole, tmp_path, damage):
    """Of any file: verifying names it and no other, and nothing is read to train from. Several are
    named at once.
    """
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
                Prepared(folder).load(side, 32)
        (folder / name).write_bytes(content)
    assert len(files) == 10 and verify(folder)
    for name in ("crops-00000.tfrecord", "crops-00002.tfrecord", "labels.csv"):
        (folder / name).unlink()
    with pytest.raises(ShardError, match="crops-00000.*crops-00002.*labels.csv"):
        verify(folder)


def test_photographs_are_read_without_crc(whole, monkeypatch):
    """All come back, with the labels they were given, on a machine without google-crc32c too."""
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    verify(whole)
    grades = np.concatenate(
        [Prepared(whole).load(side, 32).grade for side in ("train", "validation", "test")]
    )
    assert sorted(grades) == sorted(pd.read_csv(whole.parent / "labels.csv")["grade"])


def test_the_private_folder_is_not_taken_for_the_prepared_one(whole):
    """Neither is written into the other."""
    private = whole.with_name("out.private")
    photographs = whole.parent / "photographs"
    labels = whole.parent / "labels.csv"
    before = sorted(whole.parent.rglob("*"))
    places = {
        private: None,
        private / "new": None,
        whole: whole,
        whole.with_name("new"): whole.with_name("new"),
    }
    for out, names in places.items():
        with pytest.raises(DrError, match="is private, the prepared folder is not"):
            prepare(photographs, labels, out, private=names)
    with pytest.raises(DrError, match="which may be shared: choose another --private"):
        prepare(photographs, labels, whole, private=whole / "names")
    assert sorted(whole.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "content", [None, "{", "[]", '{"files": {}}', '{"files": {"a": 1}, "data_kind": ""}']
)
def test_a_missing_or_damaged_manifest_says_to_prepare(tmp_path, content):
    """A folder that was not prepared to its end is refused with what to do."""
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ShardError, match="repare"):
        Prepared(tmp_path)


def test_a_split_of_ones_own(whole, tmp_path):
    """A table beside or elsewhere is taken as it is; one that puts a group or a patient on both
    sides is refused.
    """
    folder = shutil.copytree(whole, tmp_path / "copy")
    own = pd.read_csv(folder / "split.csv", keep_default_na=False)
    own["split"] = own["split"].replace({"test": "validation", "validation": "test"})
    own.to_csv(folder / "mine.csv", index=False)
    sides = Prepared(folder, "mine.csv").photographs.set_index("image_id")["split"]
    assert (sides == own.set_index("image_id")["split"][sides.index]).all()
    described = [Prepared(folder, name).describe() for name in ("mine.csv", "split.csv")]
    assert described[0]["split_sha256"] != described[1]["split_sha256"]
    other = "test" if own["split"][0] == "train" else "train"
    moved = own.assign(split=[other, *own["split"][1:]])
    for table, complaint in [
        (moved, "a patient, or patients who share a picture, are on two sides"),
        (own.assign(split="both"), "split must be"),
        (own.drop(columns="group"), "no column group"),
        (own[1:], r"labels.csv list different photographs \(1 are"),
    ]:
        table.to_csv(folder / "mine.csv", index=False)
        with pytest.raises(ShardError, match=complaint):
            Prepared(folder, "mine.csv")
    with pytest.raises(ShardError, match="no split table .*other.csv"):
        Prepared(folder, "other.csv")
