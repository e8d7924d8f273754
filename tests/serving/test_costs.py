"""What predictions cost: paper B's prices and latencies, and arithmetic done by hand."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.claims.claims import list_printed
from dr_lib.errors import DrError
from dr_lib.report.groups import select_runs
from dr_lib.runs.prices import Price, PriceError
from dr_lib.runs.row import read_runs
from dr_lib.serving.costs import price_endpoints, tabulate_latencies
from dr_lib.serving.figures import answer_price, describe_choice
from dr_lib.statistics.times import FEW_SESSIONS
from tests.report.reading import timed_runs
from tests.studies import load_endpoint

C7G = "ml.c7g.xlarge"
M5 = "ml.m5.xlarge"  # 0.174 and 0.23 USD an hour


def price(root, requests_per_day=2e6) -> pd.DataFrame:
    """What the load tests below a folder cost."""
    timed = timed_runs(read_runs(root))
    return price_endpoints(timed, requests_per_day=requests_per_day, p99_ms=300.0)


def test_papers_b_costs():
    """The costs that its prices and latencies give, done by hand."""
    costs = tabulate_latencies(list_printed("B"))
    found = costs.pivot(index="instance", columns="model", values="usd_per_million_never_idle")
    found = found.loc[[f"ml.{name}.xlarge" for name in ("m4", "m5", "m6g", "c7g")]]
    assert found["vgg19"].tolist() == pytest.approx([23.37, 13.07, 20.13, 14.93], abs=0.005)
    assert found["mobilenet"].tolist() == pytest.approx([5.41, 3.93, 4.49, 3.44], abs=0.005)


def test_a_fleet_and_its_sentence(tmp_path):
    """At 69.44 a second 7 machines of 10 a second cost 889.14 USD a month, 3 of 30 a second at 0.23
    USD 503.70; one run of each tells nothing apart. At 0.174 USD an hour 36 ms, 18 of them for
    decoding, are 1.74 USD a million.
    """
    load_endpoint(tmp_path, "a", 10.0, predict_ms=18.0, decode_ms=18.0)
    load_endpoint(tmp_path, "b", 30.0, M5)
    priced = price(tmp_path)
    assert priced[["instance", "num_machines"]].to_numpy().tolist() == [[M5, 3], [C7G, 7]]
    assert priced["usd_per_month"].tolist() == pytest.approx([503.70, 889.14])
    assert priced["usd_per_million_never_idle"].iloc[1] == pytest.approx(1.74)
    assert "not told apart" in describe_choice(priced)[0]
    told = priced.assign(usd_per_month_low=[500, 800], usd_per_month_high=[510, 900])
    assert describe_choice(told)[0].startswith("The cheapest endpoint of MobileNet, 96 px is ")
    (number,) = answer_price(told, [], "").numbers
    assert (number.text, number.bounds) == ("503.7 USD", "[500.0, 510.0]")
    (said,) = describe_choice(told, "pt")
    assert said.endswith("ao preço de ml.m5.xlarge: 503,7 [500,0; 510,0] USD por mês.")
    unsure = told.assign(disturbed=[False, True])
    assert describe_choice(unsure)[0].endswith("is named: a load test was disturbed.")
    touching = told.assign(usd_per_month_high=[700, 900], usd_per_month_low=[500, 650])
    assert "not told apart" in describe_choice(touching)[0]
    for each in (unsure, touching):
        assert not answer_price(each, [], "").numbers


@pytest.mark.parametrize("num_sessions", [2, 3])
def test_two_machines_need_three_sessions_of_each(tmp_path, num_sessions):
    """In two sessions each the intervals of 8 and 30 a second are far apart, and say nothing of
    the next session. The bounds of the rate are those of the machines.
    """
    for instance, rate in {C7G: 8.0, M5: 30.0}.items():
        for session in range(num_sessions):
            for k, share in enumerate((0.98, 1.0, 1.02)):
                held = share * rate * (1 + session / 100)
                about = {"repetition": k, "boot": f"{instance}-{session}"}
                load_endpoint(tmp_path, f"{instance}-{session}-{k}", held, instance, **about)
    priced = price(tmp_path)
    is_bounded = num_sessions == 3
    assert priced["usd_per_month_low"].notna().tolist() == [is_bounded] * 2
    assert ("cheapest endpoint" in describe_choice(priced)[0]) == is_bounded
    assert is_bounded or set(priced["rate_per_s_scope"]) == {FEW_SESSIONS}
    if is_bounded:
        row = priced.iloc[0]
        rates = [row["rate_per_s"], row["rate_per_s_high"], row["rate_per_s_low"]]
        machines = np.ceil(2e6 / 8 / 3600 / np.array(rates))
        ends = ["usd_per_month", "usd_per_month_low", "usd_per_month_high"]
        assert row[ends].tolist() == pytest.approx(0.23 * 730 * machines)


def test_an_endpoint_that_cannot_be_chosen_says_why(tmp_path):
    """It held no rate, it was loaded with a wider bound, its format was refused."""
    load_endpoint(tmp_path, "none", 0.0)
    load_endpoint(tmp_path, "wide", 8.0, M5, bound_ms=500.0)
    load_endpoint(tmp_path, "lossy", 8.0, "ml.m4.xlarge", gate_passes=False)
    priced = price(tmp_path)
    assert priced.set_index("instance")["reason"].to_dict() == {
        C7G: "holds no rate within its bound",
        M5: "was loaded with a wider bound",
        "ml.m4.xlarge": "was refused by the accuracy gate",
    }
    assert describe_choice(priced)[0].startswith("No endpoint of MobileNet, 96 px can be ")


def test_formats_are_never_pooled(tmp_path):
    """A mean over two formats, called by the first, would be the price of neither."""
    for name, rate in {"litert_int8": 10.0, "savedmodel": 30.0}.items():
        load_endpoint(tmp_path, name, rate, format=name)
    pooled = select_runs(pd.DataFrame(read_runs(tmp_path)), pool=["format"]).timed
    priced = price_endpoints(pooled, requests_per_day=2e6, p99_ms=300.0)
    rates = priced.set_index("format")["rate_per_s"]
    assert rates[["litert_int8", "savedmodel"]].tolist() == pytest.approx([10, 30])


def test_prices_of_ones_own(tmp_path, monkeypatch):
    """The table named by DR_LIB_PRICES goes before this library's; one machine at two prices is two
    endpoints; a label in no table is an error, and so is no load. One machine is the least.
    """
    load_endpoint(tmp_path, "a", 100.0)
    load_endpoint(tmp_path, "b", 100.0, priced_as=M5)
    assert price(tmp_path, 1.0)["num_machines"].tolist() == [1, 1]
    (tmp_path / "own.csv").write_text(f"{','.join(Price.model_fields)}\np,{C7G},,USD,3,,s\n")
    monkeypatch.setenv("DR_LIB_PRICES", str(tmp_path / "own.csv"))
    assert price(tmp_path)["usd_per_hour"].tolist() == [0.23, 3.0]
    with pytest.raises(DrError, match="above 0"):
        price(tmp_path, 0)
    load_endpoint(tmp_path, "c", 100.0, "nowhere")
    with pytest.raises(PriceError, match="nowhere"):
        price(tmp_path)


def test_the_command_prints_the_table_and_the_choice(tmp_path):
    """For what was measured below the folders."""
    load_endpoint(tmp_path, "a", 10.0)
    command = ["price", str(tmp_path), "--requests-per-day", "20000", "--p99-ms", "300"]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 0, said.output
    assert "litert_int8" in said.output and "The cheapest endpoint of MobileNet" in said.output
