"""The cheapest endpoint, by arithmetic done by hand, from rows of notebook 22 and requests drawn
beside them.
"""

import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.rooms.serving.answer import answer_price
from dr_lib.rooms.serving.endpoint import (
    ALONE,
    find_rates,
    list_doubts,
    list_endpoints,
    price_endpoints,
    tabulate_endpoints,
)
from dr_lib.rooms.serving.figures import describe_choice
from dr_lib.runs.prices import PriceError
from dr_lib.runs.row import read_runs, write_row
from tests.report.real_rows import copy_row
from tests.studies import load_endpoint

C7G = "ml.c7g.xlarge"
M5 = "ml.m5.xlarge"  # 0.174 and 0.23 USD an hour


def price(root, instance="", p99_ms=300.0, **asked) -> pd.DataFrame:
    """What the load tests below a folder cost."""
    return price_endpoints(
        list_endpoints(read_runs(root), root, p99_ms=p99_ms, instance=instance), **asked
    )


def test_one_machine_that_mostly_idles(tmp_path):
    """20,000 a day are 2,500 in the busiest hour, 0.69 a second: one machine, 730 hours of 0.174
    USD.

    It answers 608,333 requests a month: 208.80 USD a million.
    """
    load_endpoint(tmp_path, "a", {8: 50, 16: 900})
    (row,) = price(tmp_path, requests_per_day=20_000).to_dict("records")
    assert (row["instance"], row["rate_per_s"], row["num_machines"], row["reason"]) == (
        C7G,
        8,
        1,
        "",
    )
    names = ("usd_per_month", "usd_per_million_as_used")
    assert [row[name] for name in names] == pytest.approx([127.02, 208.80], abs=0.005)


def test_a_fleet_and_its_sentence(tmp_path):
    """At 69.44 a second 7 machines of 10 a second cost 889.14 USD a month, 3 of 30 a second at 0.23
    USD 503.70, which is 8.28 USD for each of the 60.83 million requests.
    """
    load_endpoint(tmp_path, "a", {10: 50, 11: 900})
    load_endpoint(tmp_path, "b", {30: 50, 33: 900}, M5)
    priced = price(tmp_path, requests_per_day=2e6)
    assert priced[["instance", "num_machines"]].to_numpy().tolist() == [[M5, 3], [C7G, 7]]
    assert priced["usd_per_month"].tolist() == pytest.approx([503.70, 889.14])
    (said,) = describe_choice(priced)
    assert said == (
        "For 2,000,000 requests a day, 99 % within 300 ms, the cheapest endpoint of MobileNet, 96"
        " px, is not known: one deployment has no interval. It may be litert_int8 on"
        f" {M5}, at the price of {M5} or litert_int8 on {C7G}, at the price of {C7G}; the lowest"
        " price is 504 USD a month, 8.28 USD a million as used."
    )
    bounds = {"usd_per_month_low": [500, 800], "usd_per_month_high": [510, 900]}
    (said,) = describe_choice(priced.assign(**bounds))
    assert f"px, is litert_int8 on {M5}, at the price of {M5}: 503.7 [500.0, 510.0] USD" in said
    bounds = {"usd_per_month_low": 500.0, "usd_per_month_high": 510.0}
    as_cheap = priced.assign(usd_per_month=503.7, **bounds)
    said = describe_choice(as_cheap, "pt")[0]
    assert f"{M5} ou litert_int8 em {C7G}, ao preço de {C7G}: 503,7 [500,0; 510,0] USD" in said
    assert price(tmp_path, requests_per_day=280_000)["instance"].tolist() == [C7G, M5]


def test_endpoints_of_one_name_are_told_apart(tmp_path):
    """One thread holds 10 a second, two hold 20: both are int8 on one instance."""
    load_endpoint(tmp_path, "a", {10: 50, 11: 900}, threads=1)
    load_endpoint(tmp_path, "b", {20: 50, 22: 900}, threads=2)
    table = tabulate_endpoints(price(tmp_path, requests_per_day=2e6))
    assert table[["threads", "rate_per_s"]].to_numpy().tolist() == [[2, 20], [1, 10]]


