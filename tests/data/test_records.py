"""Records and shards: TensorFlow reads ours, we read TensorFlow's, and no damage passes."""

import hashlib
import random

import numpy as np
import pytest

from dr_lib.data import crops, records, tfrecord
from dr_lib.data.records import Record, ShardError


def draw_record(number: int) -> Record:
    """A record of a smooth random picture."""
    rng = np.random.default_rng(number)
    image = np.kron(rng.integers(0, 255, (23, 23, 3), dtype=np.uint8), np.ones((13, 13, 1), np.uint8))
    encoded = crops.encode_jpeg(image)
    return Record(encoded, number % 5, f"patient{number}", f"image{number}", "left", 1.5, 2.25, 300.0, "ok")


@pytest.fixture
def folder(tmp_path):
    """A folder with two shards of three records each, and its manifest."""
    shards = {}
    for index in range(2):
        name = f"train-{index:05d}-of-00002.tfrecord"
        framed = (tfrecord.frame(records.to_example(draw_record(3 * index + k))) for k in range(3))
        shards[name] = records.write_shard(tmp_path / name, framed)
    records.write_json(tmp_path / "manifest.json", {"shards": shards, "counts": {}, "data_kind": "drawn"})
    return tmp_path


def test_crc_is_castagnoli():
    """The check value of RFC 3720's polynomial for the digits 1 to 9 is 0xE3069283."""
    assert tfrecord._crc32c(b"123456789") == 0xE3069283


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


@pytest.mark.parametrize("damage", ["bit", "cut", "longer", "missing"])
def test_verify_and_reading_name_the_damaged_shard(folder, damage):
    """A flipped bit, a cut, extra bytes or a missing file: verifying and reading both name the shard."""
    path = folder / "train-00001-of-00002.tfrecord"
    content = bytearray(path.read_bytes())
    if damage == "bit":
        content[random.Random(1).randrange(len(content))] ^= 4
    path.write_bytes(content[:-7] if damage == "cut" else content + b"x" if damage == "longer" else content)
    if damage == "missing":
        path.unlink()
    for read in (records.verify, lambda folder: records.read_split(folder, "train")):
        with pytest.raises(ShardError, match="train-00001-of-00002"):
            read(folder)


def test_verify_names_a_shard_too_many(folder):
    """A shard that the manifest does not know is named."""
    (folder / "train-00009-of-00002.tfrecord").write_bytes(b"")
    with pytest.raises(ShardError, match="train-00009-of-00002.tfrecord: not in the manifest"):
        records.verify(folder)


def test_a_damaged_shard_with_a_matching_sum_is_still_named(folder):
    """Bytes that are no TFRecord are refused even where manifest and file agree."""
    path = folder / "train-00000-of-00002.tfrecord"
    path.write_bytes(b"no records here")
    manifest = records.read_manifest(folder)
    manifest["shards"][path.name]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    records.write_json(folder / "manifest.json", manifest)
    with pytest.raises(ShardError, match="train-00000-of-00002.tfrecord: damaged at byte 0"):
        records.verify(folder)


@pytest.mark.parametrize("content", [None, "{", "[]", '{"shards": {}}'])
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
