"""Train only the upper blocks of a network: the outputs of the frozen lower ones are computed once and cached."""

from collections.abc import Mapping
from typing import NamedTuple

import keras
import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from dr_lib.data.shards.batches import Photographs
from dr_lib.training.fit import predict
from dr_lib.training.models import ModelError


class Frozen(NamedTuple):
    """What is left to train, what to train it on, and what it has to beat."""

    upper: keras.Model
    inputs: dict[str, np.ndarray]  # per split, (2 n, ...) float16: cached outputs of n photographs, then mirrored
    targets: dict[str, np.ndarray]  # per split, (2 n,) float32
    linear_probe_auc: float  # of the test split


def freeze(network: keras.Model, last_frozen: str, splits: Mapping[str, Photographs], batch_size: int = 32) -> Frozen:
    """Run photographs and their mirror images through the frozen part once; initialise the head by a linear probe.

    Args:
        network: of `build_model`; what is trained in `upper` is trained in it.
        last_frozen: name of the base's last frozen layer, such as conv_pw_11_relu of mobilenet.
        splits: train, test and, where there is one, validation.
        batch_size: of the passes, over all replicas.

    Raises:
        ModelError: the base has no such layer.
    """
    lower, extract, upper = split_network(network, last_frozen)
    inputs, features, patients = {}, {}, {}
    for name, photographs in splits.items():
        views = [photographs.images, photographs.images[:, :, ::-1]]
        inputs[name] = np.concatenate([predict(lower, view, batch_size).astype(np.float16) for view in views])
        features[name] = predict(extract, inputs[name], batch_size)
        patients[name] = photographs.patient_id
    targets = {name: np.tile(photographs.referable, 2) for name, photographs in splits.items()}
    initialise_head(network, features["train"], targets["train"], np.tile(patients["train"], 2))
    known = [name for name in splits if name != "test"]  # folds choose the penalty: it may learn from validation too
    originals = {name: found[: len(patients[name])] for name, found in features.items()}
    scores = score_linear_probe(
        *(np.concatenate([columns[name][: len(patients[name])] for name in known]) for columns in (originals, targets)),
        np.concatenate([patients[name] for name in known]),
        originals["test"],
    )
    return Frozen(upper, inputs, targets, float(roc_auc_score(splits["test"].referable, scores)))


def split_network(network: keras.Model, last_frozen: str) -> tuple[keras.Model, keras.Model, keras.Model]:
    """Split a network of `build_model` behind a layer of its base, and freeze what lies before it.

    Batch normalisation is frozen everywhere: few photographs would spoil its statistics.

    Returns:
        uint8 photographs -> outputs of the frozen part; these as float16 (0.66 MB a photograph for mobilenet at 299 px)
        -> pooled features; these -> probability of referable disease. They share the network's layers.
    """
    base = network.get_layer("base")
    names = [layer.name for layer in base.layers]
    if last_frozen not in names:
        raise ModelError(f"last_frozen {last_frozen!r}: {network.name} has {', '.join(names)}")
    for position, layer in enumerate(base.layers):
        if position <= names.index(last_frozen) or isinstance(layer, keras.layers.BatchNormalization):
            layer.trainable = False
    cut = base.get_layer(last_frozen).output
    x = network.get_layer("to_minus_one_and_one")(network.get_layer("augment")(network.input, training=False))
    outputs = keras.Input(cut.shape[1:], dtype="float16", name="cached")
    pooled = network.get_layer("pool")(keras.Model(cut, base.output)(outputs))
    probability = network.get_layer("referable")(network.get_layer("dropout")(pooled))
    lower = keras.Model(network.input, keras.Model(base.input, cut)(x), name="lower")
    return lower, keras.Model(outputs, pooled, name="features"), keras.Model(outputs, probability, name="upper")


def initialise_head(network: keras.Model, features: np.ndarray, referable: np.ndarray, patient_id: np.ndarray) -> None:
    """Set the head to a linear probe, logistic regression on the frozen features, before the upper blocks are tuned.

    A head that starts at random distorts good features while it learns (Kumar et al. 2022, "Fine-tuning can distort
    pretrained features"). The strength of the penalty comes from cross-validation by patient.

    Args:
        network: of `build_model`; its layer "referable" is set.
        features: (n, features), `Parts.features` of cached outputs.
        referable: (n,) 0 or 1.
        patient_id: (n,) whose photographs these are.
    """
    model = LogisticRegression(max_iter=2000)
    scaler, regression = _fit_by_patient(model, "C", np.logspace(-5, -1, 9), features, referable, patient_id)
    kernel = regression.coef_[0] / scaler.scale_
    network.get_layer("referable").set_weights([kernel[:, None], regression.intercept_ - kernel @ scaler.mean_])


def score_linear_probe(
    features: np.ndarray, referable: np.ndarray, patient_id: np.ndarray, test_features: np.ndarray
) -> np.ndarray:
    """Score photographs by a linear probe, ridge regression on the frozen features: what fine-tuning has to beat.

    Args:
        features: (n, features) of the photographs to learn from.
        referable: (n,) 0 or 1.
        patient_id: (n,) whose photographs these are, for the cross-validation of the penalty.
        test_features: (m, features).

    Returns:
        (m,) scores, larger where referable disease is likelier.
    """
    fitted = _fit_by_patient(RidgeClassifier(), "alpha", np.logspace(0, 6, 13), features, referable, patient_id)
    return fitted.decision_function(test_features)


def _fit_by_patient(model, penalty: str, values: np.ndarray, features, referable, patient_id) -> Pipeline:
    """Standardise, and fit with the penalty that has the best AUC in five folds by patient."""
    steps = Pipeline([("scaler", StandardScaler()), ("model", model)])
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(steps, {f"model__{penalty}": values}, scoring="roc_auc", cv=folds)
    return search.fit(features, referable, groups=patient_id).best_estimator_
