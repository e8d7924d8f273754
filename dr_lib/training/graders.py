"""The networks that grade a photograph from 0 to 4, from uint8 pixels to five probabilities."""

from collections.abc import Callable

import keras
import numpy as np
from keras import layers, ops
from sklearn.utils.class_weight import compute_class_weight

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.errors import DrError
from dr_lib.training.models import NETWORKS, build_features


class ReferableAUC(keras.metrics.AUC):
    """AUC of referable disease: whether the grade is 2 or worse, against the sum of those
    grades' probabilities.
    """

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Take (batch,) grades and (batch, 5) probabilities."""
        referable = ops.cast(ops.reshape(y_true, (-1, 1)) >= REFERABLE_FROM, "float32")
        probability = ops.clip(
            ops.sum(y_pred[:, REFERABLE_FROM:], axis=-1, keepdims=True), 0, 1
        )
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

    Takes and raises what `build_model` does, for the NETWORKS that are for grades.

    Returns:
        A model from (batch, side, side, 3) uint8 RGB to (batch, 5) float32 probabilities.
    """
    graders = [name for name, network in NETWORKS.items() if network.grades]
    if model not in graders:
        raise DrError(f"model {model!r}: choose from {', '.join(graders)}")
    inputs, x = build_features(
        model,
        image_size,
        weights=weights,
        augmentation=augmentation,
        seed=seed,
        synchronised=synchronised,
    )
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dense(128, activation="relu")(x)
    outputs = layers.Dense(len(GRADES), activation="softmax", dtype="float32", name="grades")(x)
    return keras.Model(inputs, outputs, name=f"{model}_{image_size}_grades")


def weigh_grades(grade: np.ndarray) -> np.ndarray:
    """Weights of the loss, (5,), that let each grade count the same in all, however rare it is.

    From (n,) grades of the training split, n / (number of grades that occur x photographs of it)
    for each grade; 1 where there is none.
    """
    weights = np.ones(len(GRADES))
    occurring = np.unique(grade)
    weights[occurring] = compute_class_weight("balanced", classes=occurring, y=grade)
    return weights


def weighted_loss(weights: np.ndarray) -> Callable:
    """Make a loss of (batch,) grades and their probabilities: cross-entropy times the weight."""

    def loss(y_true, y_pred):
        grade = ops.reshape(y_true, (-1,))
        weight = ops.take(ops.convert_to_tensor(weights, "float32"), ops.cast(grade, "int32"))
        crossentropy = keras.losses.sparse_categorical_crossentropy
        return weight * crossentropy(ops.reshape(grade, (-1, 1)), y_pred)

    return loss
