"""The papers' claims: read them, count by what they can be judged, judge them by our rows."""

from pathlib import Path

import pandas as pd

from dr_lib.evidence.mnist import add_accuracy_columns
from dr_lib.evidence.papers import PAPERS
from dr_lib.evidence.select import Selection, list_runs
from dr_lib.evidence.verdicts import NEVER, VERDICTS, judge

PUBLISHED = Path(__file__).with_name("published.csv")
DEFAULTS = {"threads_asked": 0, "last_frozen": "", "last_layer": ""}  # of rows older than these


def read_published(paper: str | None = None) -> pd.DataFrame:
    """Read the claims of one paper, or of all.

    A selector (`numerator`, `denominator`; `conditions` is the work of both sides) joins
    column=pattern by semicolons:
    * stands for any text, a|b for one of two, !a for any but a, and nothing for no text.

    Returns:
        A row per claim: `id`, `paper`, `words` and `words_pt` (`wording` says whether they are
        quoted, a paraphrase, derived from printed numbers, or our reading; a quotation stands in
        quotation marks), `place` (figure, table, or the claim that is read), `judged` (overall,
        every cell, or why it never is: one of NEVER, with `why`), `column` (several are judged
        each), `statistic`, the selectors, `relation` (>=, <= or within), `value`, `tolerance`,
        `unit`, `cells` of the paper's design, `environments` and a `note`.
    """
    claims = pd.read_csv(PUBLISHED, keep_default_na=False)
    return claims if paper is None else claims[claims["paper"] == paper].reset_index(drop=True)


def count_claims(paper: str | None = None) -> pd.DataFrame:
    """Count by what the claims can be judged, and how many never can be and why.

    Returns:
        A row per `paper` and answer: `judged_by` (the notebooks whose rows do, or a verdict of
        NEVER), `why` (on which hardware, or why none do) and `claims`.
    """
    claims = read_published(paper)
    is_never = claims["judged"].isin(NEVER)
    numbers = {
        name: ", ".join(notebook[:2] for notebook in paper.notebooks)
        for name, paper in PAPERS.items()
    }
    by = claims["paper"].map(numbers)
    why = (
        claims["environments"]
        .eq("any")
        .map({True: "on any hardware", False: "on the paper's hardware"})
    )
    table = claims.assign(
        judged_by=by.mask(is_never, claims["judged"].map(NEVER)),
        why=why.mask(is_never, claims["why"]),
    )
    return (
        table.value_counts(["paper", "judged_by", "why"])
        .rename("claims")
        .sort_index()
        .reset_index()
    )


def judge_claims(paper: str, selection: Selection) -> pd.DataFrame:
    """Judge all claims of a paper by the timed rows of a selection.

    Returns:
        The claims of `read_published` with `ours`, `ours_low`, `ours_high` (in the claim's unit)
        and the fields of `Verdict`; those with a verdict of our own first, then what is not
        comparable, not measured, or never judged.
    """
    return _judge(paper, list_judged_rows(selection.timed))


def list_judged_rows(timed: pd.DataFrame) -> pd.DataFrame:
    """List what claims are judged by: the timed rows of a selection, one per run on one machine.

    Returns:
        The rows with the columns of `add_accuracy_columns`, those of DEFAULTS, and `percent_train`,
        the rounded share of the photographs that are on the side of training.
    """
    rows = add_accuracy_columns(list_runs(timed))
    # as in all papers
    alone = rows.reindex(columns=["num_machines"])["num_machines"].fillna(1) == 1
    rows = rows[alone].copy()
    for name, value in DEFAULTS.items():
        rows[name] = rows[name].fillna(value) if name in rows else value
    sides = rows.reindex(columns=[f"num_images_{side}" for side in ("train", "validation", "test")])
    percent = 100 * sides["num_images_train"] / sides.sum(axis=1)
    rows["percent_train"] = percent.astype(float).round()
    return rows


def judge_data_sets(table: pd.DataFrame) -> pd.DataFrame:
    """Judge the claims of paper E by the rows of `evaluation.compare_data_sets`; n is patients.
    See `judge_claims`.
    """
    rows = table.drop_duplicates(["model", "trained_on", "tested_on"])
    return _judge("E", rows.assign(environment=rows["trained_on"] + " → " + rows["tested_on"]))


def _judge(paper: str, timed: pd.DataFrame) -> pd.DataFrame:
    claims = read_published(paper)
    verdicts = pd.DataFrame([judge(claim, timed) for claim in claims.itertuples()])
    ours = pd.DataFrame(
        verdicts.pop("ours").tolist(), columns=["ours", "ours_low", "ours_high", "_"]
    ).drop(columns="_")
    judged = pd.concat([claims, ours, verdicts.drop(columns="id")], axis=1)
    order = judged["verdict"].map([*VERDICTS, *NEVER.values()].index).clip(lower=2)
    return judged.assign(_order=order).sort_values("_order", kind="stable").drop(columns="_order")


def list_claims(judged: pd.DataFrame) -> pd.DataFrame:
    """List judged claims in the order of their ids, for a table.

    Returns:
        `id`, `paper`, `wording`, `place`, `words`, `published` (with its tolerance and unit),
        `ours`, `ours_low`, `ours_high`, `unit`, `n`, `num_satisfied` of `num_parts`, `num_missing`,
        `num_disturbed`, `verdict`, `reason`, `versions`.
    """
    sign = judged["relation"].map({"within": "", ">=": "at least ", "<=": "at most "})
    tolerance = judged["tolerance"].map(lambda number: f" ± {number:g}" if number else "")
    published = sign + judged["value"].map("{:.10g}".format) + tolerance + " " + judged["unit"]
    columns = (
        "id paper wording place words published ours ours_low ours_high unit n num_satisfied"
        " num_parts"
    )
    columns = [*columns.split(), "num_missing", "num_disturbed", "verdict", "reason", "versions"]
    return judged.assign(published=published.str.strip())[columns].sort_index()


def count_by_chance(judged: pd.DataFrame) -> tuple[int, float]:
    """How many verdicts were given, and how many of them would be wrong by chance if every truth
    lay on a bound.

    A 95 % interval lies wholly on the wrong side of a bound in 2.5 % of studies at most. A reading
    of a claim that has a verdict of its own is that verdict once more, and does not count.
    """
    given = judged[judged["verdict"].isin(VERDICTS[:2])]
    is_again = (given["wording"] == "reading") & given["place"].isin(given["id"])
    num_given = int((~is_again).sum())
    return num_given, 0.025 * num_given
