"""The networks, from uint8 pixels to the probability of referable disease or of each grade, and
    the loss and metric for grades.

To add one, give it an entry in NETWORKS; `package.module:function` needs none.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
from keras import layers, ops
from scipy.stats import rankdata

from dr_lib import files
from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.errors import DrError
from dr_lib.training.lite0 import build_lite0
from dr_lib.training.parameters import check_small_cnn

FEW = 0.1684  # of mobilenet's parameters: up to conv_pw_7_relu
# RGB -> YIQ (FCC NTSC, as in Python's colorsys): saturation and hue become one scaled rotation of
# (I, Q)
RGB_TO_YIQ = np.array(
    [[0.30, 0.59, 0.11], [0.599, -0.2773, -0.3217], [0.213, -0.5251, 0.3121]], np.float32
)


CHANGED_AT: dict[str, float] = {}  # files of networks of one's own, when they were imported


class Network(NamedTuple):
    """All that is special about a network."""

    # side [px], and None or imagenet -> (side, side, 3) to features, without the top
    build: Callable[[int, str | None], keras.Model]
    # for pixels in [0, 1], RGB: the factor of each channel, what is added to it, and whether the
    # channels are then turned to BGR; by default the network takes [0, 255]
    preprocessing: tuple[float | list[float], float | list[float], bool] = (255.0, 0.0, False)
    pool: type[layers.Layer] = layers.GlobalAveragePooling2D
    few: str = ""  # layer at which recipe few ends, where not at its share of the parameters


@keras.saving.register_keras_serializable("dr_lib")
class Augment(layers.Layer):
    """Cast uint8 photographs to [0, 1] and, in training only, flip and recolour each at random.

    Works in [0, 1], on any backend, from keras.ops alone. The strengths of "colour" are those of
    Voets et al. 2019 (source E-code): brightness +-0.125, saturation and contrast 0.5-1.5, hue
    +-0.2 of a turn, and the left-right flip.
    """

    def __init__(self, augmentation: str = "colour", seed: int = 0, **kwargs):
        """Choose none, flip or colour, and the seed of the random draws."""
        super().__init__(**kwargs)
        self.augmentation = augmentation
        self.seed = seed
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
        return keras.random.uniform(
            (batch,), low, high, dtype=self.compute_dtype, seed=self.draws
        )

    def get_config(self):
        """Return what `from_config` needs."""
        return {**super().get_config(), "augmentation": self.augmentation, "seed": self.seed}


@keras.saving.register_keras_serializable("dr_lib")
class CubicMean(layers.Layer):
    """Pool maps by the cubic root of the mean cube: small lesions weigh more than in the mean."""

    def call(self, maps):
        """(batch, height, width, channels), 0 or more -> (batch, channels)."""
        return (ops.mean(maps * maps * maps, axis=(1, 2)) + 1e-6) ** (1 / 3)


def recolour(images, *, brightness, saturation, hue, contrast):
    """Change the colours of photographs in [0, 1] and clip the result to that range.

    Args:
        images: (batch, height, width, 3) float.
        brightness: (batch,) added to every value.
        saturation: (batch,) factor of the chroma; 0 leaves grey, 1 nothing changed.
        hue: (batch,) rotation of the chroma in the YIQ plane, in turns.
        contrast: (batch,) factor of the distance from each channel's mean; 1 leaves it.
    """
    to_yiq = ops.cast(RGB_TO_YIQ, images.dtype)
    to_rgb = ops.cast(np.linalg.inv(RGB_TO_YIQ), images.dtype)
    i = saturation * ops.cos(2 * np.pi * hue)
    q = saturation * ops.sin(2 * np.pi * hue)
    one = ops.ones_like(i)
    zero = ops.zeros_like(i)
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
    task: str = "referable",
    weights: str = "none",
    augmentation: str = "flip",
    recipe: str = "full",
    synchronized: bool = False,
    seed: int = 0,
) -> keras.Model:
    """Build a network from uint8 photographs to the probability of referable disease or of grades.

    Those of grades end as in Camargo, Künas and Navaux, in layers of 128, 128 and 5: at 224 px
    mobilenet has 3,377,221 parameters and vgg19 20,107,205, as in their paper. Unlike there, each
    base gets the preprocessing that its ImageNet weights were trained with.

    Args:
        model: see `find_network`.
        image_size: side of the square input [px].
        task: referable, one sigmoid output, or grades, five of softmax; always float32.
        weights: none, imagenet (downloaded by Keras) or the path of a weights file without the top.
        augmentation: none, flip or colour, see `Augment`.
        recipe: full, or few, whose base ends at the layer that has the share FEW of its parameters
            below it: lesions are small, and so is what the middle blocks see. Its grades come from
            the pooled features alone, without layers of 128.
        seed: of the augmentation; initial weights follow `keras.utils.set_random_seed`.

    Returns:
        A model with layers "augment" and "base" (a model of its own).

    Raises:
        DrError: an unknown name, a side too small, or weights that cannot be had or do not fit.

    Example:
        >>> network = build_model("small_cnn", 96)
        >>> network.output_shape
        (None, 1)
    """
    if augmentation not in ("none", "flip", "colour"):
        raise DrError(f"augmentation {augmentation!r}: choose none, flip or colour")
    network = find_network(model)
    base = build_base(model, image_size, weights)
    for layer in find_normalisations(base):
        layer.synchronized = synchronized
    if recipe == "few":
        last = base.get_layer(network.few or find_last_layer(base, FEW))
        base = keras.Model(base.input, last.output, name="base")

    inputs = keras.Input((image_size, image_size, 3), dtype="uint8")
    x = Augment(augmentation, seed, name="augment")(inputs)
    scale, offset, is_bgr = network.preprocessing
    x = layers.Rescaling(scale, offset, name="rescale")(x)
    # scaled before it is turned: the int8 converter gives what it turns the scale of the
    # photograph's bytes
    if is_bgr:
        x = ops.flip(x, axis=-1)
    x = base(x)
    if len(x.shape) == 4:
        x = network.pool(name="pool")(x)
    elif len(x.shape) == 3:  # a transformer's tokens
        x = layers.GlobalAveragePooling1D(name="pool")(x)
    name = model.rpartition(":")[2]
    if task == "grades":
        for width in () if recipe == "few" else (128, 128):
            x = layers.Dense(width, activation="relu")(x)
        head = layers.Dense(len(GRADES), activation="softmax", dtype="float32", name="grades")
        return keras.Model(inputs, head(x), name=f"{name}_{image_size}_grades")
    head = layers.Dense(1, activation="sigmoid", dtype="float32", name="referable")
    return keras.Model(inputs, head(x), name=f"{name}_{image_size}")


class Ranks(keras.metrics.Metric):
    """The probabilities of an epoch, whose ranks give the exact AUC of referable disease.

    What Keras sees as its value is only their number: to rank them at each step would take long.
    """

    def __init__(self, capacity: int, name: str = "auc"):
        """Make room for so many probabilities of a side, with the copies that fill its last
        batch.
        """
        super().__init__(name=name)
        # probability, and 1 or, for referable, 2; 0 where there is none
        self.pairs = self.add_variable((capacity, 2), "zeros", name="pairs")
        self.number = self.add_variable((), "zeros", dtype="int32", name="number")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Take (batch,) 0 or 1 and (batch, 1) probabilities, or grades and (batch, 5)."""
        truth = ops.reshape(y_true, (-1,))
        if y_pred.shape[-1] > 1:
            truth = truth >= REFERABLE_FROM
            y_pred = ops.sum(y_pred[:, REFERABLE_FROM:], axis=-1)
        kind = 1 + ops.cast(truth, "float32")
        if sample_weight is not None:
            kind *= ops.cast(ops.reshape(sample_weight, (-1,)) > 0, "float32")
        pairs = ops.stack([ops.reshape(y_pred, (-1,)), kind], axis=-1)
        rows = self.number + ops.arange(ops.shape(pairs)[0], dtype="int32")
        known = ops.convert_to_tensor(self.pairs)  # JAX takes no variable
        self.pairs.assign(ops.scatter_update(known, rows[:, None], pairs))
        self.number.assign_add(ops.shape(pairs)[0])

    def result(self):
        """Return the number of probabilities."""
        return ops.convert_to_tensor(self.number)

    def score(self) -> float:
        """Compute the AUC so far, on the host; NaN with one class or a probability that is none."""
        parts = [self.pairs.value]
        if keras.backend.backend() == "tensorflow":  # each replica has those of its part
            import tensorflow as tf

            parts = tf.distribute.get_strategy().experimental_local_results(*parts)
        pairs = np.concatenate([ops.convert_to_numpy(part) for part in parts])
        probability, kind = pairs[pairs[:, 1] > 0].T
        referable = kind == 2
        num_pairs = referable.sum() * (~referable).sum()
        if not num_pairs or not np.isfinite(probability).all():
            return float("nan")
        # of a referable eye among all, minus its rank among those: the others that it beats
        beaten = rankdata(probability)[referable] - rankdata(probability[referable])
        return float(beaten.sum() / num_pairs)


