"""The report of an evaluation, whole."""

import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from nbconvert.filters import markdown2html

from dr_lib.__main__ import main
from dr_lib.data.prepared.folder import Prepared
from dr_lib.numbers import write_number
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.reading import HOSTILE, Shown, check_hostile, find_english


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
def test_nothing_of_an_earlier_or_a_private_evaluation_stays_behind(tmp_path, small_sample):
    """A private one is written beside the prepared folder; a second one into the same folder leaves
    the user's own files, which a first one does not mix with. Of test rows alone it has no
    operating point, and the number that could not be used is nowhere in its tables.
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
    assert pd.read_csv(private / "errors.csv")["file"].isin(names).all()
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
    tested = photographs.query("split == 'test'")[columns].assign(reason="")
    tested.iloc[0, -2:] = [np.nan, "too dark"]
    second = write(tmp_path, tested, "second")
    evaluate(second, "--out", out)
    number = pd.read_csv(out / "flow.csv").set_index("stage")["num_images"]
    assert (number["test"], number["ungradable"]) == ("–", "< 5")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "No operating point: there are no validation rows" in page
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


@pytest.mark.slow
def test_a_portuguese_evaluation_holds_no_english_sentence(tmp_path):
    """Of two models and two hospitals: sections, captions, notes, and the cells of methods and
    guidelines. The page has no code, the checklist and the card are beside it.
    """
    tables = {
        "home": draw_predictions().assign(model_version="v1", dataset="Hospital A"),
        "abroad": draw_abroad().assign(dataset="Hospital B"),
        "two": draw_predictions(noise=5.0).assign(model_version="v2"),
    }
    paths = [write(tmp_path, table, name) for name, table in tables.items()]
    out = tmp_path / "out"
    evaluate(*paths, "--out", out, "--lang", "pt")
    page = (out / "report.html").read_text(encoding="utf-8")
    committee = (out / "committee.html").read_text(encoding="utf-8")
    assert find_english(committee) == [] and "Quem assina" in committee
    assert find_english(page) == [] and "de Wilson, com o número efetivo" in page
    assert "import " not in re.sub('data:[^"]*', "", page)
    difference = pd.read_csv(out / "comparison.csv").iloc[0]
    assert (difference["model"], difference["reference"]) == ("two", "home")
    assert difference["delta_auc_high"] < 0
    items = pd.read_csv(out / "checklist.csv", keep_default_na=False)
    flow = "120 pacientes disponíveis, 240 retinografias; 48 avaliados, 96 retinografias"
    (item,) = items.query("guideline == 'STARD-AI' and item == '24'").itertuples()
    assert (item.status, item.text) == ("preenchido por esta execução", flow)
    assert find_english("".join(f"<td>{text}</td>" for text in items["topic"])) == []
    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card.startswith("# Ficha do modelo: home") and "*o autor deve preencher*" in card
    lines = [line for line in card.splitlines() if "validação cruzada" not in line]
    assert find_english("".join(f"<p>{line}</p>" for line in lines)) == []
