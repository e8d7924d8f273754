"""The table of what the papers claim: whole, readable, and its derived numbers those of the
printed ones.
"""

import numpy as np
import pytest

from dr_lib.evidence.claims import read_published
from dr_lib.evidence.verdicts import EVERY, NEVER, ONE_SIDED, STATISTICS


def claim(claim_id):
    """One claim of the table."""
    return read_published().set_index("id", drop=False).loc[claim_id]


def price(instance):
    """What paper B prints, USD an hour."""
    return claims_on("usd_per_hour", "B")[f"instance_type=ml.{instance}"]


def claims_on(column, paper):
    """The printed means of a column, by selector."""
    claims = read_published(paper).query("statistic == 'mean'")
    return claims[claims["column"] == column].set_index("numerator")["value"]


def test_every_paper_has_its_claims():
    """Five papers, each claim in both languages with its place; ids without a gap, for none is
    ever given twice.
    """
    claims = read_published()
    assert set(claims["paper"]) == set("ABCDE")
    assert (claims[["words", "words_pt", "place", "environments"]] != "").all(axis=None)
    for paper, rows in claims.groupby("paper"):
        assert rows["id"].tolist() == [f"{paper}{k}" for k in range(1, len(rows) + 1)]


def test_every_claim_can_be_judged():
    """Whatever a verdict goes by is a word that it knows; a quotation has its marks; what is
    never judged says why.
    """
    claims = read_published()
    numbers = claims[["value", "tolerance", "cells"]].astype(float)
    assert np.isfinite(numbers).all(axis=None) and (numbers["tolerance"] >= 0).all()
    assert set(claims["wording"]) == {"quoted", "paraphrase", "derived", "reading"}
    assert claims["words_pt"].str.contains('".+"').eq(claims["wording"] == "quoted").all()
    assert claims["judged"].isin(["overall", EVERY, *NEVER]).all()
    assert claims["judged"].isin(NEVER).eq(claims["why"] != "").all()
    assert claims["statistic"].isin([*STATISTICS, "share", "score"]).all()
    assert claims["statistic"].isin(ONE_SIDED).eq(claims["denominator"] == "").all()
    assert set(claims["relation"]) == {">=", "<=", "within"}
    terms = claims["numerator"] + ";" + claims["denominator"] + ";" + claims["conditions"]
    assert terms.str.fullmatch(r"(;*[a-z_0-9]+=[^=;]*)*;*").all()


def test_derived_numbers_follow_from_the_printed_ones():
    """Of paper A 36 % in the text and what its means give; of paper C reais at 4.865, of one run of
    each of 48 scenarios and five executions, and 14.00 / 2.50 of one cell on CPU and GPU; of paper
    D 621 s over 219 s.
    """
    value = read_published().set_index("id")["value"]
    assert value["A3"] == 36 and value["A4"] == pytest.approx(
        100 - 100 * value["A2"] / value["A1"], abs=0.05
    )
    assert value["D4"] == pytest.approx(value["D2"] / value["D1"], abs=0.005)
    costs = (
        read_published("C")
        .query("column == 'formula_usd' and statistic == 'mean'")["value"]
        .tolist()
    )
    assert costs[:2] == pytest.approx([14.00 / 5 / 4.865, 2.50 / 5 / 4.865], rel=1e-3)
    assert (
        value["C26"] == pytest.approx(134 / 5 / 4.865, abs=5e-4)
        and claim("C26")["cells"] == 3 * 2 * 2 * 2 * 2
    )


@pytest.mark.parametrize(
    ("place", "ids"),
    [
        ("text", "A1 A2 A4 C10 C11 C29 C30 C31 D1 D2 D4 D7"),
        ("table 1", "B36 B37 B38 B39"),
        ("table 2", "B1 B2 B3 B4"),
        ("table 3", "C7 C9"),
        ("measurements beside the paper, not in it", "B5 B12 B13 B20 B34"),
        ("Voets et al., PLOS ONE 2019", "E1 E2 E3 E4"),
    ],
)
def test_each_number_has_the_place_where_it_is_printed(place, ids):
    """A figure that draws a number prints none; what the text gives is no number of a figure."""
    assert set(read_published().set_index("id").loc[ids.split(), "place"]) == {place}


def test_the_words_are_the_papers():
    """MobileNet alone is cheaper, CIFAR-10 is faster by no given amount, and a mean is no range."""
    words = read_published().set_index("id")["words"]
    assert "MobileNet" in words["B29"] and "model=mobilenet" in claim("B29")["numerator"]
    assert not words[["C23", "C25", "C39"]].str.contains("a little").any()
    ranges = words[["C14", "C15", "C16", "C17", "C34", "C35"]]
    assert ranges.str.endswith("(here: the mean of the scenarios).").all()
    assert (read_published().query("place == 'table 1'")["wording"] == "paraphrase").all()