def find_network(model: str) -> Network:
    """Find a network.

    Args:
        model: a name of NETWORKS or keras.applications, in any case, without or with underscores,
            such as inception_v3 (Szegedy et al. 2016, the network of Voets et al. 2019); or
            package.module:function, a `Network.build` of one's own for pixels in [0, 255].

    Raises:
        DrError: there is no such network; the names, or why it cannot be imported.
    """
    if ":" in model:
        return _import_network(model)
    key = model.lower().replace("_", "")
    own = {name.replace("_", ""): network for name, network in NETWORKS.items()}
    if key in own:
        return own[key]
    names = [name for name, build in vars(keras.applications).items() if callable(build)]
    for name in names:
        if key == name.lower():
            return _find_application(name)
    raise DrError(
        f"model {model!r}: choose {', '.join(NETWORKS)}, package.module:function or a network of "
        f"keras.applications: {', '.join(names)}"
    )


def build_base(model: str, image_size: int, weights: str) -> keras.Model:
    """Build a network without its top, named "base"; see `build_model`."""
    is_file = weights not in ("none", "imagenet")
    if is_file and not Path(weights).is_file():
        advice = "give none, imagenet or the path of a weights file"
        raise DrError(f"weights {weights!r}: no such file; {advice}")
    build = find_network(model).build
    try:
        with warnings.catch_warnings():
            # Keras only warns where a file lacks a layer's weights
            warnings.filterwarnings(
                "error", "A total of .* could not be loaded|.*no matching group found"
            )
            # sides of its weights are others: those of 224 px are taken, for every side
            warnings.filterwarnings("ignore", ".*Weights for input shape")
            base = build(image_size, "imagenet" if weights == "imagenet" else None)
            if is_file:
                base.load_weights(weights)
    except DrError:
        raise
    except Exception as error:  # whatever Keras's download, file reader or shape check meets
        hint = ""
        if weights == "imagenet":
            hint = (
                "; without a network give weights the path of a file, or none; delete a file in"
                " ~/.keras/models whose download was cut off"
            )
        raise DrError(
            f"cannot build {model} at {image_size} px with weights {weights!r}: {error}{hint}"
        ) from error
    # some look their blocks up by their own name
    return keras.Model(base.input, base.output, name="base")


