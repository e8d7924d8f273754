"""Records: the bytes that TensorFlow would write."""

import numpy as np

from dr_lib.data.photograph import pixels
from dr_lib.data.prepared.records import Record, frame, to_example


def test_records_are_written_as_tensorflow_writes_them(tmp_path):
    """Byte for byte, with labels for other tools."""
    import tensorflow as tf

    jpeg = pixels.encode_jpeg(
        np.random.default_rng(3).integers(0, 255, (299, 299, 3), dtype=np.uint8)
    )
    record = Record(jpeg, "image3", 299, 1.5, 2.25, 300.0, "ok", bytes(range(32)))
    texts = {
        "image/encoded": record.encoded,
        "image/format": b"jpeg",
        "image/id": b"image3",
        "image/perceptual_hash": bytes(range(32)),
        "fundus/status": b"ok",
        "eye": b"left",
    }
    whole = {"image/height": 299, "image/width": 299, "image/class/label": 3}
    real = {"fundus/x": 1.5, "fundus/y": 2.25, "fundus/radius": 300.0}
    feature = {}
    for values, kind, holder in (
        (texts, "bytes_list", tf.train.BytesList),
        (whole, "int64_list", tf.train.Int64List),
        (real, "float_list", tf.train.FloatList),
    ):
        for key, value in values.items():
            feature[key] = tf.train.Feature(**{kind: holder(value=[value])})
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(tmp_path / "tf.tfrecord")) as writer:
        writer.write(example.SerializeToString(deterministic=True))
    labels = {"image/class/label": 3, "eye": b"left"}
    assert frame(to_example(record, labels)) == (tmp_path / "tf.tfrecord").read_bytes()
