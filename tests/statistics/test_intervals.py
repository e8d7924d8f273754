"""The intervals, against textbooks, SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from dr_lib.statistics.intervals import BadSampleError, auc_interval, mean_interval, ratio_interval

# carbon monoxide levels, the worked example of Olsson 2005, J. Stat. Educ. 13-1
OLSSON = [12.5, 20, 4, 20, 25, 170, 15, 20, 15]


def draw_eyes(num_patients, seed):
    """Two eyes of each patient with one label and nearly one score, as (label, score, patient)."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, num_patients)
    score = label + rng.normal(0, 1, num_patients)
    return np.repeat(label, 2), np.repeat(score, 2).round(1), np.repeat(np.arange(num_patients), 2)


def test_the_mean_and_its_bounds_are_those_of_the_textbook():
    """Olsson's example: mean 33.5 ppm, modified Cox interval 12.31 to 78.72."""
    interval = mean_interval(OLSSON)
    assert interval.n == 9
    assert interval[:3] == pytest.approx((33.5, 12.30929, 78.72254), rel=1e-6)


def test_a_small_spread_gives_the_interval_of_student():
    """At a coefficient of variation of 1 % the log interval and t on the plain times are one."""
    times = np.random.default_rng(5).normal(100, 1, 10)
    low, high = stats.t.interval(0.95, 9, times.mean(), stats.sem(times))
    assert mean_interval(times)[:3] == pytest.approx((times.mean(), low, high), rel=2e-4)


def test_the_interval_of_the_mean_covers_the_truth():
    """Of 2,000 log-normal samples of five, about 95 % hold the true mean between their bounds."""
    rng = np.random.default_rng(8)
    truth = np.exp(0.3**2 / 2)
    intervals = [mean_interval(rng.lognormal(0, 0.3, 5)) for _ in range(2000)]
    assert np.mean([i.low < truth < i.high for i in intervals]) == pytest.approx(0.95, abs=0.015)


def test_the_ratio_is_that_of_welch_on_logarithms():
    """SciPy's Welch interval of the log times, exponentiated, for unequal sizes and spreads."""
    rng = np.random.default_rng(3)
    tpu, gpu = rng.lognormal(7.6, 0.10, 8), rng.lognormal(8.0, 0.04, 12)
    expected = stats.ttest_ind(np.log(tpu), np.log(gpu), equal_var=False).confidence_interval(0.95)
    interval = ratio_interval(tpu, gpu)
    assert interval.value == pytest.approx(stats.gmean(tpu) / stats.gmean(gpu))
    assert (interval.low, interval.high) == pytest.approx((np.exp(expected.low), np.exp(expected.high)))
    assert interval.n == 8


def test_the_ratio_turned_over_has_the_bounds_turned_over():
    """Whichever machine comes first, the claim is the same."""
    ours, theirs = ratio_interval([2, 3, 4], [5, 6, 9, 8]), ratio_interval([5, 6, 9, 8], [2, 3, 4])
    assert (ours.value, ours.low, ours.high) == pytest.approx((1 / theirs.value, 1 / theirs.high, 1 / theirs.low))


def test_the_ratio_of_two_constants_is_known_exactly():
    """Prices do not spread: 0.174 against 0.23 USD an hour is 24.35 % less, with no doubt left."""
    assert ratio_interval([0.174] * 3, [0.23] * 3)[:3] == pytest.approx([0.174 / 0.23] * 3)


@pytest.mark.parametrize("interval", [mean_interval, lambda x: ratio_interval(x, x)])
@pytest.mark.parametrize("times", [[], [3.0]])
def test_fewer_than_two_runs_have_no_bounds(interval, times):
    """One run says nothing about the next; that is NaN, not a crash and not a false certainty."""
    result = interval(times)
    assert np.isnan([result.low, result.high]).all()
    assert result.n == len(times)


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf])
def test_refuses_impossible_times(bad):
    """A time that is not positive and finite is a failed run, whichever interval is asked for."""
    for interval in (mean_interval, lambda x: ratio_interval([1, 2], x)):
        with pytest.raises(BadSampleError, match="positive"):
            interval([5, bad])


def test_the_auc_is_that_of_scikit_learn():
    """Ties included: the scores are rounded to one decimal."""
    label, score, patient = draw_eyes(100, 1)
    assert auc_interval(label, score, patient, seed=0).value == pytest.approx(roc_auc_score(label, score))


@pytest.mark.slow
def test_the_bounds_of_the_auc_are_those_of_drawing_patients():
    """The plain loop, with scikit-learn's AUC of the drawn patients' eyes, ends within 0.01."""
    label, score, patient = draw_eyes(60, 2)
    rng = np.random.default_rng(9)
    drawn = []
    for _ in range(1000):
        eyes = np.concatenate([np.flatnonzero(patient == p) for p in rng.integers(0, 60, 60)])
        drawn.append(roc_auc_score(label[eyes], score[eyes]))
    interval = auc_interval(label, score, patient, seed=0)
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])), abs=0.01)
    assert interval.n == 60


def test_a_second_equal_eye_adds_no_certainty():
    """Twice the photographs of the same patients leave the bounds where they were."""
    label, score, patient = draw_eyes(80, 4)
    both, one = auc_interval(label, score, patient, seed=7), auc_interval(label[::2], score[::2], seed=7)
    assert both == pytest.approx(one)


def test_one_patient_has_an_auc_without_bounds():
    """Four photographs of one patient cannot speak for another."""
    interval = auc_interval([0, 1, 0, 1], [1, 2, 3, 4], ["p"] * 4, seed=0)
    assert interval.value == pytest.approx(0.75)
    assert np.isnan([interval.low, interval.high]).all()


@pytest.mark.parametrize(
    ("y", "score", "told"), [([1, 1], [1, 2], "each"), ([0, 1], [1], "row"), ([0, 1], [1, np.nan], "finite")]
)
def test_refuses_what_has_no_auc(y, score, told):
    """One class, unequal lengths and scores that are not numbers are told apart."""
    with pytest.raises(BadSampleError, match=told):
        auc_interval(y, score, seed=0)
