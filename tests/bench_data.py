"""Measured comparisons of the data's way, each against a named peer in one run: python tests/bench_data.py."""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import cv2
import numpy as np
import tensorflow as tf

from dr_lib.data import crops, records, tfrecord
from dr_lib.data.fundus import crop_fundus
from dr_lib.data.synthetic import draw_eye, draw_look

REPEATS = 15


def compare(what: str, ours: Callable[[], object], peer: Callable[[], object]) -> None:
    """Run both in turn after one warm-up; print the medians in ms, and the ratio's median and quartiles."""
    times = {ours: [], peer: []}
    for repeat in range(REPEATS + 1):
        for run in (ours, peer):
            start = time.perf_counter()
            run()
            if repeat:
                times[run].append(1000 * (time.perf_counter() - start))
    low, median, high = np.percentile(np.divide(times[ours], times[peer]), [25, 50, 75])
    medians = np.median(times[ours]), np.median(times[peer])
    print(f"{what}: {medians[0]:.1f} ms / {medians[1]:.1f} ms = {median:.2f} [{low:.2f}, {high:.2f}], n = {REPEATS}")


def main() -> None:
    """Print every comparison; cores are those of the machine, OpenCV and TensorFlow on one thread."""
    cv2.setNumThreads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    photograph, circle = draw_eye(2, "right", draw_look(rng)._replace(width=2048, height=1365), rng)
    path = str(folder / "eye.jpg")
    cv2.imwrite(path, photograph[..., ::-1])
    compare("crop_fundus / cv2.imread, 2048x1365 JPEG", lambda: crop_fundus(path), lambda: cv2.imread(path))

    encoded = crops.encode_jpeg(crop_fundus(path).image)
    record = records.Record(encoded, 2, "p" * 64, "i" * 64, "right", *circle, "ok")
    shard, framed = folder / "train-00000-of-00001.tfrecord", tfrecord.frame(records.to_example(record))
    records.write_shard(shard, [framed] * 200)

    def read_ours() -> None:
        for payload in tfrecord.unframe(shard.read_bytes()):
            crops.decode_jpeg(records.from_example(payload).encoded)

    def read_tensorflow() -> None:
        features = {"image/encoded": tf.io.FixedLenFeature([], tf.string)}
        for example in tf.data.TFRecordDataset(str(shard)):
            tf.io.decode_jpeg(tf.io.parse_single_example(example, features)["image/encoded"]).numpy()

    compare("200 records read and decoded, ours / TensorFlow, eager", read_ours, read_tensorflow)

    def write_tensorflow() -> None:
        with tf.io.TFRecordWriter(str(folder / "tf.tfrecord")) as writer:
            for _ in range(200):
                writer.write(records.to_example(record))

    def write_ours() -> None:
        framed = (tfrecord.frame(records.to_example(record)) for _ in range(200))
        records.write_shard(folder / "ours.tfrecord", framed)

    compare("200 records serialised and written, ours / TensorFlow's writer", write_ours, write_tensorflow)


if __name__ == "__main__":
    main()
