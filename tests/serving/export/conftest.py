"""Fixtures for exports: a network, its model folder, crops to judge by, and every format of it;
all read only.
"""

import numpy as np
import pytest

from dr_lib.serving.export.convert import FORMATS
from dr_lib.serving.export.export import export_model
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


@pytest.fixture(scope="session")
def exported(source, labelled, tmp_path_factory):
    """The folder with a model folder of every format, and the table of the export."""
    out = tmp_path_factory.mktemp("exported")
    return out, export_model(
        source, out, formats=FORMATS, calibration=draw_crops(50), labelled=labelled, force=True
    )
