"""What predictions cost, by paper B's prices and latencies."""

import math

import pandas as pd
import pytest

from dr_lib.claims.claims import list_printed
from dr_lib.runs.prices import Price
from dr_lib.serving.costs import cost_table, tabulate_latencies


def test_papers_b_costs():
    """The costs that its prices and latencies give, done by hand."""
    costs = cost_table(tabulate_latencies(list_printed("B")))
    found = costs.pivot(index="instance", columns="model", values="usd_per_million_never_idle")
    found = found.loc[[f"ml.{name}.xlarge" for name in ("m4", "m5", "m6g", "c7g")]]
    assert found["vgg19"].tolist() == pytest.approx([23.37, 13.07, 20.13, 14.93], abs=0.005)
    assert found["mobilenet"].tolist() == pytest.approx([5.41, 3.93, 4.49, 3.44], abs=0.005)


def test_papers_b_latencies_are_read_from_its_table():
    """Eight rows, with prices, deviations and whole calls."""
    table = tabulate_latencies(list_printed("B")).set_index(["model", "instance"])
    assert len(table) == 8 and table.notna().all(axis=None)
    assert table.loc[("vgg19", "ml.c7g.xlarge")].tolist() == [0.174, 308.8, 15.5, 504.9]


def test_rows_keep_their_own_price(tmp_path, monkeypatch):
    """Others are priced by the table that is given."""
    rows = pd.DataFrame(
        {"instance": ["x", "y"], "predict_ms": 36.0, "usd_per_hour": [math.nan, 2.0]}
    )
    (tmp_path / "own.csv").write_text(f"{','.join(Price._fields)}\np,x,,USD,1,,s\n")
    monkeypatch.setenv("DR_LIB_PRICES", str(tmp_path / "own.csv"))
    costs = cost_table(rows)
    assert costs["usd_per_million_never_idle"].tolist() == pytest.approx([10, 20])
    assert costs["computed_rate_per_s"].tolist() == pytest.approx([27.78] * 2, abs=0.01)
