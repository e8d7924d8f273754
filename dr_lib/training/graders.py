"""The networks that grade a photograph from 0 to 4, from uint8 pixels to five probabilities."""

from collections.abc import Callable, Mapping

import keras
import numpy as np
from keras import layers, ops
from sklearn.utils.class_weight import compute_class_weight

from dr_lib.data.labels.grades import GRADES, REFERABLE_FROM
from dr_lib.training.models import Augment, ModelError, build_base

MODELS = ("mobilenet", "vgg19", "small_cnn")


class ReferableAUC(keras.metrics.AUC):
    """AUC of referable disease: whether the grade is 2 or worse, against the sum of those grades' probabilities."""

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

    At 224 px mobilenet has 3,377,221 parameters and vgg19 20,107,205, as in their paper. Unlike there, each base gets
    the preprocessing that its ImageNet weights were trained with.

    Args:
        model: mobilenet (Howard et al. 2017), vgg19 (Simonyan and Zisserman 2015) or small_cnn.
        image_size: side of the square input [px].
        weights: none, imagenet (downloaded by Keras) or the path of a weights file without the top.
        augmentation: none, flip or colour, see `Augment`.
        seed: of the augmentation; initial weights follow `keras.utils.set_random_seed`.
        synchronised: see `build_model`.

    Returns:
        A model from (batch, side, side, 3) uint8 RGB to (batch, 5) float32 probabilities.

    Raises:
        ModelError: an unknown name, a side too small, or weights that cannot be had or do not fit.
    """
    if model not in MODELS:
        raise ModelError(f"model {model!r}: choose from {', '.join(MODELS)}")
    base = build_base(model, image_size, weights, synchronised)
    inputs = keras.Input((image_size, image_size, 3), dtype="uint8")
    x = Augment(augmentation, seed, name="augment")(inputs)
    if model == "vgg19":  # BGR in [0, 255] less ImageNet's mean, as its weights were trained (Simonyan, Zisserman 2015)
        x = layers.Rescaling(255.0, offset=[-103.939, -116.779, -123.68])(ops.flip(x, axis=-1))
    else:
        x = layers.Rescaling(2.0, offset=-1.0, name="to_minus_one_and_one")(x)
    pool = layers.GlobalMaxPooling2D if model == "small_cnn" else layers.GlobalAveragePooling2D
    x = pool(name="pool")(base(x))
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dense(128, activation="relu")(x)
    outputs = layers.Dense(len(GRADES), activation="softmax", dtype="float32", name="grades")(x)
    return keras.Model(inputs, outputs, name=f"{model}_{image_size}_grades")


def weigh_grades(grade: np.ndarray) -> dict[int, float]:
    """Weights of the loss that let each grade count the same in all, however rare it is.

    Args:
        grade: (n,) 0-4, of the training split.

    Returns:
        For each grade n / (number of grades that occur x photographs of it); 1 where there is none.
    """
    found = np.unique(grade)
    weights = compute_class_weight("balanced", classes=found, y=grade)
    return dict.fromkeys(range(len(GRADES)), 1.0) | dict(zip(found.tolist(), weights.tolist(), strict=True))


def weighted_loss(weights: Mapping[int, float]) -> Callable:
    """Make a loss: cross-entropy of (batch,) grades and (batch, 5) probabilities, weighed by grade.

    Args:
        weights: of the grades; 1 where there is none.

    Returns:
        A function of grades and probabilities to (batch,) losses.
    """
    table = np.array([weights.get(k, 1.0) for k in range(len(GRADES))], "float32")

    def loss(y_true, y_pred):
        grade = ops.cast(ops.reshape(y_true, (-1,)), "int32")
        return ops.take(ops.convert_to_tensor(table), grade) * keras.losses.sparse_categorical_crossentropy(
            grade, y_pred
        )

    return loss
