"""The networks that grade a photograph as referable or not, from uint8 pixels to one probability."""

import warnings
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

from dr_lib import files

MODELS = ("inception_v3", "mobilenet", "small_cnn")
AUGMENTATIONS = ("none", "flip", "colour")

# RGB -> YIQ (FCC NTSC, as in Python's colorsys): saturation and hue become one scaled rotation of (I, Q)
RGB_TO_YIQ = np.array([[0.30, 0.59, 0.11], [0.599, -0.2773, -0.3217], [0.213, -0.5251, 0.3121]], np.float32)


class ModelError(ValueError):
    """The network cannot be built as asked; the message says what to do."""


@keras.saving.register_keras_serializable("dr_lib")
class Augment(layers.Layer):
    """Cast uint8 photographs to [0, 1] and, in training only, flip and recolour each at random.

    Works in [0, 1], on any backend, from keras.ops alone. The strengths of "colour" are those of Voets et al.
    2019: brightness +-0.125, saturation and contrast 0.5-1.5, hue +-0.2 of a turn, and the left-right flip.
    """

    def __init__(self, augmentation: str = "colour", seed: int = 0, **kwargs):
        """Take one of none, flip, colour, and the seed of the draws."""
        super().__init__(**kwargs)
        self.augmentation, self.seed = augmentation, seed
        self.draws = keras.random.SeedGenerator(seed)

    def call(self, images, training=False):
        """(batch, height, width, 3) uint8 -> the same in [0, 1] of the layer's precision."""
        images = ops.cast(images, self.compute_dtype) / 255
        if not training or self.augmentation == "none":
            return images
        batch = ops.shape(images)[0]
        flip = keras.random.uniform((batch, 1, 1, 1), seed=self.draws) < 0.5
        images = ops.where(flip, ops.flip(images, axis=2), images)
        if self.augmentation == "flip":
            return images
        return recolour(
            images,
            brightness=self._uniform(batch, -0.125, 0.125),
            saturation=self._uniform(batch, 0.5, 1.5),
            hue=self._uniform(batch, -0.2, 0.2),
            contrast=self._uniform(batch, 0.5, 1.5),
        )

    def _uniform(self, batch, low, high):
        return keras.random.uniform((batch,), low, high, dtype=self.compute_dtype, seed=self.draws)

    def get_config(self):
        """What `from_config` needs."""
        return {**super().get_config(), "augmentation": self.augmentation, "seed": self.seed}


def recolour(images, *, brightness, saturation, hue, contrast):
    """Change the colours of photographs in [0, 1] and clip them to it.

    Args:
        images: (batch, height, width, 3) float.
        brightness: (batch,) added to every value.
        saturation: (batch,) factor of the chroma; 0 leaves grey, 1 nothing changed.
        hue: (batch,) rotation of the chroma in the YIQ plane, in turns.
        contrast: (batch,) factor of the distance from each channel's mean; 1 leaves it.
    """
    to_yiq = ops.cast(RGB_TO_YIQ, images.dtype)
    to_rgb = ops.cast(np.linalg.inv(RGB_TO_YIQ), images.dtype)
    i, q = saturation * ops.cos(2 * np.pi * hue), saturation * ops.sin(2 * np.pi * hue)
    one, zero = ops.ones_like(i), ops.zeros_like(i)
    turn = ops.stack([one, zero, zero, zero, i, -q, zero, q, i], axis=-1)
    matrix = ops.matmul(to_rgb, ops.matmul(ops.reshape(turn, (-1, 3, 3)), to_yiq))
    images = ops.einsum("bhwc,bdc->bhwd", images, matrix)
    mean = ops.mean(images, axis=(1, 2), keepdims=True)
    factor, shift = (ops.reshape(v, (-1, 1, 1, 1)) for v in (contrast, brightness))
    return ops.clip((images - mean) * factor + mean + shift, 0, 1)


def build_model(
    model: str,
    image_size: int,
    *,
    weights: str = "none",
    augmentation: str = "flip",
    dropout: float = 0.0,
    seed: int = 0,
    synchronised: bool = False,
) -> keras.Model:
    """Build a network: uint8 photographs in, the probability of referable disease out.

    Args:
        model: inception_v3 (Szegedy et al. 2016, the network of Voets et al. 2019), mobilenet (Howard et al. 2017)
            or small_cnn (four convolutions, no batch normalisation, the maximum of each feature).
        image_size: side of the square input [px].
        weights: none, imagenet (downloaded by Keras) or the path of a weights file without the top.
        augmentation: none, flip or colour, see `Augment`.
        dropout: share of the pooled features dropped in training.
        seed: of the augmentation and of dropout; initial weights follow `keras.utils.set_random_seed`.
        synchronised: batch normalisation pools its statistics over the replicas; for tf.distribute alone.

    Returns:
        A model with layers "augment" and "base" (a model of its own) and one sigmoid output, always float32.

    Raises:
        ModelError: an unknown name, a side too small, or weights that cannot be had or do not fit.
    """
    if model not in MODELS:
        raise ModelError(f"model {model!r}: choose from {', '.join(MODELS)}")
    inputs, x = build_features(model, image_size, weights, augmentation, seed, synchronised)
    x = layers.Dropout(dropout, seed=seed, name="dropout")(x)
    outputs = layers.Dense(1, activation="sigmoid", dtype="float32", name="referable")(x)
    return keras.Model(inputs, outputs, name=f"{model}_{image_size}")


