"""The entries of what the papers claim: whole, readable, checked when they are read, and their
derived numbers those of the printed ones.
"""

import re
from pathlib import Path

import pytest

from dr_lib.claims.claims import ENTRIES, list_printed, read_claims, read_judged
from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.files import read_yaml, write_json

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = {claim.id: claim for claim in read_claims()}


def read_unjudged():
    """The claims of docs/papers.md: words, place, verdict and reason by id."""
    lines = re.findall(r"(?m)^\| ([A-E]\d+) \|(.*)\|$", (ROOT / "docs/papers.md").read_text())
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in lines}


def list_means(column, paper="B"):
    """The printed means of a column, by what they speak of."""
    printed = list_printed(paper).query("column == @column")
    return printed.set_index(
        [name for name in ("model", "hardware") if printed[name].notna().all()]
    )


def price(instance):
    """What paper B prints, USD an hour."""
    return list_means("usd_per_hour").loc[instance, "value"].item()


def test_every_paper_has_its_claims():
    """Ids without a gap, for none is ever given twice: each is an entry, a claim that no row can
    judge and the documentation names, or both.
    """
    unjudged = read_unjudged()
    judged = {claim.id for claim in read_judged()}
    taken = judged & set(unjudged)
    assert not taken, f"docs/papers.md has {taken}, which claims.yaml gives again"
    for paper in "ABCDE":
        numbers = {int(name[1:]) for name in {*judged, *unjudged} if name[0] == paper}
        assert numbers == set(range(1, len(numbers) + 1))


def test_what_no_row_can_judge_has_its_reason():
    """An entry whose number an analysis shows says what the documentation does."""
    unjudged = read_unjudged()
    assert all(all(cells) for cells in unjudged.values())
    for claim in read_claims():
        if claim.never:
            assert unjudged[claim.id] == [claim.words, claim.place, claim.never, claim.reason]


def test_a_number_of_others_has_a_source():
    """Claims, the studies of the papers and pages name entries of one list, which says where the
    number is, and when a person compared it; each entry is named.
    """
    sources = read_yaml(ENTRIES.with_name("sources.yaml"))
    for source in sources.values():
        assert {"title", "commit"} & set(source)
        assert source["authors"]
        assert source["places"]
        assert re.match(r"20\d\d-\d\d-\d\d, with ", source["checked"])
    cited = {claim.source for claim in read_claims()}
    assert all(claim.source[0] == claim.paper for claim in read_claims())
    studies = [f"papermill_runs/{name}.yaml" for p in PAPERS.values() for name in p.studies]
    for page in [*ROOT.glob("docs/*.md"), *map(ROOT.joinpath, studies)]:
        named = re.findall(r"\[([A-E](?:-\w+)?)\]", page.read_text(encoding="utf-8"))
        assert named or page.suffix == ".md", page
        cited.update(named)
    assert cited == set(sources)


def test_a_quotation_has_its_marks():
    """In both languages, and nothing else has."""
    for claim in read_claims():
        for words in (claim.words, claim.words_pt):
            assert bool(re.search('".+"', words)) == (claim.wording == "quoted"), claim.id


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relaton": "within"}, "claim A6, relaton: Extra inputs are not permitted"),
        ({"value": "some"}, "claim A6, value: "),
        ({"tolerance": -1}, "claim A6, tolerance: "),
        ({"statistic": "median"}, "claim A6, statistic: "),
        ({"statistic": "mean"}, "claim A6: .*denominator: mean needs one side or two"),
        ({"never": "withdrawn"}, "claim A6: .*reason: say why no row can judge the claim"),
    ],
)
def test_a_wrong_entry_is_named_with_its_field(tmp_path, changes, message):
    """One sentence, when it is read."""
    entries = read_yaml(ENTRIES)["claims"]
    entry = next(entry for entry in entries if entry["id"] == "A6") | changes
    path = tmp_path / "claims.yaml"
    write_json(path, {"claims": [entry]})  # which is YAML, too
    with pytest.raises(DrError, match=message):
        read_claims(path=path)


def test_derived_numbers_follow_from_the_printed_ones():
    """Of paper C reais at 4.865, of one run of each of 48 scenarios and five executions, and 14.00
    and 2.50 of one cell on CPU and GPU.
    """
    costs = [CLAIMS[name].value for name in ("C10", "C11")]
    assert costs == pytest.approx([14.00 / 5 / 4.865, 2.50 / 5 / 4.865], rel=1e-3)
    assert CLAIMS["C26"].value == pytest.approx(134 / 5 / 4.865, abs=5e-4)
    assert CLAIMS["C26"].cells == 3 * 2 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("place", "ids"),
    [
        ("text", "A1 A2 C10 C11 C29 C30 C31 D1 D2 D7"),
        ("table 1", "B36 B37 B38 B39"),
        ("table 2", "B1 B2 B3 B4"),
        ("measurements in the authors' repository", "B5 B12 B13 B20 B34"),
        ("abstract", "E1 E2"),
    ],
)
def test_each_number_has_the_place_where_it_is_printed(place, ids):
    """A figure that draws a number prints none; what the text gives is no number of a figure."""
    assert {CLAIMS[name].place for name in ids.split()} == {place}


def test_the_words_are_the_papers():
    """MobileNet alone is cheaper, CIFAR-10 is faster by no given amount, and a range is of each."""
    assert "MobileNet" in CLAIMS["B29"].words
    assert "model=mobilenet" in map(str, CLAIMS["B29"].numerator)
    for name in ("C23", "C25", "C39"):
        assert "a little" not in CLAIMS[name].words
    for name in ("C14", "C15", "C16", "C17", "C34", "C35"):
        assert CLAIMS[name].words.endswith("(here: in each scenario).")
        assert CLAIMS[name].every_cell
    assert {claim.wording for claim in read_claims() if claim.place == "table 1"} == {
        "paraphrase"
    }


