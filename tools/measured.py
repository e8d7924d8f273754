"""Write the table and the figure of docs/measured: python -m tools.measured.

Rows lie there as a study wrote them, in docs/measured/<machine>/<study>/rows, and are grouped and
averaged as in every report.
"""

import re
from pathlib import Path

import pandas as pd

from dr_lib.code import shorten_commit
from dr_lib.numbers import write_interval
from dr_lib.report.figures import plot_training_time
from dr_lib.report.groups import select_runs, tabulate_groups
from dr_lib.runs.row import read_runs
from tools.bench import ROOT

FOLDER = ROOT / "docs" / "measured"
TIMES = {"train_s": "training [s]", "steady_epoch_s": "an epoch [s]"}


def tabulate(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A line for each group of equal rows, and the rows whose times count."""
    selection = select_runs(read_runs(folder))
    table = tabulate_groups(selection, [*TIMES])
    shown = table[["group", "n", "sessions", "disturbed"]]
    for column, title in TIMES.items():
        bounds = table[[column, f"{column}_low", f"{column}_high"]]
        shown = shown.assign(**{title: [write_interval(*each) for each in bounds.to_numpy()]})
    latest = selection.timed.sort_values("started_at").groupby("group").last()
    latest = latest.reindex(shown["group"])
    dates = latest["started_at"].str[:10].to_numpy()
    commits = latest["commit"].map(shorten_commit).to_numpy()
    return shown.assign(date=dates, commit=commits), selection.timed


def write_page(folder: Path) -> None:
    """Write the table into the folder's README.md, and the figure beside it."""
    table, timed = tabulate(folder)
    plot_training_time(timed).savefig(folder / "training.png", dpi=100)
    lines = [list(table), ["---"] * len(table.columns), *table.itertuples(index=False)]
    text = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    page = folder / "README.md"
    marked = re.sub(
        r"(?s)(?<=<!-- rows -->\n).*(?=<!-- /rows -->)",
        lambda _: text,
        page.read_text(encoding="utf-8"),
    )
    page.write_text(marked, encoding="utf-8")


if __name__ == "__main__":
    write_page(FOLDER)
