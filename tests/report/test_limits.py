"""What limits a training: its rules as a table of situations, and what a report says."""

import numpy as np
import pandas as pd
import pytest

from dr_lib.report.figures import plot_division
from dr_lib.report.limits import PARTS, divide_times, find_limit, say_limits
from dr_lib.report.page import Page

# compiling, input, steps, validation, checkpoints, callbacks [s], fraction of the peak
SITUATIONS = [
    ([60, 1, 30, 5, 1, 1], 0.5, "compiling"),
    ([10, 50, 30, 5, 1, 1], 0.5, "input"),
    ([10, 1, 80, 5, 1, 1], 0.2, "arithmetic"),
    ([10, 1, 80, 5, 1, 1], 0.19, "launches"),
    # validation is steps, too
    ([40, 1, 30, 25, 1, 1], 0.01, "launches"),
    ([60, 1, 30, 25, 1, 1], 0.01, "compiling"),
    # no peak is needed for compiling and input
    ([60, 1, 30, 5, 1, 1], np.nan, "compiling"),
    ([10, 50, 30, 5, 1, 1], np.nan, "input"),
    ([10, 1, 80, 5, 1, 1], np.nan, "not known"),
    # saving and scores take longest, and rows older than a column
    ([10, 1, 20, 5, 30, 20], 0.5, "not known"),
    ([10, np.nan, 80, 5, 1, 1], 0.5, "not known"),
    ([np.nan] * 6, np.nan, "not known"),
]


@pytest.mark.parametrize(("seconds", "fraction", "limit"), SITUATIONS)
def test_the_limit_takes_longest(seconds, fraction, limit):
    """Steps and validation are one; they are limited by arithmetic from a fifth of the peak on."""
    row = {**dict(zip(PARTS, map(float, seconds), strict=True)), "peak_fraction": fraction}
    assert find_limit(row) == find_limit(pd.Series(row)) == limit


def draw(place: str, *seconds: float, fraction: float = np.nan) -> dict:
    """A row of a training at a place."""
    return {
        "place": place,
        "model": "small_cnn",
        "image_size": 96,
        "epochs": 20,
        "data_kind": "synthetic",
        "train_s": sum(seconds) if seconds else 30.0,
        **dict(zip(PARTS, seconds, strict=False)),
        "images_per_s": 50.0,
        "flop_per_image": 2e8,
        "peak_fraction": fraction,
    }


ROWS = pd.DataFrame(
    [
        draw("here", 5, 1, 80, 10, 2, 2, fraction=0.4),
        draw("here", 5, 1, 90, 10, 2, 2, fraction=0.4),
        draw("there", 20, 2, 15, 2, 0.5, 0.5, fraction=0.01),
        draw("older"),
    ]
)


def compare(slower: str, faster: str, ratio: float = 105 / 40) -> pd.DataFrame:
    """What two places differ by."""
    return pd.DataFrame({"slower": [slower], "faster": [faster], "times_as_long": [ratio]})


def test_a_report_says_what_limits_and_what_makes_the_difference():
    """Of 105 - 40 s the steps make 85 - 15, for there compiling takes longer; of older rows
    neither is known.
    """
    divided = divide_times(ROWS)
    parts = divided[list(PARTS)].sum(axis=1, min_count=6)
    assert parts.tolist() == pytest.approx(divided["train_s"].tolist(), nan_ok=True)
    assert say_limits(divided, compare("here", "there")) == [
        "What limits this training: arithmetic on here; not known on older; compiling on there.",
        "On here it takes 65 s longer than on there, the most in one part: steps, 70 s.",
    ]
    unknown = "Which part makes the difference between here and older is not known."
    assert say_limits(divided, compare("here", "older"))[1] == unknown
    # an outlier, which the ratio leaves out, may turn the means; and older rows are in it alone
    for pair in (compare("there", "here", 40 / 105), compare("here", "there", 3.0)):
        assert "is not known" in say_limits(divided, pair)[1]
    assert "compilação em there" in say_limits(divided, pd.DataFrame(), "pt")[0]
    assert say_limits(divide_times(ROWS[:0]), pd.DataFrame()) == []


def test_bars_are_means_whose_parts_end_where_the_next_begin():
    """Two places have them, in the order of their names; the last part of each ends at train_s."""
    figure = plot_division(divide_times(ROWS), ROWS)
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["here", "there"]
    ends = [bar.get_x() + bar.get_width() for bar in ax.containers[-1]]
    assert ends == pytest.approx([105.0, 40.0])
    for before, after in zip(ax.containers[:-1], ax.containers[1:], strict=True):
        for left, right in zip(before, after, strict=True):
            assert left.get_x() + left.get_width() == pytest.approx(right.get_x())


@pytest.mark.parametrize(("rows", "files"), [(ROWS, 5), (ROWS[3:], 0)])
def test_a_page_of_older_rows_alone_has_no_table(rows, files, tmp_path, capsys):
    """What is not known is said in the sentence: a table and a figure would be empty."""
    Page(str(tmp_path)).limits(rows, pd.DataFrame())
    assert len([*tmp_path.glob("limits.*"), *tmp_path.glob("seconds.*")]) == files
