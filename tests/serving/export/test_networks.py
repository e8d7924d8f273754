"""Any network is exported and answers as before: other families, and one of a user's own."""

import hashlib
from pathlib import Path

import keras
import numpy as np
import pytest

from dr_lib import hardware
from dr_lib.serving.export.export import export_model
from dr_lib.serving.export.gate import Labelled
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.config import TrainingConfig
from dr_lib.training.model_folder import read_folder
from dr_lib.training.train_once import train_once
from tests.training.simulation import draw_splits

OWN = f"{__name__}:build_transformer"


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
def test_a_network_of_ones_own_is_trained_exported_and_served(tmp_path):
    """The row has its code's hash; the served model gives the trained network's answers."""
    config = TrainingConfig(data_dir="", task="grades", model=OWN, image_size=64, epochs=1)
    plan = config.plan(hardware.probe(), 35)
    splits = draw_splits(33, 64)
    trained = train_once(config, plan, tmp_path, splits=splits)
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    assert config.describe()["model_code_sha256"] == code
    known = ("data_kind", "data_sha256", "labels_sha256", "split_sha256")
    trained.row.update(dict.fromkeys(known, ""), crop_size=64, crop_method="robust")
    trained.row.update(keras=keras.__version__, numpy=np.__version__)
    folder = trained.write_model()
    test = splits["test"]
    export_model(
        folder.path,
        tmp_path / "exported",
        formats=["litert_float32"],
        calibration=splits["train"].images,
        labelled=Labelled(test.images, test.grade, test.patient_id),
        force=True,
        say=str,
    )
    served = Predictor(read_folder(tmp_path / "exported" / "litert_float32"), 1)
    answers = served.predict(test.images[:4])
    assert answers == pytest.approx(trained.probabilities["test"][:4], abs=1e-4)
