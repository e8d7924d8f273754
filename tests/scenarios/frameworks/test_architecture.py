"""The networks as data: what the paper asks of them, counted by hand, and what they refuse."""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.architecture import (
    Layer,
    build_layers,
    draw_weights,
    to_channels_first,
)


def test_layers_are_the_documented_ones():
    """Rede 2 is Rede 1 with a third block of two convolutions and a pooling."""
    kinds = {n: " ".join(layer.kind for layer in build_layers(n, 32, 3)) for n in (1, 2)}
    assert kinds[1] == "conv conv pool conv conv pool flatten dense dense"
    assert kinds[2] == "conv conv pool conv conv pool conv conv pool flatten dense dense"
    assert build_layers(1, 32, 1)[6] == Layer("flatten", (8, 8, 64), (4096,))
    relu = [layer.relu for layer in build_layers(1, 32, 1) if layer.kernel_shape]
    assert relu == [True] * 5 + [False]


@pytest.mark.parametrize(
    ("network", "image_size", "parameters", "multiplications"),
    [
        # 3x3 kernels at 32 px: 3->32, 32->32 on 32x32; 32->64, 64->64 on 16x16; then 4096->128,
        # 128->10
        (1, 32, 591_274, 884_736 + 9_437_184 + 4_718_592 + 9_437_184 + 524_288 + 1_280),
        # four times as many places of each kernel; and 64->128, 128->128 on 16x16; then 8192->128,
        # 128->10
        (2, 64, 1_337_002, 4 * 38_633_472 + 1_048_576 + 1_280),
    ],
)
def test_counts_are_those_by_hand(network, image_size, parameters, multiplications):
    """Parameters and multiplications of colour images, computed on paper."""
    layers = build_layers(network, image_size, 3)
    assert sum(w.size for w in draw_weights(layers, 0)) == parameters
    counted = sum(
        np.prod(layer.output_shape[:-1]) * np.prod(layer.kernel_shape)
        for layer in layers
        if layer.kernel_shape
    )
    assert counted == multiplications


def test_weights_have_the_deviation_of_he():
    """Kernels spread by the square root of 2 / inputs, biases are 0, and a seed gives the same
    weights again.
    """
    layers = build_layers(1, 32, 3)
    weights = draw_weights(layers, 4)
    assert all(w.dtype == np.float32 for w in weights)
    assert not any(bias.any() for bias in weights[1::2])
    # 32 -> 32: sqrt(2 / 288); 4096 -> 128: sqrt(2 / 4096)
    assert weights[2].std() == pytest.approx(0.08333, rel=0.03)
    assert weights[8].std() == pytest.approx(0.02210, rel=0.01)
    assert all((a == b).all() for a, b in zip(weights, draw_weights(layers, 4), strict=True))
    assert (weights[0] != draw_weights(layers, 5)[0]).any()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((1, 30, 3), "multiple of 4"),
        ((2, 36, 3), "multiple of 8"),
        ((1, 0, 1), "of 4"),
    ],
)
def test_there_are_no_other_networks(arguments, told):
    """A network or size that there is not says what there is."""
    with pytest.raises(DrError, match=told):
        build_layers(*arguments)


def test_channels_first_computes_the_same():
    """A map flattened with its channels first times the converted kernel is what it was with its
    channels last.
    """
    layers = build_layers(2, 32, 3)
    weights = draw_weights(layers, 1)
    converted = to_channels_first(layers, weights)
    image = np.random.default_rng(0).random((4, 4, 128), np.float32)
    wanted = image.ravel() @ weights[12]
    assert converted[12] @ image.transpose(2, 0, 1).ravel() == pytest.approx(wanted, abs=1e-4)
    assert converted[0].shape == (32, 3, 3, 3)
    assert converted[0][5, 2, 0, 1] == weights[0][0, 1, 2, 5]
