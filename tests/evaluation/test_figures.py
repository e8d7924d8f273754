"""The figures of an evaluation, read back."""

from sklearn.metrics import roc_curve

from dr_lib.evaluation import figures
from dr_lib.evaluation.points import choose_points, measure_points
from dr_lib.evaluation.predictions import read_predictions
from dr_lib.evaluation.scores import calibrate, weigh_decisions
from tests.report.predictions import draw_predictions, write
from tests.report.reading import is_whole, words


def test_curves_bins_and_benefits_are_drawn_as_they_were_counted(tmp_path):
    """Of two models each has its curve and its AUC, with commas; the points lie on the first."""
    tables = {"mine": draw_predictions(300), "other": draw_predictions(300, noise=5.0)}
    models = read_predictions(*(write(tmp_path, t, name) for name, t in tables.items()))
    measured = measure_points(models[0], choose_points(models[0]))
    roc = figures.plot_roc(models, measured, "pt")
    test = models[0].test
    alarms, found, _ = roc_curve(test["referable"], test["probability_referable"])
    first, _, *points, _ = roc.axes[0].get_lines()
    assert first.get_xydata().T.tolist() == [alarms.tolist(), found.tolist()]
    shown = measured[measured["unit"] == "photographs"]
    at = [[[1 - row.specificity, row.sensitivity]] for row in shown.itertuples()]
    assert [line.get_xydata().tolist() for line in points] == at
    assert "mine: AUC 0,9" in words(roc) and "other: AUC 0,5" in words(roc)

    calibration = figures.plot_calibration(calibrate(models[0])[1], "pt")
    curve = weigh_decisions(models[0])
    decisions = figures.plot_decisions(curve, "pt")
    drawn = decisions.axes[0].get_lines()[0].get_ydata()
    assert drawn.tolist() == curve["net_benefit"].tolist()
    assert all(map(is_whole, (roc, calibration, decisions)))
