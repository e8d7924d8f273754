"""The command that judges the papers' claims."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dr_lib.options import PATH, POSITIVE

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.argument("folders", type=PATH, nargs=-1)
@click.option("--out", type=PATH, help="CSV to write, one row per claim, with reasons")
@click.option(
    "--bill",
    "bills",
    type=POSITIVE,
    multiple=True,
    help="USD paid for the runs of paper C; repeatable, each bill for the same number of runs",
)
@click.option(
    "--allow",
    default="",
    help="columns in which rows may differ, such as mode,commit",
)
@click.option("--only", default="", help="values of the rows to choose, such as epochs=20")
def claims(
    folders: tuple[Path, ...], out: Path | None, bills: tuple[float, ...], allow: str, only: str
) -> None:
    """List every claim of the papers with its verdict from the rows below the folders. Without a
    folder, count the claims.
    """
    import pandas as pd

    from dr_lib.claims.claims import count_claims
    from dr_lib.claims.papers import PAPERS
    from dr_lib.numbers import write_span
    from dr_lib.report.rows import choose_rows
    from dr_lib.report.select import UnlikeRunsError, list_columns, list_faults
    from dr_lib.runs.row import read_runs

    if not folders:
        header = ["paper", "judged by notebook", "rows of", "on", "claims"]
        for line in (header, ["---"] * 5, *count_claims().astype(str).to_numpy()):
            click.echo(f"| {' | '.join(line)} |")
        return
    runs = choose_rows(read_runs(*folders), only)
    tables = []
    notes = list_faults(runs)
    for row in runs[runs["status"] == "skipped"].itertuples():
        notes.append(f"{row.scenario} was skipped ({row.run_id}): {row.error}")
    allowed = list_columns(allow, runs)
    for name in PAPERS:
        try:
            judged = _judge(name, runs, folders, allowed=allowed, bills=bills)
        except UnlikeRunsError as error:  # the other papers' rows are none the worse for it
            notes.append(f"paper {name} cannot be judged: {error}")
            continue
        tables.append(judged.sort_index())
        number = (judged["verdict"] == "not measured").sum()
        if number:
            notes.append(f"paper {name}: no rows measure {number} of {len(judged)} claims")
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
    cells = [["id", "verdict", "published", "ours", "claim"]]
    for row in table.itertuples():
        ours = f"{write_span(row._asdict(), 'ours')}, n = {row.n}" if row.n else "-"
        ours += f", {row.num_disturbed} disturbed" if row.num_disturbed else ""
        if isinstance(getattr(row, "ours_scope", None), str):
            ours += f", {row.ours_scope}"
        if row.num_left_out:
            ours += f", without {row.num_left_out} outliers (with them {row.over_all:.4g})"
        if row.verdict != "not measured":
            cells.append([row.id, row.verdict, row.published, ours, row.words])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells if len(cells) > 1 else []:
        padded = map(str.ljust, line, widths)
        click.echo("  ".join(padded).rstrip())
    for note in notes:
        click.echo(note)
    if out:
        table.to_csv(out, index=False)


def _judge(
    paper: str,
    runs: "pd.DataFrame",
    folders: Sequence[Path],
    *,
    allowed: Sequence[str] = (),
    bills: Sequence[float] = (),
) -> "pd.DataFrame":
    """Judge the claims of a paper by its rows among `runs`; `allowed` columns may differ."""
    from dr_lib.claims.papers import PAPERS
    from dr_lib.claims.verdicts import judge_claims
    from dr_lib.report.rows import list_paper_rows, load, select_paper

    about = PAPERS[paper]
    rows = list_paper_rows(about, runs)
    selection = select_paper(about, rows, folders, allowed=allowed)
    if bills and about.add_bills:
        add_bills = load(about.add_bills)
        selection = selection._replace(timed=add_bills(selection, bills))
    return judge_claims(paper, selection)
