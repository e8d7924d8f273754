"""Prices and costs, held against numbers computed by hand and against the papers' prices."""

import pandas as pd
import pytest

from dr_lib.runs.prices import PRICES, PriceError, find_price, price_runs, read_prices

HEADER = "provider,instance,region,currency,usd_per_hour,date,source\n"


RUN = {"usd_per_hour": 0.36, "train_s": 1800.0, "setup_s": 600.0}


def test_the_table_holds_the_papers_prices():
    """Those of papers B and C, to the digit; a machine of one's own costs nothing. Those of
    other machines and of other days may be added.
    """
    papers = {"F4s_v2": 0.169, "NC4as_T4_v3": 0.526, "ml.m4.xlarge": 0.24, "ml.m5.xlarge": 0.23}
    papers |= {"ml.m6g.xlarge": 0.1848, "ml.c7g.xlarge": 0.174, "kaggle": 0, "local": 0}
    prices = {(price.instance, price.usd_per_hour) for price in read_prices(PRICES)}
    assert papers.items() <= prices


def test_the_price_of_the_day_is_found(tmp_path, monkeypatch):
    """The youngest one that is not of a later day; one of an unknown day comes before all
    others.
    """
    days = {2: "2025-01-01", 1: "", 3: "2026-06-01", 4: "2999-01-01"}
    lines = [f"somebody,box,,USD,{usd},{day},a bill\n" for usd, day in days.items()]
    own = tmp_path / "own.csv"
    monkeypatch.setenv("DR_LIB_PRICES", str(own))
    for number, usd in ((4, 3), (2, 2)):
        own.write_text(HEADER + "".join(lines[:number]))
        assert find_price("box").usd_per_hour == usd


def test_a_line_of_the_users_own_file_is_an_update(tmp_path, monkeypatch):
    """It goes before this library's price of the instance, however old it is, and adds others; a
    file that is not there is named."""
    own = tmp_path / "own.csv"
    own.write_text(
        f"{HEADER}Azure,F4s_v2,eastus,USD,0.2,2020-01-02,a bill\nme,local,,USD,0.05,,electricity\n"
    )
    monkeypatch.setenv("DR_LIB_PRICES", str(own))
    names = ("F4s_v2", "local", "kaggle")
    assert [find_price(name).usd_per_hour for name in names] == [0.2, 0.05, 0]
    monkeypatch.setenv("DR_LIB_PRICES", str(tmp_path / "none.csv"))
    with pytest.raises(PriceError, match="no such file: .*none.csv"):
        find_price("local")


def test_an_unknown_instance_is_an_error_that_names_the_known():
    """Never a price of 0 for a name with a slip in it."""
    with pytest.raises(PriceError, match="F4s_v2.*NC4as_T4_v3.*local"):
        find_price("f4s_v2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("instance,usd_per_hour\nbox,1\n", "line 2: provider: Field required"),
        (HEADER + "a,box,,USD,1,,s\na,box,,USD,cheap,,s\n", "line 3: usd_per_hour"),
        (HEADER + "a,box,,USD,-1,,s\n", "line 2: usd_per_hour"),
        (HEADER + "a,box,,BRL,1,,s\n", "line 2: currency: Input should be 'USD'"),
    ],
)
def test_a_bad_table_is_refused_with_the_line_named(tmp_path, text, message):
    """A price that is wrong is worse than none."""
    (tmp_path / "prices.csv").write_text(text)
    with pytest.raises(PriceError, match=message):
        read_prices(tmp_path / "prices.csv")


def test_runs_are_priced_by_hand_computed_numbers():
    """0.36 USD/h is 0.0001 USD/s: 2400 s and 200 s of overhead; the training alone takes 1,800 s
    and 600 s. Without set-up the training is paid for.
    """
    runs = pd.DataFrame([RUN, RUN | {"usd_per_hour": 3.6, "train_s": 600.0, "setup_s": None}])
    priced = price_runs(runs, overhead_s=200)
    assert priced["formula_usd"].tolist() == pytest.approx([0.18, 0.6])
    assert priced["cost_usd"].tolist() == pytest.approx([0.26, 0.8])
    anew = price_runs(runs, "F4s_v2")
    assert anew["usd_per_hour"].tolist() == [0.169] * 2
    assert anew["cost_usd"][0] == pytest.approx(0.169 * 2400 / 3600)


@pytest.mark.parametrize("missing", ["usd_per_hour", "train_s"])
def test_a_run_without_a_price_or_a_time_costs_nan(missing):
    """Never 0: that is the price of a machine of one's own."""
    priced = price_runs(pd.DataFrame([RUN, RUN | {missing: None}]))
    money = ["formula_usd", "cost_usd"]
    assert priced[money].iloc[0].notna().all() and priced[money].iloc[1].isna().all()
    assert price_runs(pd.DataFrame([RUN | {"usd_per_hour": 0}]))["cost_usd"].tolist() == [0]
