"""From a model folder to folders that can be served: the gate decides, and the disk shows whole
folders only.
"""

import os
import shlex
import tarfile

import keras
import numpy as np
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.errors import DrError
from dr_lib.serving.export.export import export_model, pack_folder
from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder
from dr_lib.training.models import build_model
from tests.serving.stand_in import build_network, draw_crops, write_model_folder


def export(source, out, labelled, *formats, calibration=None, **options):
    """The rows of an export."""
    calibration = draw_crops(1) if calibration is None else calibration
    options |= {"formats": formats, "labelled": labelled, "calibration": calibration}
    return export_model(source, out, **options).itertuples()


def test_a_refused_format_leaves_what_was_there(source, labelled, tmp_path):
    """Calibrated on nearly black crops int8 loses much: nothing is written, and the folder of
    yesterday stays.
    """
    yesterday = tmp_path / "litert_int8" / "yesterday"
    yesterday.parent.mkdir()
    yesterday.write_text("")
    dark = draw_crops(20) // 32
    (row,) = export(source, tmp_path, labelled, "litert_int8", calibration=dark)
    assert not row.passes and "lose their right answer" in row.reason and row.folder == ""
    assert list(tmp_path.glob("*/*")) == [yesterday]


def test_a_constant_model_is_refused_before_formats_are_compared(labelled, tmp_path):
    """It gives all 240 crops one probability, so no format could lose anything of it."""
    network = build_network()
    top = network.get_layer("grades")
    kernel, bias = top.get_weights()
    top.set_weights([0 * kernel, 0 * bias])
    source = write_model_folder(tmp_path / "model", network)
    with pytest.raises(DrError, match=r"all 240 .* the same probability .*0\.600 to 0\.600"):
        export(source, tmp_path / "out", labelled, "litert_float32")
    assert not (tmp_path / "out").exists()


def test_a_forced_format_replaces_the_folder_and_says_so(source, labelled, tmp_path):
    """Ten crops of one kind cannot decide; the manifest stays JSON that any reader takes, no NaN.
    Its package for SageMaker is the folder, nothing else that lies there; no user, no time.
    """
    folder = tmp_path / "litert_int8"
    folder.mkdir()
    (folder / "yesterday").write_text("")
    few = labelled._replace(
        images=labelled.images[:10],
        grade=np.zeros(10, int),
        patient_id=np.arange(10),
    )
    crops = draw_crops(50)
    (row,) = export(source, tmp_path, few, "litert_int8", calibration=crops, force=True)
    assert row.forced and not row.passes
    assert sorted(os.listdir(folder)) == ["manifest.json", "model.tflite"]
    before = read_folder(source).facts
    facts = read_folder(folder).facts
    kept = {name: before[name] for name in ("model", "threshold", "grades", "split_sha256")}
    assert facts | kept == facts and facts["source_sha256"] == before["sha256"]
    manifest = (folder / "manifest.json").read_text()
    assert not {"NaN", "Infinity"} & set(manifest.replace(",", " ").split())
    gate = facts["gate"]
    assert gate["sensitivity_after"] is None and gate["forced"] and not gate["passes"]

    (folder / "notes.txt").write_text("of nobody else's business")
    pack_folder(folder, tmp_path / "model.tar.gz")
    with tarfile.open(tmp_path / "model.tar.gz") as archive:
        entries = archive.getmembers()
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert {(each.uid, each.uname, each.gname, each.mtime) for each in entries} == {
        (0, "", "", 0)
    }
    assert sorted(os.listdir(tmp_path / "unpacked")) == ["manifest.json", "model.tflite"]


def test_a_refusal_ends_in_the_command_that_goes_on(
    network, small_sample, tmp_path, monkeypatch
):
    """The network knows nothing of the sample, and refers none of its five test patients."""
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    split_sha256 = Prepared(small_sample).describe()["split_sha256"]
    model = write_model_folder(tmp_path / "model", network, split_sha256=split_sha256)
    asked = ["export", str(model), "--data", str(small_sample), "--format", "litert_int8"]
    asked += ["--out", str(tmp_path / "exported")]
    monkeypatch.setattr("sys.argv", ["dr_lib", *asked])
    said = CliRunner().invoke(main, asked).output
    assert "refused: the network refers none of 5 patients" in said
    assert said.endswith(f" -m dr_lib {shlex.join(asked)} --force\n")
    assert list((tmp_path / "exported").iterdir()) == []


def test_a_model_that_names_no_split_is_not_judged(network, labelled, tmp_path):
    """Any photographs may be those that it learned from: nothing is written."""
    source = write_model_folder(tmp_path / "run" / "model", network, split_sha256="")
    (row,) = export(source, tmp_path / "out", labelled, "litert_float32")
    assert not row.passes and "names no split" in row.reason
    assert not (tmp_path / "out" / "litert_float32").exists()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"grades": []}, "for referral"),
        ({"split_sha256": "0" * 64}, "was trained with another split, possibly"),
    ],
)
def test_refuses_what_cannot_be_exported(labelled, network, tmp_path, facts, message):
    """A model that gives no grades, and a split that may hold what it learned from."""
    source = write_model_folder(tmp_path / "trained", network, **facts)
    with pytest.raises(DrError, match=message):
        export(source, tmp_path / "out", labelled, "savedmodel", force=True)
    assert not (tmp_path / "out").exists()


@keras.saving.register_keras_serializable("tests")
class Positions(keras.layers.Layer):
    """Adds what is learned of each place."""

    def build(self, shape):
        self.places = self.add_weight(shape=shape[1:], initializer="random_normal")

    def call(self, tokens):
        return tokens + self.places


def build_transformer(image_size, weights):
    """A network with attention and a layer of its own, as a user would write it."""
    inputs = keras.Input((image_size, image_size, 3))
    x = keras.layers.Conv2D(32, 16, strides=16)(keras.layers.Rescaling(1 / 127.5, -1)(inputs))
    x = Positions()(keras.layers.Reshape((-1, 32))(x))
    return keras.Model(inputs, x + keras.layers.MultiHeadAttention(2, 16)(x, x))


@pytest.mark.slow
def test_a_network_of_ones_own_is_exported_and_served(labelled, tmp_path):
    """The served model gives the network's answers."""
    model = f"{__name__}:build_transformer"
    network = build_model(model, 32, task="grades")
    folder = write_model_folder(tmp_path / "model", network, model=model)
    export(folder, tmp_path, labelled, "litert_float32", force=True)
    served = Predictor(read_folder(tmp_path / "litert_float32"), 1)
    expected = network.predict(labelled.images, verbose=0)
    assert served.predict(labelled.images) == pytest.approx(expected, abs=1e-4)