def test_intervals_come_from_the_deployments(tmp_path):
    """8, 10 and 12.5 a second: mean 10.17, by Cox's interval of their logarithms at 3 %, 5.18 to
    20.30: 7 machines, 4 to 14.
    """
    for k, rate in enumerate((8, 10, 12.5)):
        load_endpoint(tmp_path, f"r{k}", {rate: 50, 16: 900}, repetition=k)
    (row,) = price(tmp_path, requests_per_day=2e6).to_dict("records")
    assert row["n"] == 3 and [
        row[f"rate_per_s{b}"] for b in ("", "_low", "_high")
    ] == pytest.approx([10.17, 5.18, 20.30], abs=0.005)
    assert [row[f"num_machines{b}"] for b in ("", "_low", "_high")] == [7, 4, 14]
    assert [row[f"usd_per_month{b}"] for b in ("", "_low", "_high")] == pytest.approx(
        [889.14, 508.08, 1778.28]
    )


def test_a_rate_is_held_by_99_of_100_and_by_every_answer(tmp_path):
    """One of 100 may be late, two may not; a request that failed bars its rate, and so every
    larger one.
    """
    late = {1: np.r_[[900.0], np.full(99, 20)], 2: np.r_[[900.0] * 2, np.full(98, 20)], 4: 20}
    load_endpoint(tmp_path, "late", late)
    load_endpoint(tmp_path, "failed", {1: 20, 2: 20, 4: None, 8: 20})
    rates = find_rates(read_runs(tmp_path), tmp_path, p99_ms=300).set_index("run_id")
    assert rates["held_per_s"].to_dict() == {"late": 1, "failed": 2}


def test_the_step_of_the_search_is_in_the_interval(tmp_path):
    """Three that all held 22.6 and missed 24.7 a second: the rate lies between, at 69.44 a second
    3 to 4 machines.
    """
    for k in range(3):
        load_endpoint(tmp_path, f"r{k}", {22.6: 50, 24.7: 900}, repetition=k)
    (row,) = price(tmp_path, requests_per_day=2e6).to_dict("records")
    assert [row[f"rate_per_s{b}"] for b in ("", "_low", "_high")] == pytest.approx(
        [22.6, 22.6, 24.7]
    )
    assert [row[f"num_machines{b}"] for b in ("", "_low", "_high")] == [4, 3, 4]


def test_the_cheapest_keeps_its_accuracy(tmp_path):
    """int8 may lose 0.03 of AUC, float16 0.01, of the SavedModel nothing is known, and too few
    photographs judged float32: a margin of 0.02 takes one.

    Without a margin the four cost the same, and what may lose least comes first.
    """
    gates = {
        "litert_int8": -0.03,
        "litert_float16": -0.01,
        "savedmodel": None,
        "litert_float32": -0.01,
    }
    for name, low in gates.items():
        kept = {"gate_auc_difference_low": low, "gate_kappa_difference_low": low}
        kept["gate_passes"] = None if low is None else name == "litert_float16"
        load_endpoint(tmp_path, name, {8: 50, 16: 900}, format=name, **kept)
    assert price(tmp_path, requests_per_day=20_000)["format"][0] == "litert_float16"
    judged = price(tmp_path, requests_per_day=20_000, accuracy_within=0.02).set_index("format")[
        "reason"
    ]
    wanted = {
        "litert_float16": "",
        "litert_int8": "may lose more accuracy",
        "savedmodel": "accuracy not known",
    }
    wanted["litert_float32"] = wanted["litert_int8"]
    assert judged.to_dict() == wanted
    # no gate
    load_endpoint(tmp_path, "again", {8: 50, 16: 900}, format="litert_float16", repetition=1)
    worse = {
        "gate_auc_difference_low": -0.01,
        "gate_kappa_difference_low": -0.04,
        "gate_passes": False,
    }
    # its whole gate stands for both models
    load_endpoint(tmp_path, "worse", {8: 50, 16: 900}, repetition=1, **worse)
    twice = price(tmp_path, requests_per_day=20_000).set_index("format")[
        "gate_auc_difference_low"
    ]
    assert np.isnan(twice["litert_float16"]) and twice["litert_int8"] == -0.01
    with pytest.raises(DrError, match=r"known to lose less than 0\.001"):
        price(tmp_path, requests_per_day=20_000, accuracy_within=0.001)


