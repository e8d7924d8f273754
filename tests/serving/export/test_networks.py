"""A network of a user's own is exported and answers as before."""

import keras
import numpy as np
import pytest

from dr_lib.serving.export.export import export_model
from dr_lib.serving.export.gate import Labelled
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder
from dr_lib.training.models import build_model
from tests.serving.stand_in import draw_crops, write_model_folder
from tests.training.test_model_folder import FACTS


@keras.saving.register_keras_serializable("tests")
class Positions(keras.layers.Layer):
    """Adds what is learned of each patch's place."""

    def build(self, shape):
        self.places = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, tokens):
        return tokens + self.places


def build_transformer(image_size, weights):
    """A small vision transformer (Dosovitskiy et al. 2021), as a user would write it."""
    inputs = keras.Input((image_size, image_size, 3))
    x = keras.layers.Rescaling(1 / 127.5, -1)(inputs)
    x = keras.layers.Conv2D(32, 16, strides=16)(x)
    x = Positions()(keras.layers.Reshape((-1, 32))(x))
    x = x + keras.layers.MultiHeadAttention(2, 16)(x, x)
    x = keras.layers.LayerNormalization()(x)
    x = x + keras.layers.Dense(32, activation="gelu")(x)
    return keras.Model(inputs, x)


@pytest.mark.slow
def test_a_network_of_ones_own_is_exported_and_served(tmp_path):
    """The served model gives the network's answers."""
    model = f"{__name__}:build_transformer"
    network = build_model(model, 64, task="grades")
    folder = write_model_folder(tmp_path / "model", network, model=model, image_size=64)
    crops = draw_crops(40, side=64)
    patients = np.arange(40)
    export_model(
        folder,
        tmp_path,
        formats=["litert_float32"],
        calibration=None,
        labelled=Labelled(crops, patients % 5, patients, FACTS["split_sha256"]),
        force=True,
    )
    served = Predictor(read_folder(tmp_path / "litert_float32"), 1)
    assert served.predict(crops) == pytest.approx(network.predict(crops, verbose=0), abs=1e-4)
