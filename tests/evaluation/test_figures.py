"""The figures of an evaluation, read back."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.evaluation import figures
from dr_lib.evaluation.comparison import compare_data_sets
from dr_lib.evaluation.curves import trace_curves
from dr_lib.evaluation.flow import count_flow
from dr_lib.evaluation.points import POINTS, choose_points, freeze_points, measure_points
from dr_lib.evaluation.predictions import Predictions, read_predictions
from dr_lib.evaluation.scores import summarise
from dr_lib.report.style import HALF
from tests.report.predictions import draw_abroad, draw_predictions, write
from tests.report.reading import is_whole, words


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Predictions:
    """Predictions of which one test photograph was too dark to answer for."""
    table = draw_predictions().assign(reason="", data_kind="synthetic")
    dark = table.index[table["split"] == "test"][0]
    table.loc[dark, [f"probability_{g}" for g in range(5)]] = np.nan
    table.loc[dark, "reason"] = "too dark, $5 of $6"
    return read_predictions(write(tmp_path_factory.mktemp("one"), table))[0]


def test_the_flow_names_every_loss(model):
    """Offered, learned from, validation, test, the one without an answer and its reason,
    evaluated. Half a column wide, its 9 pt do not shrink on a phone.
    """
    figure = figures.plot_flow(count_flow(model))
    text = words(figure)
    assert "Offered\n120 patients, 240 photographs" in text
    assert "Ungradable (too dark, $5 of $6)\n1 patients, 1 photographs" in text
    assert "Evaluated\n48 patients, 95 photographs" in text
    assert figure.get_figwidth() == HALF and is_whole(figure)


def test_curves_pass_through_the_operating_points(model):
    """Both points lie on the ROC curve, at their sensitivity; the numbers of the axes have
    commas in Portuguese.
    """
    points = choose_points(model, sensitivity=0.9, specificity=0.9)
    measured = measure_points(model, points)
    summary = summarise(model).iloc[0]
    figure = figures.plot_roc(trace_curves(model), measured, summary, "pt")
    corners = figure.axes[0].get_lines()[0].get_xydata()
    shown = measured[measured["ungradable"] == "excluded"]
    for row in shown.itertuples():
        place = np.array([1 - row.specificity, row.sensitivity])
        between = (corners[:-1] <= place + 1e-9) & (place <= corners[1:] + 1e-9)
        assert between.all(axis=1).any()
    bars = [bar.lines[2][0].get_segments()[0][:, 0] for bar in figure.axes[0].containers]
    bounds = 1 - shown[["specificity_high", "specificity_low"]]
    assert np.array(bars) == pytest.approx(bounds.to_numpy())
    assert is_whole(figure)
    assert "AUC 0,9" in words(figure) and "alta sensibilidade" in words(figure)


def test_no_calibration_curve_where_few_are_near_or_its_band_says_nothing():
    """Five photographs in the first cell are near up to its second neighbour, where the band has no
    width; in the last four are, in the middle fifty, with a band from 0.05 to 0.95.
    """
    table = pd.DataFrame({"predicted": (np.arange(25) + 0.5) / 25, "num_others": 0})
    table = table.assign(observed=0.5, observed_low=0.4, observed_high=0.6, num_referable=0)
    table.loc[[0, 12, 24], "num_referable"] = 5, 50, 4
    table.loc[2, "observed_high"] = 0.4
    table.loc[12, ["observed_low", "observed_high"]] = 0.05, 0.95
    figure = figures.plot_calibration({"as predicted": table, "recalibrated": table}, "pt")
    for ax in figure.axes[:2]:
        is_drawn = np.isfinite(ax.lines[1].get_ydata())
        assert np.flatnonzero(is_drawn).tolist() == [0, 1, 10, 11, 13, 14]
    assert "recalibradas" in words(figure) and is_whole(figure)


def test_each_data_set_has_its_line_and_the_carried_thresholds_their_marks(tmp_path):
    """Trained at home, tested at home and abroad, in Portuguese."""
    home = draw_predictions().assign(model_version="v1", dataset="home")
    found = read_predictions(write(tmp_path, home, "a"), write(tmp_path, draw_abroad(), "b"))
    points = freeze_points(found, sensitivity=0.9, specificity=0.9)
    table = compare_data_sets(found, points)
    figure = figures.plot_data_sets(table, "pt")
    text = words(figure)
    assert "home → home" in text and "home → abroad" in text and "alta sensibilidade" in text
    drawn = np.concatenate([line.get_xdata() for line in figure.axes[1].get_lines()])
    assert sorted(drawn) == pytest.approx(sorted(table["sensitivity"])) and is_whole(figure)
    bars = figure.axes[1].containers[0].lines[2][0].get_segments()
    at = table.loc[table["point"] == POINTS[0], ["sensitivity_low", "sensitivity_high"]]
    assert np.array(bars)[..., 0] == pytest.approx(at.to_numpy())


def test_the_captions_of_photographs_do_not_overlap():
    """The longest words, in Portuguese, stay above their own photograph and in the figure."""
    errors = pd.DataFrame({"error": "missed", "line": 100, "image_id": list("abcd")})
    errors["grade"] = 2
    errors["probability_referable"] = 0.282
    crops = {name: np.zeros((8, 8, 3), np.uint8) for name in "abcd"}
    figure = figures.plot_photographs(errors, crops, "pt")
    figure.canvas.draw()
    captions = [ax.title.get_window_extent() for ax in figure.axes[:3]]
    for left, right in zip(captions, captions[1:], strict=False):
        assert left.x1 < right.x0
    assert is_whole(figure)
