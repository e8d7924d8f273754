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
from dr_lib.runs.prices import Price, PriceError
from dr_lib.runs.row import read_runs, write_row
from dr_lib.serving.answer import answer_price
from dr_lib.serving.endpoint import (
    ALONE,
    find_rates,
    list_doubts,
    list_endpoints,
    price_endpoints,
    tabulate_endpoints,
)
from dr_lib.serving.figures import describe_choice
from tests.report.real_rows import copy_row
from tests.studies import load_endpoint

C7G = "ml.c7g.xlarge"
M5 = "ml.m5.xlarge"  # 0.174 and 0.23 USD an hour


def price(root, instance="", p99_ms=300.0, requests_per_day=20_000, **asked) -> pd.DataFrame:
    """What the load tests below a folder cost."""
    endpoints = list_endpoints(read_runs(root), root, p99_ms=p99_ms, instance=instance)
    return price_endpoints(endpoints, requests_per_day=requests_per_day, **asked)


def call(root, *options, requests_per_day=20_000, code=0, prices=None) -> str:
    """What the command says."""
    command = ["price", root, "--requests-per-day", requests_per_day, "--p99-ms", 300, *options]
    said = CliRunner(env={"DR_LIB_PRICES": prices}).invoke(main, [*map(str, command)])
    assert said.exit_code == code, said.output
    return said.output


def write_price(root, line) -> str:
    """A table with one price."""
    (root / "own.csv").write_text(f"{','.join(Price._fields)}\n{line}\n")
    return str(root / "own.csv")


def bounds(row, name) -> list[float]:
    """A value of a row, and its bounds."""
    return [row[f"{name}{end}"] for end in ("", "_low", "_high")]


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
    ends = {"usd_per_month_low": [500, 800], "usd_per_month_high": [510, 900]}
    (said,) = describe_choice(priced.assign(**ends))
    assert f"px, is litert_int8 on {M5}, at the price of {M5}: 503.7 [500.0, 510.0] USD" in said
    ends = {"usd_per_month_low": 500.0, "usd_per_month_high": 510.0}
    (said,) = describe_choice(priced.assign(usd_per_month=503.7, **ends), "pt")
    assert f"{M5} ou litert_int8 em {C7G}, ao preço de {C7G}: 503,7 [500,0; 510,0] USD" in said
    assert price(tmp_path, requests_per_day=280_000)["instance"].tolist() == [C7G, M5]


def test_endpoints_of_one_name_are_told_apart(tmp_path):
    """One thread holds 10 a second, two hold 20: both are int8 on one instance."""
    load_endpoint(tmp_path, "a", {10: 50, 11: 900}, threads=1)
    load_endpoint(tmp_path, "b", {20: 50, 22: 900}, threads=2)
    table = tabulate_endpoints(price(tmp_path, requests_per_day=2e6))
    assert table[["threads", "rate_per_s"]].to_numpy().tolist() == [[2, 20], [1, 10]]


@pytest.mark.parametrize(
    ("tests", "rate", "machines", "usd"),
    [
        # their mean, by Cox's interval of their logarithms at 3 %
        (
            [{8: 50, 16: 900}, {10: 50, 16: 900}, {12.5: 50, 16: 900}],
            [10.17, 5.18, 20.30],
            [7, 4, 14],
            [889.14, 508.08, 1778.28],
        ),
        # all held one rate and missed the next: the step of the search is in the interval
        ([{22.6: 50, 24.7: 900}] * 3, [22.6, 22.6, 24.7], [4, 3, 4], [508.08, 381.06, 508.08]),
    ],
)
def test_intervals_come_from_the_deployments(tmp_path, tests, rate, machines, usd):
    """At 69.44 a second."""
    for k, tried in enumerate(tests):
        load_endpoint(tmp_path, f"r{k}", tried, repetition=k)
    (row,) = price(tmp_path, requests_per_day=2e6).to_dict("records")
    assert row["n"] == 3 and bounds(row, "rate_per_s") == pytest.approx(rate, abs=0.005)
    assert bounds(row, "num_machines") == machines
    assert bounds(row, "usd_per_month") == pytest.approx(usd)


