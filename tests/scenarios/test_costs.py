"""Bills and accuracies, held against numbers computed by hand and against paper C's bill."""

import math

import pandas as pd
import pytest

from dr_lib.report.select import Selection
from dr_lib.runs.prices import PriceError
from dr_lib.scenarios.costs import BRL_PER_USD, add_bills, cost_to_reach, fit_overhead

RUN = {
    "usd_per_hour": 0.36,
    "setup_s": 600.0,
    "epoch_s": [60.0, 36.0, 36.0],
    "epoch_accuracy": [0.5, 0.92, 0.97],
}


def test_the_papers_bill_asks_for_213_seconds_a_run():
    """R$134 by the formula, R$158 paid, 120 runs on each environment: 24 / 4.865 x 3600 / (120 x
    0.695) s.
    """
    usd_per_hour = [0.169] * 120 + [0.526] * 120
    run_s = [134 / 4.865 * 3600 / 83.4] * 240  # any seconds that make the formula's sum
    overhead_s = fit_overhead(run_s, usd_per_hour, 158 / 4.865)
    assert overhead_s == pytest.approx(212.94, abs=0.01)
    paid = sum(
        price * (s + overhead_s) / 3600 for price, s in zip(usd_per_hour, run_s, strict=True)
    )
    assert paid * BRL_PER_USD == pytest.approx(158)


def test_a_bill_that_the_formula_meets_asks_for_nothing():
    """Up to rounding."""
    assert fit_overhead([3600] * 3, [0.1, 0.2, 0.3], 0.6) == 0


@pytest.mark.parametrize(
    ("run_s", "usd_per_hour", "bill_usd", "message"),
    [
        ([3600], [2.0], 1.0, "less than the 2.00 USD"),
        ([], [], 5.0, "with one price above zero"),
        ([3600], [0.0], 5.0, "with one price above zero"),
        ([-1], [2.0], 5.0, "finite and not negative"),
        ([math.nan], [2.0], 5.0, "finite and not negative"),
        ([3600], [2.0], math.inf, "finite and not negative"),
    ],
)
def test_a_bill_that_cannot_be_is_refused(run_s, usd_per_hour, bill_usd, message):
    """An overhead below zero would hide a wrong price."""
    with pytest.raises(PriceError, match=message):
        fit_overhead(run_s, usd_per_hour, bill_usd)


def test_a_bill_is_of_the_runs_that_have_a_price():
    """Five runs each of C1 and C2 for 3 USD, beside two of C3 on a machine of one's own: 3 USD for
    five runs of every scenario paid for. Ten runs of 0.1 USD are a third of them.
    """
    runs = pd.DataFrame({"scenario": ["C1"] * 5 + ["C2"] * 5 + ["C3"] * 2, "train_s": 1000.0})
    runs["setup_s"] = 0.0
    paid = runs.assign(usd_per_hour=[0.36] * 10 + [math.nan] * 2)
    timed = add_bills(Selection(paid, paid, paid, paid[:0]), [3.0])
    assert timed["study_bill_usd"].tolist() == pytest.approx([3.0] * 12)
    assert timed["formula_share_of_bill"].tolist() == pytest.approx([1 / 3] * 12)
    with pytest.raises(PriceError, match="one price above zero"):
        add_bills(Selection(runs, runs, runs, runs[:0]), [3.0])


@pytest.mark.parametrize(
    ("accuracy", "seconds"),
    [(0.5, 660), (0.51, 696), (0.92, 696), (0.97, 732), (0.971, math.nan), (0, 660)],
)
def test_an_accuracy_costs_the_seconds_up_to_the_epoch_that_reached_it(accuracy, seconds):
    """At 0.0001 USD/s; set-up is paid too, and what was never reached has no price."""
    cost = cost_to_reach(RUN, accuracy)
    assert cost == pytest.approx(seconds * 0.0001, nan_ok=True)


def test_accuracies_that_were_looked_at_every_other_epoch():
    """The second look of one in two is after the fourth epoch: 600 + 60 + 3 x 36 s."""
    row = RUN | {"evaluate_every": 2, "epoch_s": [60.0, 36, 36, 36, 36]}
    row |= {"epoch_accuracy": [0.5, 0.9]}
    assert cost_to_reach(row, 0.9) == pytest.approx(0.0768)


def test_a_row_that_cannot_say_costs_nan_and_per_cents_are_no_accuracies():
    """No price, or no accuracies; 95 for 0.95 would never be reached."""
    for missing in ("usd_per_hour", "epoch_accuracy"):
        assert math.isnan(cost_to_reach(RUN | {missing: None}, 0.5))
    with pytest.raises(PriceError, match="0.95 for 95 %"):
        cost_to_reach(RUN, 95)
