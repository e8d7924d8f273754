"""The figures of a served model, read back from what was drawn."""

import pandas as pd
import pytest

from dr_lib.claims.claims import list_printed
from dr_lib.serving.figures import plot_predict_time
from tests.report.reading import is_whole, words

PAPER = list_printed("B")


OURS = {
    "environment": "local, CPU",
    "image_size": 224,
    "n": 5,
    "model": "vgg19",
    "format": "keras",
    "predict_ms": 450.0,
    "predict_ms_low": 15.0,
    "predict_ms_high": 500.0,
}


def means(ax):
    """The large points of a panel, from the top."""
    return [line.get_xdata()[0] for line in ax.lines if line.get_markersize() == 8]


def test_equal_work_stands_on_one_axis():
    """Four instances as it printed them; ours by machine and format, with n, on one axis; other
    sizes on their own.
    """
    ours = pd.DataFrame([OURS, OURS | {"format": "litert_int8", "predict_ms": 20.0}])
    (ax,) = plot_predict_time(ours, "vgg19", published=PAPER).axes
    assert means(ax) == pytest.approx([350.6, 204.6, 392.2, 308.8, 450, 20])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0] == "ml.m4.xlarge\nCamargo et al."
    assert labels[-2:] == [f"local, CPU\n{kind}, n = 5" for kind in ("keras", "litert_int8")]
    other = plot_predict_time(ours.assign(image_size=96), "vgg19", published=PAPER).axes
    assert means(other[-1]) == [450, 20]


def test_the_figure_speaks_portuguese_and_nothing_is_clipped():
    """Decimal commas; the paper may stand alone."""
    (ax,) = plot_predict_time(pd.DataFrame(), "vgg19", "pt", published=PAPER).axes
    assert "350,6 ms" in words(ax.figure) and is_whole(ax.figure)
