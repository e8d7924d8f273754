"""Frozen lower blocks: the cached way gives what the whole network gives, and only the upper
part learns.
"""

import keras
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from dr_lib.data.prepared.batches import Batches
from dr_lib.data.prepared.folder import Photographs
from dr_lib.errors import DrError
from dr_lib.training.fit import compile_model, train
from dr_lib.training.frozen import fit_by_patient, fit_grades, freeze
from dr_lib.training.models import build_model, split_network
from dr_lib.training.recorder import Recorder


def draw_photographs(number: int, seed: int) -> Photographs:
    """Noise with a brighter left half where the eye is referable; two photographs per patient."""
    rng = np.random.default_rng(seed)
    referable = (np.arange(number) // 2 % 2).astype(np.float32)
    images = rng.integers(60, 180, (number, 64, 64, 3))
    images[:, :, :32] += (referable * 40).astype(int)[:, None, None, None]
    patients = np.array([f"{seed}-{k // 2}" for k in range(number)])
    return Photographs(
        images.astype(np.uint8), referable.astype(int) * 2, referable, patients, patients
    )


@pytest.fixture(scope="module")
def splits() -> dict[str, Photographs]:
    """Three small splits."""
    return {
        "train": draw_photographs(40, 1),
        "validation": draw_photographs(16, 2),
        "test": draw_photographs(20, 3),
    }


@pytest.fixture(scope="module")
def frozen(splits) -> tuple:
    """A network, and what freezing its first layers makes of it."""
    keras.utils.set_random_seed(0)
    network = build_model("mobilenet", 64, augmentation="none")
    return network, *freeze(network, "conv_pw_1_relu", splits)


def test_the_cached_way_is_the_network(frozen, splits):
    """Upper on cached outputs predicts what the whole network predicts, mirrored photographs
    too.
    """
    network, upper, inputs, targets = frozen
    images = splits["test"].images
    whole = network.predict(np.concatenate([images, images[:, :, ::-1]]), verbose=0)
    # outputs are kept as float16
    assert np.abs(upper.predict(inputs["test"], verbose=0) - whole).max() < 2e-3
    assert (
        inputs["train"].dtype == np.float16
        and len(inputs["train"]) == len(targets["train"]) == 80
    )


@pytest.mark.slow
def test_only_what_lies_behind_the_layer_learns(splits, tmp_path):
    """After training the frozen weights, and batch normalisation everywhere, are what they were;
    others moved.
    """
    network = build_model("mobilenet", 64, augmentation="none")
    base = network.get_layer("base")
    # as if trained: random weights behind frozen statistics would give zeros
    for layer in base.layers:
        layer.momentum = 0.0
    network(splits["train"].images, training=True)
    upper, inputs, targets = freeze(network, "conv_pw_12_relu", splits)
    before = {weight.path: weight.numpy() for weight in base.weights}
    compile_model(upper, optimizer="adam", learning_rate=0.01)
    train(
        upper,
        Batches(inputs["train"], targets["train"], 16),
        None,
        Recorder(tmp_path),
        epochs=1,
    )
    moved = {
        w.path.split("/")[-2]
        for w in base.weights
        if np.abs(w.numpy() - before[w.path]).max() > 0
    }
    assert moved == {"conv_dw_13", "conv_pw_13"}


def test_the_head_starts_as_a_linear_probe(frozen):
    """Before any training the network already separates what its frozen features separate."""
    _, upper, inputs, targets = frozen
    assert (
        roc_auc_score(targets["train"], upper.predict(inputs["train"], verbose=0)[:, 0]) > 0.9
    )


def test_a_probe_of_grades_gives_the_odds_of_referable_disease():
    """Mild and severe eyes lie on one line: the kernel finds it, and the probabilities are right
    in new photographs.
    """
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 20))
    severity = rng.uniform(-0.5, 4.5, 2000)
    features[:, 3] += severity
    grade = severity.round().astype(int)
    kernel, bias = fit_grades(
        features[:1000], grade[:1000], grade[:1000] >= 2, np.arange(1000) // 2
    )
    kernel = kernel[:, 0]
    odds = features[1000:] @ kernel + bias
    assert np.argmax(kernel) == 3 and np.abs(np.delete(kernel, 3)).max() < kernel[3] / 5
    slope = LogisticRegression(C=np.inf).fit(odds[:, None], grade[1000:] >= 2)
    assert slope.coef_[0, 0] == pytest.approx(1, abs=0.2) and slope.intercept_[
        0
    ] == pytest.approx(0, abs=0.2)


