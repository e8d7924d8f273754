"""Splits of a prepared folder: drawn anew without its shards, folds, records for others."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.labels.tables import LabelTableError
from dr_lib.data.prepared.folder import Prepared, ShardError, read_manifest, verify
from dr_lib.data.prepared.split import export_records, split
from tests.data.prepared.test_prepare import read_jpegs


@pytest.fixture
def folder(small_sample, tmp_path) -> Path:
    """A copy of the small sample's prepared folder."""
    return shutil.copytree(small_sample, tmp_path / "prepared")


def test_another_seed_opens_no_shard(folder):
    """Other sides, the same groups, the same crops and labels; the folder verifies, and the seed
    is remembered.
    """
    before = Prepared(folder).photographs
    described = Prepared(folder).describe()
    shards = list(folder.glob("*.tfrecord"))
    hidden = [shard.rename(folder.parent / shard.name) for shard in shards]
    split(folder, seed=3)
    for shard, place in zip(shards, hidden, strict=True):
        place.rename(shard)
    after = Prepared(folder).photographs
    assert (after["split"] != before["split"]).any() and (
        after["group"] == before["group"]
    ).all()
    changed = {
        name for name, value in Prepared(folder).describe().items() if value != described[name]
    }
    assert changed == {"split_sha256"} and verify(folder)["splits"]["split.csv"]["seed"] == 3
    bytes_of = (folder / "split.csv").read_bytes()
    split(folder)
    assert (folder / "split.csv").read_bytes() == bytes_of


def test_splits_lie_beside_each_other(folder):
    """A second split and folds do not touch the first; each verifies, and each fold is read by
    its name.
    """
    before = (folder / "split.csv").read_bytes()
    split(folder, seed=8, out="split-8.csv")
    folds = split(folder, scheme="folds", folds=3)
    assert [path.name for path in folds] == [f"split-{number}-of-3.csv" for number in (1, 2, 3)]
    tested = pd.concat(
        [Prepared(folder, path.name).photographs["split"] == "test" for path in folds], axis=1
    )
    assert (tested.sum(axis=1) == 1).all() and verify(folder)
    assert (folder / "split.csv").read_bytes() == before
    (folder / "split-8.csv").write_bytes(before)
    with pytest.raises(ShardError, match="split-8.csv: altered"):
        verify(folder)
    with pytest.raises(ShardError, match="split-8.csv: altered"):
        Prepared(folder, "split-8.csv")


@pytest.mark.parametrize(
    "out", ["labels.csv", "near_duplicates.csv", "crops-00000.csv", "split.txt", "../split.csv"]
)
def test_a_split_overwrites_no_other_table(folder, out):
    """Names that the folder needs are refused."""
    with pytest.raises(LabelTableError, match="cannot name a split table"):
        split(folder, out=out)
    assert verify(folder)


def test_tensorflow_reads_labelled_records(folder, tmp_path):
    """Every photograph of the split, under its side, with grade, referable, patient, eye and the
    crop's own bytes.
    """
    import tensorflow as tf

    paths = export_records(folder, tmp_path / "records", shard_size=20)
    table = Prepared(folder).photographs.set_index("image_id")
    crops = read_jpegs(folder)
    texts = ("image/id", "image/encoded", "patient/id", "eye")
    numbers = ("image/class/label", "image/referable")
    features = {key: tf.io.FixedLenFeature([], tf.string) for key in texts}
    features |= {key: tf.io.FixedLenFeature([], tf.int64) for key in numbers}
    found = 0
    for side in ("train", "validation", "test"):
        files = sorted(str(path) for path in paths if path.name.startswith(side))
        count = (table["split"] == side).sum()
        assert len(files) == -(-count // 20) and files[0].endswith(
            f"{side}-00000-of-{len(files):05d}.tfrecord"
        )
        for example in tf.data.TFRecordDataset(files).as_numpy_iterator():
            read = {
                key: value.numpy()
                for key, value in tf.io.parse_single_example(example, features).items()
            }
            row = table.loc[read["image/id"].decode()]
            assert (row["split"], row["grade"], row["referable"]) == (
                side,
                *(read[key] for key in numbers),
            )
            assert (row["patient_id"], row["eye"]) == (
                read["patient/id"].decode(),
                read["eye"].decode(),
            )
            assert crops[row.name] == read["image/encoded"]
            found += 1
    assert found == len(table)
    with pytest.raises(LabelTableError, match="not empty"):
        export_records(folder, tmp_path / "records")


def test_folds_are_drawn_anew_by_another_seed(folder):
    """Their seed is remembered, and is not that of the folder's split."""
    names = [path.name for path in split(folder, scheme="folds", folds=2, seed=4)]
    before = [(folder / name).read_bytes() for name in names]
    split(folder, scheme="folds", folds=2)
    assert [(folder / name).read_bytes() for name in names] == before
    split(folder, scheme="folds", folds=2, seed=5)
    assert [(folder / name).read_bytes() for name in names] != before
    assert all(read_manifest(folder)["splits"][name]["seed"] == 5 for name in names)
    split(folder, scheme="paper")
    assert set(Prepared(folder).photographs["split"]) == {"train", "test"}


def test_the_command_line(folder, tmp_path):
    """Folds, then records of one of them; a mistake is one sentence; no records of a split that
    is not there yet.
    """

    def run(*arguments):
        return CliRunner().invoke(main, ["split", str(folder), *map(str, arguments)])

    assert (
        "split-2-of-2.csv:\n  test "
        in run("--scheme", "folds", "--folds", 2, "--seed", 5).output
    )
    assert (
        "shards in"
        in run("--records", tmp_path / "records", "--out", "split-2-of-2.csv").output
    )
    failed = run("--scheme", "folds", "--folds", 99)
    assert failed.exit_code == 1 and failed.output.startswith("Error: 16 groups, with 19 ")
    assert "--folds needs --scheme folds" in run("--folds", 3).output
    refused = run("--seed", "7", "--records", tmp_path / "others")
    assert (
        refused.exit_code == 2
        and "run split without it first" in refused.output
        and not (tmp_path / "others").exists()
    )


def test_a_deleted_split_is_forgotten_at_the_next(folder):
    """Its absence is named, and drawing any split mends the folder."""
    split(folder, seed=8, out="split-8.csv")
    (folder / "split-8.csv").unlink()
    with pytest.raises(ShardError, match="split-8.csv: missing"):
        Prepared(folder)
    split(folder)
    assert len(Prepared(folder).photographs) == 32 and verify(folder)
