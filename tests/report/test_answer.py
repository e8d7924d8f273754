"""A report's first sentence, number and limits."""

import pandas as pd
import pytest

from dr_lib.report.answer import answer_ratio, answer_training, list_limits
from dr_lib.report.groups import select_runs, tabulate_groups
from dr_lib.report.style import choose_words
from dr_lib.statistics.times import FEW_SESSIONS
from tests.report.test_groups import run


@pytest.mark.parametrize(
    ("bounds", "scope", "words"),
    [
        ((0.9, 2.8), "", "1.60 [0.90, 2.80] times as long, and may take equally long."),
        ((None, None), FEW_SESSIONS, f"1.6 ({FEW_SESSIONS}) times as long."),
    ],
)
def test_a_ratio_that_may_be_one_is_said_to_be(bounds, scope, words):
    """And one without an interval says why."""
    names = ["slower", *(f"times_as_long{end}" for end in ("", "_low", "_high", "_scope"))]
    ratio = pd.Series(["T4", 1.6, *bounds, scope], names)
    said = answer_ratio(ratio.fillna(float("nan")), choose_words("en"), "en")
    assert said == f"On T4 it takes {words}"


def test_what_limits_times_is_listed():
    """Disturbed and synthetic runs, few sessions, other work, models that are chance."""
    runs = pd.DataFrame({"run_id": list("abc"), "environment": "T4", "session": list("xxy")})
    runs = runs.assign(disturbed=[True, False, False], data_kind="synthetic")
    runs["metric_auc_test"] = 0.75
    runs["metric_auc_test_low"] = [None, 0.6, 0.7]  # few patients have no interval
    say = choose_words("en")
    text = " ".join(list_limits(runs, say, is_other_work=True))
    shown = ("1 of 3 runs were disturbed", "The paper names no network", "synthetic")
    for words in (*shown, "2 of 3 sessions", "In 1 of 3 runs the model has not been shown"):
        assert words in text
    quiet = runs.assign(disturbed=False, data_kind="photographs", session=list("xyz"))
    assert list_limits(quiet[quiet.columns.drop([*quiet.filter(like="metric")])], say) == []


@pytest.mark.parametrize(
    ("boots", "note"),
    [("aaaa", "n = 4, sessions: 1, within this session"), ("abcd", "n = 4, sessions: 4")],
)
def test_the_interval_of_one_session_is_called_so(boots, note):
    """The number on the first screen, as in the table: another session may differ by more."""
    selection = select_runs(run([10, 11, 12, 13], boot=[*boots]))
    groups = tabulate_groups(selection, ["train_s"])
    (number,) = answer_training(selection, groups, pd.DataFrame()).numbers
    assert number.note == note and number.bounds


def test_runs_of_two_studies_with_one_name_are_two():
    """A run's name is unique in its study. Where all have one epoch, none has been timed."""
    rows = pd.concat([run(study="a"), run([5, 6, 7], study="b")], ignore_index=True)
    rows = rows.assign(steady_epoch_s=None, disturbed=True)
    selection = select_runs(rows)
    groups = tabulate_groups(selection, ["train_s", "steady_epoch_s"])
    answer = answer_training(selection, groups, pd.DataFrame())
    assert "Rests on 6 runs" in answer.rests
    assert "6 of 6 runs were disturbed, and count." in answer.limits
    answer = answer_training(selection, groups, pd.DataFrame(), column="steady_epoch_s")
    assert (answer.sentence, answer.numbers) == ("No training has been timed yet.", ())
