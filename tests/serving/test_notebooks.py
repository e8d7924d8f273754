"""Notebooks 21 to 23 run headless: from a trained model to what a prediction costs."""

import re

import pandas as pd
import papermill
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.serving.untrained import export_untrained
from dr_lib.training.model_folder import read_folder
from tests.notebooks import (
    displayed,
    execute,
    num_pictures,
    read_rows,
    report,
    texts,
)


@pytest.mark.slow
def test_from_a_trained_model_to_what_a_prediction_costs(clone, kernel, small_sample):
    """Notebooks 10, 21, 22 and 23 in turn: trained, exported through the gate, served, asked,
    loaded, priced.
    """
    data = {"data_dir": str(small_sample)}
    execute(clone, "10_train", kernel, task="grades", image_size=48, epochs=2, **data)
    adhoc = clone / "papermill_runs" / "adhoc"
    (trained,) = adhoc.glob("runs/*/model")
    predict = ["predict", str(trained), str(small_sample), "--out", str(clone / "again.csv")]
    assert CliRunner().invoke(main, predict, catch_exceptions=False).exit_code == 0
    written = pd.read_csv(trained.parent / "predictions.csv")
    again = pd.read_csv(clone / "again.csv")  # the model says the same
    pd.testing.assert_frame_equal(written, again, atol=1e-5)
    how = {"model_dir": str(trained), "num_rounds": 3, "force": True}
    # its threads are pinned in a new kernel
    exported = execute(clone, "21_export_quantize", **how, **data)
    assert num_pictures(exported) and "litert_int8" in texts(exported)
    (served,) = adhoc.glob("runs/*/exported/litert_int8")
    asked = execute(
        clone,
        "22_serve_and_load",
        kernel,
        served_dir=str(served),
        photographs=str(small_sample.parent / "photographs"),
        instance="ml.m5.xlarge",
        num_requests=5,
        gap_s=0.0,
        load_seconds=0.5,
        num_compared=5,
        bound_ms=1000.0,
    )
    assert num_pictures(asked) == 1 and "the server ended with status 0" in texts(asked)
    assert "5 compared, largest difference of a probability: 0" in texts(asked)
    (row,) = [row for row in read_rows(clone) if row["notebook"] == "22_serve_and_load"]
    expected = {
        "format": "litert_int8",
        "usd_per_hour": 0.23,
        "cost_usd": None,
        "threads": row["num_cpus"],
        "gate_passes": read_folder(served).facts["gate"]["passes"],
    }
    assert {name: row[name] for name in expected} == expected
    text = report(clone, "adhoc", notebook="23_serving_cost")
    # on a machine that does much else no rate may be held, and a format may be refused
    assert re.search('class="say">[^<]*endpoint of small_cnn, 48 px', text)
    (times,) = pd.read_csv(adhoc / "response_times.csv").itertuples()
    assert times.n == 1 and times.predict_ms > 0


def test_23_without_rows_shows_the_paper_alone(clone, kernel):
    """The published figures, each with its network, and their costs."""
    notebook = execute(clone, "23_serving_cost", kernel)
    assert num_pictures(notebook) == 2 and "Costs from the paper's means" in texts(notebook)
    assert "Figure 1.</strong> Time of a prediction of VGG19 on" in displayed(notebook)


def test_22_says_why_an_endpoint_does_not_answer(clone, kernel, small_sample):
    """A folder that holds no model, an endpoint without a folder, and a model that the server
    refuses: each is told.
    """
    photographs = str(small_sample.parent / "photographs")
    refused = export_untrained(clone / "refused", "small_cnn", 48).path  # a Keras model
    for asked, message in (
        ({"served_dir": "nowhere"}, "holds no model"),
        ({"url": "http://127.0.0.1:9"}, "give the folder that the endpoint serves"),
        ({"served_dir": str(refused)}, "the server is not ready: see"),
    ):
        with pytest.raises(papermill.PapermillExecutionError, match=message):
            execute(clone, "22_serve_and_load", kernel, photographs=photographs, **asked)
    (log,) = clone.glob("papermill_runs/adhoc/runs/*/server.log")
    assert "keras cannot be served; export the trained model first: " in log.read_text()
