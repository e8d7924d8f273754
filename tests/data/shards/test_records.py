"""Records and shards: TensorFlow reads ours, we read TensorFlow's, and no damage passes."""

import hashlib
import random
import shutil
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


def test_crc_is_castagnoli():
    """The check value of RFC 3720's polynomial for the digits 1 to 9 is 0xE3069283."""
    assert tfrecord._crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("length", [0, 1, 3, 4, 63, 64, 65, 127, 128, 129, 4095, 4097, 18_000])
def test_crc_of_any_length_is_the_division_bit_by_bit(length):
    """However the payload is cut into lanes, the CRC is what dividing it bit by bit leaves."""
    data, crc = np.random.default_rng(length).integers(0, 256, length, np.uint8).tobytes(), 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    assert tfrecord._crc32c(data) == crc ^ 0xFFFFFFFF


def test_tensorflow_reads_what_we_write(folder):
    """TensorFlow's own reader and parser find every field, and its CRC checks pass."""
    import tensorflow as tf

    paths = [str(p) for p in sorted(folder.glob("*.tfrecord"))]
    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/format": tf.io.FixedLenFeature([], tf.string),
        "image/height": tf.io.FixedLenFeature([], tf.int64),
        "image/width": tf.io.FixedLenFeature([], tf.int64),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        "image/referable": tf.io.FixedLenFeature([], tf.int64),
        "patient/id": tf.io.FixedLenFeature([], tf.string),
        "image/id": tf.io.FixedLenFeature([], tf.string),
        "eye": tf.io.FixedLenFeature([], tf.string),
        "fundus/x": tf.io.FixedLenFeature([], tf.float32),
        "fundus/y": tf.io.FixedLenFeature([], tf.float32),
        "fundus/radius": tf.io.FixedLenFeature([], tf.float32),
        "fundus/status": tf.io.FixedLenFeature([], tf.string),
    }
    parsed = [tf.io.parse_single_example(e, features) for e in tf.data.TFRecordDataset(paths)]
    assert [int(p["image/class/label"]) for p in parsed] == [0, 1, 2, 3, 4, 0]
    assert [int(p["image/referable"]) for p in parsed] == [0, 0, 1, 1, 1, 0]
    assert parsed[1]["patient/id"].numpy() == b"patient1" and parsed[1]["fundus/y"].numpy() == 2.25
    assert parsed[4]["image/encoded"].numpy() == draw_record(4).encoded
    assert int(parsed[0]["image/height"]) == int(parsed[0]["image/width"]) == 299


def test_we_read_what_tensorflow_writes(tmp_path):
    """An Example built and written by TensorFlow comes back as the same record, byte for byte ours."""
    import tensorflow as tf

    record = draw_record(3)
    as_bytes = lambda *v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v))  # noqa: E731
    as_int = lambda *v: tf.train.Feature(int64_list=tf.train.Int64List(value=v))  # noqa: E731
    as_float = lambda *v: tf.train.Feature(float_list=tf.train.FloatList(value=v))  # noqa: E731
    feature = {
        "image/encoded": as_bytes(record.encoded),
        "image/format": as_bytes(b"jpeg"),
        "image/height": as_int(299),
        "image/width": as_int(299),
        "image/class/label": as_int(3),
        "image/referable": as_int(1),
        "patient/id": as_bytes(b"patient3"),
        "image/id": as_bytes(b"image3"),
        "eye": as_bytes(b"left"),
        "fundus/x": as_float(1.5),
        "fundus/y": as_float(2.25),
        "fundus/radius": as_float(300.0),
        "fundus/status": as_bytes(b"ok"),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(tmp_path / "tf.tfrecord")) as writer:
        writer.write(example.SerializeToString(deterministic=True))
    written = (tmp_path / "tf.tfrecord").read_bytes()
    assert records.from_example(next(tfrecord.unframe(written))) == record
    assert tfrecord.frame(records.to_example(record)) == written


def test_reads_a_split_in_order(folder):
    """All records of all shards come back, in the order of the shards."""
    assert [r.image_id for r in records.read_split(folder, "train")] == [f"image{k}" for k in range(6)]
    assert records.read_split(folder, "test") == []


def test_verify_accepts_an_untouched_folder(folder):
    """What was written verifies."""
    assert len(records.verify(folder)["shards"]) == 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with two shards of each split."""
    return write_folder(tmp_path_factory.mktemp("whole"), {"train": 2, "validation": 2, "test": 2})


DAMAGES = ("bit", "two bytes", "cut", "longer", "swap", "missing", "too many", "dropped", "doubled", "emptied")


def damage(folder: Path, kind: str, rng: random.Random) -> set[str]:
    """Do that damage to a random shard of the folder; the names that a message must hold."""
    path, other = rng.sample(sorted(folder.glob("*.tfrecord")), 2)
    content = bytearray(path.read_bytes())
    at, framed = rng.randrange(len(content) - 1), [tfrecord.frame(payload) for payload in tfrecord.unframe(content)]
    if kind == "bit":
        content[at] ^= 1 << rng.randrange(8)
    if kind == "two bytes":
        at = next(
            i for i in range(at, 2 * len(content)) if content[i % len(content)] != content[(i + 1) % len(content)]
        )
        i, k = at % len(content), (at + 1) % len(content)
        content[i], content[k] = content[k], content[i]
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


@pytest.mark.parametrize("kind", ["missing", "too many"])
def test_training_refuses_a_folder_whose_other_splits_do_not_match(whole, tmp_path, kind):
    """A shard of the test split that is missing, or one too many, is no folder to train from either."""
    folder = shutil.copytree(whole, tmp_path / "copy")
    path = folder / "test-00001-of-00002.tfrecord"
    path.rename(path.with_name("test-00002-of-00003.tfrecord")) if kind == "too many" else path.unlink()
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
    with pytest.raises(ShardError, match="train-00000-of-00002.tfrecord: damaged at byte 0"):
        records.verify(folder)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "{",
        "[]",
        '{"shards": {}}',
        '{"shards": [], "counts": {}, "data_kind": "synthetic"}',
        '{"shards": {"train-00000-of-00001.tfrecord": {}}, "counts": {}, "data_kind": "synthetic"}',
    ],
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
