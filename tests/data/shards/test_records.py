"""Records: TensorFlow reads ours, we read TensorFlow's."""

import numpy as np
import pytest

from dr_lib.data.photograph import pixels
from dr_lib.data.shards import records, tfrecord
from dr_lib.data.shards.records import Record, ShardError


def draw_record(number: int) -> Record:
    """A record of a smooth random picture."""
    rng = np.random.default_rng(number)
    image = np.kron(rng.integers(0, 255, (23, 23, 3), dtype=np.uint8), np.ones((13, 13, 1), np.uint8))
    return Record(pixels.encode_jpeg(image), f"image{number}", 299, 1.5, 2.25, 300.0, "ok", bytes(range(32)))


def test_we_read_what_tensorflow_writes(tmp_path):
    """An Example built and written by TensorFlow comes back as the same record, byte for byte ours, labels too."""
    import tensorflow as tf

    record = draw_record(3)
    texts = {"image/encoded": record.encoded, "image/format": b"jpeg", "image/id": b"image3", "eye": b"left"}
    texts |= {"fundus/status": b"ok", "image/perceptual_hash": bytes(range(32))}
    whole = {"image/height": 299, "image/width": 299, "image/class/label": 3}
    real = {"fundus/x": 1.5, "fundus/y": 2.25, "fundus/radius": 300.0}
    feature = {key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])) for key, v in texts.items()}
    feature |= {key: tf.train.Feature(int64_list=tf.train.Int64List(value=[v])) for key, v in whole.items()}
    feature |= {key: tf.train.Feature(float_list=tf.train.FloatList(value=[v])) for key, v in real.items()}
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(tmp_path / "tf.tfrecord")) as writer:
        writer.write(example.SerializeToString(deterministic=True))
    written = (tmp_path / "tf.tfrecord").read_bytes()
    assert records.from_example(next(tfrecord.unframe(written))) == record
    assert tfrecord.frame(records.to_example(record, {"image/class/label": 3, "eye": b"left"})) == written


@pytest.mark.parametrize("example", [b"", b"no example", records.to_example(draw_record(0))[:-3]])
def test_other_bytes_are_no_record(example):
    """Whatever was stored in a TFRecord file by others is said to be no record of ours."""
    with pytest.raises(ShardError, match="not a record of a cropped photograph"):
        records.from_example(example)
