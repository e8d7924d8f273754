"""Models: their size, their preprocessing, and an augmentation that is right in [0, 1]."""

import colorsys
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.training.config import RECIPES
from dr_lib.training.models import (
    NETWORKS,
    Augment,
    build_model,
    find_last_layer,
    find_network,
    recolour,
    save_model,
)

NEUTRAL = {"brightness": 0.0, "saturation": 1.0, "hue": 0.0, "contrast": 1.0}


def change(images: np.ndarray, **factors: float) -> np.ndarray:
    """Recolour all images by the same factors."""
    values = {k: np.full(len(images), v, np.float32) for k, v in (NEUTRAL | factors).items()}
    return np.array(recolour(images.astype(np.float32), **values))


@pytest.fixture
def images() -> np.ndarray:
    """Three images of muted colours, far from black and white so that nothing is clipped."""
    return np.random.default_rng(0).uniform(0.35, 0.65, (3, 8, 8, 3)).astype(np.float32)


def test_brightness_and_contrast_are_those_of_tensorflow(images):
    """tf.image gives the same pixels."""
    tf = pytest.importorskip("tensorflow")
    assert (
        np.abs(change(images, brightness=0.1) - tf.image.adjust_brightness(images, 0.1)).max()
        < 1e-5
    )
    assert (
        np.abs(change(images, contrast=1.3) - tf.image.adjust_contrast(images, 1.3)).max()
        < 1e-5
    )


@pytest.mark.parametrize(("saturation", "hue"), [(0.7, 0.2), (0.0, 0.1), (1.0, 0.0)])
def test_saturation_and_hue_turn_the_chroma_of_yiq(images, saturation, hue):
    """Python's colorsys: luma stays, chroma (I, Q) is scaled by the saturation and turned by the
    hue.
    """
    changed = change(images, saturation=saturation, hue=hue)
    for before, after in zip(
        images.reshape(-1, 3)[:20], changed.reshape(-1, 3)[:20], strict=True
    ):
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
    first = np.array(layer(photographs, training=True))
    second = np.array(layer(photographs, training=True))
    assert first.min() >= 0 and first.max() <= 1
    assert all(np.abs(a - b).max() > 0.01 for a, b in zip(first, second, strict=True))


def test_flip_mirrors_left_and_right_alone():
    """Every image comes out as it is or mirrored, and both occur."""
    photographs = np.random.default_rng(1).integers(0, 256, (40, 4, 4, 3), dtype=np.uint8)
    flipped = np.array(Augment("flip", seed=0)(photographs, training=True)) * 255
    same = np.array([np.allclose(a, b) for a, b in zip(flipped, photographs, strict=True)])
    mirrored = np.array(
        [np.allclose(a, b[:, ::-1]) for a, b in zip(flipped, photographs, strict=True)]
    )
    assert (same ^ mirrored).all() and 8 < same.sum() < 32


@pytest.mark.parametrize(
    ("model", "image_size", "parameters"),
    [
        # Keras's summaries give these parameters without the top; the output adds one per feature
        # and 1
        ("mobilenet", 224, 3_228_864 + 1024 + 1),
        ("EfficientNetV2B0", 32, 5_919_312 + 1280 + 1),
        # 3x3 convolutions 3-16-32-64-96, by hand
        ("small_cnn", 96, 448 + 4640 + 18496 + 55392 + 16 + 32 + 64 + 96 + 1),
    ],
)
def test_networks_have_the_known_size(model, image_size, parameters):
    """One sigmoid output on the published base."""
    network = build_model(model, image_size)
    assert network.count_params() == parameters
    assert network.output_shape == (None, 1) and network.input.dtype == "uint8"


@pytest.mark.parametrize(
    ("model", "module"),
    [
        ("mobilenet", "mobilenet"),
        ("vgg16", "vgg16"),
        ("DenseNet121", "densenet"),
        ("ConvNeXtTiny", "convnext"),
    ],
)
def test_each_network_gets_its_own_preprocessing(model, module):
    """That of keras.applications: to [-1, 1]; BGR less ImageNet's mean; by mean and deviation;
    left to the network.
    """
    pixels = np.random.default_rng(0).integers(0, 256, (2, 4, 4, 3)).astype(np.float32)
    scale, offset, is_bgr = find_network(model).preprocessing
    ours = (pixels / 255 * scale + offset)[..., :: -1 if is_bgr else 1]
    expected = getattr(keras.applications, module).preprocess_input(pixels.copy())
    assert ours == pytest.approx(expected, abs=1e-4)


