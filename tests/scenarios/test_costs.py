"""Bills and accuracies, held against numbers computed by hand and against paper C's bill."""

import math

import pandas as pd
import pytest

from dr_lib.runs.prices import PriceError, price_runs
from dr_lib.scenarios.costs import BRL_PER_USD, cost_to_reach, fit_overhead

RUN = {
    "usd_per_hour": 0.36,
    "setup_s": 600.0,
    "train_s": 140.0,  # 8 s of them between epochs
    "epoch_s": [60.0, 36.0, 36.0],
    "epoch_accuracy": [0.5, 0.92, 0.97],
}


def test_the_papers_bill_asks_for_213_seconds_a_run():
    """R$134 by the formula, R$158 paid, 120 runs on each environment: 24 / 4.865 x 3600 / (120 x
    0.695) s.
    """
    usd_per_hour = [0.169] * 120 + [0.526] * 120
    runs = pd.DataFrame({"usd_per_hour": usd_per_hour, "setup_s": 0.0})
    runs["train_s"] = 134 / 4.865 * 3600 / 83.4  # any seconds that make the formula's sum
    overhead_s = fit_overhead(price_runs(runs), 158 / 4.865)
    assert overhead_s == pytest.approx(212.94, abs=0.01)
    paid = price_runs(runs, overhead_s=overhead_s)["cost_usd"].sum()
    assert paid * BRL_PER_USD == pytest.approx(158)


@pytest.mark.parametrize(
    ("usd_per_hour", "bill_usd"),
    [
        (2.0, 1.0),
        (0.0, 5.0),
    ],
)
def test_a_bill_that_cannot_be_is_refused(usd_per_hour, bill_usd):
    """An overhead below zero would hide a wrong price."""
    runs = pd.DataFrame([{"train_s": 3600.0, "usd_per_hour": usd_per_hour}])
    with pytest.raises(PriceError, match="check the prices"):
        fit_overhead(price_runs(runs), bill_usd)


@pytest.mark.parametrize(
    ("accuracy", "seconds"),
    [
        (0.5, 668),
        (0.51, 704),
        (0.97, 740),
        (0.971, math.nan),
    ],
)
def test_an_accuracy_costs_the_run_up_to_the_epoch_that_reached_it(accuracy, seconds):
    """At 0.0001 USD/s; set-up and the bill's overhead are paid too, so that the last epoch costs
    the run. What was never reached has no price.
    """
    assert cost_to_reach(RUN, accuracy) == pytest.approx(seconds * 0.0001, nan_ok=True)
    with_bill = cost_to_reach(RUN, accuracy, overhead_s=100)
    assert with_bill == pytest.approx((seconds + 100) * 0.0001, nan_ok=True)
    whole = price_runs(pd.DataFrame([RUN]), overhead_s=100)["cost_usd"][0]
    assert cost_to_reach(RUN, 0.97, overhead_s=100) == pytest.approx(whole)


def test_accuracies_that_were_looked_at_every_other_epoch():
    """The second look of one in two is after the fourth epoch: 600 + 60 + 3 x 36 s."""
    row = RUN | {"evaluate_every": 2, "epoch_s": [60.0, 36, 36, 36, 36], "train_s": 204.0}
    row |= {"epoch_accuracy": [0.5, 0.9]}
    assert cost_to_reach(row, 0.9) == pytest.approx(0.0768)


def test_a_row_that_cannot_say_costs_nan():
    """No price, or no accuracies."""
    for missing in ("usd_per_hour", "epoch_accuracy"):
        assert math.isnan(cost_to_reach(RUN | {missing: math.nan}, 0.5))
