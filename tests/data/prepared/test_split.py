"""Splits of a prepared folder: drawn anew without its shards, folds, records for others."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from dr_lib.data.prepared.folder import Prepared, read_manifest, verify
from dr_lib.data.prepared.records import ShardError
from dr_lib.data.prepared.split import export_records, split
from dr_lib.errors import DrError
from tests.data.prepared.test_prepare import read_jpegs


@pytest.fixture
def folder(small_sample, tmp_path) -> Path:
    """A copy of the small sample's prepared folder."""
    return shutil.copytree(small_sample, tmp_path / "prepared")


def test_another_seed_opens_no_shard(folder):
    """Other sides, the same groups; the folder verifies, and the seed is remembered."""
    before = Prepared(folder).photographs
    for shard in folder.glob("*.tfrecord"):
        shard.rename(folder.parent / shard.name)
    split(folder, seed=3)
    after = Prepared(folder).photographs
    assert after["group"].equals(before["group"])
    assert not after["split"].equals(before["split"])
    content = (folder / "split.csv").read_bytes()
    split(folder)
    assert (folder / "split.csv").read_bytes() == content
    assert read_manifest(folder)["splits"]["split.csv"]["seed"] == 3
    split(folder, scheme="paper")
    assert set(Prepared(folder).photographs["split"]) == {"train", "test"}


def test_splits_lie_beside_each_other(folder):
    """A second split and folds do not touch the first; each verifies, and each fold is read by
    its name. A deleted one is forgotten at the next.
    """
    before = (folder / "split.csv").read_bytes()
    split(folder, seed=8, out="split-8.csv")
    folds = split(folder, scheme="folds", folds=3, seed=4)
    assert [path.name for path in folds] == [f"split-{number}-of-3.csv" for number in (1, 2, 3)]
    tested = sum(Prepared(folder, path.name).photographs["split"] == "test" for path in folds)
    assert (tested == 1).all() and verify(folder)
    assert (folder / "split.csv").read_bytes() == before
    (folder / "split-8.csv").write_bytes(before)
    for check in (verify, lambda folder: Prepared(folder, "split-8.csv")):
        with pytest.raises(ShardError, match="split-8.csv: altered"):
            check(folder)
    (folder / "split-8.csv").unlink()
    split(folder)
    assert len(Prepared(folder, folds[0].name).photographs) == 32 and verify(folder)


@pytest.mark.parametrize("out", ["labels.csv", "mine.csv", "../split.csv", "split-own.csv"])
def test_a_split_overwrites_no_other_table(folder, out):
    """Names that the folder needs, or that somebody else's file has, are refused."""
    (folder / "split-own.csv").write_text("years of work")
    with pytest.raises(DrError, match="cannot name a split table"):
        split(folder, out=out)
    assert verify(folder)


def test_records_are_those_that_tensorflow_would_write(folder, tmp_path):
    """Byte for byte; every photograph of the split, under its side, with grade, referable, patient
    and the crop's own bytes.
    """
    import tensorflow as tf

    paths = export_records(folder, tmp_path / "records")
    table = Prepared(folder).photographs.set_index("image_id")
    stored = read_jpegs(folder)
    num_found = 0
    for path in paths:
        with tf.io.TFRecordWriter(str(tmp_path / "by_tensorflow")) as writer:
            for content in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                example = tf.train.Example.FromString(content)
                writer.write(example.SerializeToString(deterministic=True))
                found = {
                    key: getattr(feature, feature.WhichOneof("kind")).value[0]
                    for key, feature in example.features.feature.items()
                }
                name = found.pop("image/id").decode()
                row = table.loc[name]
                assert found == {
                    "image/encoded": stored[name],
                    "image/format": b"jpeg",
                    "image/perceptual_hash": bytes.fromhex(row["perceptual_hash"]),
                    "image/height": 299,
                    "image/width": 299,
                    "image/class/label": row["grade"],
                    "image/referable": row["grade"] >= 2,
                    "patient/id": row["patient_id"].encode(),
                    "eye": row["eye"].encode(),
                    "fundus/status": row["status"].encode(),
                    "fundus/x": np.float32(row["x"]),
                    "fundus/y": np.float32(row["y"]),
                    "fundus/radius": np.float32(row["radius"]),
                }
                assert path.name == f"{row['split']}-00000-of-00001.tfrecord"
                num_found += 1
        assert path.read_bytes() == (tmp_path / "by_tensorflow").read_bytes()
    assert num_found == len(table)
    with pytest.raises(DrError, match="not empty"):
        export_records(folder, tmp_path / "records")