def test_a_recipe_ends_a_network_at_the_share_of_its_parameters():
    """MobileNet's first seven blocks, by hand from the widths of its layers (Howard et al. 2017,
    table 1), with their activation; eleven for recipe upper.
    """
    network = build_model("mobilenet", 32, share=RECIPES["few"].share)
    widths = [32, 64, 128, 128, 256, 256, 512, 512]
    blocks = sum(
        9 * a + 4 * a + a * b + 4 * b for a, b in zip(widths, widths[1:], strict=False)
    )
    assert network.count_params() == 27 * 32 + 4 * 32 + blocks + 512 + 1
    assert network.get_layer("base").layers[-1].name == "conv_pw_7_relu"
    base = build_model("mobilenet", 32).get_layer("base")
    assert find_last_layer(base, RECIPES["upper"].share) == "conv_pw_11_relu"


@pytest.mark.parametrize(
    ("model", "few", "upper"),
    [
        ("MobileNetV2", "block_11_add", "block_15_add"),
        ("EfficientNetB0", "block5c_add", "block6c_add"),
        ("VGG19", "block4_conv1", "block4_pool"),
    ],
)
def test_a_recipe_takes_any_network(model, few, upper):
    """It ends between two blocks, never inside a shortcut."""
    base = build_model(model, 32).get_layer("base")
    ends = [find_last_layer(base, RECIPES[recipe].share) for recipe in ("few", "upper")]
    assert ends == [few, upper]


def build_normalised(image_size, weights):
    """A base with batch normalisation, inside a model of its own too."""
    inputs = keras.Input((image_size, image_size, 3))
    x = keras.layers.Conv2D(4, 3, strides=4, use_bias=False)(inputs)
    x = keras.layers.BatchNormalization()(x)
    block = [keras.layers.Conv2D(4, 3), keras.layers.BatchNormalization()]
    return keras.Model(inputs, keras.Sequential(block)(x))


OWN = f"{__name__}:build_normalised"


@pytest.mark.parametrize("model", [*NETWORKS, OWN])
def test_every_registered_network_is_synchronised_in_training_alone(model, tmp_path):
    """Under tf.distribute every batch normalisation pools its statistics; the saved file has none
    that only TensorFlow knows, and predicts the same.
    """
    network = build_model(model, 32, synchronised=True)

    def flags(model: keras.Model) -> set[bool]:
        layers = model.get_layer("base").layers
        inner = [each for layer in layers for each in getattr(layer, "layers", [])]
        return {
            layer.synchronized for layer in layers + inner if hasattr(layer, "synchronized")
        }

    place = f"{model}: models.build_model synchronises every base"
    assert flags(network) <= {True}, place  # empty where a network has none
    save_model(network, tmp_path / "best.keras")
    saved = keras.models.load_model(tmp_path / "best.keras")
    assert flags(saved) <= {False}
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    assert np.array(saved([images])) == pytest.approx(np.array(network(images)), abs=1e-6)
    assert [path.name for path in tmp_path.iterdir()] == ["best.keras"]


@pytest.mark.parametrize("model", [*NETWORKS, OWN])
def test_every_registered_network_is_built_for_its_tasks(model):
    """One probability, or five of grades."""
    assert build_model(model, 32).output_shape == (None, 1)
    assert build_model(model, 32, task="grades").output_shape == (None, 5)


def test_weights_come_from_a_file(tmp_path):
    """A file of weights without the top gives the network those weights."""
    keras.utils.set_random_seed(1)
    base = build_model("small_cnn", 64).get_layer("base")
    base.save_weights(tmp_path / "base.weights.h5")
    keras.utils.set_random_seed(2)
    loaded = build_model("small_cnn", 64, weights=str(tmp_path / "base.weights.h5")).get_layer(
        "base"
    )
    assert all(
        (a == b).all() for a, b in zip(base.get_weights(), loaded.get_weights(), strict=True)
    )


