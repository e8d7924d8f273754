"""Show the rows of docs/measured: python -m tests.measured writes its table and its figure.

A row lies there as a notebook wrote it, in docs/measured/<machine>/<study>/.
"""

import re
from pathlib import Path

import pandas as pd

from dr_lib.figures.means import Mean, plot_means
from dr_lib.figures.training_time import UNITS
from dr_lib.numbers import write_interval
from dr_lib.processes import shorten_commit
from dr_lib.runs.row import read_row
from dr_lib.statistics.intervals import mean_interval

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "measured"
MARKS = "(?s)(?<=<!-- rows -->\n)(.*)(?=<!-- /rows -->)"
TOLD_APART = ["study", "machine", "model", "image_size", "mode", "batch_size", "backend"]


def read_measured(folder: Path) -> pd.DataFrame:
    """The rows, each with the machine and the study whose folders it lies in."""
    paths = sorted(folder.glob("*/*/*.json"))
    return pd.DataFrame(
        read_row(path) | {"machine": path.parts[-3], "study": path.parts[-2]} for path in paths
    )


def write_origin(rows: pd.DataFrame, count: str) -> str:
    """Where rows come from: machines as detected, what is counted, disturbed runs, day, commits."""
    machines = rows["cpu"] + rows["num_cpus"].map(", {} CPUs".format)
    machines = ", ".join(sorted(set(machines + rows["memory_gib"].map(", {:.0f} GiB".format))))
    disturbed = f", {int(rows['disturbed'].sum())} disturbed" if "disturbed" in rows else ""
    commits = ", ".join(sorted(set(rows["commit"].map(shorten_commit))))
    day = rows["started_at"].max()[:10]
    return f"{machines}; n = {count}{disturbed}; {day}; commit {commits}"


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each study and machine: mean times of its runs with 95 % intervals."""
    lines = []
    for names, runs in rows.groupby(TOLD_APART):
        line = {
            **dict(zip(TOLD_APART, names, strict=True)),
            "n": len(runs),
            "disturbed": int(runs["disturbed"].sum()),
            "training [s]": write_interval(*mean_interval(runs["train_s"])[:3]),
            "images per second": write_interval(*mean_interval(runs["images_per_s"])[:3]),
            "date": runs["started_at"].max()[:10],
            "commit": ", ".join(sorted(set(runs["commit"].map(shorten_commit)))),
        }
        lines.append(line)
    return pd.DataFrame(lines)


def write_page(folder: Path) -> None:
    """Write the table into the folder's README.md, and the figure beside it."""
    rows = read_measured(folder)
    table = tabulate(rows)
    lines = [list(table), ["---"] * len(table.columns), *table.itertuples(index=False)]
    text = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
    page = folder / "README.md"
    before, _, after = re.split(MARKS, page.read_text(encoding="utf-8"))
    page.write_text(f"{before}{text}\n{after}", encoding="utf-8")
    panels = {}
    for study, runs in rows.groupby("study"):
        panels[study] = [
            Mean(
                f"{mode}, {runs['cpu'].iloc[0] if device == 'cpu' else device}",
                mean_interval(runs["train_s"]),
                runs["train_s"].std(),
                "tab:blue",
                tuple(runs["train_s"]),
                runs["disturbed"],
            )
            for (mode, device), runs in runs.groupby(["mode", "accelerator"])
        ]
    figure = plot_means(panels, "Training, as measured", UNITS)
    figure.savefig(folder / "training.png", dpi=100)


if __name__ == "__main__":
    write_page(FOLDER)
