"""Train only the head of a network: the outputs of its frozen base are computed once and cached."""

from collections.abc import Mapping

import keras
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    StratifiedGroupKFold,
    cross_val_predict,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from dr_lib.data.labels.grades import GRADES
from dr_lib.data.prepared.folder import Photographs
from dr_lib.errors import DrError
from dr_lib.hardware.cgroups import read_memory
from dr_lib.training.config import NUM_FOLDS
from dr_lib.training.fit import predict
from dr_lib.training.models import CubicMean, split_network


def freeze(
    network: keras.Model, splits: Mapping[str, Photographs], batch_size: int = 32
) -> tuple[keras.Model, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Run photographs and their mirror images through the base once; initialise the head by a
    linear probe.

    A head that starts at random distorts good features while it learns (Kumar et al. 2022,
    "Fine-tuning can distort pretrained features"): it starts as a regression of the grade on the
    frozen features, see `fit_grades`.

    Args:
        network: of `build_model`; its head is what is trained.
        splits: train, test and, where there is one, validation.
        batch_size: of the passes, over all replicas.

    Returns:
        Pooling and head, left to train; of each split, (2 n, ...) float16, the cached outputs of n
        photographs, then mirrored; and its targets, (2 n,), referable (float32) or grades.

    Raises:
        DrError: the outputs do not fit into memory.
    """
    base = network.get_layer("base")
    head = network.layers[-1]
    is_grades = head.name == "grades"
    lower, outputs, extract = split_network(network, base.layers[-1].name, "float16")
    lower.trainable = False
    upper = keras.Model(outputs, head(extract.output), name="upper")
    num_images = 2 * sum(len(side.referable) for side in splits.values())
    needed = num_images * 2 * np.prod(lower.output_shape[1:]) / 2**30
    free = read_memory().available / 2**30
    if needed > free:
        raise DrError(
            f"the outputs of the frozen base take {needed:.1f} GiB, {free:.1f} are free: "
            "choose a smaller image_size, or recipe full"
        )
    inputs = {}
    targets = {}
    for name, side in splits.items():
        outputs = [
            predict(lower, side.images, batch_size, is_mirrored=mirrored).astype(np.float16)
            for mirrored in (False, True)
        ]
        inputs[name] = np.concatenate(outputs)
        targets[name] = np.tile(side.grade if is_grades else side.referable, 2)
    features = predict(extract, inputs["train"], batch_size)

    train = splits["train"]
    patients = np.tile(train.patient_id, 2)
    grades = targets["train"] if is_grades else np.tile(train.grade, 2)
    is_even = any(isinstance(layer, CubicMean) for layer in network.layers)
    weights = fit_grades(features, grades, targets["train"], patients, is_even=is_even)
    head.set_weights(weights)
    return upper, inputs, targets


def fit_grades(
    features, grade, target, patient_id, *, is_even: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Regress the grade and convert it to the log odds of the target, referable disease or each
    grade: kernel, (features, 1 or 5), and bias.

    The grade tells severe from mild, which referable or not leaves out. The odds follow from grades
    that were predicted in folds of other patients, for those of the photographs that it learned
    from are too good. Features that are even, on one scale, keep their spread: those that vary
    little say little.
    """
    alphas = np.logspace(0, 3, 13) if is_even else np.logspace(1, 6, 11)
    line = fit_by_patient(alphas, features, grade, patient_id, is_even=is_even)
    predicted = cross_val_predict(
        line, features, grade, groups=patient_id, cv=GroupKFold(NUM_FOLDS)
    )
    odds = LogisticRegression(C=np.inf).fit(predicted[:, None], target)
    scaler, model = line
    kernel = model.coef_ / (1 if scaler.scale_ is None else scaler.scale_)
    bias = model.intercept_ - kernel @ scaler.mean_
    slopes = odds.coef_[:, 0]
    intercepts = odds.intercept_
    if target is grade:
        if len(odds.classes_) == 2:  # the second against the first
            slopes = np.append(0, slopes)
            intercepts = np.append(0, intercepts)
        grades = np.arange(len(GRADES))
        slopes = np.interp(grades, odds.classes_, slopes)
        intercepts = np.interp(grades, odds.classes_, intercepts)
        intercepts[~np.isin(grades, odds.classes_)] -= 10  # of a grade that nobody has
    return kernel[:, None] * slopes, slopes * bias + intercepts


def fit_by_patient(
    alphas: np.ndarray, features, target, patient_id, *, is_even: bool = False
) -> Pipeline:
    """Standardise (n, features) and fit a ridge regression to the (n,) target.

    Features that are even are centred alone. The penalty is the one of those given that has the
    best score in five folds by patient.

    Raises:
        DrError: there are too few patients for the folds.
    """
    steps = Pipeline([("scaler", StandardScaler(with_std=not is_even)), ("model", Ridge())])
    folds = StratifiedGroupKFold(NUM_FOLDS, shuffle=True, random_state=0)
    search = GridSearchCV(steps, {"model__alpha": alphas}, scoring="r2", cv=folds)
    try:
        return search.fit(features, target, groups=patient_id).best_estimator_
    except ValueError as error:  # too few of each grade
        raise DrError(
            f"{len(set(patient_id))} patients are too few to choose a penalty in {NUM_FOLDS} folds"
            f" ({error}): use recipe full"
        ) from error