def test_features_on_one_scale_keep_their_spread():
    """The grade is as clear in a wide feature as in a narrow one: the narrow one gets less weight
    for its spread, as in ridge regression by the normal equations, where all were standardised.
    """
    rng = np.random.default_rng(0)
    grade = np.arange(400) // 2 % 5
    features = (grade[:, None] + rng.normal(size=(400, 2))) * [1, 0.1]
    kernels = [
        fit_grades(features, grade, grade >= 2, np.arange(400) // 2, is_even=is_even)[0]
        for is_even in (False, True)
    ]
    effects = [(kernel[:, 0] * [1, 0.1]).round(9) for kernel in kernels]
    assert effects[0][1] / effects[0][0] == pytest.approx(1, abs=0.25)
    assert effects[1][1] / effects[1][0] < effects[0][1] / effects[0][0] - 0.1


@pytest.mark.parametrize("absent", [[], [1], [4], [1, 3, 4]])
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


def test_a_served_model_is_trained_from_few_photographs(splits):
    """In task grades the head of five starts as the probe, on the features alone."""
    network = build_model("small_cnn", 64, task="grades", augmentation="none", is_linear=True)
    assert network.layers[-2].name == "pool"
    last = network.get_layer("base").layers[-1].name
    upper, inputs, targets = freeze(network, last, splits, probe_grades=True)
    referable = upper.predict(inputs["train"], verbose=0)[:, 2:].sum(axis=1)
    assert roc_auc_score(targets["train"] >= 2, referable) > 0.9


def test_a_frozen_base_leaves_the_head_alone(splits):
    """Where all blocks are frozen the head is what learns, and the whole network gives what it
    gives.
    """
    network = build_model("small_cnn", 64, augmentation="none")
    last = network.get_layer("base").layers[-1].name
    upper, inputs, targets = freeze(network, last, splits, probe_grades=True)
    assert [weight.path for weight in upper.trainable_weights] == [
        "referable/kernel",
        "referable/bias",
    ]
    given = upper.predict(inputs["test"], verbose=0)
    assert np.abs(given[:20] - network.predict(splits["test"].images, verbose=0)).max() < 2e-3
    assert (
        roc_auc_score(targets["train"], upper.predict(inputs["train"], verbose=0)[:, 0]) > 0.9
    )


def test_a_layer_that_cannot_be_the_last_is_refused():
    """A shortcut goes round it."""
    network = build_model("EfficientNetV2B0", 32)
    with pytest.raises(DrError, match="'block2b_expand_conv': part of the network bypasses"):
        split_network(network, "block2b_expand_conv")
    split_network(network, "block2b_add")


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::sklearn.exceptions.FitFailedWarning"
)
@pytest.mark.parametrize("number", [20, 3], ids=["one patient is referable", "few photographs"])
def test_no_penalty_is_chosen_that_no_fold_could_judge(number):
    """All its scores are NaN, or nothing can be divided into five."""
    rng = np.random.default_rng(0)
    patients = np.arange(number)
    with pytest.raises(
        DrError, match=f"{number} patients are too few to choose a penalty in 5"
    ):
        fit_by_patient(
            LogisticRegression(),
            {"model__C": [1.0]},
            rng.random((number, 3)),
            patients == 0,
            patients,
        )


def test_refuses_to_cache_more_than_fits(splits):
    """The outputs of a thousand million photographs fit into no machine: said before one is
    read.
    """
    network = build_model("small_cnn", 64, augmentation="none")
    many = Photographs(
        *(np.broadcast_to(column[:1], (10**9, *column.shape[1:])) for column in splits["train"])
    )
    with pytest.raises(DrError, match="outputs of .* take .* GiB, .* are free"):
        freeze(network, network.get_layer("base").layers[-1].name, splits | {"train": many})
