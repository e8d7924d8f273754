"""Notebook 13 on a model that was just trained."""

import shutil

import numpy as np
import pytest

from dr_lib import TrainingConfig, probe, train_once
from dr_lib.errors import DrError
from dr_lib.explain.grad_cam import load_network
from dr_lib.training.model_folder import write_folder
from tests.notebooks import execute, num_pictures, texts


@pytest.mark.slow
def test_13_shows_maps_beside_their_control(clone, kernel, small_sample):
    """Of the latest run; an exported model has no gradients."""
    run = clone / "papermill_runs" / "mine" / "runs" / "C1-r00"
    run.mkdir(parents=True)
    config = TrainingConfig(data_dir=small_sample, image_size=32, epochs=1, accelerator="cpu")
    trained = train_once(config, config.plan(probe(), 32), run)
    saved = trained.write_model()
    network, facts = load_network(saved.path)
    images = trained.splits["test"].images
    assert np.array_equal(network(images), trained.network(images)) and facts == saved.facts
    notebook = execute(clone, "13_explain", kernel, data_dir=str(small_sample), num_shown=2)
    assert num_pictures(notebook) == 1 and "trained by run C1-r00" in texts(notebook)
    assert "keep it private" not in texts(notebook) and "UserWarning" not in str(notebook)
    other = shutil.copytree(saved.path, clone / "exported")
    write_folder(other, "model.keras", {**facts, "format": "litert_int8"})
    with pytest.raises(DrError, match="format litert_int8, which has no gradients: give the"):
        load_network(other)
