"""Crops streamed from disk: the batches of memory, from the shards that the manifest names and
no others.
"""

import shutil

import pytest

from dr_lib.data.prepared import stream
from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.records import ShardError


@pytest.mark.parametrize(("num_threads", "seed"), [(1, 4), (3, None)])
def test_streams_the_batches_of_memory(small_sample, num_threads, seed, monkeypatch):
    """Pixels, targets, weights and order are those of the split decoded as a whole, in each
    epoch.
    """
    monkeypatch.setattr(stream, "count_cpus", lambda: num_threads)
    prepared = Prepared(small_sample)
    train = prepared.load("train", 64)
    table = prepared.photographs.query("split == 'train'")
    crops = prepared.open_crops(table, 64)
    assert (table["image_id"] == train.image_id).all() and crops.shape == train.images.shape
    memory, streamed = (
        Batches(images, train.grade, 5, shuffle_seed=seed) for images in (train.images, crops)
    )
    for epoch in (0, 3):
        memory.start_epoch(epoch)
        streamed.start_epoch(epoch)
        assert len(memory) == len(streamed) > 2
        for expected, found in zip(memory, streamed, strict=True):
            assert all((one == other).all() for one, other in zip(expected, found, strict=True))


def test_a_changed_shard_is_an_error(small_sample, tmp_path):
    """One bit before the training begins, a shard that is gone while it runs: none is trained
    on.
    """
    folder = shutil.copytree(small_sample, tmp_path / "records")
    images = Prepared(folder).load("train", 64, stream=True).images
    shard = next(folder.glob("*.tfrecord"))
    content = shard.read_bytes()
    shard.write_bytes(content[:-1000] + bytes([content[-1000] ^ 1]) + content[-999:])
    with pytest.raises(ShardError, match="does not match manifest.json"):
        Prepared(folder).load("train", 64, stream=True)
    shard.write_bytes(b"")
    with pytest.raises(ShardError, match="was cut short"):
        images[:1]
