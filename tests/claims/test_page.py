"""What a page shows of the papers' claims, judged first."""

from xml.etree import ElementTree

import pytest

from dr_lib.claims.claims import read_claims
from dr_lib.claims.page import show_claims
from dr_lib.claims.papers import PAPERS
from dr_lib.claims.verdicts import judge_claims
from dr_lib.report import page
from dr_lib.report.groups import select_runs
from tests.report.real_rows import CPU, run_scenarios, train_referable


def read_table(text: str) -> dict[str, dict[str, str]]:
    """The cells of a table in HTML by their headers, a row by its first cell."""
    table = ElementTree.fromstring(text[text.index("<table") : text.index("</table>") + 8])
    header, *rows = ([cell.text or "" for cell in row] for row in table.iter("tr"))
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def test_claims_are_a_table_of_verdicts_above_a_folded_one_of_all(shown):
    """What our machine can judge, and reasons on demand."""
    runs = run_scenarios(disturbed=True)
    judged = judge_claims("C", select_runs(runs, may_differ=PAPERS["C"].may_differ))
    show_claims(page.Page(), judged)
    given, every = (read_table(text) for text in shown if "<table" in str(text))
    assert list(every) == list(judged["id"])
    assert {row["verdict"] for row in given.values()} == {"holds", "does not hold"}
    mean = given["C34"]
    assert float(mean["ours"].split()[0]) == pytest.approx(
        5, abs=0.01
    )  # the sessions differ, and cancel
    assert (mean["n"], mean["verdict"]) == ("3", "does not hold")
    assert "C28" not in every  # which no row can judge


def test_what_no_row_reaches_is_folded_into_one_line(shown):
    """Claims on endpoints, and no rows of any; in Portuguese."""
    show_claims(
        page.Page(lang="pt"), judge_claims("B", select_runs(train_referable([1.0], CPU)))
    )
    assert shown[1] == "Nenhuma afirmação pode ser julgada."
    num = len(read_claims("B"))
    assert f"Todas as {num} afirmações: não medida {num}<" in shown[2]
    assert ">não medida<" in shown[2]
