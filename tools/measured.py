"""Show what lies in docs/measured: python -m tools.measured writes its tables and its figure.

A row lies there as a notebook wrote it, in docs/measured/<machine>/<study>/, and what `make gpu`
wrote in docs/measured/<machine>/gpu.csv.
"""

import re
from pathlib import Path

import pandas as pd

from dr_lib.code import shorten_commit
from dr_lib.numbers import write_interval
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import OURS
from dr_lib.runs.row import Row, read_row
from dr_lib.statistics.intervals import mean_interval

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "measured"
MARKS = "(?s)(?<=<!-- {0} -->\n)(.*)(?=<!-- /{0} -->)"
STUDIES = ["modes", "batches"]  # steps of `make gpu` whose rows lie here
TOLD_APART = [
    "study",
    "machine",
    "model",
    "image_size",
    "mode",
    "batch_size",
    "backend",
    "cold",
]


def name_warmth(row: Row) -> str:
    """Whether a training was the first of its kind since the machine's boot."""
    return {True: "cold", False: "warm"}.get(row.get("cold"), "not known")


def read_measured(folder: Path) -> pd.DataFrame:
    """The rows, each with the machine and the study whose folders it lies in; `cold` in words."""
    rows = []
    for path in sorted(folder.glob("*/*/*.json")):
        row = read_row(path)
        place = {"machine": path.parts[-3], "study": path.parts[-2]}
        rows.append(row | place | {"cold": name_warmth(row)})
    return pd.DataFrame(rows)


def write_origin(rows: pd.DataFrame, count: str) -> str:
    """Where rows come from: machines as detected, what is counted, disturbed runs, day, commits."""
    machines = rows["cpu"] + rows["num_cpus"].map(", {} CPUs".format)
    machines = ", ".join(sorted(set(machines + rows["memory_gib"].map(", {:.0f} GiB".format))))
    disturbed = f", {int(rows['disturbed'].sum())} disturbed" if "disturbed" in rows else ""
    commits = ", ".join(sorted(set(rows["commit"].map(shorten_commit))))
    day = rows["started_at"].max()[:10]
    return f"{machines}; n = {count}{disturbed}; {day}; commit {commits}"


def tabulate(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each study and machine: mean times of its cold or warm runs with 95 %
    intervals.
    """
    lines = []
    for names, runs in rows.groupby(TOLD_APART):
        line = {
            **dict(zip(TOLD_APART, names, strict=True)),
            "n": len(runs),
            "disturbed": int(runs["disturbed"].sum()),
            "training [s]": write_interval(*mean_interval(runs["train_s"])[:3]),
            "images per second": write_interval(*mean_interval(runs["images_per_s"])[:3]),
            "GPU energy an image [J]": write_energy(runs),
            "date": runs["started_at"].max()[:10],
            "commit": ", ".join(sorted(set(runs["commit"].map(shorten_commit)))),
        }
        lines.append(line)
    return pd.DataFrame(lines)


def write_energy(runs: pd.DataFrame) -> str:
    """What the GPU's counter says of the whole training, compiling included, for an image."""
    if "gpu_energy_j" not in runs or runs["gpu_energy_j"].isna().any():
        return "not measured"
    images = runs["num_images_train"] * runs["epoch_s"].map(len)
    return write_interval(*mean_interval(runs["gpu_energy_j"] / images)[:3])


def tabulate_gpus(folder: Path) -> pd.DataFrame:
    """A line for each figure of `make gpu` that no row holds."""
    lines = []
    for path in sorted(folder.glob("*/gpu.csv")):
        table = pd.read_csv(path)
        for figure in table[~table["step"].isin(STUDIES)].itertuples():
            line = {
                "machine": path.parent.name,
                "what": f"{figure.step}: {figure.what}",
                "quantity": figure.quantity,
                "value": write_interval(figure.value, figure.low, figure.high),
                "n": figure.n,
                "date": figure.date,
                "commit": figure.commit,
            }
            lines.append(line)
    return pd.DataFrame(lines)


def insert_table(page: Path, name: str, table: pd.DataFrame) -> None:
    """Write a table between a page's marks of that name."""
    lines = [list(table), ["---"] * len(table.columns), *table.itertuples(index=False)]
    text = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
    text = "Not measured." if table.empty else text
    before, _, after = re.split(MARKS.format(name), page.read_text(encoding="utf-8"))
    page.write_text(f"{before}{text}\n{after}", encoding="utf-8")


def write_page(folder: Path) -> None:
    """Write the tables into the folder's README.md, and the figure beside it."""
    rows = read_measured(folder)
    insert_table(folder / "README.md", "rows", tabulate(rows))
    insert_table(folder / "README.md", "gpu", tabulate_gpus(folder))
    panels = {}
    for study, runs in rows.groupby("study"):
        panels[study] = [
            Mean(
                f"{mode}, {runs['cpu'].iloc[0] if device == 'cpu' else device}, {cold}",
                mean_interval(runs["train_s"]),
                runs["train_s"].std(),
                OURS,
                tuple(runs["train_s"]),
                runs["disturbed"],
            )
            for (mode, device, cold), runs in runs.groupby(["mode", "accelerator", "cold"])
        ]
    figure = plot_means(panels)
    figure.savefig(folder / "training.png", dpi=100)


if __name__ == "__main__":
    write_page(FOLDER)