def test_a_rate_is_held_by_99_of_100_and_by_every_answer(tmp_path):
    """One of 100 may be late, two may not; a request that failed bars its rate, and so every
    larger one.
    """
    times = np.full(100, 20.0)
    late = {number: np.where(np.arange(100) < number, 900, times) for number in (1, 2)}
    load_endpoint(tmp_path, "late", {**late, 4: 20})
    load_endpoint(tmp_path, "failed", {1: 20, 2: 20, 4: None, 8: 20})
    load_endpoint(tmp_path, "all", {1: 20, 2: 20})
    load_endpoint(tmp_path, "none", {1: 900})
    rates = find_rates(read_runs(tmp_path), tmp_path, p99_ms=300).set_index("run_id")
    assert rates["held_per_s"].to_dict() == {"late": 1, "failed": 2, "all": 2, "none": 0}
    missed = {"late": 2, "failed": 4, "all": np.inf, "none": 1}
    assert rates["missed_per_s"].to_dict() == missed


def test_the_cheapest_keeps_its_accuracy(tmp_path):
    """int8 may lose 0.03 of AUC, float16 0.01, of the SavedModel nothing is known, and too few
    photographs judged float32: a margin of 0.02 takes one.

    Without a margin the four cost the same, and what may lose least comes first. Of two models the
    whole gate of the worse one counts.
    """

    def load(run_id, name, passes, auc=None, kappa=None, repetition=0):
        gate = {"gate_auc_difference_low": auc, "gate_kappa_difference_low": kappa}
        gate["gate_passes"] = passes
        about = {"format": name, "repetition": repetition}
        load_endpoint(tmp_path, run_id, {8: 50, 16: 900}, **about, **gate)

    load("a", "litert_int8", False, -0.03, -0.03)
    load("b", "litert_float16", True, -0.01, -0.01)
    load("c", "savedmodel", None)
    load("d", "litert_float32", False, -0.01, -0.01)
    assert price(tmp_path)["format"][0] == "litert_float16"
    judged = price(tmp_path, accuracy_within=0.02).set_index("format")["reason"]
    assert judged.to_dict() == {
        "litert_float16": "",
        "litert_int8": "may lose more accuracy",
        "savedmodel": "accuracy not known",
        "litert_float32": "may lose more accuracy",
    }
    load("e", "litert_float16", None, repetition=1)
    load("f", "litert_int8", False, -0.01, -0.04, repetition=1)
    twice = price(tmp_path).set_index("format")["gate_auc_difference_low"]
    assert np.isnan(twice["litert_float16"]) and twice["litert_int8"] == -0.01
    with pytest.raises(DrError, match=r"known to lose less than 0\.001"):
        price(tmp_path, accuracy_within=0.001)


def test_what_holds_no_rate_is_not_chosen(tmp_path):
    """One deployment of two that holds none bars its endpoint, as one that fails to answer."""
    load_endpoint(tmp_path, "a", {1: 420, 2: 500})
    with pytest.raises(DrError, match="no endpoint sustained a rate with 99 % within 300 ms"):
        price(tmp_path)
    assert price(tmp_path, p99_ms=450.0)["rate_per_s"].tolist() == [1]
    load_endpoint(tmp_path, "b", {1: 20, 2: 900}, repetition=1)
    load_endpoint(tmp_path, "c", {1: 20, 2: 900}, M5)
    load_endpoint(tmp_path / "d", "d", {1: None, 2: 20}, "ml.m4.xlarge")
    no_rate = "holds no rate within the bound"
    reasons = price(tmp_path).set_index("instance")["reason"].to_dict()
    assert reasons == {M5: "", C7G: no_rate, "ml.m4.xlarge": no_rate}


def test_a_machine_without_a_price_is_named(tmp_path, monkeypatch):
    """A row's own label goes first, then its instance type, then the name given, which is said to
    be no more; a line of the user's own table goes before the row's number."""
    load_endpoint(tmp_path, "mine", {8: 50}, instance="")
    with pytest.raises(
        PriceError, match="run mine used a machine without a price: name one for"
    ):
        price(tmp_path)
    with monkeypatch.context() as set_up:
        own = write_price(tmp_path, f"AWS,{M5},,USD,0.5,2026-01-02,a bill")
        set_up.setenv("DR_LIB_PRICES", own)
        priced = price(tmp_path, instance=M5)
    assert priced["usd_per_hour"].tolist() == [0.5]
    assert f" on local, CPU, at the price of {M5}:" in " ".join(describe_choice(priced))
    for name, usd in (("paid", 0.4), ("free", 0.0)):
        load_endpoint(tmp_path / name, name, {8: 50}, "our rack", usd=usd, instance_type=M5)
        row = price(tmp_path / name, instance=C7G).iloc[0]
        assert (row["instance"], row["usd_per_hour"]) == ("our rack", usd)
    load_endpoint(tmp_path / "found", "found", {8: 50}, "", instance_type=M5)
    assert price(tmp_path / "found", instance=C7G)["instance"].tolist() == [M5]


