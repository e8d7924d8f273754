"""Notebook 13 and its command on a model that was just trained."""

import re
import shutil
import stat

import numpy as np
import pytest
from click.testing import CliRunner

from dr_lib import TrainingConfig, probe, train_once
from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.explain.grad_cam import load_network
from dr_lib.training.model_folder import write_folder
from tests.conftest import ROOT
from tests.notebooks import execute, num_pictures, read_rows, texts


@pytest.mark.slow
def test_13_shows_maps_beside_their_control(clone, kernel, small_sample):
    """Of the latest run, and of a model folder; the sample's lesions are known; no row is left. The
    command shows the photographs of a list, on a private page alone.
    """
    run = clone / "papermill_runs" / "mine" / "runs" / "C1-r00"
    run.mkdir(parents=True)
    config = TrainingConfig(small_sample, image_size=32, epochs=1, accelerator="cpu")
    trained = train_once(config, config.plan(probe(), 32), run)
    saved = trained.write_model()
    network, facts = load_network(run)
    images = trained.splits["test"].images
    assert np.array_equal(network(images), trained.network(images)) and facts == saved.facts
    other = shutil.copytree(saved.path, clone / "exported")
    write_folder(other, "model.keras", {**facts, "format": "litert_int8"})
    with pytest.raises(DrError, match="format litert_int8, which has no gradients: give the"):
        load_network(other)

    for model_dir in ("", str(saved.path)):
        given = {"data_dir": str(small_sample), "model_dir": model_dir, "num_shown": 2}
        notebook = execute(clone, "13_explain", kernel, **given)
        assert num_pictures(notebook) == 1 and "keep it private" not in texts(notebook)
        assert re.search(r"maps meet lesions \*\*\d\.\d\*\* times as often", texts(notebook))
        assert "UserWarning" not in str(notebook)
    assert not read_rows(clone)

    private = clone / "photographs.private"
    private.mkdir()
    (private / "salt").write_bytes(bytes(32))
    listed = private / "missed.csv"
    listed.write_text(
        "file;grade\nretina.jpg;2\nretina.md;2\nabsent.jpg;3\n", encoding="utf-16"
    )
    page = private / "explain.html"
    command = [
        "explain",
        str(run),
        "--images",
        str(listed),
        "--folder",
        str(ROOT / "dr_lib/data"),
    ]
    said = CliRunner().invoke(main, [*command, "--out", str(page), "--lang", "pt"])
    assert said.exit_code == 0, said.output
    assert "absent.jpg: the file cannot be read" in said.output
    assert re.search("retina.md: .*(format|picture)", said.output)
    text = page.read_text(encoding="utf-8")
    assert text.count("<img") == text.count("<h2") == text.count(">retina.jpg</h2>") == 1
    assert "mantenha-a privada" in text and "Where" not in text
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    refused = CliRunner().invoke(main, [*command, "--out", str(clone / "explain.html")])
    assert "is in no private folder" in refused.output and not (clone / "explain.html").exists()
