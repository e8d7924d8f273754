"""Notebook 12 run headless: a report on anybody's predictions."""

import os
import re

import papermill
import pytest

from tests.notebooks import execute, num_pictures, texts
from tests.report.predictions import draw_predictions, write


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
            assert num_pictures(notebook) == 3 and "48 patients" in texts(notebook)
    asked = "set predictions to one, latest first: {0}/a/{1}, {0}/b/{1}"
    asked = asked.format("papermill_runs/adhoc/runs", "predictions.csv")
    with pytest.raises(papermill.PapermillExecutionError, match=re.escape(asked)):
        execute(clone, "12_evaluate", kernel)