def test_a_label_is_the_price_of_a_machine_not_the_machine(tmp_path):
    """Runs at the price of an instance are said to be from where they were, in the table too."""
    load_endpoint(tmp_path / "here", "a", {8: 50, 16: 900}, M5, usd=0.23, instance_type="")
    said = call(tmp_path / "here")
    assert f" on local, CPU, at the price of {M5}: {730 * 0.23:.0f} USD" in said
    assert re.search(f" local, CPU +{M5} ", said)


def test_the_command_answers_in_a_table_and_a_sentence(tmp_path):
    """20,000 a day are 2,500 in the busiest hour, 0.69 a second: one machine, 730 hours of 0.174
    USD, 208.80 USD a million. Headers are in words and bounds in brackets; where there are no load
    tests, or they cannot be pooled, it says so.
    """
    for k, rate in enumerate((8, 10, 12.5)):
        load_endpoint(tmp_path, f"r{k}", {rate: 50, 16: 900}, repetition=k)
    *table, said = call(tmp_path).splitlines()
    assert len(table) == 2 and "rate held [1/s]" in table[0] and "rate_per_s" not in table[0]
    assert "10.2 [5.2, 20.3]" in table[1]
    assert "For 20,000 requests a day, 99 % within 300 ms" in said
    assert "127 USD a month, 209 USD a million as used." in said
    own = write_price(tmp_path, "me,box,,USD,9,2026-01-01,me")
    unused = call(tmp_path, prices=own, code=1)
    assert "Error: the table of DR_LIB_PRICES prices box alone" in unused
    for text in ("nan", "inf"):
        call(tmp_path, "--accuracy-within", text, code=2)
    load_endpoint(tmp_path, "old", {8: 50, 16: 900}, repetition=3, code_sha256="old")
    unlike = call(tmp_path, code=1)
    assert "rows differ in code_sha256 (" in unlike
    assert re.search(
        f"-p allow code_sha256.*; -p is an option of .* report {tmp_path} ", unlike
    )
    write_row(tmp_path / "empty", copy_row("21", study="empty"))
    assert "Error: no load test below the folders" in call(tmp_path / "empty", code=1)


def test_a_measurement_is_priced_at_several_labels(tmp_path):
    """Three deployments on an m5: its own label, one of another instance, which is said, and one of
    a Graviton, which wins nothing with times of an x86 processor; a winner needs intervals apart,
    quiet tests, and 10 s a rate.
    """

    def choose(instances, code=0):
        options = ["--instances", instances]
        return call(tmp_path, *options, requests_per_day=2_000_000, code=code)

    for k, rate in enumerate((9, 10, 11)):
        cpu = {"cpu": "Intel Xeon"}
        load_endpoint(tmp_path, f"r{k}", {rate: 50, 12: 900}, M5, repetition=k, **cpu)
    said = choose(f"{M5},ml.m4.xlarge,{C7G}")
    (choice,) = re.findall("For 2,000,000.*", said)
    assert "is not known: their intervals overlap" in choice and C7G not in choice
    assert "measured on another kind of processor" in said
    assert f"Not measured on ml.m4.xlarge, {C7G}: that price" in said
    alone = choose(M5)
    assert f"px, is litert_int8 on {M5}, at the price of {M5}: " in alone
    assert "Not measured" not in alone
    assert "can be chosen: measured on another kind of processor." in choose(C7G)
    load_endpoint(tmp_path, "r3", {10: 50, 12: 900}, M5, repetition=3, load_seconds=3.0)
    assert "a rate was tried for less than 10 s" in choose(M5)
    assert "no price for 'ml.x9'" in choose("ml.x9", code=1)


def test_a_report_answers_with_a_months_price_and_what_limits_it(tmp_path):
    """The lowest price of a month with its interval, machines, rate; doubts stand below it."""
    for k, rate in enumerate((8, 10, 12.5)):
        load_endpoint(tmp_path, f"r{k}", {rate: 50, 16: 900}, M5, repetition=k)
    load_endpoint(tmp_path, "one", {30: 50, 33: 900}, C7G)
    priced = price(tmp_path, requests_per_day=2e6)
    answer = answer_price(priced, ["few runs"], "3 runs")
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
    alone = answer_price(priced.query("instance == @M5"), [], "")
    assert alone.limits == [] and alone.numbers[0].bounds.startswith("[6")
    nothing = answer_price(priced[:0], [], "")
    assert nothing.sentence == "No endpoint can be chosen from these rows."
