"""The report of an evaluation, whole."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from nbconvert.filters import markdown2html

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.numbers import write_number
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.reading import HOSTILE, Shown, check_hostile


def evaluate(*words, exit_code: int = 0) -> str:
    """What the command evaluate prints."""
    said = CliRunner().invoke(main, ["evaluate", *map(str, words)])
    assert said.exit_code == exit_code, said.output
    return said.output


@pytest.mark.slow
def test_an_evaluation_shows_what_files_hold_as_it_is(tmp_path):
    """Two models at home and one abroad, by names of theirs, in a file with a comma in its name."""
    home = draw_predictions().assign(reason=HOSTILE, quality=HOSTILE)
    home["camera"] = home["camera"].where(home["camera"] == "A", HOSTILE)
    abroad = draw_abroad().assign(dataset=HOSTILE + "abroad", model=HOSTILE)
    tables = {
        "one, two": home.assign(model=HOSTILE, model_version="v1", dataset=HOSTILE),
        "three": draw_predictions(noise=2.0).assign(model=HOSTILE + "2"),
        "four": abroad,
    }
    paths = [write(tmp_path, table, name) for name, table in tables.items()]
    out = tmp_path / "out"
    evaluate(*paths, "--out", out)
    check_hostile((out / "report.html").read_text(encoding="utf-8"), 20)
    check_hostile(markdown2html((out / "MODEL_CARD.md").read_text(encoding="utf-8")), 4)


@pytest.mark.slow
def test_test_rows_alone_with_one_unanswered_are_evaluated(tmp_path):
    """No operating point, and the number that could not be used is nowhere in the tables."""
    table = draw_predictions().assign(reason="")
    table = table[table["split"] == "test"].reset_index(drop=True)
    table.loc[0, [f"probability_{grade}" for grade in range(5)]] = None
    table.loc[0, "reason"] = "too dark"
    out = tmp_path / "out"
    evaluate(write(tmp_path, table), "--out", out)
    number = pd.read_csv(out / "flow.csv").set_index("stage")["num_images"]
    assert (number["test"], number["ungradable"]) == ("–", "< 5")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "No operating point: there are no validation rows" in page


@pytest.mark.slow
def test_nothing_of_an_earlier_or_a_private_evaluation_stays_behind(tmp_path, small_sample):
    """A private one is written beside the prepared folder; a second one into the same folder leaves
    the user's own files, which a first one does not mix with.
    """
    photographs = Prepared(small_sample).photographs.assign(probability_referable=0.5)
    photographs.loc[::3, "probability_referable"] = 0.7
    photographs["split"] = np.array(["test", "validation"])[photographs.index % 5 // 4]
    photographs["patient_id"] = photographs["image_id"]
    missed = photographs.query("split == 'test' and grade > 1")["image_id"].iloc[0]
    photographs.loc[photographs["image_id"] == missed, "probability_referable"] = 0.1
    columns = ["image_id", "patient_id", "split", "grade", "probability_referable"]
    first = write(tmp_path, photographs[columns], "first")
    out = tmp_path / "out"
    said = evaluate(first, "--out", out, "-p", "private", small_sample)
    private = small_sample.with_name(f"{small_sample.name}.private") / "evaluation"
    assert f"wrote {private / 'report.html'}" in said and not out.exists()
    assert (private / "errors.png").is_file() and (private / "referrals.csv").is_file()
    names = pd.read_csv(private.parent / "names.csv", index_col="image_id")["file"]
    page = (private / "report.html").read_text(encoding="utf-8")
    order = [
        'id="answer"',
        "Missed eyes</h2>",
        f">{names[missed]}<",
        "Patients and photographs</h2>",
    ]
    assert sorted(order, key=page.index) == order

    evaluate(first, "--out", out)
    assert (out / "points.csv").is_file() and not (out / "referrals.csv").exists()
    (out / "notes.txt").write_text("mine")
    second = write(tmp_path, photographs.query("split == 'test'")[columns], "second")
    evaluate(second, "--out", out)
    left = {path.stem for path in out.iterdir()}
    assert not left & {"points", "accuracy", "patients", "errors", "abstention"}
    assert {"notes", "summary", "report", "README"} <= left
    (out / "report.sha256").unlink()
    assert "holds files that no evaluation listed there" in evaluate(
        second, "--out", out, exit_code=1
    )


@pytest.mark.slow
def test_a_perfect_model_is_not_praised(tmp_path):
    """The first sentence has the bound that so many patients give, and says where they are too few.

    The clip is said, and a second file of the same photographs is no other data set.
    """
    perfect = draw_predictions(30)
    perfect = perfect.drop(columns=[f"probability_{grade}" for grade in range(5)])
    is_referable = perfect["grade"].ge(2).where(perfect["split"] != "train")
    perfect["probability_referable"] = is_referable.astype(float)
    out = tmp_path / "out"
    evaluate(*(write(tmp_path, perfect, name) for name in ("one", "two")), "--out", out)
    shown = Shown((out / "report.html").read_text(encoding="utf-8")).text.replace("\xa0", " ")
    summary = pd.read_csv(out / "summary.csv").iloc[0]
    low = write_number(summary["auc_low"], form="{:.2f}")
    assert f"1.00 [{low}, 1.00]" in shown and 0.1 < summary["auc_low"] < 0.9
    assert summary["rarer_patients"] >= 10 or shown.count("Too few patients to decide") == 1
    assert "On the data set" not in shown
    assert pd.read_csv(out / "accuracy.csv")["lr_plus"].eq(np.inf).any()
    assert "closer to 0 or 1 than 0.000001 and are clipped there" in shown
    assert np.isnan(summary["average_precision_low"]) and summary["brier_high"] > 0.02
    assert "An AUC near 1 rests on few errors: its interval is deliberately wide" in shown
    assert shown.count("percentile bootstrap of") == 1
