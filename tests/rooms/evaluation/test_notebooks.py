"""Notebook 12 run headless: a report on anybody's predictions."""

import os
import re

import pandas as pd
import papermill
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.rooms.evaluation.adjudication import write_lists
from dr_lib.rooms.evaluation.points import choose_points
from dr_lib.rooms.evaluation.predictions import read_predictions
from tests.notebooks import execute, num_pictures, texts
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.reading import find_english


def test_12_reads_the_only_predictions_of_the_clone_and_asks_where_there_are_two(clone, kernel):
    """None are named: those of the one run; of two runs it stops, and names both, the latest
    first.
    """
    runs = clone / "papermill_runs" / "adhoc" / "runs"
    for number, name in enumerate(("b", "a")):
        (runs / name).mkdir(parents=True)
        path = write(runs / name, draw_predictions(noise=5.0), "predictions")
        os.utime(path, (number, number))
        if name == "b":
            notebook = execute(clone, "12_evaluate", kernel)
            assert num_pictures(notebook) == 10 and "120 patients" in texts(notebook)
    asked = "set predictions to one, the latest first: {0}/a/{1}, {0}/b/{1}"
    asked = asked.format("papermill_runs/adhoc/runs", "predictions.csv")
    with pytest.raises(papermill.PapermillExecutionError, match=re.escape(asked)):
        execute(clone, "12_evaluate", kernel)


@pytest.mark.slow
def test_12_carries_thresholds_to_another_hospital(clone, kernel, tmp_path):
    """The first file is the other hospital's; the report says where they were frozen."""
    home = draw_predictions().assign(model_version="v1", dataset="home")
    paths = [write(tmp_path, draw_abroad(), "abroad"), write(tmp_path, home, "home")]
    asked = {"predictions": ",".join(map(str, paths)), "out": str(tmp_path / "out")}
    said = texts(execute(clone, "12_evaluate", kernel, **asked))
    assert "frozen on the validation split of home and carried over unchanged" in said
    assert "External validation" in said
    assert re.search(r'On the data set home .AUC.</h3><div class="big">0\.\d+ ', said)
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert "home → home, high sensitivity: AUC " in card


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
    paths = [str(write(tmp_path, table, name)) for name, table in tables.items()]
    model = read_predictions(paths[0])[0]
    points = choose_points(model, sensitivity=0.9, specificity=0.9)
    write_lists(tmp_path, model.test, points, 60, {})
    filled = tmp_path / "adjudicate.csv"
    pd.read_csv(filled).assign(grade=[0, 2] * 30).to_csv(filled, index=False)
    out = tmp_path / "out"
    asked = ["evaluate", *paths, "--lang", "pt", "--out", str(out)]
    asked += ["--adjudicate", "60", "--adjudicated", str(filled)]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0, said.output
    page = (out / "report.html").read_text(encoding="utf-8")
    committee = (out / "committee.html").read_text(encoding="utf-8")
    assert find_english(committee) == [] and "Quem assina" in committee
    assert find_english(page) == [] and "de Wilson, com o número efetivo" in page
    assert "import " not in re.sub('data:[^"]*', "", page)
    corrected = pd.read_csv(out / "adjudication.csv")
    assert corrected["sensitivity_corrected"].between(0.2, 0.9).all()
    difference = pd.read_csv(out / "comparison.csv").iloc[0]
    assert (difference["model"], difference["reference"]) == ("two", "home")
    assert difference["delta_auc_high"] < 0
    items = pd.read_csv(out / "checklist.csv").query("guideline == 'STARD-AI' and item == '24'")
    flow = "120 patients offered, 240 photographs; 48 evaluated, 96 photographs"
    assert items[["status", "text"]].to_numpy().tolist() == [["filled by this run", flow]]
    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card.startswith("# Model card: home") and "*author must fill*" in card
    again = CliRunner().invoke(main, asked)
    assert "adjudicate.csv is there, and may be in use: give another --out" in again.output