def test_what_holds_no_rate_is_not_chosen(tmp_path):
    """One deployment of two that holds none bars its endpoint, as one that fails to answer."""
    load_endpoint(tmp_path, "a", {1: 420, 2: 500})
    with pytest.raises(DrError, match="no endpoint sustained a rate with 99 % within 300 ms"):
        price(tmp_path, requests_per_day=20_000)
    assert price(tmp_path, p99_ms=450.0, requests_per_day=20_000)["rate_per_s"].tolist() == [1]
    load_endpoint(tmp_path, "b", {1: 20, 2: 900}, repetition=1)
    load_endpoint(tmp_path, "c", {1: 20, 2: 900}, M5)
    load_endpoint(tmp_path / "d", "d", {1: None, 2: 20}, "ml.m4.xlarge")
    priced = price(tmp_path, requests_per_day=20_000).set_index("instance")["reason"]
    no_rate = "holds no rate within the bound"
    assert priced.to_dict() == {M5: "", C7G: no_rate, "ml.m4.xlarge": no_rate}


def test_a_machine_without_a_price_is_named(tmp_path, monkeypatch):
    """A row's own label goes first, then its instance type, then the name given, which is said to
    be no more; a line of the user's own table goes before the row's number."""
    load_endpoint(tmp_path, "mine", {8: 50}, instance="")
    with pytest.raises(
        PriceError, match="run mine used a machine without a price: name one for the run"
    ):
        price(tmp_path, requests_per_day=1)
    (tmp_path / "own.csv").write_text(
        "provider,instance,region,currency,usd_per_hour,date,source\nAWS,ml.m5.xlarge,,USD,0.5,2026-01-02,a"
        " bill\n"
    )
    monkeypatch.setenv("DR_LIB_PRICES", str(tmp_path / "own.csv"))
    priced = price(tmp_path, instance=M5, requests_per_day=1)
    assert priced["usd_per_hour"].tolist() == [0.5]
    assert f" on local, CPU, at the price of {M5}:" in " ".join(describe_choice(priced))
    monkeypatch.delenv("DR_LIB_PRICES")
    for name, usd in (("paid", 0.4), ("free", 0.0)):
        load_endpoint(tmp_path / name, name, {8: 50}, "our rack", usd=usd, instance_type=M5)
        row = price(tmp_path / name, instance=C7G, requests_per_day=1).iloc[0]
        assert (row["instance"], row["usd_per_hour"]) == ("our rack", usd)
    load_endpoint(tmp_path / "found", "found", {8: 50}, "", instance_type=M5)
    assert price(tmp_path / "found", instance=C7G, requests_per_day=1)["instance"].tolist() == [
        M5
    ]


def test_the_machine_is_named_as_detected(tmp_path):
    """EC2's machine at SageMaker's price."""
    load_endpoint(tmp_path / "ec2", "a", {8: 50}, M5, instance_type="m5.xlarge")
    said = " ".join(describe_choice(price(tmp_path / "ec2", requests_per_day=1)))
    assert f" on m5.xlarge, at the price of {M5}:" in said


def test_a_label_is_the_price_of_a_machine_not_the_machine(tmp_path):
    """Runs made here at the price of an instance are said to be from here, in the table too."""
    command = [
        "price",
        str(tmp_path / "here"),
        "--requests-per-day",
        "20000",
        "--p99-ms",
        "300",
    ]
    load_endpoint(tmp_path / "here", "a", {8: 50, 16: 900}, M5, usd=0.23, instance_type="")
    said = CliRunner().invoke(main, command).output
    assert f" on local, CPU, at the price of {M5}: {730 * 0.23:.0f} USD" in said
    assert re.search(f" local, CPU +{M5} ", said)


