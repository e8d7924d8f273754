"""Where a network looks: Grad-CAM, and a control with random weights."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from dr_lib.data.labels.grades import REFERABLE_FROM
from dr_lib.errors import DrError
from dr_lib.training.keras_backend import differentiate
from dr_lib.training.model_folder import ModelFolderError, read_folder
from dr_lib.training.models import split_network

BATCH_SIZE = 16  # photographs mapped at a time


def load_network(folder: Path) -> tuple[keras.Model, dict[str, Any]]:
    """Load the network of a model folder of notebook 10, and what is known of it.

    Raises:
        ModelFolderError: no model is there, or one that was exported.
    """
    model = read_folder(folder)
    kind = model.facts["format"]
    if kind != "keras":
        raise ModelFolderError(
            f"{folder} holds a model in the format {kind}, which has no gradients: give the "
            "folder model of a run of notebook 10"
        )
    loaded = keras.saving.load_model(model.artifact, compile=False)
    # Keras loads it with a list of one input, and warns where it is given the input itself
    return keras.Model(loaded.inputs[0], loaded.outputs[0]), model.facts


def grad_cam(network: keras.Model, images: np.ndarray) -> np.ndarray:
    """Map the regions that speak for referable disease (Selvaraju et al. 2017).

    The last feature maps, those with the sides of the base's last convolution, are weighted by the
    mean gradient of the log-odds, and what is positive is kept. The log-odds are taken before
    sigmoid or softmax, as in the paper: a probability of 1.0 in float32 has no gradient. A map that
    looks the same when nothing was learned explains the photograph, not the network (Adebayo et al.
    2018): show none without that of `randomise`.

    Args:
        network: of `build_model`.
        images: (n, side, side, 3) uint8.

    Returns:
        (n, side, side) float32, divided by the maximum of each map; without anything positive, 0.

    Raises:
        DrError: the network has no convolution, or Keras runs on PyTorch.
    """
    if keras.config.backend() == "torch":
        raise DrError("Grad-CAM needs Keras on TensorFlow or JAX; here Keras runs on torch")
    lower, maps, upper = split_network(network, _find_last_maps(network.get_layer("base")))
    # the head without its sigmoid or softmax
    head = network.layers[-1]
    logits = layers.Dense.from_config({**head.get_config(), "activation": "linear"})
    head_of_logits = keras.Model(maps, logits(upper.output))
    logits.set_weights(head.get_weights())

    def score(values):
        outputs = head_of_logits(values, training=False)
        if outputs.shape[-1] == 1:
            return ops.sum(outputs)
        healthy = ops.logsumexp(outputs[:, :REFERABLE_FROM], axis=-1)
        referable = ops.logsumexp(outputs[:, REFERABLE_FROM:], axis=-1)
        return ops.sum(referable - healthy)

    parts = []
    for start in range(0, len(images), BATCH_SIZE):
        batch = images[start : start + BATCH_SIZE]
        values = ops.cast(lower(batch, training=False), "float32")
        weights = ops.mean(differentiate(score, values), axis=(1, 2), keepdims=True)
        cam = ops.relu(ops.sum(weights * values, axis=-1, keepdims=True))
        large = ops.image.resize(cam, batch.shape[1:3], data_format="channels_last")
        parts.append(ops.convert_to_numpy(large)[..., 0])
    cams = np.concatenate(parts)
    return cams / np.maximum(cams.max(axis=(1, 2), keepdims=True), np.finfo(np.float32).tiny)


def randomise(network: keras.Model, seed: int) -> keras.Model:
    """Copy a network with new random weights, different from those that training began with."""
    keras.utils.set_random_seed(int(np.random.SeedSequence([seed, 0xC0]).generate_state(1)[0]))
    # without its loss, which may be ours
    return keras.models.clone_model(keras.Model(network.input, network.output))


def _find_last_maps(base: keras.Model) -> str:
    """Find the last layer of the base whose output is as large as the last convolution's."""
    kinds = (layers.Conv2D, layers.DepthwiseConv2D, layers.SeparableConv2D)
    convolutions = [layer for layer in base.layers if isinstance(layer, kinds)]
    if not convolutions:
        raise DrError("Grad-CAM needs a network with a convolution")
    sides = convolutions[-1].output.shape[1:3]
    shapes = {layer.name: layer.output.shape for layer in base.layers}
    return [name for name, shape in shapes.items() if len(shape) == 4 and shape[1:3] == sides][
        -1
    ]
