"""Train only the upper blocks of a network: the outputs of the frozen lower ones are computed once and cached."""

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


class Parts(NamedTuple):
    """A network in two: `lower`, which is frozen, and what follows it, up to the pooled features or to the end."""

    lower: keras.Model  # uint8 photographs -> outputs of the last frozen layer
    features: keras.Model  # those outputs, float16 -> pooled features
    upper: keras.Model  # those outputs, float16 -> probability of referable disease


class Frozen(NamedTuple):
    """What is left to train, what to train it on, and what it has to beat."""

    upper: keras.Model
    inputs: dict[str, np.ndarray]  # per split, (2 n, ...) float16: cached outputs of n photographs, then mirrored
    targets: dict[str, np.ndarray]  # per split, (2 n,) float32
    linear_probe_auc: float  # of the test split


def freeze(network: keras.Model, last_frozen: str, splits: dict[str, Photographs], batch_size: int = 32) -> Frozen:
    """Run photographs and their mirror images through the frozen part once; initialise the head by a linear probe.

    Args:
        network: of `build_model`; what is trained in `upper` is trained in it.
        last_frozen: name of the base's last frozen layer, such as conv_pw_11_relu of mobilenet.
        splits: train, test and, where there is one, validation.
        batch_size: of the passes, over all replicas.
    """
    parts = split_network(network, last_frozen)
    inputs = {name: cache_outputs(parts.lower, photographs.images, batch_size) for name, photographs in splits.items()}
    features = {name: predict(parts.features, cached, batch_size) for name, cached in inputs.items()}
    targets = {name: np.tile(photographs.referable, 2) for name, photographs in splits.items()}
    initialise_head(network, features["train"], targets["train"], np.tile(splits["train"].patient_id, 2))
    known = [
        name for name in splits if name != "test"
    ]  # the probe chooses on folds, so it may learn from validation too
    scores = score_linear_probe(
        np.concatenate([features[name][: len(splits[name].images)] for name in known]),
        np.concatenate([splits[name].referable for name in known]),
        np.concatenate([splits[name].patient_id for name in known]),
        features["test"][: len(splits["test"].images)],
    )
    return Frozen(parts.upper, inputs, targets, float(roc_auc_score(splits["test"].referable, scores)))


def split_network(network: keras.Model, last_frozen: str) -> Parts:
    """Split a network of `build_model` behind a layer of its base, and freeze what lies before it.

    Batch normalisation is frozen everywhere: few photographs would spoil its statistics.

    Args:
        network: shares its layers, so it changes as the upper part is trained.
        last_frozen: name of the base's last frozen layer, such as conv_pw_11_relu of mobilenet.

    Raises:
        ModelError: the base has no such layer.
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
    lower = keras.Model(network.input, keras.Model(base.input, cut)(x), name="lower")
    outputs = keras.Input(cut.shape[1:], dtype="float16", name="cached")
    pooled = network.get_layer("pool")(keras.Model(cut, base.output)(outputs))
    probability = network.get_layer("referable")(network.get_layer("dropout")(pooled))
    return Parts(lower, keras.Model(outputs, pooled, name="features"), keras.Model(outputs, probability, name="upper"))


def cache_outputs(lower: keras.Model, images: np.ndarray, batch_size: int) -> np.ndarray:
    """Run photographs and then their mirror images through the frozen part.

    Args:
        lower: from `split_network`.
        images: (n, size, size, 3) uint8.
        batch_size: over all replicas.

    Returns:
        (2 n, ...) float16, the n mirror images last; 0.66 MB a photograph for mobilenet at 299 px.
    """
    views = [images, images[:, :, ::-1]]
    return np.concatenate([predict(lower, view, batch_size).astype(np.float16) for view in views])


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