@pytest.mark.parametrize("content", [b"", b"<html>Sign in</html>", None])
def test_a_download_that_was_cut_off_is_named(tmp_path, monkeypatch, content):
    """A page of a proxy or half a file in Keras's folder, where a later call finds it, or given
    by its path.
    """
    path = tmp_path / "models" / "mobilenet_1_0_224_tf_no_top.h5"
    path.parent.mkdir()
    build_model("small_cnn", 64).get_layer("base").save_weights(tmp_path / "whole.weights.h5")
    whole = (tmp_path / "whole.weights.h5").read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr("keras.src.utils.file_utils.get_file", lambda *how, **more: path)
    message = f"{path} is not a whole weights file: .* delete the file"
    for model, weights in (("mobilenet", "imagenet"), ("small_cnn", str(path))):
        with pytest.raises(DrError, match=message):
            build_model(model, 96, weights=weights)


def read_weights(path: Path, layer: str) -> list[np.ndarray]:
    """The arrays of a layer, as they lie in the file."""
    with h5py.File(path) as file:
        arrays = file["layers"][layer]["vars"]
        return [arrays[name][()] for name in sorted(arrays, key=int)]


def test_imagenet_weights_are_loaded_at_every_size(tmp_path, monkeypatch):
    """Keras has files for 128, 160, 192 and 224 px alone, and warns that it takes that of 224
    px: which is right.
    """
    asked = []
    path = tmp_path / "published.weights.h5"
    keras.applications.MobileNet(
        include_top=False, weights=None, input_shape=(224, 224, 3)
    ).save_weights(path)
    monkeypatch.setattr(
        "keras.src.utils.file_utils.get_file",
        lambda name, *how, **more: asked.append(name) or path,
    )
    base = build_model("mobilenet", 96, weights="imagenet").get_layer("base")
    assert asked == ["mobilenet_1_0_224_tf_no_top.h5"]
    assert (base.get_layer("conv1").get_weights()[0] == read_weights(path, "conv2d")[0]).all()
    assert (
        base.get_layer("conv_pw_13").get_weights()[0] == read_weights(path, "conv2d_13")[0]
    ).all()


def test_imagenet_weights_give_known_features(real_data):
    """Pooled features of a drawn image: the numbers are those of the published layers, written out
    in tf.nn.

    Convolutions, batch normalisation (epsilon 0.001) and ReLU6 of table 1 (Howard et al. 2017),
    from the arrays of the published file, on pixels / 127.5 - 1.
    """
    path = str(real_data / "weights" / "mobilenet_1_0_224_tf_no_top.weights.h5")
    network = build_model("mobilenet", 299, weights=path)
    across = np.arange(299)[None] * np.ones((299, 1), int)
    ramp = across * 255 // 298
    image = np.stack([ramp.T, ramp, (across + across.T) % 256], axis=-1).astype(np.uint8)
    features = keras.Model(network.input, network.get_layer("pool").output)(image[None])[
        0
    ].numpy()
    assert np.argsort(-features)[:4].tolist() == [618, 140, 725, 901]
    assert features[[618, 140, 725, 901]] == pytest.approx(
        [5.3826, 5.2809, 3.7529, 3.7513], abs=1e-3
    )
    assert features.mean() == pytest.approx(0.3806, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": "resnet"},
            "choose small_cnn, .* or a network .* ResNet50",
        ),
        ({"model": "no.such:build"}, "model 'no.such:build' cannot be imported: No module"),
        ({"model": "keras.layers:build"}, "cannot be imported: .* has no attribute 'build'"),
        ({"model": "small_cnn", "augmentation": "rotate"}, "choose from"),
        ({"model": "small_cnn", "weights": "imagenet"}, "no ImageNet weights"),
        ({"model": "small_cnn", "image_size": 16}, "32 px or more"),
        ({"model": "mobilenet", "weights": "no/such.h5"}, "no such file"),
        ({"model": "inception_v3", "image_size": 64}, "inception_v3 at 64 px"),
    ],
)
def test_what_cannot_be_built_says_why(arguments, message):
    """Each mistake is a DrError before anything is trained."""
    with pytest.raises(DrError, match=message):
        build_model(arguments.pop("model"), arguments.pop("image_size", 96), **arguments)


def test_a_file_of_other_weights_is_refused(tmp_path):
    """A file that lacks a single layer's weights does not load half."""
    path = tmp_path / "mobilenet.weights.h5"
    build_model("mobilenet", 32).get_layer("base").save_weights(path)
    with h5py.File(path, "r+") as file:
        del file["layers"]["conv2d_13"]["vars"]["0"]
    with pytest.raises(DrError, match="cannot build mobilenet at 96 px"):
        build_model("mobilenet", 96, weights=str(path))
