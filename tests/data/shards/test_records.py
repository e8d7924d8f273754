"""Records and shards: TensorFlow reads ours, we read TensorFlow's, and no damage passes."""

import hashlib
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from dr_lib.data.photograph import pixels
from dr_lib.data.shards import records, tfrecord
from dr_lib.data.shards.batches import load_photographs
from dr_lib.data.shards.records import Record, ShardError
from dr_lib.files import write_json


def draw_record(number: int) -> Record:
    """A record of a smooth random picture."""
    rng = np.random.default_rng(number)
    image = np.kron(rng.integers(0, 255, (23, 23, 3), dtype=np.uint8), np.ones((13, 13, 1), np.uint8))
    encoded = pixels.encode_jpeg(image)
    return Record(encoded, number % 5, f"patient{number}", f"image{number}", "left", 1.5, 2.25, 300.0, "ok")


@pytest.fixture
def folder(tmp_path):
    """A folder with two shards of three records each, and its manifest."""
    return write_folder(tmp_path, {"train": 2})


def write_folder(folder: Path, num_shards: dict[str, int]) -> Path:
    """Write shards of three records for each split, and the manifest."""
    shards, number = {}, 0
    for split, count in num_shards.items():
        for index in range(count):
            name = f"{split}-{index:05d}-of-{count:05d}.tfrecord"
            framed = [tfrecord.frame(records.to_example(draw_record(number + k))) for k in range(3)]
            shards[name] = records.write_shard(folder / name, framed)
            number += 3
    write_json(folder / "manifest.json", {"shards": shards, "counts": {}, "data_kind": "synthetic"})
    return folder


def test_we_read_what_tensorflow_writes(tmp_path):
    """An Example built and written by TensorFlow comes back as the same record, byte for byte ours."""
    import tensorflow as tf

    record = draw_record(3)
    texts = {"image/encoded": record.encoded, "image/format": b"jpeg", "patient/id": b"patient3", "image/id": b"image3"}
    texts |= {"eye": b"left", "fundus/status": b"ok"}
    whole = {"image/height": 299, "image/width": 299, "image/class/label": 3, "image/referable": 1}
    real = {"fundus/x": 1.5, "fundus/y": 2.25, "fundus/radius": 300.0}
    feature = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])) for key, v in texts.items()}
    feature |= {key: tf.train.Feature(int64_list=tf.train.Int64List(value=[v])) for key, v in whole.items()}
    feature |= {key: tf.train.Feature(float_list=tf.train.FloatList(value=[v])) for key, v in real.items()}
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(tmp_path / "tf.tfrecord")) as writer:
        writer.write(example.SerializeToString(deterministic=True))
    written = (tmp_path / "tf.tfrecord").read_bytes()
    assert records.from_example(next(tfrecord.unframe(written))) == record
    assert tfrecord.frame(records.to_example(record)) == written


def test_a_split_is_read_in_order_and_needs_no_crc(folder, monkeypatch):
    """All records of all shards come back, in the order of the shards, on a machine without google-crc32c too."""
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    assert [r.image_id for r in records.read_split(folder, "train")] == [f"image{k}" for k in range(6)]
    assert records.read_split(folder, "test") == [] and len(records.verify(folder)["shards"]) == 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with two shards of each split."""
    return write_folder(tmp_path_factory.mktemp("whole"), {"train": 2, "validation": 2, "test": 2})


DAMAGES = ("bit", "two bytes", "cut", "longer", "swap", "missing", "too many", "dropped", "doubled", "emptied")


def damage(folder: Path, kind: str, rng: random.Random) -> set[str]:
    """Do that damage to a random shard of the folder; the names that a message must hold."""
    path, other = rng.sample(sorted(folder.glob("*.tfrecord")), 2)
    content = bytearray(path.read_bytes())
    at, framed = (
        rng.randrange(len(content) - 1),
        [tfrecord.frame(payload) for payload in tfrecord.unframe(bytes(content))],
    )
    if kind == "bit":
        content[at] ^= 1 << rng.randrange(8)
    if kind == "two bytes":
        i = next(i for i in range(at - len(content), at) if content[i] != content[i + 1])
        content[i], content[i + 1] = content[i + 1], content[i]
    if kind == "cut":
        del content[at:]
    if kind == "longer":
        content += rng.choice((bytes(1), b"\n", framed[0][:-1]))
    if kind in ("dropped", "doubled"):  # the framing stays valid
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
        path = path.with_name(path.name.replace("-0000", "-0010"))
        path.write_bytes(other.read_bytes())
    return {path.name, other.name} if kind == "swap" else {path.name}


@pytest.mark.parametrize("kind", DAMAGES)
def test_every_damage_is_named(whole, tmp_path, kind):
    """20 seeded mutations of each kind, 200 in all: verifying names the shards, and nothing is read to train from."""
    for seed in range(20):
        folder = shutil.copytree(whole, tmp_path / str(seed))
        names = damage(folder, kind, random.Random(f"{kind} {seed}"))
        with pytest.raises(ShardError) as caught:
            records.verify(folder)
        assert {word.rstrip(":") for word in str(caught.value).split() if ".tfrecord" in word} == names
        split = min(names).split("-")[0]
        with pytest.raises(ShardError, match=f"{split}-"):
            records.read_split(folder, split)


@pytest.mark.parametrize("name", ["test-00002-of-00003.tfrecord", "missing"])
def test_training_refuses_a_folder_whose_other_splits_do_not_match(whole, tmp_path, name):
    """A shard of the test split that is missing, or one too many, is no folder to train from either."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    (folder / "test-00001-of-00002.tfrecord").rename(folder / name)
    with pytest.raises(ShardError, match="test-0000[12]-of"):
        load_photographs(folder, "train")


def test_other_splits_are_not_read(whole, tmp_path, monkeypatch):
    """Reading the training split opens its own shards alone, each once."""
    opened, read_bytes = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path.name) or read_bytes(path))
    assert len(records.read_split(whole, "train")) == 6
    assert sorted(opened) == ["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"]


def test_a_damaged_shard_with_a_matching_sum_is_still_named(folder):
    """Bytes that are no TFRecord are refused even where manifest and file agree."""
    path = folder / "train-00000-of-00002.tfrecord"
    path.write_bytes(b"no records here")
    manifest = records.read_manifest(folder)
    manifest["shards"][path.name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(ShardError, match="train-00000-of-00002.tfrecord: cut short at byte 15"):
        records.verify(folder)


@pytest.mark.parametrize(
    "content",
    [None, "{", "[]", '{"shards": {}}', '{"shards": [], "counts": {}, "data_kind": ""}']
    + ['{"shards": {"train-00000-of-00001.tfrecord": {}}, "counts": {}, "data_kind": ""}'],
)
def test_a_missing_or_damaged_manifest_says_to_prepare(tmp_path, content):
    """A folder that was not prepared to its end is refused with what to do."""
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ShardError, match="repare"):
        records.read_split(tmp_path, "train")


def test_a_failed_write_leaves_no_shard(tmp_path):
    """An error in the middle leaves neither a shard nor a temporary file."""

    def broken():
        yield b"first"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        records.write_shard(tmp_path / "train-00000-of-00001.tfrecord", broken())
    assert list(tmp_path.iterdir()) == []
