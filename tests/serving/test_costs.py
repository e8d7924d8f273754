"""What predictions cost: paper B's prices and latencies, and arithmetic done by hand."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.claims.claims import list_printed
from dr_lib.errors import DrError
from dr_lib.runs.prices import Price, PriceError
from dr_lib.runs.row import read_runs
from dr_lib.serving.costs import price_endpoints, tabulate_latencies
from dr_lib.serving.figures import answer_price, describe_choice
from dr_lib.statistics.times import FEW_SESSIONS, WITHIN
from tests.report.reading import timed_runs
from tests.studies import load_endpoint

C7G = "ml.c7g.xlarge"
M5 = "ml.m5.xlarge"  # 0.174 and 0.23 USD an hour


def price(root, requests_per_day=2e6, p99_ms=300.0, **asked) -> pd.DataFrame:
    """What the load tests below a folder cost."""
    timed = timed_runs(read_runs(root))
    return price_endpoints(timed, requests_per_day=requests_per_day, p99_ms=p99_ms, **asked)


def bounds(row, name) -> list[float]:
    """A value of a row, and its bounds."""
    return [row[f"{name}{end}"] for end in ("", "_low", "_high")]


def test_papers_b_costs():
    """The costs that its prices and latencies give, done by hand."""
    costs = tabulate_latencies(list_printed("B"))
    found = costs.pivot(index="instance", columns="model", values="usd_per_million_never_idle")
    found = found.loc[[f"ml.{name}.xlarge" for name in ("m4", "m5", "m6g", "c7g")]]
    assert found["vgg19"].tolist() == pytest.approx([23.37, 13.07, 20.13, 14.93], abs=0.005)
    assert found["mobilenet"].tolist() == pytest.approx([5.41, 3.93, 4.49, 3.44], abs=0.005)
    table = costs.set_index(["model", "instance"])
    names = ["usd_per_hour", "predict_ms", "predict_ms_sd", "round_trip_ms"]
    assert table.loc[("vgg19", C7G), names].tolist() == [0.174, 308.8, 15.5, 504.9]


def test_a_million_costs_price_times_time(tmp_path):
    """At 0.174 USD an hour 36 ms, 18 of them for decoding, are 1.74 USD a million."""
    for run_id in "ab":
        load_endpoint(tmp_path, run_id, 8.0, boot=run_id, predict_ms=18.0, decode_ms=18.0)
    (row,) = price(tmp_path).to_dict("records")
    assert (row["n"], row["instance"]) == (2, C7G)
    assert [row["predict_ms"], row["busy_ms"]] == pytest.approx([18, 36])
    assert row["usd_per_million_never_idle"] == pytest.approx(1.74)


def test_a_fleet_and_its_sentence(tmp_path):
    """At 69.44 a second 7 machines of 10 a second cost 889.14 USD a month, 3 of 30 a second at 0.23
    USD 503.70; one run of each tells nothing apart.
    """
    load_endpoint(tmp_path, "a", 10.0)
    load_endpoint(tmp_path, "b", 30.0, M5)
    priced = price(tmp_path)
    assert priced[["instance", "num_machines"]].to_numpy().tolist() == [[M5, 3], [C7G, 7]]
    assert priced["usd_per_month"].tolist() == pytest.approx([503.70, 889.14])
    (said,) = describe_choice(priced)
    assert said.startswith("The prices of MobileNet, 96 px are not told apart: litert_int8 on ")
    assert f"at the price of {M5} or litert_int8 on " in said
    ends = {"usd_per_month_low": [500, 800], "usd_per_month_high": [510, 900]}
    told = priced.assign(**ends)
    (said,) = describe_choice(told)
    assert said.startswith("The cheapest endpoint of MobileNet, 96 px is litert_int8 on ")
    assert said.endswith("at the price of ml.m5.xlarge: 503.7 [500.0, 510.0] USD a month.")
    (said,) = describe_choice(told, "pt")
    assert said.endswith("ao preço de ml.m5.xlarge: 503,7 [500,0; 510,0] USD por mês.")
    for disturbed in ([True, False], [False, True]):
        unsure = told.assign(disturbed=disturbed)
        (said,) = describe_choice(unsure)
        assert said.endswith("is named: a load test was disturbed.")
        assert not answer_price(unsure, [], "").numbers
    touching = told.assign(usd_per_month_high=[700, 900], usd_per_month_low=[500, 650])
    assert "not told apart" in describe_choice(touching)[0]
    assert not answer_price(touching, [], "").numbers
    answer = answer_price(told, [], "")
    assert answer.numbers[0].text == "503.7 USD" and answer.sentence == describe_choice(told)[0]
    assert price(tmp_path, 280_000)["instance"].tolist() == [C7G, M5]


def test_two_machines_need_three_sessions_of_each(tmp_path):
    """In one session each the intervals of 8 and 30 a second are far apart, and say nothing of the
    next session; with one machine alone the interval is said to be within the session.
    """
    rates = {C7G: 8.0, M5: 30.0}
    for num_sessions in (1, 2, 3):
        for instance, rate in rates.items():
            for k, share in enumerate((0.98, 1.0, 1.02)):
                name = f"{instance}-{num_sessions}-{k}"
                about = {"repetition": k, "boot": f"{instance}-{num_sessions}"}
                held = share * rate * (1 + num_sessions / 100)
                load_endpoint(tmp_path / instance, name, held, instance, **about)
        priced = price(tmp_path)
        (said,) = describe_choice(priced)
        is_bounded = num_sessions == 3
        assert priced["usd_per_month_low"].notna().tolist() == [is_bounded] * 2
        assert ("cheapest endpoint" in said) == is_bounded
        assert is_bounded or set(priced["rate_per_s_scope"]) == {FEW_SESSIONS}
        if num_sessions == 1:
            alone = price(tmp_path / M5)
            assert alone[["rate_per_s_scope", "usd_per_month_scope"]].eq(WITHIN).all(axis=None)
            answer = answer_price(alone, [], "")
            assert "(within this session) USD a month." in answer.sentence
            assert answer.numbers[0].bounds == "(within this session)"


def test_endpoints_at_two_prices_are_two(tmp_path):
    """The same machine, priced as another one."""
    load_endpoint(tmp_path, "a", 10.0)
    load_endpoint(tmp_path, "b", 10.0, priced_as=M5)
    assert sorted(price(tmp_path)["instance"]) == [C7G, M5]


def test_more_sure_rates_give_more_sure_prices(tmp_path):
    """The bounds of the rate are those of the machines; few machines are billed whole."""
    for k, rate in enumerate((8.0, 10.0, 12.5)):
        load_endpoint(tmp_path, f"r{k}", rate, repetition=k, boot=f"b{k}")
    (row,) = price(tmp_path).to_dict("records")
    rate, low, high = bounds(row, "rate_per_s")
    assert row["n"] == 3 and low < 8 < 10 < rate + 0.2 < 12.5 < high
    machines = [float(np.ceil(2e6 / 8 / 3600 / each)) for each in (rate, high, low)]
    assert bounds(row, "num_machines") == machines
    assert bounds(row, "usd_per_month") == pytest.approx(0.174 * 730 * np.array(machines))
    (row,) = price(tmp_path, 1.0).to_dict("records")
    assert row["num_machines"] == 1
    third = 2e6 / 8 / 3600 / 3  # 3 of a third of the peak are three, not four
    load_endpoint(tmp_path, "third", third, M5)
    assert price(tmp_path)["num_machines"].tolist()[-1] == 7
    assert 3 in price(tmp_path)["num_machines"].tolist()


def test_an_endpoint_that_cannot_be_chosen_says_why(tmp_path):
    """It held no rate, it was loaded with a wider bound, its format was refused."""
    load_endpoint(tmp_path, "none", 0.0)
    load_endpoint(tmp_path, "wide", 8.0, M5, bound_ms=500.0)
    load_endpoint(tmp_path, "lossy", 8.0, "ml.m4.xlarge", gate_passes=False)
    priced = price(tmp_path).set_index("instance")
    assert priced["reason"].to_dict() == {
        C7G: "holds no rate within its bound",
        M5: "was loaded with a wider bound",
        "ml.m4.xlarge": "was refused by the accuracy gate",
    }
    assert np.isnan(priced.loc[C7G, "usd_per_month"])
    (said,) = describe_choice(priced.reset_index())
    assert said.startswith("No endpoint of MobileNet, 96 px can be chosen: ")


def test_prices_of_ones_own_and_labels_without_one(tmp_path, monkeypatch):
    """The table named by DR_LIB_PRICES goes before the row's price; a label in no table keeps the
    row's; one without any is an error.
    """
    load_endpoint(tmp_path, "a", 100.0, usd=1.0)
    load_endpoint(tmp_path, "b", 100.0, "here", usd=2.0)
    (tmp_path / "own.csv").write_text(f"{','.join(Price._fields)}\np,{C7G},,USD,3,,s\n")
    monkeypatch.setenv("DR_LIB_PRICES", str(tmp_path / "own.csv"))
    assert price(tmp_path)["usd_per_hour"].tolist() == [2.0, 3.0]
    load_endpoint(tmp_path, "c", 100.0, "nowhere")
    with pytest.raises(PriceError, match="nowhere"):
        price(tmp_path)


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"requests_per_day": 0}, "above 0"), ({"busiest_hour": 0.01}, "from 1/24 to 1")],
)
def test_refuses_what_is_no_load(tmp_path, asked, message):
    """Numbers that make no sense, and folders without load tests."""
    load_endpoint(tmp_path, "a", 10.0)
    with pytest.raises(DrError, match=message):
        price(tmp_path, **asked)


def test_the_command_prints_the_table_and_the_choice(tmp_path):
    """For what was measured below the folders."""
    load_endpoint(tmp_path, "a", 10.0)
    command = ["price", str(tmp_path), "--requests-per-day", "20000", "--p99-ms", "300"]
    said = CliRunner().invoke(main, command)
    assert said.exit_code == 0, said.output
    assert "litert_int8" in said.output and "The cheapest endpoint of MobileNet" in said.output
