"""The entries of what the papers claim: whole, readable, checked when they are read, and their
derived numbers those of the printed ones.
"""

import re
from pathlib import Path

import pytest

from dr_lib.claims.claims import ENTRIES, list_printed, read_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.errors import DrError
from dr_lib.files import read_yaml, write_json
from dr_lib.runs import schema

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = {claim.id: claim for claim in read_claims()}
PRICES = {"ml.m5.xlarge": 0.23, "ml.c7g.xlarge": 0.174}  # that paper B prints [USD/h]


def read_unjudged():
    """The claims of docs/papers.md: words, place, verdict and reason by id."""
    lines = re.findall(r"(?m)^\| ([A-E]\d+) \|(.*)\|$", (ROOT / "docs/papers.md").read_text())
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in lines}


def find_latencies(claim):
    """The printed latencies of a claim's sides [ms]."""
    printed = list_printed("B").query("column == 'predict_ms'")
    latency = printed.set_index(["model", "instance_type"])["value"]
    patterns = [{term.column: term.patterns[0] for term in side} for side in claim.rows]
    return [(latency[one["model"], one["instance_type"]], one) for one in patterns]


def test_every_paper_has_its_claims():
    """Ids without a gap, for none is ever given twice: each is an entry, a claim that no row can
    judge and the documentation names with its reason, or both.
    """
    unjudged = read_unjudged()
    assert all(all(cells) for cells in unjudged.values())
    judged = {name for name, claim in CLAIMS.items() if not claim.not_testable}
    assert judged.isdisjoint(unjudged)
    for paper in "ABCDE":
        numbers = {int(name[1:]) for name in {*judged, *unjudged} if name[0] == paper}
        assert numbers == set(range(1, len(numbers) + 1))
    for name in CLAIMS.keys() - judged:
        assert name in unjudged, f"docs/papers.md needs a line of {name}"
        assert unjudged[name][0] == CLAIMS[name].words
        assert unjudged[name][3] == CLAIMS[name].not_testable


def test_a_claim_speaks_of_columns_that_there_are():
    """Of a row, of the table of scores, or computed from rows; no row meets a misspelt one."""
    computed = "percent_train best_epoch predict_usd_per_million savedmodel_mib".split()
    computed += [f"to_{share}_percent_s" for share in (90, 95, 97)]
    known = {*schema.COLUMNS, *computed, "auc", "trained_on", "tested_on"}
    for claim in CLAIMS.values():
        named = {term.column for side in (claim.conditions, *claim.rows) for term in side}
        unknown = {*claim.columns, *named} - known
        assert not unknown, f"{claim.id}: no column {unknown}"


def test_a_number_of_others_has_a_source():
    """Claims, the studies of the papers and pages name entries of one list, which says where the
    number is, and when a person compared it; each entry is named.
    """
    sources = read_yaml(ENTRIES.with_name("sources.yaml"))
    for source in sources.values():
        assert re.match(r"20\d\d-\d\d-\d\d, with ", source["checked"])
    cited = {claim.source or claim.id[0] for claim in read_claims()}
    assert all(claim.id.startswith(claim.source[:1]) for claim in read_claims())
    studies = [f"papermill_runs/{name}.yaml" for p in PAPERS.values() for name in p.studies]
    for page in [*ROOT.glob("docs/*.md"), *map(ROOT.joinpath, studies)]:
        named = re.findall(r"\[([A-E](?:-\w+)?)\]", page.read_text(encoding="utf-8"))
        assert named or page.suffix == ".md", page
        cited.update(named)
    assert cited == set(sources)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relaton": "within"}, "claim A6, relaton: unknown"),
        ({"published": "some"}, "claim A6, published is 'some'"),
        ({"rows": []}, "claim A6, rows is "),
    ],
)
def test_a_wrong_entry_is_named_with_its_field(tmp_path, changes, message):
    """One sentence, when it is read."""
    table = read_yaml(ENTRIES)
    block = next(block for block in table["claims"] if "A6" in block["entries"])
    block = {**block, "entries": {"A6": {**block["entries"]["A6"], **changes}}}
    path = tmp_path / "claims.yaml"
    write_json(path, {**table, "claims": [block]})  # which is YAML, too
    with pytest.raises(DrError, match=message):
        read_claims(path=path)


def test_derived_numbers_follow_from_the_printed_ones():
    """Of paper C reais at 4.865 for five executions; of paper B ratios and savings of two printed
    latencies, to the printed digits, and costs by the printed prices.
    """
    costs = [CLAIMS[name].value for name in ("C10", "C11")]
    assert costs == pytest.approx([14.00 / 5 / 4.865, 2.50 / 5 / 4.865], rel=1e-3)
    for name in ("B21", "B22", "B23", "B24", "B25", "B26", "B30", "B32"):
        claim = CLAIMS[name]
        (a, _), (b, _) = find_latencies(claim)
        expected = 100 - 100 * a / b if claim.written_as else a / b
        assert claim.value == pytest.approx(expected, abs=0.5 if claim.written_as else 0.005)
    for name in ("B34", "B35"):
        cost = [ms * PRICES[side["instance_type"]] for ms, side in find_latencies(CLAIMS[name])]
        assert CLAIMS[name].value == pytest.approx(100 * abs(cost[0] / cost[1] - 1), abs=0.5)
    saved = 100 - 100 * PRICES["ml.c7g.xlarge"] / PRICES["ml.m5.xlarge"]
    assert saved == pytest.approx(CLAIMS["B29"].value, abs=0.01)
    ratios = [CLAIMS[f"B{k}"].value / CLAIMS[f"B{k + 4}"].value for k in range(5, 9)]
    assert CLAIMS["B43"].bounds == pytest.approx((min(ratios), max(ratios)), abs=0.05)
