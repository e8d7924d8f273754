"""Where a network looks: Grad-CAM, its control with random weights, and both held against masks
of lesions.
"""

import keras
import numpy as np
from keras import layers, ops
from numpy.typing import ArrayLike

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.statistics.bootstrap import bootstrap_patients
from dr_lib.statistics.intervals import Interval
from dr_lib.training.frameworks.keras_network import differentiate
from dr_lib.training.models import ModelError, list_layers

CONVOLUTIONS = (layers.Conv2D, layers.DepthwiseConv2D, layers.SeparableConv2D)
BATCH_SIZE = 16  # photographs mapped at a time
CONTROL = 0xC0  # sets the random weights of controls apart from those that training begins with
TOP = 0.05  # share of the field of view that the top of a map takes


def explain(
    network: keras.Model, images: np.ndarray, *, seed: int = 0, draws: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """Map what speaks for referable disease, and map it again with random weights: the control.

    A map that looks the same when nothing was learned explains the photograph, not the network
    (Adebayo et al. 2018). What random weights look at differs from draw to draw, so there are
    several controls.

    Args:
        network: from (n, side, side, 3) uint8 to the probability of referable disease, (n, 1), or
            of grades, (n, 5).
        images: (n, side, side, 3) uint8.

    Returns:
        The maps of the network, (n, side, side), and those of the controls, (draws, n, side, side),
        float32 in [0, 1]; see `grad_cam`.

    Raises:
        ModelError: the network has no convolution, or Keras runs on PyTorch.
    """
    return grad_cam(network, images), np.stack(
        [grad_cam(randomise(network, seed + k), images) for k in range(draws)]
    )


def grad_cam(network: keras.Model, images: np.ndarray) -> np.ndarray:
    """Weigh the last feature maps by the mean gradient of the log-odds, and keep what is positive
    (Selvaraju 2017).

    The score is taken before sigmoid or softmax, as in the paper: a probability of 1.0 in float32
    has no gradient. The last feature maps are the last output with the sides of the last
    convolution's. Each map is enlarged to the photograph and divided by its maximum; one without
    anything positive is 0 everywhere. Takes and raises what `explain` does, which gives the control
    besides: no map is to be shown without.
    """
    if keras.config.backend() == "torch":
        raise ModelError(
            "Grad-CAM is written for Keras on TensorFlow and on JAX; here Keras runs on torch"
        )
    layer = _find_last_maps(network)
    parts = [
        _map_batch(network, layer, images[k : k + BATCH_SIZE])
        for k in range(0, len(images), BATCH_SIZE)
    ]
    return np.concatenate(parts)


def randomise(network: keras.Model, seed: int) -> keras.Model:
    """The same network with fresh random weights, other than those that a network built under
    this seed began with.
    """
    keras.utils.set_random_seed(int(np.random.SeedSequence([seed, CONTROL]).generate_state(1)[0]))
    # without its loss, which may be ours
    return keras.models.clone_model(keras.Model(network.input, network.output))


def measure_overlap(
    maps: np.ndarray, lesions: np.ndarray, images: np.ndarray, patient_id: ArrayLike
) -> Interval:
    """How many times as much of a map's top lies in lesions as of the field of view: 1 is chance.

    The mean share of the top 5 % in lesions over the mean share of the field of view that lesions
    cover, with a bootstrap over patients; `n` is patients. Photographs without lesions do not
    count, nor do black pixels, where the camera cut the field of view. Of a map with fewer positive
    pixels the top is these alone; a map without any has no share in lesions.

    Args:
        maps: (n, side, side) in [0, 1].
        lesions: (n, side, side) in [0, 1], the share of each pixel that lesions cover.
        images: (n, side, side, 3) uint8, the photographs that were mapped.
        patient_id: (n,) whose photograph it is.
    """
    offsets = (np.arange(maps.shape[1]) - (maps.shape[1] - 1) / 2) ** 2
    disc = offsets[:, None] + offsets <= (maps.shape[1] / 2) ** 2
    inside = []
    covered = []
    patients = []
    for look, mask, field, patient in zip(
        maps, lesions, disc & images.any(axis=-1), patient_id, strict=True
    ):
        look = look[field]
        mask = mask[field]
        if mask.any():
            top = np.argsort(-look, kind="stable")[: round(TOP * len(look))]
            inside.append(mask[top][look[top] > 0].sum() / max((look[top] > 0).sum(), 1))
            covered.append(mask.mean())
            patients.append(patient)
    if not patients:
        return Interval(np.nan, np.nan, np.nan, 0)

    def ratio(weights: np.ndarray) -> np.ndarray:
        return (weights @ inside) / (weights @ covered)

    return bootstrap_patients(ratio, patients)


def _map_batch(network: keras.Model, layer: layers.Layer, images: np.ndarray) -> np.ndarray:
    head = network.layers[-1]
    call = layer.call
    seen = {}
    activation = head.activation

    def score(shift):
        def shifted(*args, **kwargs):
            seen["maps"] = call(*args, **kwargs)
            return (
                seen["maps"]
                if shift is None
                else seen["maps"] + ops.cast(shift, seen["maps"].dtype)
            )

        layer.call = shifted
        head.activation = keras.activations.linear
        try:
            found = network(images, training=False)
        finally:
            del layer.call
            head.activation = activation
        if found.shape[-1] == 1:
            return ops.sum(found)
        below, above = (
            ops.logsumexp(part, axis=-1)
            for part in (found[:, :REFERABLE_FROM], found[:, REFERABLE_FROM:])
        )
        return ops.sum(above - below)

    score(None)
    maps = ops.convert_to_numpy(ops.cast(seen["maps"], "float32"))
    gradient = ops.convert_to_numpy(differentiate(score, ops.zeros(maps.shape)))
    weights = gradient.mean(axis=(1, 2), keepdims=True)
    cam = np.maximum((weights * maps).sum(axis=-1, keepdims=True), 0)
    large = ops.convert_to_numpy(
        ops.image.resize(cam, images.shape[1:3], data_format="channels_last")
    )[..., 0]
    return large / np.maximum(large.max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny)


def _find_last_maps(network: keras.Model) -> layers.Layer:
    """The last layer whose output has the sides of the last convolution's."""
    outputs = [layer for layer in list_layers(network) if not isinstance(layer, layers.InputLayer)]
    convolutions = [layer for layer in outputs if isinstance(layer, CONVOLUTIONS)]
    if not convolutions:
        raise ModelError("Grad-CAM needs a network with a convolution")
    sides = convolutions[-1].output.shape[1:3]
    after = outputs[outputs.index(convolutions[-1]) :]
    return [
        layer
        for layer in after
        if len(layer.output.shape) == 4 and layer.output.shape[1:3] == sides
    ][-1]
