"""Batches: what Keras sees is every photograph once an epoch, in an order of our choosing."""

import shutil

import keras
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.data.photograph.pixels import decode_jpeg
from dr_lib.data.prepared import stream
from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.records import ShardError
from dr_lib.errors import DrError
from tests.data.prepared.test_prepare import read_jpegs


class Eyes(keras.Model):
    """A model that notes every batch that reaches it."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.scale = keras.layers.Dense(1)

    def call(self, x, training=False):
        if training:
            self.seen.append(np.array(x).ravel().astype(int).tolist())
        return self.scale(keras.ops.cast(x, "float32"))


def list_epochs(epochs: list[int], seed: int = 5) -> list[list[int]]:
    """The numbers 0 to 9 of each of the epochs, in batches of four."""
    batches = Batches(np.arange(10), np.zeros(10), 4, shuffle_seed=seed)
    found = []
    for epoch in epochs:
        batches.start_epoch(epoch)
        found.append(np.concatenate([inputs for inputs, _ in batches]).tolist())
    return found


def test_full_batches_of_a_new_order_each_epoch():
    """Eight different numbers of ten an epoch, others in each; the order depends on seed and
    epoch alone.
    """
    epochs = list_epochs([0, 1, 2, 3])
    assert all(len({*epoch}) == 8 and {*epoch} <= {*range(10)} for epoch in epochs)
    assert len({frozenset(epoch) for epoch in epochs}) > 1 and len({*map(tuple, epochs)}) == 4
    assert epochs[3:] == list_epochs([3]) != list_epochs([3], seed=6)


def test_keras_sees_each_batch_once():
    """After a prediction, in each epoch's order, 10 // 4 = 2 steps an epoch and no more."""
    batches = Batches(np.arange(10, dtype=np.uint8)[:, None], np.zeros(10), 4, shuffle_seed=5)
    model = Eyes()
    model.compile("sgd", "mse", run_eagerly=True)
    model.predict(batches, verbose=0)
    start = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: batches.start_epoch(epoch)
    )
    model.fit(batches, epochs=2, shuffle=False, callbacks=[start], verbose=0)
    assert int(model.optimizer.iterations) == 4 and batches.num_dropped == 2
    assert np.reshape(model.seen[-4:], (2, 8)).tolist() == list_epochs([0, 1])


@pytest.mark.parametrize(("number", "batch_size"), [(10, 4), (3, 8)])
def test_evaluation_counts_every_photograph_once(number, batch_size):
    """Whatever fills the last batch up, loss and AUC are those of the photographs, by NumPy and
    scikit-learn.
    """
    rng = np.random.default_rng(number)
    scores = rng.uniform(0.1, 0.9, number).astype(np.float32)
    targets = (np.arange(number) % 2).astype(np.float32)
    inputs = keras.Input(())
    model = keras.Model(inputs, keras.layers.Reshape((1,))(inputs))
    auc = keras.metrics.AUC(num_thresholds=5000, name="auc")
    model.compile("sgd", "binary_crossentropy", weighted_metrics=[auc])
    logs = model.evaluate(Batches(scores, targets, batch_size), return_dict=True, verbose=0)
    loss = -np.mean(targets * np.log(scores) + (1 - targets) * np.log(1 - scores))
    assert logs["loss"] == pytest.approx(loss, abs=1e-6)
    assert logs["auc"] == pytest.approx(roc_auc_score(targets, scores), abs=1e-3)


@pytest.mark.parametrize("batch_size", [0, 8])
def test_refuses_what_makes_no_batches(batch_size):
    """A batch of none, or one larger than the set, is an error before training."""
    with pytest.raises(DrError, match=f"no batch of {batch_size}: a batch may have 7 at most"):
        Batches(np.zeros(7), np.zeros(7), batch_size, shuffle_seed=0)


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_loads_uint8_photographs_with_their_labels(small_sample, num_threads, monkeypatch):
    """In memory, or streamed by any number of threads: pixels stay uint8, are the records' own, and
    lie in the order of the image ids beside their labels.
    """
    monkeypatch.setattr(stream, "count_cpus", lambda: num_threads or 1)
    prepared = Prepared(small_sample)
    stored = read_jpegs(small_sample)
    assert len(prepared.photographs) == 32
    for side, rows in prepared.photographs.groupby("split"):
        photographs = prepared.load(side, stream=num_threads > 0)
        assert photographs.image_id.tolist() == sorted(rows["image_id"])
        assert photographs.grade.tolist() == rows["grade"].tolist()
        assert (photographs.referable == (photographs.grade >= 2)).all()
        order = np.random.default_rng(0).permutation(len(rows))
        images = photographs.images[order]
        crops = [decode_jpeg(stored[image_id]) for image_id in photographs.image_id[order]]
        assert images.dtype == np.uint8 and (images == crops).all()
    assert prepared.load("train", 64).images.shape[1:] == (64, 64, 3)


def test_a_shard_that_was_cut_is_an_error(small_sample, tmp_path):
    """Where it happens while the training runs; `test_folder` damages shards before."""
    folder = shutil.copytree(small_sample, tmp_path / "records")
    images = Prepared(folder).load("train", 64, stream=True).images
    next(folder.glob("*.tfrecord")).write_bytes(b"")
    with pytest.raises(ShardError, match="was cut short"):
        images[:1]


def test_refuses_a_size_above_the_stored_one(small_sample):
    """The shards hold 299 px; enlarging would invent pixels."""
    with pytest.raises(ShardError, match="crops have 299 px; .* prepare with --size 512"):
        Prepared(small_sample).load("train", 512)
