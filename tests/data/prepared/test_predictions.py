"""What a model says of a prepared folder's photographs, as a table."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from dr_lib.data.prepared.folder import Prepared, write_manifest


@pytest.mark.parametrize(
    ("layout", "dataset"),
    [
        ("folder", "eyepacs/"),
        ("messidor2", "messidor2"),
    ],
)
def test_a_folder_s_name_makes_no_public_data_set(small_sample, tmp_path, layout, dataset):
    """One's own photographs in a folder called eyepacs are not EyePACS; a known layout is."""
    folder = shutil.copytree(small_sample, tmp_path / "eyepacs")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["parameters"]["layout"] = layout
    (folder / "manifest.json").write_bytes(write_manifest(manifest))

    prepared = Prepared(folder)
    ids = prepared.photographs.query("split == 'test'")["image_id"].to_numpy()
    predicted = [(ids, np.full((len(ids), 1), 0.5))]
    prepared.write_predictions(tmp_path / "out.csv", predicted, "a model", "v1")

    assert set(pd.read_csv(tmp_path / "out.csv")["dataset"]) == {dataset}