def find_last_layer(base: keras.Model, share: float) -> str:
    """Find the layer that ends the blocks with a share of a base's parameters.

    All data pass it, and an activation that follows comes before it; padding is of the next block.
    """
    below = np.cumsum([layer.count_params() for layer in base.layers])
    least = share * below[-1]
    last = ""
    for number, layer in zip(below, base.layers, strict=True):
        if last and number > least:
            break
        is_end = number >= least and not isinstance(layer, layers.ZeroPadding2D)
        if is_end and _find_rest(base, layer):
            least = number
            last = layer.name
    return last


def _find_rest(base: keras.Model, layer: layers.Layer) -> layers.Layer | None:
    """Find what a base computes from a layer's output; None where other data enter it."""
    if layer.output is base.output:
        return layers.Identity()
    try:
        return keras.Model(layer.output, base.output)
    except ValueError:
        return None


def find_normalisations(base: keras.Model) -> Iterator[layers.BatchNormalization]:
    """Find the batch normalisations of a base, those inside its layers too."""
    for layer in base._flatten_layers(include_self=False):
        if isinstance(layer, layers.BatchNormalization):
            yield layer


def split_network(
    network: keras.Model, last: str, dtype: str = "float32"
) -> tuple[keras.Model, keras.KerasTensor, keras.Model]:
    """Split a network of `build_model` after a layer of its base.

    Returns:
        A model from photographs to that layer's outputs; an input that takes these, of `dtype`; and
        a model from it to what enters the head. They share the network's layers.

    Raises:
        DrError: part of the network bypasses the layer.
    """
    base = network.get_layer("base")
    layer = base.get_layer(last)
    cut = layer.output
    # the photographs as the base takes them
    inputs = network.operations[network.operations.index(base) - 1].output
    lower = keras.Model(network.input, keras.Model(base.input, cut)(inputs), name="lower")
    outputs = keras.Input(cut.shape[1:], dtype=dtype, name="cached")
    rest = _find_rest(base, layer)
    if rest is None:
        raise DrError(f"layer {last!r}: part of the network bypasses it")
    x = rest(outputs)
    for layer in network.layers[network.layers.index(base) + 1 : -1]:
        x = layer(x)
    return lower, outputs, keras.Model(outputs, x, name="above")


