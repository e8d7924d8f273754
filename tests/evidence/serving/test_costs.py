"""What predictions cost, held against paper B's prices and latencies, and against brute force."""

import math

import numpy as np
import pandas as pd
import pytest

from dr_lib.evidence.serving.costs import (
    BreakEven,
    Offer,
    break_even,
    correct_saving,
    cost_table,
    find_num_machines,
    read_paper_latencies,
    usd_per_million_at_rate,
)
from dr_lib.runs.prices import Price, PriceError

M5 = Offer("m5", 0.23, 204.6)
C7G = Offer("c7g", 0.174, 308.8)


def test_a_million_at_one_request_in_five_seconds():
    """5 million seconds are 1,388.9 hours of 0.23 USD: 319.44 USD, whatever the model; of 6 s a
    request twice that.
    """
    assert usd_per_million_at_rate(0.23, 0.2, [204.6, 61.5, 6e3]) == pytest.approx(
        [319.44] * 2 + [638.89], abs=0.005
    )


@pytest.mark.parametrize(
    ("rate", "machines"), [(0, 1), (0.1, 1), (3, 1), (3.01, 2), (6, 2), (30, 10), (30.1, 11)]
)
def test_machines_are_added_whole(rate, machines):
    """Each answers 3 in a second; exactly full is enough, and one is there before anybody asks."""
    assert find_num_machines(rate, 1e3 / 3) == machines


def test_papers_b_costs():
    """The costs that its prices and latencies give, done by hand."""
    costs = cost_table(read_paper_latencies()).set_index(["model", "instance"])["usd_per_million"]
    for model, wanted in {
        "vgg19": (23.37, 13.07, 20.13, 14.93),
        "mobilenet": (5.41, 3.93, 4.49, 3.44),
    }.items():
        found = [costs[model, f"ml.{instance}.xlarge"] for instance in ("m4", "m5", "m6g", "c7g")]
        assert found == pytest.approx(wanted, abs=0.005)


def test_papers_b_latencies_are_read_from_its_table():
    """Eight rows, with prices, deviations and whole calls."""
    table = read_paper_latencies().set_index(["model", "instance"])
    assert len(table) == 8 and table.notna().all(axis=None)
    assert table.loc[("vgg19", "ml.c7g.xlarge")].tolist() == [0.174, 308.8, 15.5, 504.9]


def test_24_per_cent_cheaper_holds_per_hour_alone():
    """c7g against m5: 14 % dearer per VGG19 prediction, 12 % cheaper per MobileNet prediction."""
    saved = correct_saving(read_paper_latencies(), "ml.c7g.xlarge", "ml.m5.xlarge").set_index(
        "model"
    )
    assert saved["saving_per_hour"].tolist() == pytest.approx([24.35, 24.35], abs=0.01)
    assert saved.loc["vgg19", "saving_per_prediction"] == pytest.approx(-14, abs=0.5)
    assert saved.loc["mobilenet", "saving_per_prediction"] == pytest.approx(12, abs=0.5)


def test_where_c7g_stops_being_cheaper_than_m5():
    """With VGG19 above 1 / 0.3088 s, where it needs a second machine and m5 none until 1 /
    0.2046 s.
    """
    found = break_even(M5, C7G)
    assert found[:2] == ("c7g", "m5")
    assert found.first_per_s == pytest.approx(1 / 0.3088)
    assert found.always_per_s == pytest.approx(5 / 0.3088)
    assert break_even(C7G, M5) == found
    mobilenet = break_even(Offer("m5", 0.23, 61.5), Offer("c7g", 0.174, 71.2))
    assert mobilenet == BreakEven("c7g", "m5", pytest.approx(1 / 0.0712), math.inf)


@pytest.mark.parametrize(
    ("cheap", "dear"),
    [
        ((1, 100), (1.5, 50)),
        ((1, 100), (2, 50)),
        ((1, 100), (3, 50)),
        ((1, 100), (2, 100)),
        ((2, 70), (3, 40)),
    ]
    + [
        ((1, 50), (1, 100)),
        ((1, 30), (1.4, 22)),
        ((0.174, 308.8), (0.23, 204.6)),
        ((1, 100), (4, 22)),
    ],
)
def test_break_evens_are_those_found_by_trying(cheap, dear):
    """In steps of 0.002 requests a second up to 400: the first dearer one, and the last that is
    not.
    """
    found = break_even(Offer("a", *cheap), Offer("b", *dear))
    rates = np.arange(1, 200_000) / 500 + 1e-6
    costs = [price * np.maximum(1, np.ceil(rates * ms / 1e3)) for price, ms in (cheap, dear)]
    is_dearer = costs[0] > costs[1] + 1e-9
    first = rates[is_dearer.argmax()] if is_dearer.any() else math.inf
    assert found.first_per_s == pytest.approx(first, abs=4e-3)
    if math.isfinite(found.always_per_s):
        last = rates[np.flatnonzero(~is_dearer)[-1]]
        assert found.always_per_s == pytest.approx(last, abs=4e-3) and found.always_per_s < 390
    else:
        assert not is_dearer[rates > 390].all()


def test_rows_keep_their_own_price(tmp_path, monkeypatch):
    """Others are priced by the table that is given."""
    rows = pd.DataFrame(
        {"instance": ["x", "y"], "predict_ms": 36.0, "usd_per_hour": [math.nan, 2.0]}
    )
    (tmp_path / "own.csv").write_text(f"{','.join(Price._fields)}\np,x,,USD,1,,s\n")
    monkeypatch.setenv("DR_LIB_PRICES", str(tmp_path / "own.csv"))
    costs = cost_table(rows)
    assert costs["usd_per_million"].tolist() == pytest.approx([10, 20])
    assert costs["computed_rate_per_s"].tolist() == pytest.approx([27.78] * 2, abs=0.01)


def test_refuses_what_has_no_price():
    """What costs nothing breaks even with nothing, and an unknown instance is named."""
    with pytest.raises(PriceError, match="costs nothing"):
        break_even(M5, Offer("free", 0.0, 5))
    with pytest.raises(PriceError, match="no such"):
        cost_table(pd.DataFrame({"instance": ["no such"], "predict_ms": [1.0]}))
