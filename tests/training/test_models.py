"""Models: their size, their preprocessing, and an augmentation that is right in [0, 1]."""

import colorsys
import os

import h5py
import keras
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.errors import DrError
from dr_lib.training.fit import compile_model
from dr_lib.training.models import (
    NETWORKS,
    Augment,
    Ranks,
    build_model,
    recolour,
    save_model,
)
from tests.conftest import ROOT
from tests.training.simulation import NORMALISED, assert_same


def change(images: np.ndarray, **factors: float) -> np.ndarray:
    """Recolour all images by the same factors."""
    factors = {"brightness": 0.0, "saturation": 1.0, "hue": 0.0, "contrast": 1.0, **factors}
    values = {name: np.full(len(images), value, np.float32) for name, value in factors.items()}
    return np.array(recolour(images, **values))


@pytest.fixture
def images() -> np.ndarray:
    """Three images of muted colours, far from black and white so that nothing is clipped."""
    return np.random.default_rng(0).uniform(0.35, 0.65, (3, 8, 8, 3)).astype(np.float32)


def test_brightness_and_contrast_are_those_of_tensorflow(images):
    """tf.image gives the same pixels."""
    tf = pytest.importorskip("tensorflow")
    for ours, theirs in (
        (change(images, brightness=0.1), tf.image.adjust_brightness(images, 0.1)),
        (change(images, contrast=1.3), tf.image.adjust_contrast(images, 1.3)),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize(
    ("saturation", "hue"),
    [
        (0.7, 0.2),
        (0.0, 0.1),
    ],
)
def test_saturation_and_hue_turn_the_chroma_of_yiq(images, saturation, hue):
    """Python's colorsys: luma stays, chroma (I, Q) is scaled by the saturation and turned by the
    hue.
    """
    changed = change(images, saturation=saturation, hue=hue)
    pixels = zip(images.reshape(-1, 3)[:20], changed.reshape(-1, 3)[:20], strict=True)
    for before, after in pixels:
        y0, i0, q0 = colorsys.rgb_to_yiq(*before)
        y1, i1, q1 = colorsys.rgb_to_yiq(*after)
        turned = saturation * (i0 + 1j * q0) * np.exp(2j * np.pi * hue)
        assert (y1, i1, q1) == pytest.approx((y0, turned.real, turned.imag), abs=2e-3)


def test_augmentation_rests_outside_training_and_draws_within_it():
    """Inference only casts to [0, 1]; training changes each image in its own way and stays in
    [0, 1].
    """
    photographs = np.random.default_rng(1).integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)
    layer = Augment("colour", seed=3)
    assert np.allclose(np.array(layer(photographs)), photographs / 255, atol=1e-6)
    first, second = (np.array(layer(photographs, training=True)) for _ in range(2))
    assert first.min() >= 0 and first.max() <= 1
    assert np.abs(first - second).max(axis=(1, 2, 3)).min() > 0.01


def test_flip_mirrors_left_and_right_alone():
    """Every image comes out as it is or mirrored, and both occur."""
    photographs = np.random.default_rng(1).integers(0, 256, (40, 4, 4, 3), dtype=np.uint8)
    flipped = np.array(Augment("flip", seed=0)(photographs, training=True)) * 255
    same = np.isclose(flipped, photographs).all(axis=(1, 2, 3))
    mirrored = np.isclose(flipped, photographs[:, :, ::-1]).all(axis=(1, 2, 3))
    assert (same ^ mirrored).all() and 8 < same.sum() < 32


@pytest.mark.parametrize(
    ("model", "image_size", "task", "parameters"),
    [
        ("mobilenet", 224, "referable", 3_228_864 + 1024 + 1),
        ("small_cnn", 96, "referable", 448 + 4640 + 18496 + 55392 + 16 + 32 + 64 + 96 + 1),
        ("mobilenet", 224, "grades", 3_377_221),
        ("vgg19", 224, "grades", 20_107_205),
    ],
)
def test_networks_have_the_known_size(model, image_size, task, parameters):
    """One sigmoid output, or five of grades, on the published base."""
    network = build_model(model, image_size, task=task)
    assert network.count_params() == parameters
    assert network.output_shape == (None, 5 if task == "grades" else 1)
    assert network.input.dtype == "uint8"


@pytest.mark.parametrize(
    ("model", "module"),
    [
        ("mobilenet", "mobilenet"),
        ("vgg19", "vgg19"),
        ("DenseNet121", "densenet"),
    ],
)
def test_each_network_gets_its_own_preprocessing(model, module):
    """What reaches the base is what keras.applications makes of the pixels: to [-1, 1]; BGR less
    ImageNet's mean; by mean and deviation; left to the network.
    """
    network = build_model(model, 32)
    steps = network.operations
    before = steps[steps.index(network.get_layer("base")) - 1].output
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    expected = getattr(keras.applications, module).preprocess_input(images.astype("float32"))
    ours = keras.Model(network.input, before)(images)
    np.testing.assert_allclose(ours, expected, atol=2e-4)


