"""Batches: what Keras sees is every photograph once an epoch, in an order of our choosing."""

import keras
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.data.photograph.pixels import decode_jpeg
from dr_lib.data.shards.batches import Batches, load_photographs
from dr_lib.data.shards.folder import read_photographs
from tests.data.shards.test_prepare import read_jpegs


class Eyes(keras.Model):
    """A model that notes every batch that reaches it."""

    def __init__(self):
        super().__init__()
        self.seen, self.scale = [], keras.layers.Dense(1)

    def call(self, x, training=False):
        if training:
            self.seen.append(np.array(x).ravel().astype(int).tolist())
        return self.scale(keras.ops.cast(x, "float32"))


def fit_and_watch(epochs: int, seed: int = 5) -> tuple[list[list[int]], keras.Model]:
    """Train on ten numbers in batches of four; return the numbers of each epoch as the model saw them."""
    numbers = np.arange(10, dtype=np.uint8)[:, None]
    batches = Batches(numbers, np.zeros(10, np.float32), 4, shuffle_seed=seed)
    model = Eyes()
    model.compile("sgd", "mse", run_eagerly=True)
    model.predict(batches, verbose=0)
    start = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: batches.start_epoch(epoch))
    model.fit(batches, epochs=epochs, shuffle=False, callbacks=[start], verbose=0)
    assert {len(b) for b in model.seen} == {4} and batches.num_dropped == 2
    flat = [number for batch in model.seen for number in batch][-8 * epochs :]
    return [flat[8 * e : 8 * e + 8] for e in range(epochs)], model


def test_full_batches_of_a_new_order_each_epoch():
    """Eight different numbers of ten an epoch, others in each, in 2 steps; the same seed gives the same epochs."""
    epochs, model = fit_and_watch(4)
    assert int(model.optimizer.iterations) == 8  # 10 // 4 = 2 an epoch, and no more
    assert all(len(set(epoch)) == 8 and set(epoch) <= set(range(10)) for epoch in epochs)
    assert len({frozenset(epoch) for epoch in epochs}) > 1 and epochs[0] != epochs[1] != epochs[2]
    assert epochs == fit_and_watch(4)[0] and epochs != fit_and_watch(4, seed=6)[0]


@pytest.mark.parametrize(("number", "batch_size"), [(10, 4), (12, 4), (3, 8), (1, 1)])
def test_evaluation_counts_every_photograph_once(number, batch_size):
    """Whatever fills the last batch up, loss and AUC are those of the photographs, by NumPy and scikit-learn."""
    rng = np.random.default_rng(number)
    scores, targets = rng.uniform(0.1, 0.9, number).astype(np.float32), (np.arange(number) % 2).astype(np.float32)
    inputs = keras.Input(())
    model = keras.Model(inputs, keras.layers.Reshape((1,))(inputs))
    auc = keras.metrics.AUC(num_thresholds=5000, name="auc")
    model.compile("sgd", "binary_crossentropy", weighted_metrics=[auc])
    logs = model.evaluate(Batches(scores, targets, batch_size), return_dict=True, verbose=0)
    loss = -np.mean(targets * np.log(scores) + (1 - targets) * np.log(1 - scores))
    assert logs["loss"] == pytest.approx(loss, abs=1e-6)
    if number > 1:
        assert logs["auc"] == pytest.approx(roc_auc_score(targets, scores), abs=1e-3)


def test_order_depends_on_the_epoch_alone():
    """An epoch has the same order whether or not the epochs before it were run: a restart can go on."""
    numbers = np.arange(50)
    straight = Batches(numbers, numbers, 7, shuffle_seed=1)
    for epoch in range(4):
        straight.start_epoch(epoch)
    jumped = Batches(numbers, numbers, 7, shuffle_seed=1)
    jumped.start_epoch(3)
    assert [b[0].tolist() for b in straight] == [b[0].tolist() for b in jumped]


def test_without_a_seed_the_order_stays():
    """Predictions line up with their photographs, and what fills the last batch up weighs nothing."""
    numbers = np.arange(5)
    batches = Batches(numbers, numbers, 2)
    assert [inputs.tolist() for inputs, *_ in batches] == [[0, 1], [2, 3], [4, 4]]
    assert np.allclose([weights for *_, weights in batches], [[1.2, 1.2], [1.2, 1.2], [1.2, 0]])  # 6 places, 5 numbers
    assert batches.num_dropped == 0


@pytest.mark.parametrize(("inputs", "targets", "batch_size"), [(0, 0, 4), (3, 2, 4), (3, 3, 0), (7, 7, 8)])
def test_refuses_what_makes_no_batches(inputs, targets, batch_size):
    """No photographs, a label too few, a batch of none or one larger than the set is an error before training."""
    with pytest.raises(ValueError, match="make no batch"):
        Batches(np.zeros(inputs), np.zeros(targets), batch_size, shuffle_seed=0)


def test_loads_uint8_photographs_with_their_labels(small_sample):
    """Pixels stay uint8, are the records' own, and lie in the order of the image ids beside their labels."""
    sides = {side: load_photographs(small_sample, side) for side in ("train", "validation", "test")}
    table = read_photographs(small_sample)
    stored = read_jpegs(small_sample)
    assert sum(len(photographs.image_id) for photographs in sides.values()) == len(table) == 32
    for side, photographs in sides.items():
        rows = table[table["split"] == side]
        assert photographs.image_id.tolist() == sorted(rows["image_id"])
        assert photographs.grade.tolist() == rows["grade"].tolist()
        assert (photographs.referable == (photographs.grade >= 2)).all()
        for image, image_id in zip(photographs.images, photographs.image_id, strict=True):
            assert image.dtype == np.uint8 and (image == decode_jpeg(stored[image_id])).all()
    assert load_photographs(small_sample, "train", 64).images.shape[1:] == (64, 64, 3)


def test_refuses_a_size_above_the_stored_one(small_sample):
    """The shards hold 299 px; enlarging would invent pixels."""
    with pytest.raises(ValueError, match="crops have 299 px; .* prepare with --size 512"):
        load_photographs(small_sample, "train", 512)
