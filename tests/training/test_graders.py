"""The grading networks are the paper's, each with the preprocessing of its weights."""

import keras
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dr_lib.errors import DrError
from dr_lib.training.models import Ranks, build_model, save_model


@pytest.mark.parametrize(
    ("model", "parameters"), [("mobilenet", 3_377_221), ("vgg19", 20_107_205)]
)
def test_has_the_papers_parameters(model, parameters):
    """Exactly as many as Camargo, Künas and Navaux print."""
    network = build_model(model, 224, task="grades")
    assert network.count_params() == parameters
    assert network.input.dtype == "uint8" and network.output_shape == (None, 5)


def test_scales_as_the_weights_were_trained():
    """What reaches the base is what Keras's own preprocess_input makes of the pixels: BGR less
    ImageNet's mean.
    """
    network = build_model("vgg19", 32, task="grades")
    steps = network.operations
    scaled = keras.Model(
        network.input, steps[steps.index(network.get_layer("base")) - 1].output
    )
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    wanted = keras.applications.vgg19.preprocess_input(images.astype("float32"))
    np.testing.assert_allclose(scaled(images), wanted, atol=2e-4)


def test_a_grader_is_saved_and_loaded(tmp_path):
    """The saved file gives the same probabilities, scaling included."""
    network = build_model("small_cnn", 32, task="grades")
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    network.compile("adam", "sparse_categorical_crossentropy")
    network.optimizer.build(network.trainable_variables)  # as training would
    save_model(network, tmp_path / "best.keras")
    # and none of the optimiser's
    assert (tmp_path / "best.keras").stat().st_size < 1.5 * 4 * network.count_params()
    loaded = keras.saving.load_model(tmp_path / "best.keras", compile=False)
    np.testing.assert_allclose(loaded([images]), network(images), atol=1e-6)


def test_the_metric_is_the_auc_of_referable_disease():
    """scikit-learn's AUC of grade 2 or worse by the sum of the last three probabilities."""
    rng = np.random.default_rng(1)
    grade = rng.integers(0, 5, 400)
    probabilities = rng.dirichlet(np.ones(5), 400).astype("float32")
    metric = Ranks(500)
    for rows in np.split(np.arange(400), 4):
        metric.update_state(grade[rows], probabilities[rows])
    wanted = roc_auc_score(grade >= 2, probabilities[:, 2:].sum(axis=1))
    assert metric.score() == pytest.approx(wanted, abs=1e-6) and int(metric.result()) == 400


def test_the_metric_is_exact_for_small_probabilities_and_passes_over_copies():
    """Where few eyes are referable all probabilities are small; a last batch is filled up with
    copies that weigh nothing. With one class, or NaN, there is no AUC.
    """
    rng = np.random.default_rng(1)
    referable = np.arange(400) % 20 == 0
    probability = (rng.random(400) * (1 + referable) / 1e4).astype("float32")
    metric = Ranks(500)
    metric.update_state(referable.astype("float32"), probability[:, None])
    metric.update_state(np.ones(8, "float32"), np.zeros((8, 1), "float32"), np.zeros(8))
    assert metric.score() == pytest.approx(roc_auc_score(referable, probability), abs=1e-12)
    metric.update_state(np.ones(1, "float32"), np.full((1, 1), np.nan, "float32"))
    assert np.isnan(metric.score())
    metric.reset_state()
    assert np.isnan(metric.score())


def test_refuses_an_unknown_name():
    """The names that there are stand in the message."""
    with pytest.raises(DrError, match="small_cnn, mobilenet, vgg19"):
        build_model("resnet", 224, task="grades")
