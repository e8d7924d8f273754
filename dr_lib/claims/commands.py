"""The command that judges the papers' claims."""

from pathlib import Path

import click

from dr_lib.options import PATH


@click.command()
@click.argument("folders", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, help="CSV to write, one row per claim, with reasons")
@click.option("--pool", default="", help="columns that tell no groups apart, such as driver")
@click.option("--only", default="", help="rows to choose, such as epochs == 20")
def claims(folders: tuple[Path, ...], out: Path | None, pool: str, only: str) -> None:
    """List every claim of the papers with its verdict from the rows below the folders."""
    import pandas as pd

    from dr_lib.claims.papers import PAPERS
    from dr_lib.claims.verdicts import VERDICTS, judge_claims
    from dr_lib.numbers import write_span
    from dr_lib.report.groups import list_pooled, select_runs
    from dr_lib.report.rows import choose_rows, list_paper_rows
    from dr_lib.runs.row import read_runs

    runs = choose_rows(read_runs(*folders), only)
    pooled = list_pooled(pool, runs)
    tables = []
    for name, paper in PAPERS.items():
        rows = list_paper_rows(paper, runs)
        selection = select_runs(rows, pool=pooled, may_differ=paper.may_differ)
        tables.append(judge_claims(name, selection))
    table = pd.concat(tables, ignore_index=True)
    shown = table[table["verdict"].isin(VERDICTS[:4])]
    ours = [write_span(row, "ours") for _, row in shown.iterrows()]
    columns = ["id", "verdict", "published", "ours", "n", "words"]
    if len(shown):
        click.echo(shown.assign(ours=ours)[columns].to_string(index=False))
    counts = table["verdict"].value_counts()
    click.echo(", ".join(f"{verdict} {number}" for verdict, number in counts.items()))
    if out:
        table.to_csv(out, index=False)