def save_model(network: keras.Model, path: Path) -> None:
    """Save a trained network in one step as a .keras file that loads on every backend."""
    with files.replace(path) as temporary:
        named = temporary.with_suffix(".keras")  # Keras saves to no other name
        for layer in find_normalisations(network.get_layer("base")):
            layer.synchronized = False  # which other backends do not load
        # without the optimiser's state
        keras.Model(network.inputs, network.outputs, name=network.name).save(named)
        named.replace(temporary)


def _build_small_cnn(image_size: int, weights: str | None) -> keras.Model:
    """Build four convolutions on photographs corrected for the camera's colour cast and exposure.

    The strongest responses of all four scales come out: with the last scale alone, small lesions
    are found much later.
    """
    check_small_cnn(image_size, weights)
    inputs = keras.Input((image_size, image_size, 3))
    # each channel of each photograph has mean 0 and deviation 1: without it some seeds never learn
    # the sample
    x = layers.GroupNormalization(groups=-1, center=False, scale=False, name="standardise")(
        inputs
    )
    scales = []
    for side, filters in zip((8, 4, 2, 1), (16, 32, 64, 96), strict=True):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        scales.append(layers.MaxPooling2D(side)(x))
        x = layers.MaxPooling2D()(x)
    return keras.Model(inputs, layers.Concatenate()(scales))


def _find_application(name: str) -> Network:
    """Find a network of keras.applications, with the preprocessing of its ImageNet weights.

    Its `preprocess_input` is linear in each channel, so black and red tell all of it. Networks that
    scale within themselves are given [0, 255].
    """
    build = getattr(keras.applications, name)
    preprocess = sys.modules[build.__module__].preprocess_input
    colours = 255.0 * np.vstack([np.zeros(3), np.eye(3)])
    black, *primaries = preprocess(colours[:, None, None]).reshape(4, 3)
    steps = np.array(primaries) - black
    is_bgr = bool(steps[0, 0] == 0)
    offset = black[::-1] if is_bgr else black
    return Network(
        build=lambda image_size, weights: build(
            include_top=False, weights=weights, input_shape=(image_size, image_size, 3)
        ),
        preprocessing=(steps.sum(axis=1).tolist(), offset.tolist(), is_bgr),
    )


def _import_network(model: str) -> Network:
    """Import a network of one's own, `package.module:function`."""
    module, _, function = model.partition(":")
    try:
        imported = import_module(module)
        own = getattr(imported, function)
    except (ImportError, AttributeError) as error:
        raise DrError(f"model {model!r} cannot be imported: {error}") from error
    changed_at = Path(imported.__file__).stat().st_mtime
    if CHANGED_AT.setdefault(module, changed_at) != changed_at:
        raise DrError(f"{module} changed since this kernel imported it: restart the kernel")

    def build(image_size: int, weights: str | None) -> keras.Model:
        base = own(image_size, weights)
        # so that a layer is the last, where an operation or a model is
        return keras.Model(base.input, layers.Identity(name="features")(base.output))

    return Network(build)


NETWORKS = {
    "small_cnn": Network(
        _build_small_cnn,
        preprocessing=(2.0, -1.0, False),
        pool=layers.GlobalMaxPooling2D,
    ),
    "mobilenet": _find_application("MobileNet"),  # Howard et al. 2017
    "vgg19": _find_application("VGG19"),  # Simonyan and Zisserman 2015
    "efficientnet_lite0": Network(
        build_lite0,
        preprocessing=(255 / 128, -127 / 128, False),
        pool=CubicMean,
        few="block5b_expand_activation",
    ),
}
