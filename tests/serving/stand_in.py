"""A stand-in for a trained network: random weights whose predictions differ, and mottled crops
to predict.
"""

from pathlib import Path

import cv2
import keras
import numpy as np

from dr_lib.training.model_folder import write_folder
from dr_lib.training.models import build_model
from tests.training.test_model_folder import FACTS

ROOT = Path(__file__).resolve().parents[2]


def draw_crops(number: int, seed: int = 0, side: int = 32) -> np.ndarray:
    """Mottles of one to eight pixels' width, (number, side, side, 3) uint8."""
    rng = np.random.default_rng(seed)
    crops = []
    for width in rng.choice([1, 2, 4, 8], number):
        mottle = rng.integers(0, 256, (side // width, side // width, 3), np.uint8)
        crops.append(cv2.resize(mottle, (side, side), interpolation=cv2.INTER_NEAREST))
    return np.stack(crops)


def build_network(seed: int = 0) -> keras.Model:
    """A small_cnn of 32 px that calls crops by all five grades; drawn weights alone would give
    one to all.
    """
    keras.utils.set_random_seed(seed)
    network = build_model("small_cnn", 32, task="grades")
    top = network.get_layer("grades")
    kernel, _ = top.get_weights()
    below = keras.Model(network.inputs, top.input)
    logits = below.predict(draw_crops(200, seed=1), verbose=0) @ kernel
    top.set_weights([2 * kernel / logits.std(0), -2 * logits.mean(0) / logits.std(0)])
    return network


def write_model_folder(folder: Path, network: keras.Model, **facts: object) -> Path:
    """Write the network as notebook 10 would."""
    folder.mkdir(parents=True)
    network.save(folder / "model.keras")
    known = {
        "format": "keras",
        "model": "small_cnn",
        "num_parameters": network.count_params(),
        "image_size": 32,
    }
    write_folder(folder, "model.keras", FACTS | known | {"data_kind": "synthetic"} | facts)
    return folder
