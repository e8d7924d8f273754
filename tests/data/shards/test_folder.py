"""A prepared folder: no damage to shards, labels or split passes, and what is read is what was prepared."""

import hashlib
import json
import random
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from dr_lib.data.shards import tfrecord
from dr_lib.data.shards.batches import load_photographs
from dr_lib.data.shards.folder import describe_data, read_photographs, read_records, verify
from dr_lib.data.shards.prepare import prepare
from dr_lib.data.shards.records import ShardError
from tests.data.shards.test_prepare import write_photographs


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder of 40 photographs in three shards."""
    folder = tmp_path_factory.mktemp("whole")
    photographs = write_photographs(folder / "photographs")
    prepare(photographs, folder / "labels.csv", folder / "out", shard_size=16, workers=1)
    return folder / "out"


DAMAGES = ("bit", "two bytes", "cut", "longer", "swap", "missing", "emptied")
SHARD_DAMAGES = ("too many", "dropped", "doubled")


def damage(folder: Path, kind: str, rng: random.Random) -> set[str]:
    """Do that damage to a random file of the folder; the names that a message must hold."""
    shards = sorted(folder.glob("*.tfrecord"))
    tables = ("labels.csv", "split.csv", "near_duplicates.csv", "crops-00001.csv", "crops.json")
    others = [folder / name for name in tables]
    path, other = rng.sample(shards if kind in SHARD_DAMAGES or rng.random() < 0.5 else shards[:1] + others, 2)
    content, at = bytearray(path.read_bytes()), rng.randrange(path.stat().st_size - 1)
    if kind == "bit":
        content[at] ^= 1 << rng.randrange(8)
    if kind == "two bytes":
        i = next(i for i in range(at - len(content), at) if content[i] != content[i + 1])
        content[i], content[i + 1] = content[i + 1], content[i]
    if kind == "cut":
        del content[at:]
    if kind == "longer":
        content += rng.choice((bytes(1), b"\n"))
    if kind in ("dropped", "doubled"):  # the framing stays valid
        framed = [tfrecord.frame(payload) for payload in tfrecord.unframe(bytes(content))]
        content = b"".join(framed[1:] if kind == "dropped" else [*framed, rng.choice(framed)])
    if kind == "emptied":
        content = b""
    if kind == "swap":
        content = other.read_bytes()
        other.write_bytes(path.read_bytes())
    path.write_bytes(content)
    if kind == "missing":
        path.unlink()
    if kind == "too many":
        path = folder / "crops-00007.tfrecord"
        path.write_bytes(other.read_bytes())
    return {path.name, other.name} if kind == "swap" else {path.name}


@pytest.mark.parametrize("kind", DAMAGES + SHARD_DAMAGES)
def test_every_damage_is_named(whole, tmp_path, kind):
    """20 seeded mutations of each kind, 200 in all: verifying names the files, and nothing is read to train from."""
    for seed in range(20):
        folder = shutil.copytree(whole, tmp_path / str(seed))
        names = damage(folder, kind, random.Random(f"{kind} {seed}"))
        with pytest.raises(ShardError) as caught:
            verify(folder)
        assert {word.rstrip(":") for word in str(caught.value).split() if word.rstrip(":") in names} == names
        with pytest.raises(ShardError):
            for side in ("train", "validation", "test"):
                load_photographs(folder, side, 8)
            assert names <= {"near_duplicates.csv", "crops.json"}, "training reads all but these"
            raise ShardError


def test_verify_names_every_damaged_file(whole, tmp_path):
    """Two shards and a table at once."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    for name in ("crops-00000.tfrecord", "crops-00002.tfrecord", "labels.csv"):
        (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    with pytest.raises(ShardError, match="crops-00000.*crops-00002.*labels.csv"):
        verify(folder)


def test_a_shard_whose_sum_was_corrected_is_still_named(whole, tmp_path):
    """Bytes that are no TFRecord, or other records than the listing has, are refused though manifest and file agree."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    manifest = json.loads((folder / "manifest.json").read_text())
    for content, complaint in {
        b"no records here": "crops-00000.tfrecord: cut short at byte 15",
        (folder / "crops-00001.tfrecord").read_bytes(): "crops-00000.tfrecord: its records are not those",
    }.items():
        (folder / "crops-00000.tfrecord").write_bytes(content)
        manifest["files"]["crops-00000.tfrecord"] = hashlib.sha256(content).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(ShardError, match=complaint):
            verify(folder)


def test_photographs_are_read_without_crc(whole, monkeypatch):
    """All come back, with the labels they were given, on a machine without google-crc32c too."""
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    table = read_photographs(whole)
    given = pd.read_csv(whole.parent / "labels.csv")
    assert table["grade"].sort_values().tolist() == given["grade"].sort_values().tolist()
    assert {row: record.image_id for row, record in read_records(whole, table)} == table["image_id"].to_dict()


@pytest.mark.parametrize("content", [None, "{", "[]", '{"files": {}}', '{"files": {"a": 1}, "data_kind": ""}'])
def test_a_missing_or_damaged_manifest_says_to_prepare(tmp_path, content):
    """A folder that was not prepared to its end is refused with what to do."""
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ShardError, match="repare"):
        read_photographs(tmp_path)


def test_a_folder_of_an_earlier_version_says_what_to_do(tmp_path):
    """Its shards held labels and split; a manifest that such a version wrote, with as little as it takes."""
    manifest = {"parameters": {"method": "robust", "split": "random", "seed": 0, "num_shards": 8, "image_size": 299}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"data_kind": "synthetic", "shards": {}}))
    with pytest.raises(ShardError, match="earlier version.* delete it and prepare the photographs again"):
        read_photographs(tmp_path)


def test_a_split_of_ones_own(whole, tmp_path):
    """A table beside or elsewhere is taken as it is; one that puts a group or a patient on both sides is refused."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    own = pd.read_csv(folder / "split.csv", keep_default_na=False)
    own["split"] = own["split"].replace({"test": "validation", "validation": "test"})
    own.to_csv(folder / "mine.csv", index=False)
    sides = read_photographs(folder, "mine.csv").set_index("image_id")["split"]
    assert (sides == own.set_index("image_id")["split"][sides.index]).all()
    assert describe_data(folder, "mine.csv")["split_sha256"] != describe_data(folder)["split_sha256"]
    moved = own.assign(
        split=["train", *own["split"][1:]] if own["split"][0] != "train" else ["test", *own["split"][1:]]
    )
    regrouped = moved.assign(group=["another", *own["group"][1:]])
    for table, complaint in [
        (moved, "a patient stands on two sides"),
        (regrouped, "a patient stands on two sides"),
        (own.assign(split="both"), "split must be"),
        (own.drop(columns="group"), "no column group"),
        (own[1:], r"not of the photographs in labels.csv \(1 stand"),
    ]:
        table.to_csv(folder / "mine.csv", index=False)
        with pytest.raises(ShardError, match=complaint):
            read_photographs(folder, "mine.csv")
    with pytest.raises(ShardError, match="there is no split table .*other.csv"):
        read_photographs(folder, "other.csv")
