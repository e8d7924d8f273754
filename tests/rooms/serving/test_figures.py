"""The figures of a served model, read back from what was drawn."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.rooms.serving.figures import (
    plot_latency_percentiles,
    plot_predict_time,
)
from dr_lib.rooms.serving.request_log import summarise_requests
from tests.report.reading import is_whole, timed_runs, words

ROW = {
    "status": "ok",
    "platform": "local",
    "accelerator": "cpu",
    "num_accelerators": 1,
    "data_kind": "photographs",
}
TIMES = np.linspace(0.9, 1.1, 25)


def make_requests(model="vgg19", predict_ms=450.0, name="keras", **columns):
    """Five requests to each of five deployments about a time, the run's columns beside them."""
    row = (
        ROW
        | {
            "study": "serving",
            "model": model,
            "format": name,
            "image_size": 224,
            "instance_type": "",
        }
        | columns
    )
    times = pd.DataFrame(
        {"predict_ms": predict_ms * TIMES, "round_trip_ms": predict_ms * TIMES + 9}
    )
    runs = [f"{name}-{row['instance_type']}-{k % 5}" for k in range(len(times))]
    return times.assign(request=range(len(times)), run_id=runs, **row)


def means(ax):
    """The large points of a panel, from the top."""
    return [line.get_xdata()[0] for line in ax.lines if line.get_markersize() == 8]


def labels(ax):
    """The names beside a panel."""
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize(
    ("model", "published"),
    [("vgg19", [350.6, 204.6, 392.2, 308.8]), ("mobilenet", [81.1, 61.5])],
)
def test_equal_work_stands_on_one_axis(model, published):
    """Four instances as it printed them, with its deviations; ours by machine and format, with
    n, on one axis.
    """
    requests = pd.concat(
        [make_requests(model), make_requests(model, 20.0, "litert_int8")], ignore_index=True
    )
    (ax,) = plot_predict_time(timed_runs(requests), model).axes
    num = len(means(ax)) - 2
    assert means(ax)[: len(published)] == published
    assert means(ax)[num:] == pytest.approx([450, 20]) and num >= len(published)
    assert labels(ax)[num:] == [
        f"local, CPU\n{kind}, n = 5" for kind in ("keras", "litert_int8")
    ]
    names = [f"ml.{name}.xlarge\nCamargo et al." for name in ("m4", "m5", "m6g", "c7g")]
    assert labels(ax)[:num] == names and ax.get_title(loc="left").endswith(" 224 px [ms]")
    other = plot_predict_time(timed_runs(requests.assign(image_size=96)), model)
    assert [len(means(ax)) for ax in other.axes] == [num, 2]


def test_every_request_is_drawn_with_interval_and_deviation():
    """25 points below a line that spans the interval of the mean; the paper's line spans its
    deviation to each side.
    """
    requests = timed_runs(make_requests())
    (ax,) = plot_predict_time(requests, "vgg19").axes
    (summary,) = summarise_requests(requests).itertuples()
    interval, _, points = ax.lines[-3:]
    assert sorted(points.get_xdata()) == pytest.approx(sorted(450 * TIMES))
    assert list(interval.get_xdata()) == [summary.predict_ms_low, summary.predict_ms_high]
    assert list(ax.lines[0].get_xdata()) == pytest.approx([350.6 - 5.3, 350.6 + 5.3])


def test_without_requests_the_paper_stands_alone_and_without_the_paper_we_do():
    """Before anything has been measured, and for networks that the paper did not have."""
    (paper,) = plot_predict_time(timed_runs(pd.DataFrame()), "vgg19").axes
    assert len(means(paper)) == 4
    (ours,) = plot_predict_time(timed_runs(make_requests("small_cnn", 3.0)), "small_cnn").axes
    assert means(ours) == pytest.approx([3])
    # two instances are two lines, each with its own requests
    instances = {"ml.m5.xlarge": 200.0, "ml.c7g.xlarge": 300.0}
    requests = [
        make_requests(predict_ms=ms, instance_type=name) for name, ms in instances.items()
    ]
    timed = timed_runs(pd.concat(requests, ignore_index=True))
    (ours,) = plot_predict_time(timed, "vgg19", published=False).axes
    assert means(ours) == pytest.approx([200, 300])
    points = [line.get_xdata() for line in ours.lines if line.get_markersize() == 3.5]
    assert [len(x) for x in points] == [25, 25]


def test_the_figure_speaks_portuguese_and_nothing_is_clipped():
    """Decimal commas, on the axis too."""
    requests = make_requests(predict_ms=2000.0, platform="some cloud")
    figure = plot_predict_time(timed_runs(requests), "vgg19", "pt")
    assert "351 ms" in words(figure) and "392 ms" in words(figure)
    assert figure.axes[0].xaxis.get_major_formatter()(2.5, 0) == "2,5" and is_whole(figure)


def test_latency_rises_with_the_rate_and_missed_rates_are_open():
    """Three percentiles in the order of the rates, the bound, and what was not held is not
    filled.
    """
    # as `find_max_rate` leaves them: 40/s held, 45/s missed
    rates = np.array([10.0, 20, 40, 80, 57, 45])
    tried = pd.DataFrame(
        {"rate_per_s": rates, "p50_ms": rates, "p90_ms": 2 * rates, "p99_ms": 4 * rates}
    )
    figure = plot_latency_percentiles(tried.assign(service_p99_ms=9.0, held=rates <= 40), 200.0)
    (ax,) = figure.axes
    lines = {
        line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")
    }
    assert set(lines) == {"p50", "p90", "p99", "p99 from the sending", "bound"}
    assert list(lines["p99"].get_xdata()) == [10, 20, 40, 45, 57, 80]
    assert list(lines["p99"].get_ydata()) == [40, 80, 160, 180, 228, 320]
    assert list(lines["bound"].get_ydata()) == [200, 200]
    held, missed = [line for line in ax.lines if line.get_marker() == "o"][-2:]
    assert list(held.get_xdata()) == [10, 20, 40] and list(missed.get_xdata()) == [45, 57, 80]
    assert missed.get_markerfacecolor() == "white" != held.get_markerfacecolor() and is_whole(
        figure
    )
