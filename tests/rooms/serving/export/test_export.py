"""From a model folder to folders that can be served: the gate decides, and the disk shows whole
folders only.
"""

import json
import os
import shlex
import shutil
import tarfile

import numpy as np
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.rooms.serving.export.convert import FORMATS
from dr_lib.rooms.serving.export.export import export_model, pack_folder
from dr_lib.rooms.serving.export.gate import Labelled
from dr_lib.rooms.serving.export.runtimes import open_runtime
from dr_lib.training.model_folder import read_folder, write_folder
from tests.rooms.serving.stand_in import build_network, draw_crops, write_model_folder


@pytest.mark.slow
def test_every_format_becomes_a_folder_that_serves(network, source, labelled, exported):
    """One row and one folder per format, with the source's facts, its own artifact and the
    gate's row.
    """
    out, table = exported
    assert (
        table["format"].tolist() == list(FORMATS)
        and table["passes"].all()
        and not table["forced"].any()
    )
    assert sorted(os.listdir(out)) == sorted(FORMATS)
    wanted = network.predict(labelled.images, verbose=0)
    before = read_folder(source).facts
    for row in table.itertuples():
        assert row.folder == str(out / row.format)
        model = read_folder(out / row.format)
        for name in (
            "model",
            "threshold",
            "grades",
            "metrics",
            "split_sha256",
            "commit",
            "weights",
        ):
            assert model.facts[name] == before[name]
        assert (model.facts["format"], model.facts["source_sha256"]) == (
            row.format,
            before["sha256"],
        )
        assert (
            model.facts["gate"]["agreement"] == row.agreement
            and not model.facts["gate"]["forced"]
        )
        assert row.artifact_mib == pytest.approx(model.facts["bytes"] / 2**20)
        assert row.size_ratio == pytest.approx(row.artifact_mib / row.ideal_mib)
        given = open_runtime(row.format, model.artifact, num_threads=0)(labelled.images)
        assert np.abs(given - wanted).max() == pytest.approx(row.max_abs_difference, abs=1e-5)
    assert (
        table.set_index("format").loc[["savedmodel", "litert_float32"], "agreement"] == 1
    ).all()


def test_a_refused_format_leaves_what_was_there(source, labelled, tmp_path):
    """Calibrated on nearly black crops int8 loses much: nothing is written, and the folder of
    yesterday stays.
    """
    (tmp_path / "litert_int8").mkdir()
    (tmp_path / "litert_int8" / "yesterday").write_text("")
    asked = {
        "formats": ["litert_int8"],
        "calibration": draw_crops(20) // 32,
        "labelled": labelled,
    }
    (row,) = export_model(source, tmp_path, **asked).itertuples()
    assert not row.passes and "margin 0.02" in row.reason and row.folder == ""
    assert row.kappa_after < row.kappa_before == 1
    assert os.listdir(tmp_path) == ["litert_int8"] and os.listdir(tmp_path / "litert_int8") == [
        "yesterday"
    ]


def test_a_forced_format_replaces_the_folder_and_says_so(source, labelled, tmp_path):
    """Ten crops of one kind have no AUC and cannot decide; the manifest stays JSON that any
    reader takes, no NaN.
    """
    (tmp_path / "litert_float32").mkdir()
    (tmp_path / "litert_float32" / "yesterday").write_text("")
    few = Labelled(
        labelled.images[:10], np.zeros(10, int), labelled.patient_id[:10], labelled.split_sha256
    )
    asked = {"formats": ["litert_float32"], "calibration": draw_crops(1), "labelled": few}
    (row,) = export_model(source, tmp_path, **asked, force=True).itertuples()
    model = read_folder(tmp_path / "litert_float32")
    assert row.forced and not row.passes and "too few to decide" in row.reason
    assert sorted(os.listdir(model.path)) == ["manifest.json", "model.tflite"]

    def refuse(constant):
        raise AssertionError(constant)

    gate = json.loads((model.path / "manifest.json").read_text(), parse_constant=refuse)["gate"]
    assert gate["auc_difference"] is None and gate["forced"] and not gate["passes"]


