"""The figures of a served model, read back from what was drawn."""

import pandas as pd
import pytest

from dr_lib.claims.claims import list_printed
from dr_lib.serving.figures import plot_predict_time
from tests.report.reading import is_whole, words


def make_times(model="vgg19", predict_ms=450.0, name="keras", **columns):
    """A row of `price_endpoints` on this machine, from five runs."""
    about = {"environment": "local, CPU", "image_size": 224, "n": 5}
    ends = {"predict_ms_low": 0.9 * predict_ms, "predict_ms_high": 1.1 * predict_ms}
    times = {"model": model, "format": name, "predict_ms": predict_ms, **ends}
    return pd.DataFrame([about | times | columns])


PAPER = list_printed("B")


def plot(*tables, model="vgg19", published=PAPER, **options):
    """The panels of a figure of these times."""
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    return plot_predict_time(table, model, published=published, **options).axes


def means(ax):
    """The large points of a panel, from the top."""
    return [line.get_xdata()[0] for line in ax.lines if line.get_markersize() == 8]


@pytest.mark.parametrize(
    ("model", "published"),
    [("vgg19", [350.6, 204.6, 392.2, 308.8]), ("mobilenet", [81.1, 61.5])],
)
def test_equal_work_stands_on_one_axis(model, published):
    """Four instances as it printed them, with its deviations; ours by machine and format, with
    n, on one axis.
    """
    ours = [make_times(model), make_times(model, 20.0, "litert_int8")]
    (ax,) = plot(*ours, model=model)
    assert means(ax)[: len(published)] == published
    assert len(means(ax)) == 6 and means(ax)[4:] == pytest.approx([450, 20])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    names = [f"ml.{name}.xlarge\nCamargo et al." for name in ("m4", "m5", "m6g", "c7g")]
    names += [f"local, CPU\n{kind}, n = 5" for kind in ("keras", "litert_int8")]
    assert labels == names and ax.get_title(loc="left").endswith(" 224 px [ms]")
    other = plot(*[each.assign(image_size=96) for each in ours], model=model)
    assert [len(means(ax)) for ax in other] == [4, 2]


def test_without_requests_the_paper_stands_alone_and_without_the_paper_we_do():
    """Before anything has been measured, and for networks that the paper did not have."""
    (paper,) = plot()
    assert len(means(paper)) == 4
    (ours,) = plot(make_times("small_cnn", 3.0), model="small_cnn")
    assert means(ours) == pytest.approx([3])


def test_the_figure_speaks_portuguese_and_nothing_is_clipped():
    """Decimal commas, on the axis too."""
    (ax,) = plot(make_times(predict_ms=2000.0, environment="some cloud, CPU"), lang="pt")
    assert "351 ms" in words(ax.figure) and "392 ms" in words(ax.figure)
    assert ax.xaxis.get_major_formatter()(2.5, 0) == "2,5" and is_whole(ax.figure)