@pytest.mark.parametrize(
    ("cheap", "dear", "printed"), [("m5", "m4", 4.17), ("c7g", "m6g", 5.84), ("c7g", "m5", 24.34)]
)
def test_the_savings_of_paper_b_follow_from_its_prices(cheap, dear, printed):
    """One minus the ratio of the prices is the printed saving, to its last digit."""
    cheap = f"{cheap}.xlarge"
    dear = f"{dear}.xlarge"
    assert 100 * (1 - price(cheap) / price(dear)) == pytest.approx(printed, abs=0.01)
    sides = f"numerator == 'instance_type=ml.{cheap}' and denominator == 'instance_type=ml.{dear}'"
    assert list(read_published("B").query(f"{sides} and column == 'usd_per_hour'")["value"]) == [
        printed
    ]


def test_the_ratios_of_paper_b_follow_from_its_latencies():
    """Every ratio, saving and increase of latency is that of two printed means, to the printed
    digits.
    """
    latency = claims_on("predict_ms", "B")
    derived = read_published("B").query("column == 'predict_ms' and statistic != 'mean'")
    derived = derived[derived["relation"].eq("within") & derived["environments"].ne("any")]
    assert len(derived) == 10
    for row in derived.itertuples():
        ratio = latency[row.numerator] / latency[row.denominator]
        expected = {"ratio": ratio, "saving": 100 - 100 * ratio, "increase": 100 * ratio - 100}[
            row.statistic
        ]
        assert row.value == pytest.approx(
            expected, abs=0.005 if row.statistic == "ratio" else 0.5
        ), row.id


def test_the_range_of_two_networks_is_that_of_four_machines():
    """VGG19's latency over MobileNet's, from B6 / B10 to B7 / B11."""
    value = read_published().set_index("id")["value"]
    ratios = [value[f"B{k}"] / value[f"B{k + 4}"] for k in range(5, 9)]
    assert min(ratios) == value["B6"] / value["B10"] == pytest.approx(3.33, abs=0.005)
    assert max(ratios) == value["B7"] / value["B11"] == pytest.approx(4.49, abs=0.005)
    assert claim("B43")["note"] == "The range of B6 / B10, 3.33, to B7 / B11, 4.49."


def test_the_costs_per_million_follow_from_price_and_latency():
    """price / 3600 x latency: c7g is 14 % dearer than m5 for VGG19, and 12 % cheaper for
    MobileNet.
    """
    latency = claims_on("predict_ms", "B")
    derived = read_published("B").query(
        "column == 'predict_usd_per_million' and wording == 'derived'"
    )
    assert len(derived) == 2
    for row in derived.itertuples():
        sides = (row.numerator, row.denominator)
        cost = [latency[side] * price(side.split("instance_type=ml.")[1]) for side in sides]
        assert row.value == pytest.approx(100 * abs(cost[0] / cost[1] - 1), abs=0.5)


def test_training_time_is_judged_on_the_papers_machine_and_a_steady_epoch_elsewhere():
    """The paper speaks of training time; short runs on other machines hold mostly compilation."""
    claims = read_published("C")
    times = claims[claims["column"].isin(["train_s", "steady_epoch_s"])]
    assert ((times["column"] == "steady_epoch_s") == (times["environments"] == "any")).all()
    assert (times["wording"].eq("reading") == times["environments"].eq("any")).all()


def test_what_any_machine_can_be_held_to_is_what_the_paper_says_of_its_own():
    """Our reading without the paper's instances and epochs: the same statement and bounds, of
    the same sides.
    """
    claims = read_published().set_index("id", drop=False)
    anywhere = claims[(claims["wording"] == "reading") & (claims["environments"] == "any")]
    places = [(row, place) for _, row in anywhere.iterrows() for place in row["place"].split(", ")]
    pairs = [(row, claims.loc[place]) for row, place in places if place in claims.index]
    pairs = [pair for pair in pairs if not {row["judged"] for row in pair} & set(NEVER)]
    assert len(pairs) > 15
    for general, special in pairs:
        assert "instance_type" not in general["numerator"] + general["denominator"]
        for name in (
            "judged",
            "statistic",
            "relation",
            "value",
            "tolerance",
            "unit",
            "numerator",
            "denominator",
        ):
            if "accelerator" not in str(general[name]):
                assert str(general[name]).split(";")[0] == str(special[name]).split(";")[0], (
                    general["id"],
                    name,
                )