def test_the_command_answers_in_a_table_and_a_sentence(tmp_path):
    """With headers in words and bounds in brackets; and says that there are no load tests."""
    for k, rate in enumerate((8, 10, 12.5)):
        load_endpoint(tmp_path, f"r{k}", {rate: 50, 16: 900}, repetition=k)
    command = ["price", str(tmp_path), "--requests-per-day", "20000", "--p99-ms", "300"]
    *table, said = CliRunner().invoke(main, command).output.splitlines()
    assert len(table) == 2 and "rate held [1/s]" in table[0] and "rate_per_s" not in table[0]
    assert "10.2 [5.2, 20.3]" in table[1]
    assert "For 20,000 requests a day, 99 % within 300 ms" in said
    assert "127 USD a month, 209 USD a million as used." in said
    (tmp_path / "own.csv").write_text(
        "provider,instance,region,currency,usd_per_hour,date,source\nme,box,,USD,9,2026-01-01,me\n"
    )
    own = {"DR_LIB_PRICES": str(tmp_path / "own.csv")}
    unused = CliRunner().invoke(main, command, env=own).output
    assert "Error: the table of DR_LIB_PRICES prices box alone" in unused
    for text in ("nan", "inf"):
        assert CliRunner().invoke(main, [*command[:-1], text]).exit_code == 2
    write_row(tmp_path / "empty", copy_row("21", study="empty"))
    refused = CliRunner().invoke(main, ["price", str(tmp_path / "empty"), *command[2:]])
    assert refused.exit_code == 1 and "Error: no load test below the folders" in refused.output


def test_a_measurement_is_priced_at_several_labels(tmp_path):
    """Three deployments on an m5: its own label, one of another instance, which is said, and one of
    a Graviton, which wins nothing with times of an x86 processor; a winner needs intervals apart,
    quiet tests, and 10 s a rate.
    """
    for k, rate in enumerate((9, 10, 11)):
        load_endpoint(
            tmp_path, f"r{k}", {rate: 50, 12: 900}, M5, repetition=k, cpu="Intel Xeon"
        )
    command = ["price", str(tmp_path), "--requests-per-day", "2000000", "--p99-ms", "300"]
    labels = ["--instances", f"{M5},ml.m4.xlarge,{C7G}"]
    said = CliRunner().invoke(main, command + labels).output
    (choice,) = re.findall("For 2,000,000.*", said)
    assert "is not known: their intervals overlap" in choice and C7G not in choice
    assert "measured on another kind of processor" in said
    assert f"Not measured on ml.m4.xlarge, {C7G}: that price" in said
    alone = CliRunner().invoke(main, [*command, "--instances", M5]).output
    assert f"px, is litert_int8 on {M5}, at the price of {M5}: " in alone
    assert "Not measured" not in alone
    graviton = CliRunner().invoke(main, [*command, "--instances", C7G]).output
    assert "can be chosen: measured on another kind of processor." in graviton
    load_endpoint(tmp_path, "r3", {10: 50, 12: 900}, M5, repetition=3, load_seconds=3.0)
    short = CliRunner().invoke(main, [*command, "--instances", M5]).output
    assert "a rate was tried for less than 10 s" in short
    unknown = CliRunner().invoke(main, [*command, "--instances", "ml.x9"])
    assert unknown.exit_code == 1 and "no price for 'ml.x9'" in unknown.output


def test_a_report_answers_with_a_months_price_and_what_limits_it(tmp_path):
    """The lowest price of a month with its interval, machines, rate; doubts stand below it."""
    for k, rate in enumerate((8, 10, 12.5)):
        load_endpoint(tmp_path, f"r{k}", {rate: 50, 16: 900}, M5, repetition=k)
    load_endpoint(tmp_path, "one", {30: 50, 33: 900}, C7G)
    answer = answer_price(price(tmp_path, requests_per_day=2e6), ["few runs"], "3 runs")
    assert answer.sentence == (
        "2,000,000 photographs a day cost at least 381 USD a month with MobileNet, 96 px,"
        " litert_int8, 99 % answered within 300 ms."
    )
    assert answer.limits == [
        "Which endpoint is the cheapest is not known: one deployment has no interval.",
        "few runs",
    ]
    (number,) = answer.numbers
    assert number.note.startswith(f"a month, machines at the price of {C7G}: 3; one held 30")
    few = price(tmp_path, requests_per_day=1)  # a machine each, and as cheap by chance
    assert ALONE in list_doubts(few.assign(usd_per_month=73.0))
    alone = answer_price(price(tmp_path, requests_per_day=2e6).query("instance == @M5"), [], "")
    assert alone.limits == [] and alone.numbers[0].bounds.startswith("[6")
    nothing = answer_price(
        pd.DataFrame(columns=["model", "image_size", "usd_per_month"]), [], ""
    )
    assert nothing.sentence == "No endpoint can be chosen from these rows."
