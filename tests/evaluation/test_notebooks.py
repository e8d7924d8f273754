"""Notebook 12 run headless: a report on anybody's predictions."""

import os
import re

import pandas as pd
import papermill
import pytest

from dr_lib.evaluation.curves import calibrate
from dr_lib.evaluation.predictions import read_predictions
from tests.notebooks import execute, num_pictures, texts
from tests.report.predictions import draw_abroad, draw_predictions, write


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
    assert 0 < said.index("External validation") < said.index("Operating points and")
    alone, _ = calibrate(read_predictions(paths[1])[0])
    there = pd.read_csv(tmp_path / "out" / "calibration_2.csv")
    assert there["slope"].tolist() == pytest.approx(alone["slope"].tolist())
    wrong = pd.read_csv(tmp_path / "out" / "errors_2.csv")
    assert {"missed", "false alarm"} >= set(wrong["error"]) and len(wrong)
    assert re.search(r'On the data set home .AUC.</h3><div class="big">0\.\d+ ', said)
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert "home → home, high sensitivity: AUC " in card
