"""The networks as weights: what the paper asks of them, counted by hand, and what they refuse."""

import numpy as np
import pytest

from dr_lib.errors import DrError
from dr_lib.scenarios.frameworks.architecture import (
    draw_weights,
    list_layers,
)

BLOCK = "conv relu conv relu pool"


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
def test_networks_are_the_documented_ones(network, image_size, parameters, multiplications):
    """Rede 2 is Rede 1 with a third block; parameters and multiplications of colour images,
    computed on paper.
    """
    weights = draw_weights(network, image_size, 3, 0)
    layers = list_layers(weights)
    kinds = [*[BLOCK] * (network + 1), "flatten dense relu dense"]
    assert " ".join(kind for kind, *_ in layers) == " ".join(kinds)
    assert sum(w.size for w in weights) == parameters
    counted = 0
    kernels = iter(weights[::2])
    places = image_size**2
    for kind, *sizes in layers:
        if sizes:
            counted += next(kernels).size * (places if kind == "conv" else 1)
        elif kind == "pool":
            places //= 4
    assert counted == multiplications


def test_weights_have_the_deviation_of_he():
    """Kernels spread by the square root of 2 / inputs, biases are 0, and a seed gives the same
    weights again.
    """
    weights = draw_weights(1, 32, 3, 4)
    assert all(w.dtype == np.float32 for w in weights)
    assert not any(bias.any() for bias in weights[1::2])
    # 32 -> 32: sqrt(2 / 288); 4096 -> 128: sqrt(2 / 4096)
    assert weights[2].std() == pytest.approx(0.08333, rel=0.03)
    assert weights[8].std() == pytest.approx(0.02210, rel=0.01)
    assert all((a == b).all() for a, b in zip(weights, draw_weights(1, 32, 3, 4), strict=True))
    assert (weights[0] != draw_weights(1, 32, 3, 5)[0]).any()


@pytest.mark.parametrize(
    ("network", "side", "step"),
    [
        (1, 30, 4),
        (1, 0, 4),
    ],
)
def test_a_side_that_cannot_be_halved_is_refused(network, side, step):
    """The message says what there is."""
    with pytest.raises(DrError, match=f"a multiple of {step} px"):
        draw_weights(network, side, 3, 0)
