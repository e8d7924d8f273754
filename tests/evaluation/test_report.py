"""The report of an evaluation, whole."""

import os
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.reading import HOSTILE, check_hostile, find_english


def evaluate(*words, exit_code: int = 0) -> str:
    """What the command evaluate prints."""
    said = CliRunner().invoke(main, ["evaluate", *map(str, words)])
    assert said.exit_code == exit_code, said.output
    return said.output


PAGES = ("report", "committee")


@pytest.mark.slow
def test_an_evaluation_shows_what_files_hold_as_it_is(tmp_path):
    """Two models at home and one abroad, by names of theirs, in a file with a comma in its name; a
    threshold that was given has no other name anywhere.
    """
    home = draw_predictions().assign(reason=HOSTILE, quality=HOSTILE)
    home["camera"] = home["camera"].where(home["camera"] == "A", HOSTILE)
    tables = {
        "one, two": home.assign(model=HOSTILE, model_version="v1", dataset=HOSTILE),
        "three": draw_predictions(noise=2.0).assign(model=HOSTILE + "2"),
        "four": draw_abroad().assign(dataset=HOSTILE + "abroad", model=HOSTILE),
    }
    paths = [write(tmp_path, table, name) for name, table in tables.items()]
    out = tmp_path / "out"
    evaluate(*paths, "--out", out, "-p", "thresholds", "0.4,0.6")
    report, committee = ((out / f"{name}.html").read_text("utf-8") for name in PAGES)
    check_hostile(report, 14)
    check_hostile(committee, 2)
    assert not re.search("high sensitivity|high specificity|chosen to", report + committee)
    assert report.count("the threshold given by you, 0.4") > 8 and "score 0.4," in committee


@pytest.mark.slow
def test_nothing_of_an_earlier_or_a_private_evaluation_stays_behind(tmp_path, small_sample):
    """A private one is written beside the prepared folder, for its owner alone; a second one into
    the same folder leaves the user's own files, which a first one does not mix with. Of test rows
    alone it has no operating point.
    """
    table = Prepared(small_sample).photographs.filter(["image_id", "eye", "grade"])
    table["patient_id"] = table["image_id"]
    table["split"] = np.array(["test", "validation"])[table.index % 5 // 4]
    table["probability_referable"] = np.where(table.index % 3, 0.5, 0.7)
    missed = table.query("split == 'test' and grade > 1").index[0]
    table.loc[missed, "probability_referable"] = 0.1
    first = write(tmp_path, table, "first")
    out = tmp_path / "out"
    before = os.umask(0o022)
    said = evaluate(first, "--out", out, "-p", "private", small_sample)
    os.umask(before)
    private = small_sample.with_name(f"{small_sample.name}.private") / "evaluation"
    assert f"wrote {private / 'report.html'}" in said and not out.exists()
    names = pd.read_csv(private.parent / "names.csv", dtype=str).set_index("image_id")
    name = names["file"][table["image_id"][missed]]
    assert pd.read_csv(private / "errors.csv")["file"].isin(names["file"]).all()
    assert name in (private / "missed_patients.csv").read_text()
    assert f">{name}<" in (private / "report.html").read_text(encoding="utf-8")
    assert all(file.stat().st_mode & 0o077 == 0 for file in private.iterdir())

    evaluate(first, "--out", out)
    assert (out / "points.csv").is_file() and not (out / "missed_patients.csv").exists()
    (out / "notes.txt").write_text("mine")
    evaluate(write(tmp_path, table[table["split"] == "test"], "second"), "--out", out)
    left = {path.stem for path in out.iterdir()}
    assert not left & {"points", "accuracy", "errors"}
    assert {"notes", "summary", "report", "committee"} <= left
    (out / "report.sha256").unlink()
    assert "files that no evaluation listed" in evaluate(first, "--out", out, exit_code=1)


@pytest.mark.slow
def test_a_portuguese_evaluation_holds_no_english_sentence(tmp_path):
    """Of two hospitals: sections, captions, notes, and the cells of the card; by
    thresholds that were frozen at home.
    """
    tables = {
        "abroad": draw_abroad().assign(dataset="Hospital B"),
        "home": draw_predictions(300).assign(model_version="v1", dataset="Hospital A", own=1),
    }
    paths = [write(tmp_path, table, name) for name, table in tables.items()]
    out = tmp_path / "out"
    evaluate(*paths, "--out", out, "--lang", "pt")
    page, committee = ((out / f"{name}.html").read_text("utf-8") for name in PAGES)
    assert find_english(committee) == [] and "Quem assina" in committee
    assert find_english(page) == [] and "por paciente, ver docs" in page
    assert re.search("aplicados? sem mudança</td>\\s*<td>Hospital A", page)
    assert "import " not in re.sub('data:[^"]*', "", page)