@pytest.mark.parametrize(
    ("model", "last"),
    [
        ("MobileNet", "conv_pw_7_relu"),
        ("EfficientNetB0", "block5c_add"),
    ],
)
def test_recipe_few_takes_any_network(model, last):
    """It ends between two blocks, behind their activation and never inside a shortcut."""
    base = build_model(model, 32, recipe="few").get_layer("base")
    assert base.layers[-1].name == last


@pytest.mark.parametrize(
    ("model", "task"),
    [
        *((name, "referable") for name in NETWORKS),
        ("small_cnn", "grades"),
        (NORMALISED, "grades"),
    ],
)
def test_the_saved_file_of_every_registered_network_predicts_the_same(model, task, tmp_path):
    """It has nothing of the optimiser."""
    network = build_model(model, 32, task=task)
    compile_model(network, optimizer="adam")
    save_model(network, tmp_path / "best.keras")
    (file,) = tmp_path.iterdir()
    saved = keras.models.load_model(file)
    assert not saved.compiled
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    assert np.array(saved([images])) == pytest.approx(np.array(network(images)), abs=1e-6)


def test_every_network_stands_on_the_page_of_training():
    """By the name that chooses it."""
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    missing = [name for name in NETWORKS if f"`{name}`" not in page]
    assert not missing, f"docs/training.md lacks {missing}"


def test_the_metric_is_the_auc_of_referable_disease():
    """scikit-learn's AUC of grade 2 or worse by the sum of the last three probabilities."""
    rng = np.random.default_rng(1)
    grade = rng.integers(0, 5, 400)
    probabilities = rng.dirichlet(np.ones(5), 400).astype("float32")
    metric = Ranks(500)
    for rows in np.split(np.arange(400), 4):
        metric.update_state(grade[rows], probabilities[rows])
    wanted = roc_auc_score(grade >= 2, probabilities[:, 2:].sum(axis=1))
    assert metric.score() == pytest.approx(wanted, abs=1e-6) and int(metric.result()) == 400


def test_the_metric_is_exact_for_small_probabilities_and_passes_over_copies():
    """Where few eyes are referable all probabilities are small; a last batch is filled up with
    copies that weigh nothing. With NaN there is no AUC.
    """
    rng = np.random.default_rng(1)
    referable = np.arange(400) % 20 == 0
    probability = (rng.random(400) * (1 + referable) / 1e4).astype("float32")
    metric = Ranks(500)
    metric.update_state(referable.astype("float32"), probability[:, None])
    metric.update_state(np.ones(8, "float32"), np.zeros((8, 1), "float32"), np.zeros(8))
    assert metric.score() == pytest.approx(roc_auc_score(referable, probability), abs=1e-12)
    metric.update_state(np.ones(1, "float32"), np.full((1, 1), np.nan, "float32"))
    assert np.isnan(metric.score())


def test_weights_come_from_a_file(tmp_path):
    """A file of weights without the top gives the network those weights; one that lacks a single
    layer's does not load half.
    """
    path = tmp_path / "base.weights.h5"
    base = build_model("mobilenet", 32).get_layer("base")
    base.save_weights(path)
    loaded = build_model("mobilenet", 96, weights=str(path)).get_layer("base")
    assert_same(base.get_weights(), loaded.get_weights())
    with h5py.File(path, "r+") as file:
        del file["layers"]["conv2d_13"]["vars"]["0"]
    with pytest.raises(DrError, match="cannot build mobilenet at 96 px"):
        build_model("mobilenet", 96, weights=str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "resnet"}, "choose .*vgg19, .* or a network .* ResNet50"),
        ({"model": "no.such:build"}, "model 'no.such:build' cannot be imported: No module"),
        ({"model": "mobilenet", "weights": "no/such.h5"}, "no such file"),
    ],
)
def test_what_cannot_be_built_says_why(arguments, message):
    """Each mistake is a DrError before anything is trained."""
    with pytest.raises(DrError, match=message):
        build_model(arguments.pop("model"), arguments.pop("image_size", 96), **arguments)


@pytest.mark.parametrize("model", NETWORKS)
def test_imagenet_weights_are_loaded_or_refused(model, monkeypatch):
    """None is trained from random weights instead: without a download and a package, building
    stops.
    """

    def refuse(*arguments, **settings):
        raise OSError("no network")

    monkeypatch.setattr("keras.src.utils.file_utils.get_file", refuse)
    monkeypatch.setattr("dr_lib.training.lite0.PACKAGE", "no_such_package")
    with pytest.raises(DrError, match="no ImageNet weights|no network|not installed"):
        build_model(model, 32, weights="imagenet")


def test_a_network_that_was_edited_since_it_was_imported_is_refused(tmp_path, monkeypatch):
    """Its hash would be that of the new file, and its code the old one."""
    monkeypatch.syspath_prepend(tmp_path)
    own = tmp_path / "own_network.py"
    own.write_text(
        "import keras\n\n\ndef build(size, weights):\n"
        "    inputs = keras.Input((size, size, 3))\n"
        "    return keras.Model(inputs, keras.layers.Conv2D(2, 3)(inputs))\n"
    )
    build_model("own_network:build", 32)
    build_model("own_network:build", 32)
    os.utime(own, (1, 1))
    with pytest.raises(DrError, match="own_network changed since this kernel .*: restart"):
        build_model("own_network:build", 32)
