"""The figures of a served model, read back from what was drawn."""

import pandas as pd
import pytest

from dr_lib.claims.claims import list_printed
from dr_lib.serving.figures import plot_predict_time
from tests.report.reading import is_whole, words

PAPER = list_printed("B")


def make_times(model="vgg19", predict_ms=450.0, name="keras", **columns):
    """A row of `price_endpoints` on this machine, from five runs."""
    about = {"environment": "local, CPU", "image_size": 224, "n": 5}
    ends = {"predict_ms_low": 0.9 * predict_ms, "predict_ms_high": 1.1 * predict_ms}
    times = {"model": model, "format": name, "predict_ms": predict_ms, **ends}
    return pd.DataFrame([about | times | columns])


def means(ax):
    """The large points of a panel, from the top."""
    return [line.get_xdata()[0] for line in ax.lines if line.get_markersize() == 8]


@pytest.mark.parametrize(
    ("model", "published"),
    [
        ("vgg19", [350.6, 204.6, 392.2, 308.8]),
        ("mobilenet", [81.1, 61.5]),
        ("small_cnn", []),  # the paper did not have it
    ],
)
def test_equal_work_stands_on_one_axis(model, published):
    """Four instances as it printed them; ours by machine and format, with n, on one axis; other
    sizes on their own.
    """
    ours = pd.concat([make_times(model), make_times(model, 20.0, "litert_int8")])
    (ax,) = plot_predict_time(ours, model, published=PAPER).axes
    assert means(ax)[: len(published)] == published
    assert means(ax)[-2:] == pytest.approx([450, 20])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[-2:] == [f"local, CPU\n{kind}, n = 5" for kind in ("keras", "litert_int8")]
    assert not published or labels[0] == "ml.m4.xlarge\nCamargo et al."
    other = plot_predict_time(ours.assign(image_size=96), model, published=PAPER).axes
    assert len(means(other[-1])) == 2


def test_the_figure_speaks_portuguese_and_nothing_is_clipped():
    """Decimal commas, on the axis too; the paper may stand alone."""
    (ax,) = plot_predict_time(pd.DataFrame(), "vgg19", "pt", published=PAPER).axes
    assert "350,6 ms" in words(ax.figure) and "392,2 ms" in words(ax.figure)
    assert ax.xaxis.get_major_formatter()(2.5, 0) == "2,5" and is_whole(ax.figure)
