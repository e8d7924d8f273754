"""The figures of an evaluation, read back."""

import numpy as np
import pytest

from dr_lib.evaluation import figures
from dr_lib.evaluation.curves import calibrate, weigh_decisions
from dr_lib.evaluation.points import Goals, choose_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from tests.report.predictions import draw_predictions, write
from tests.report.reading import is_whole, words


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list:
    """Two models of the same photographs."""
    folder = tmp_path_factory.mktemp("two")
    tables = {"mine": draw_predictions(300), "other": draw_predictions(300, noise=5.0)}
    return read_predictions(*(write(folder, table, name) for name, table in tables.items()))


def test_curves_pass_through_the_operating_points(models):
    """Both points lie on the first ROC curve with their intervals; each model has its AUC, with
    commas in Portuguese.
    """
    measured = measure_points(models[0], choose_points(models[0], Goals()))
    figure = figures.plot_roc(models, measured, "pt")
    corners = figure.axes[0].get_lines()[0].get_xydata()
    shown = measured[measured["unit"] == "photographs"]
    for row in shown.itertuples():
        at = np.array([1 - row.specificity, row.sensitivity])
        between = (corners[:-1] <= at + 1e-9) & (at <= corners[1:] + 1e-9)
        assert between.all(axis=1).any()
    bars = [bar.lines[2][0].get_segments()[0][:, 0] for bar in figure.axes[0].containers]
    bounds = 1 - shown[["specificity_high", "specificity_low"]]
    assert np.array(bars) == pytest.approx(bounds.to_numpy())
    text = words(figure)
    assert "mine: AUC 0,9" in text and "other: AUC 0,5" in text and "alta sensibilidade" in text
    assert is_whole(figure)


def test_calibration_decisions_and_grades_are_drawn_as_they_were_counted(models):
    """The points of the tenths, the net benefit, and the photographs of each grade."""
    _, bins = calibrate(models[0])
    curve = weigh_decisions(models[0])
    drawn = figures.plot_calibration(bins, "pt")
    points = drawn.axes[0].containers[0].lines[0].get_xydata()
    assert points == pytest.approx(bins[["predicted", "observed"]].to_numpy())
    weighed = figures.plot_decisions(curve, "pt")
    assert weighed.axes[0].get_lines()[0].get_ydata().tolist() == curve["net_benefit"].tolist()
    graded = models[0].graded
    confusion = figures.plot_confusion(graded, "pt")
    numbers = [int(text.get_text()) for text in confusion.axes[0].texts]
    assert sum(numbers) == len(graded) and len(numbers) == 25
    number = ((graded["grade"] == 0) & (graded["predicted_grade"] == 1)).sum()
    assert numbers[1] == number
    assert all(map(is_whole, (drawn, weighed, confusion)))