def test_the_ratios_of_paper_b_follow_from_its_latencies():
    """Every ratio and saving of latency is that of two printed means, to the printed digits."""
    latency = list_means("predict_ms")["value"]
    for claim in read_judged("B"):
        if claim.columns != ("predict_ms",) or claim.statistic == "mean":
            continue
        if claim.is_anywhere or claim.relation != "within":
            continue
        a, b = (
            latency[tuple(term.patterns[0] for term in side)]
            for side in (claim.numerator, claim.denominator)
        )
        expected = a / b if claim.statistic == "ratio" else 100 - 100 * a / b
        assert claim.statistic in ("ratio", "saving")
        digits = 0.005 if claim.statistic == "ratio" else 0.5
        assert claim.value == pytest.approx(expected, abs=digits), claim.id


def test_the_range_of_two_networks_is_that_of_four_machines():
    """VGG19's latency over MobileNet's, from B6 / B10 to B7 / B11."""
    ratios = [CLAIMS[f"B{k}"].value / CLAIMS[f"B{k + 4}"].value for k in range(5, 9)]
    assert (
        min(ratios)
        == CLAIMS["B6"].value / CLAIMS["B10"].value
        == pytest.approx(3.33, abs=0.005)
    )
    assert (
        max(ratios)
        == CLAIMS["B7"].value / CLAIMS["B11"].value
        == pytest.approx(4.49, abs=0.005)
    )
    assert "    # The range of B6 / B10, 3.33, to B7 / B11, 4.49.\n" in ENTRIES.read_text()


@pytest.mark.parametrize("name", ["E1", "E2"])
def test_a_score_may_differ_by_the_width_of_their_interval(name):
    """Half of it for photographs, times the root of 2 for patients of two eyes that are alike, and
    once more for a second draw of patients.
    """
    low, high = map(float, re.search(r"\[(.+), (.+)\]", CLAIMS[name].words).groups())
    over_patients = (high - low) / 2 * 2**0.5
    assert CLAIMS[name].tolerance == pytest.approx(over_patients * 2**0.5)


@pytest.mark.parametrize("name", ["B34", "B35"])
def test_the_costs_per_million_follow_from_price_and_latency(name):
    """price / 3600 x latency: c7g is 14 % dearer than m5 for VGG19, and 12 % cheaper for
    MobileNet.
    """
    latency = list_means("predict_ms")["value"]
    sides = (CLAIMS[name].numerator, CLAIMS[name].denominator)
    keys = [tuple(term.patterns[0] for term in side) for side in sides]
    cost = [latency[key] * price(key[1]) for key in keys]
    assert CLAIMS[name].value == pytest.approx(100 * abs(cost[0] / cost[1] - 1), abs=0.5)


def test_the_prices_of_paper_b_give_its_savings():
    """24.34 %, which B29 takes for that of a prediction, is that of an hour."""
    saved = 100 - 100 * price("ml.c7g.xlarge") / price("ml.m5.xlarge")
    assert saved == pytest.approx(CLAIMS["B29"].value, abs=0.01)


def test_training_time_is_judged_on_the_papers_machine_and_a_steady_epoch_elsewhere():
    """The paper speaks of training time; short runs on other machines hold mostly compilation."""
    for claim in read_judged("C"):
        if claim.columns in (("train_s",), ("steady_epoch_s",)):
            assert (claim.columns == ("steady_epoch_s",)) == claim.is_anywhere, claim.id
            assert (claim.wording == "reading") == claim.is_anywhere, claim.id


def test_what_any_machine_is_compared_with_is_what_the_paper_says_of_its_own():
    """Our reading without the paper's instances and epochs: the same statement and bounds, of
    the same sides.
    """
    same = ("every_cell", "statistic", "relation", "value", "tolerance", "unit")
    num_pairs = 0
    for general in read_judged():
        if general.wording != "reading" or not general.is_anywhere:
            continue
        terms = (*general.numerator, *general.denominator)
        assert not {"instance_type", "priced_as"} & {term.column for term in terms}
        for special in filter(None, map(CLAIMS.get, general.place.split(", "))):
            if special.never:
                continue
            num_pairs += 1
            for name in same:
                assert getattr(general, name) == getattr(special, name), (general.id, name)
            for name in ("numerator", "denominator"):
                first = getattr(general, name)[:1]
                if first and first[0].column != "accelerator":
                    assert first == getattr(special, name)[:1], (general.id, name)
    assert num_pairs > 15


def test_every_reading_of_ours_stands_in_the_tables_of_interpretations():
    """A claim whose comment says that a reading, a bound or a network is ours is named there."""
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    tables = re.search("(?s)## Our interpretations(.*)## How many claims", text)[1]
    named = set()
    for paper, first, last in re.findall(r"\b([A-E])(\d+)(?: to [A-E](\d+))?\b", tables):
        named |= {f"{paper}{k}" for k in range(int(first), int(last or first) + 1)}
    entries = ENTRIES.read_text(encoding="utf-8").split("  - id: ")
    notes = {entry.split()[0]: re.findall("    # .*", entry) for entry in entries[1:]}
    judged = [claim.id for claim in read_judged()]
    ours = {name for name in judged if re.search(r"\b[Oo]urs?\b", str(notes[name]))}
    assert len(ours) > 40
    assert not ours - named
