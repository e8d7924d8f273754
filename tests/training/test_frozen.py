"""A frozen base: the cached way gives what the whole network gives, and only the head learns."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.errors import DrError
from dr_lib.training.frozen import fit_grades, freeze
from dr_lib.training.models import build_model, split_network
from tests.training.simulation import draw_splits


@pytest.mark.parametrize("task", ["referable", "grades"])
def test_the_cached_way_is_the_network(task):
    """The head on cached outputs predicts what the whole network predicts, mirrored photographs
    too; it starts as a linear probe, which already separates what the features separate. It alone
    learns.
    """
    splits = draw_splits(40, 64)
    keras.utils.set_random_seed(0)
    network = build_model("small_cnn", 64, task=task, augmentation="none", recipe="few")
    upper, inputs, targets = freeze(network, splits)
    images = splits["test"].images
    whole = network.predict(np.concatenate([images, images[:, :, ::-1]]), verbose=0)
    # outputs are kept as float16
    assert np.abs(upper.predict(inputs["test"], verbose=0) - whole).max() < 2e-3
    train = inputs["train"]
    assert (train.dtype, len(train), len(targets["train"])) == (np.float16, 80, 80)
    assert {weight.path.split("/")[-2] for weight in upper.trainable_weights} == {task}
    referable = upper.predict(train, verbose=0)[:, -3:].sum(axis=1)
    assert roc_auc_score(targets["train"] > 0, referable) > 0.9


@pytest.mark.parametrize("absent", [[], [1, 3, 4]])
def test_a_probe_of_grades_gives_the_probability_of_each_grade(absent):
    """By logits on one line, in order; a grade that no photograph has gets next to nothing."""
    rng = np.random.default_rng(0)
    grade = np.setdiff1d(np.arange(5), absent)[np.arange(2000) % (5 - len(absent))]
    features = rng.normal(size=(2000, 20))
    features[:, 3] += grade
    kernel, bias = fit_grades(features, grade, grade, np.arange(2000) // 2)
    odds = np.exp(features @ kernel + bias)
    probability = odds / odds.sum(axis=1, keepdims=True)
    shares = np.bincount(grade, minlength=5) / 2000
    assert probability.mean(axis=0) == pytest.approx(shares, abs=0.02)
    assert roc_auc_score(grade >= 2, probability[:, 2:].sum(axis=1)) > 0.9


def test_a_layer_that_cannot_be_the_last_is_refused():
    """A shortcut goes round it."""
    network = build_model("EfficientNetV2B0", 32)
    with pytest.raises(DrError, match="'block2b_expand_conv': part of the network bypasses"):
        split_network(network, "block2b_expand_conv")
    split_network(network, "block2b_add")


def test_refuses_to_cache_more_than_fits():
    """The outputs of a thousand million photographs fit into no machine: said before one is
    read.
    """
    network = build_model("small_cnn", 64, augmentation="none")
    images = np.broadcast_to(np.uint8(0), (10**9, 64, 64, 3))
    many = {"train": SimpleNamespace(images=images, referable=images[:, 0, 0, 0])}
    with pytest.raises(DrError, match="outputs of .* take .* GiB, .* are free"):
        freeze(network, many)
