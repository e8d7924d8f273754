"""The networks that grade a photograph from 0 to 4, from uint8 pixels to five probabilities."""

from collections.abc import Callable

import keras
import numpy as np
from keras import layers, ops
from sklearn.utils.class_weight import compute_class_weight

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.training.models import ModelError, build_features

MODELS = ("mobilenet", "vgg19", "small_cnn")


class ReferableAUC(keras.metrics.AUC):
    """AUC of referable disease: whether the grade is 2 or worse, against the sum of those
    grades' probabilities.
    """

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Take (batch,) grades and (batch, 5) probabilities."""
        referable = ops.cast(ops.reshape(y_true, (-1, 1)) >= REFERABLE_FROM, "float32")
        probability = ops.clip(ops.sum(y_pred[:, REFERABLE_FROM:], axis=-1, keepdims=True), 0, 1)
        return super().update_state(referable, probability, sample_weight)


def build_grader(
    model: str,
    image_size: int,
    *,
    weights: str = "none",
    augmentation: str = "flip",
    seed: int = 0,
    synchronised: bool = False,
) -> keras.Model:
    """Build a network of Camargo, Künas and Navaux: base, pooling, Dense 128, Dense 128, Dense 5.

    At 224 px mobilenet has 3,377,221 parameters and vgg19 20,107,205, as in their paper. Unlike
    there, each base gets the preprocessing that its ImageNet weights were trained with.

    Takes and raises what `build_model` does, for mobilenet, vgg19 (Simonyan and Zisserman 2015) and
    small_cnn.

    Returns:
        A model from (batch, side, side, 3) uint8 RGB to (batch, 5) float32 probabilities.
    """
    if model not in MODELS:
        raise ModelError(f"model {model!r}: choose from {', '.join(MODELS)}")
    inputs, x = build_features(model, image_size, weights, augmentation, seed, synchronised)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dense(128, activation="relu")(x)
    outputs = layers.Dense(len(GRADES), activation="softmax", dtype="float32", name="grades")(x)
    return keras.Model(inputs, outputs, name=f"{model}_{image_size}_grades")


def weigh_grades(grade: np.ndarray) -> np.ndarray:
    """Weights of the loss, (5,), that let each grade count the same in all, however rare it is.

    From (n,) grades of the training split, n / (number of grades that occur x photographs of it)
    for each grade; 1 where there is none. Referable or not, 0 or 1, is weighed as two grades are.
    """
    weights = np.ones(len(GRADES))
    found = np.unique(grade)
    weights[found] = compute_class_weight("balanced", classes=found, y=grade)
    return weights


def weighted_loss(weights: np.ndarray, crossentropy: Callable | None = None) -> Callable:
    """Make a loss of (batch,) labels and their probabilities: cross-entropy, of grades by
    default, times the weight.
    """
    crossentropy = crossentropy or keras.losses.sparse_categorical_crossentropy

    def loss(y_true, y_pred):
        label = ops.reshape(y_true, (-1,))
        weight = ops.take(ops.convert_to_tensor(weights, "float32"), ops.cast(label, "int32"))
        return weight * crossentropy(ops.reshape(label, (-1, 1)), y_pred)

    return loss
