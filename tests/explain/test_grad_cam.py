"""Grad-CAM against a map by hand, and its control."""

import keras
import numpy as np
import pytest
from keras import layers

from dr_lib.errors import DrError
from dr_lib.explain.grad_cam import grad_cam, randomise


def stack(side: int, convolution: layers.Layer, *head: layers.Layer) -> keras.Model:
    """A network as `build_model` has it: a rescaling, a base with one layer, a head."""
    base_input = keras.Input((side, side, 3))
    base = keras.Model(base_input, convolution(base_input), name="base")
    inputs = keras.Input((side, side, 3))
    x = base(layers.Rescaling(1.0)(inputs))
    for layer in head:
        x = layer(x)
    return keras.Model(inputs, x)


@pytest.mark.parametrize(
    ("activation", "outputs"), [("linear", 1), ("sigmoid", 1), ("softmax", 5)]
)
def test_the_map_of_a_linear_network_is_known(activation, outputs):
    """One convolution of 1x1, mean pooling: the map is the sum of output weight x feature map,
    above 0.

    The score is near 127, of which sigmoid and softmax are 1.0 in float32.
    """
    head = layers.Dense(outputs, activation, use_bias=False)
    convolution = layers.Conv2D(2, 1, use_bias=False)
    network = stack(4, convolution, layers.GlobalAveragePooling2D(), head)
    # red, green; of five for grade 2
    speaks = np.array([[2.0], [-1.0]]) * (np.arange(outputs) == outputs // 2)
    network.set_weights([np.array([[[[1, 0], [0, 1], [0, 0]]]]), speaks])
    image = np.random.default_rng(0).integers(0, 256, (1, 4, 4, 3)).astype(np.float32)
    expected = np.maximum(2 * image[..., 0] - image[..., 1], 0)
    assert grad_cam(network, image) == pytest.approx(expected / expected.max(), abs=1e-6)
    assert not grad_cam(network, image * [0, 1, 1]).any()  # nothing speaks for it
    with pytest.raises(DrError, match="needs a network with a convolution"):
        grad_cam(stack(4, layers.ReLU(), layers.Flatten(), layers.Dense(1)), image)


def test_a_network_that_learned_a_green_square_looks_there_and_the_control_does_not():
    """Every picture has a red square, half of them a green one, on 36 of 576 pixels: most of the
    trained map's 36 strongest lie in it, and not of the control's, which has no weight of it.
    """
    rng = np.random.default_rng(0)
    positive = np.arange(64) % 2
    images = rng.integers(0, 60, (64, 24, 24, 3)).astype(np.uint8)
    there = np.zeros((64, 24, 24))
    for k in range(64):
        y, x = rng.integers(1, 17, 2)
        images[k, y : y + 6, 2:8, 0] = 200
        images[k, x : x + 6, 14:20, 1] = 200 * positive[k]
        there[k, x : x + 6, 14:20] = positive[k]
    keras.utils.set_random_seed(0)
    convolution = layers.Conv2D(8, 3, padding="same", activation="relu")
    network = stack(24, convolution, layers.GlobalMaxPooling2D(), layers.Dense(1, "sigmoid"))
    network.compile(keras.optimizers.Adam(0.03), "binary_crossentropy")
    network.fit(images / 255, positive, batch_size=16, epochs=30, verbose=0)
    before = network.get_weights()
    control = randomise(network, 0)
    pairs = zip(before, control.get_weights(), network.get_weights(), strict=True)
    assert all((old == now).all() and (old != new).any() for old, new, now in pairs)
    for shown, least, most in ((network, 0.5, 1), (control, 0, 0.25)):
        maps = grad_cam(shown, images / 255).reshape(64, -1)
        strongest = np.argsort(-maps, axis=1)[:, :36]
        shares = np.take_along_axis(there.reshape(64, -1), strongest, axis=1).mean(axis=1)
        assert least <= shares[positive == 1].mean() <= most
        assert 0 <= maps.min() and maps.max() == 1
