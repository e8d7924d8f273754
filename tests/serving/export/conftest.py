"""Fixtures for exports: a network, its model folder and crops to judge by; all read only."""

import numpy as np
import pytest

from dr_lib.serving.export.gate import Labelled
from tests.serving.stand_in import build_network, draw_crops, write_model_folder
from tests.training.test_model_folder import FACTS


@pytest.fixture(scope="session")
def network():
    """A stand-in for a trained network."""
    return build_network()


@pytest.fixture(scope="session")
def source(network, tmp_path_factory):
    """Its model folder, as notebook 10 writes it."""
    return write_model_folder(tmp_path_factory.mktemp("model") / "trained", network)


@pytest.fixture(scope="session")
def labelled(network):
    """Crops, two of each patient, with the grades that the network calls: whatever changes is a
    loss.
    """
    crops = draw_crops(240, seed=2)
    grade = network.predict(crops, verbose=0).argmax(1)
    return Labelled(crops, grade, np.arange(240) // 2, FACTS["split_sha256"])
