"""A model folder: what is read back is what was written, or an error that says what is wrong."""

import hashlib
import json

import pytest

from dr_lib.schema import SCHEMA
from dr_lib.training.model_folder import ModelFolderError, read_folder, write_folder

FACTS = {
    "format": "litert_int8",
    "model": "mobilenet",
    "num_parameters": 3377221,
    "image_size": 224,
    "grades": ["no retinopathy", "mild", "moderate", "severe", "proliferative"],
    "threshold": 0.4,
    "threshold_from": "for a sensitivity of 0.9",
    "preprocessing": "crop",
    "weights": "imagenet",
    "data_kind": "photographs",
    "crop_size": 299,
    "crop_method": "robust",
    "data_sha256": "ab" * 32,
    "labels_sha256": "cd" * 32,
    "split_sha256": "ef" * 32,
    "metrics": {"auc": 0.8125, "kappa": 0.5},
    "commit": "c" * 40,
    "versions": {"keras": "3.15.1"},
    "created_at": "2026-11-21T12:00:00+00:00",
}


@pytest.fixture
def folder(tmp_path):
    """A folder with an artifact of six bytes."""
    (tmp_path / "model.tflite").write_bytes(b"sixbyt")
    write_folder(tmp_path, "model.tflite", FACTS)
    return tmp_path


def test_reads_back_what_was_written(folder):
    """All facts, with the size and the sha256 of the artifact; the version is the beginning of
    that.
    """
    found = read_folder(folder)
    sha256 = hashlib.sha256(b"sixbyt").hexdigest()
    own = {"schema": SCHEMA, "artifact": "model.tflite", "bytes": 6, "sha256": sha256}
    assert found.facts == FACTS | own
    assert found.version == sha256[:12] and found.artifact.read_bytes() == b"sixbyt"


def test_an_artifact_may_be_a_folder(tmp_path):
    """A SavedModel: any change of a file, or a file more, is seen; what a system adds is none."""
    saved = tmp_path / "saved_model"
    (saved / "variables").mkdir(parents=True)
    (saved / "variables" / "data").write_bytes(b"123")
    write_folder(tmp_path, "saved_model", FACTS)
    assert read_folder(tmp_path).facts["bytes"] == 3
    (saved / ".DS_Store").write_bytes(b"1")
    read_folder(tmp_path)
    (saved / "more").write_bytes(b"")
    with pytest.raises(ModelFolderError, match="does not match"):
        read_folder(tmp_path)


@pytest.mark.parametrize("damage", [b"sixbyT", b"sixby"])
def test_refuses_another_artifact(folder, damage):
    """A bit, a cut: only the artifact whose sha256 stands in the manifest is a model."""
    (folder / "model.tflite").write_bytes(damage)
    with pytest.raises(ModelFolderError, match="copy or export the model again"):
        read_folder(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"artifact": "../model.tflite"}, "must be in the folder"),
        ({"threshold": "0.4"}, "threshold is '0.4'"),
        ({"threshold": 1.5}, "out of range"),
        ({"sha256": None}, "sha256 is None"),
    ],
)
def test_refuses_a_manifest_that_cannot_be(folder, changes, message):
    """The fact that is wrong is named."""
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))
    with pytest.raises(ModelFolderError, match=message):
        read_folder(folder)


def test_refuses_a_link_out_of_the_folder(folder, tmp_path_factory):
    """An artifact that is a symbolic link could be any file of the machine."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "model.tflite"
    (folder / "model.tflite").rename(elsewhere)
    (folder / "model.tflite").symlink_to(elsewhere)
    with pytest.raises(ModelFolderError, match="must be in the folder"):
        read_folder(folder)


@pytest.mark.parametrize("manifest", ["[1]", '{"num_photographs": 3}'])
def test_what_names_no_artifact_is_no_model(tmp_path, manifest):
    """No table, or a prepared folder's."""
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(ModelFolderError, match="holds no model"):
        read_folder(tmp_path)
