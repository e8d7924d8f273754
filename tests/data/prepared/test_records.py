"""Records: the bytes that TensorFlow would write."""

import numpy as np

from dr_lib.data.photograph import pixels
from dr_lib.data.prepared.records import Record, frame, to_example


def test_records_are_written_as_tensorflow_writes_them(tmp_path):
    """Byte for byte, with labels for other tools."""
    import tensorflow as tf

    image = np.random.default_rng(3).integers(0, 255, (299, 299, 3), dtype=np.uint8)
    jpeg = pixels.encode_jpeg(image)
    record = Record(jpeg, "image3", 299, 1.5, 2.25, 300.0, "ok", bytes(range(32)))
    payload = to_example(record, {"image/class/label": 3, "eye": b"left"})
    example = tf.train.Example.FromString(payload)
    with tf.io.TFRecordWriter(str(tmp_path / "tf.tfrecord")) as writer:
        writer.write(example.SerializeToString(deterministic=True))
    assert frame(payload) == (tmp_path / "tf.tfrecord").read_bytes()
    found = {
        key: (kind, *getattr(feature, kind).value)
        for key, feature in example.features.feature.items()
        for kind in [feature.WhichOneof("kind")]
    }
    assert found == {
        "image/encoded": ("bytes_list", jpeg),
        "image/format": ("bytes_list", b"jpeg"),
        "image/id": ("bytes_list", b"image3"),
        "image/perceptual_hash": ("bytes_list", bytes(range(32))),
        "image/height": ("int64_list", 299),
        "image/width": ("int64_list", 299),
        "image/class/label": ("int64_list", 3),
        "fundus/status": ("bytes_list", b"ok"),
        "fundus/x": ("float_list", 1.5),
        "fundus/y": ("float_list", 2.25),
        "fundus/radius": ("float_list", 300.0),
        "eye": ("bytes_list", b"left"),
    }