def build_features(model: str, image_size: int, weights: str, augmentation: str, seed: int, synchronised: bool):
    """What comes before the head, see `build_model`: the input, and the pooled features of the base.

    Each base gets the preprocessing that its ImageNet weights were trained with.
    """
    if augmentation not in AUGMENTATIONS:
        raise ModelError(f"augmentation {augmentation!r}: choose from {', '.join(AUGMENTATIONS)}")
    base = build_base(model, image_size, weights, synchronised)
    inputs = keras.Input((image_size, image_size, 3), dtype="uint8")
    x = Augment(augmentation, seed, name="augment")(inputs)
    if model == "vgg19":  # BGR in [0, 255] less ImageNet's mean (Simonyan and Zisserman 2015)
        # scaled before it is turned: the int8 converter gives what it turns the scale of the photograph's own bytes
        x = ops.flip(layers.Rescaling(255.0, offset=[-123.68, -116.779, -103.939])(x), axis=-1)
    else:
        x = layers.Rescaling(2.0, offset=-1.0, name="to_minus_one_and_one")(x)
    pool = layers.GlobalMaxPooling2D if model == "small_cnn" else layers.GlobalAveragePooling2D
    return inputs, pool(name="pool")(base(x))


def save_model(network: keras.Model, path: Path) -> None:
    """Save a trained network in one step as a .keras file that loads on every backend.

    Its batch normalisation is no longer synchronised from then on, for only TensorFlow knows that kind.
    """
    _synchronise(network.get_layer("base"), False)
    with files.replace(path) as temporary:
        named = temporary.with_suffix(".keras")  # Keras saves to no other name
        keras.Model(network.inputs, network.outputs, name=network.name).save(named)  # without the optimiser's state
        named.replace(temporary)


def _synchronise(base: keras.Model, synchronised: bool) -> None:
    for layer in base.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.synchronized = synchronised


def build_base(model: str, image_size: int, weights: str, synchronised: bool = False) -> keras.Model:
    """Build inception_v3, mobilenet, vgg19 or small_cnn without its top, named "base"; see `build_model`."""
    if weights not in ("none", "imagenet") and not Path(weights).is_file():
        raise ModelError(f"weights {weights!r}: no such file; give none, imagenet or the path of a weights file")
    if model == "small_cnn":
        if weights == "imagenet":
            raise ModelError("small_cnn has no ImageNet weights: take weights='none', or mobilenet")
        base = _build_small_cnn(image_size)
        if weights != "none":
            base.load_weights(weights)
        return base
    build = getattr(
        keras.applications, {"inception_v3": "InceptionV3", "mobilenet": "MobileNet", "vgg19": "VGG19"}[model]
    )
    source = None if weights == "none" else weights
    try:
        with warnings.catch_warnings():
            # Keras only warns where a file lacks a layer's weights
            warnings.filterwarnings("error", "A total of .* could not be loaded|.*no matching group found")
            # sides of its weights are others: those of 224 px are taken, for every side
            warnings.filterwarnings("ignore", ".*Weights for input shape")
            base = build(include_top=False, weights=source, input_shape=(image_size, image_size, 3), name="base")
    except Exception as error:  # Keras raises whatever its download, its file reader or its shape check meets
        raise ModelError(f"cannot build {model} at {image_size} px with weights {weights!r}: {error}") from error
    _synchronise(base, synchronised)
    return base


def _build_small_cnn(image_size: int) -> keras.Model:
    """Four convolutions on photographs freed from their camera's colour cast and exposure."""
    if image_size < 32:
        raise ModelError(f"image_size {image_size}: small_cnn halves the side four times, ask for 32 px or more")
    inputs = keras.Input((image_size, image_size, 3))
    # each channel of each photograph has mean 0 and deviation 1: without it some seeds never learn the sample
    x = layers.GroupNormalization(groups=-1, center=False, scale=False, name="standardise")(inputs)
    for filters in (16, 32, 64, 96):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, x, name="base")