def test_too_few_photographs_end_in_the_command_that_goes_on(
    source, small_sample, tmp_path, monkeypatch
):
    """10 of 32 are in the test split."""
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    facts = read_folder(source).facts | {"split_sha256": ""}
    model = write_folder(shutil.copytree(source, tmp_path / "model"), "model.keras", facts).path
    asked = ["export", str(model), "--data", str(small_sample), "--format", "litert_float32"]
    asked += ["--out", str(tmp_path / "exported")]
    monkeypatch.setattr("sys.argv", ["dr_lib", *asked])
    said = CliRunner().invoke(main, asked).output
    assert "refused: 10 labelled photographs are too few to decide: give 30 or more" in said
    assert said.endswith(f" -m dr_lib {shlex.join(asked)} --force\n")
    assert list((tmp_path / "exported").iterdir()) == []


def test_photographs_of_another_split_do_not_judge_a_model(network, labelled, tmp_path):
    """By another split than the model's the export is refused; forced, the manifest says that
    nothing was judged.
    """
    source = write_model_folder(tmp_path / "run" / "model", network)
    other = labelled._replace(split_sha256="0" * 64)
    asked = {"formats": ["litert_float32"], "calibration": draw_crops(1), "labelled": other}
    why = "the model was trained with another split, possibly on these test photographs"
    with pytest.raises(DrError, match=why):
        export_model(source, tmp_path / "out", **asked)
    assert not (tmp_path / "out").exists()
    (row,) = export_model(source, tmp_path / "out", **asked, force=True).itertuples()
    gate = read_folder(tmp_path / "out" / "litert_float32").facts["gate"]
    assert row.forced and not gate["passes"] and gate["reason"] == f"not judged: {why}"
    assert {
        gate[f"{score}_{what}"]
        for score in ("auc", "kappa")
        for what in ("before", "difference_low")
    } == {None}


def test_another_model_in_the_folder_is_no_rounding(
    source, labelled, network, tmp_path, monkeypatch
):
    """An artifact of full precision that gives other probabilities is an error, whatever is
    forced.
    """
    monkeypatch.setattr("dr_lib.rooms.serving.export.export.load_network", lambda *_: network)
    other = build_network(seed=1)
    monkeypatch.setattr(network, "predict", other.predict)
    asked = {"formats": ["litert_float32"], "calibration": draw_crops(1), "labelled": labelled}
    with pytest.raises(
        DrError, match="litert_float32 changes probabilities by .*, rounding by at most 0.0001"
    ):
        export_model(source, tmp_path, **asked, force=True)
    assert not os.listdir(tmp_path)


def test_refuses_what_cannot_be_exported(labelled, network, tmp_path):
    """An exported folder, one of a model that gives no grades, an empty one; a format that is
    none, no photographs.
    """
    exported = write_model_folder(tmp_path / "exported", network, format="savedmodel")
    referral = write_model_folder(tmp_path / "referral", network, grades=[])
    trained = write_model_folder(tmp_path / "trained", network)
    (tmp_path / "empty").mkdir()
    none = labelled._replace(images=labelled.images[:0])
    for folder, formats, judged, message in (
        (exported, ["savedmodel"], labelled, "holds savedmodel"),
        (referral, ["savedmodel"], labelled, "for referral"),
        (tmp_path / "empty", ["savedmodel"], labelled, "holds no model"),
        (
            trained,
            ["litert"],
            labelled,
            "format 'litert': choose from savedmodel, litert_float32",
        ),
        (trained, ["savedmodel"], none, "the test split is empty"),
    ):
        with pytest.raises(DrError, match=message):
            export_model(
                folder,
                tmp_path / "out",
                formats=formats,
                calibration=draw_crops(1),
                labelled=judged,
            )


def test_a_package_is_the_folder_and_names_nobody(source, labelled, tmp_path):
    """What SageMaker unpacks is the folder, nothing else that lies there; no user, no time."""
    export_model(
        source, tmp_path, formats=["savedmodel"], calibration=draw_crops(1), labelled=labelled
    )
    folder = tmp_path / "savedmodel"
    (folder / "notes.txt").write_text("of nobody else's business")
    pack_folder(folder, tmp_path / "model.tar.gz")
    with tarfile.open(tmp_path / "model.tar.gz") as archive:
        entries = archive.getmembers()
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert {
        (entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in entries
    } == {(0, 0, "", "", 0)}
    assert {entry.name for entry in entries if "/" not in entry.name} == {"manifest.json"}
    assert read_folder(tmp_path / "unpacked").facts == read_folder(folder).facts
