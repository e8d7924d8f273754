"""Show what lies in docs/measured: python -m tools.measured writes its tables and its figure.

A row lies there as a notebook wrote it, in docs/measured/<machine>/<study>/, and what `make gpu`
wrote in docs/measured/<machine>/gpu.csv. The figure has an axis for each work, and on it the means
in which `find_fault` finds no fault.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from dr_lib.code import shorten_commit
from dr_lib.numbers import write_interval
from dr_lib.report.groups import measure, write_level
from dr_lib.report.means import Mean, plot_means
from dr_lib.report.style import OURS
from dr_lib.runs.row import Row, read_row
from dr_lib.runs.schema import STACK, WORK
from dr_lib.statistics.intervals import MIN_RUNS, Interval, mean_interval
from tools.bench import ROOT

FOLDER = ROOT / "docs" / "measured"
MARKS = "(?s)(?<=<!-- {0} -->\n)(.*)(?=<!-- /{0} -->)"
STUDIES = ["modes", "batches"]  # steps of `make gpu` whose rows lie here
TOLD_APART = "study machine model image_size mode batch_size backend cold".split()
KNOWN = ("cold", "warm")  # what `cold` may be in the figure


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
    table = pd.DataFrame(rows)
    table = table.reindex(columns=[*dict.fromkeys([*table, "resumed", *WORK, *STACK])])
    # rows of some notebooks have no mode
    table[TOLD_APART] = table[TOLD_APART].astype(object).fillna("")
    return table


def list_groups(rows: pd.DataFrame) -> list[tuple[tuple, pd.DataFrame]]:
    """The rows of each mean: what tells it apart, and its rows.

    The time of a resumed run is in two parts: it is in no mean.
    """
    timed = rows[~rows["resumed"].gt(0)]
    timed = timed.assign(work=name_work(timed, [*WORK, *STACK]))
    return [(names[:-1], runs) for names, runs in timed.groupby([*TOLD_APART, "work"])]


def estimate(column: str, runs: pd.DataFrame) -> Interval:
    """The mean of runs, by the verdicts' rules."""
    return Interval(*measure(column, runs.assign(session=runs["boot"]))[:4])


def name_work(rows: pd.DataFrame, columns: Sequence[str] = tuple(WORK)) -> pd.Series:
    """Everything that each row did."""
    return rows[[*columns]].map(write_level).agg("/".join, axis=1)


def find_fault(runs: pd.DataFrame) -> str:
    """Why a mean is not in the figure; empty where it is."""
    if not runs["commit"].str.fullmatch("[0-9a-f]{40}").all():
        return "changed code"
    if runs["cold"].iloc[0] not in KNOWN:
        return "cold or warm not known"
    if len(runs) < MIN_RUNS:
        return f"fewer than {MIN_RUNS} runs"
    if runs["train_s"].nunique() == 1:
        return "no interval: all times are equal"
    return ""


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
    for names, runs in list_groups(rows):
        line = {
            **dict(zip(TOLD_APART, names, strict=True)),
            "n": len(runs),
            "disturbed": int(runs["disturbed"].sum()),
            "training [s]": write_interval(*estimate("train_s", runs)[:3]),
            "not in the figure": find_fault(runs),
            "images per second": write_interval(*estimate("images_per_s", runs)[:3]),
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
    table = table.loc[:, table.ne("").any()]
    insert(page, name, "Not measured." if table.empty else write_table(table))


def write_table(table: pd.DataFrame) -> str:
    """A table in Markdown."""
    lines = [list(table), ["---"] * len(table.columns), *table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def insert(page: Path, name: str, text: str) -> None:
    """Write a text between a page's marks of that name."""
    before, _, after = re.split(MARKS.format(name), page.read_text(encoding="utf-8"))
    page.write_text(f"{before}{text}\n{after}", encoding="utf-8")


def write_page(folder: Path) -> None:
    """Write the tables into the folder's README.md, and the figure beside it."""
    rows = read_measured(folder)
    insert_table(folder / "README.md", "rows", tabulate(rows))
    insert_table(folder / "README.md", "gpu", tabulate_gpus(folder))
    picture = folder / "training.png"
    picture.unlink(missing_ok=True)
    if panels := draw_panels(rows):
        plot_means(panels).savefig(picture, dpi=100)
    shown = f"![Training times, an axis for each work]({picture.name})"
    insert(
        folder / "README.md", "figure", shown if panels else "No mean fulfils the rules yet."
    )


def draw_panels(rows: pd.DataFrame) -> dict[str, list[Mean]]:
    """The means in which there is no fault, those of equal work under the words for it."""
    titles = {}
    panels = {}
    for _, runs in list_groups(rows):
        if find_fault(runs):
            continue
        first = runs.iloc[0]
        words = (
            f"{first['model']}, {first['image_size']} px, batch {first['batch_size']},"
            f" {first['epochs']} epochs, {first['num_images_train']} photographs"
        )
        # of the same words with other data or code
        same = titles.setdefault(words, [])
        work = name_work(runs).iloc[0]
        same += [work] * (work not in same)
        if place := same.index(work):
            words = f"{words} ({place + 1})"
        device = first["cpu"] if first["accelerator"] == "cpu" else first["accelerator"]
        mean = Mean(
            f"{device}, {first['mode']}, {first['cold']}",
            estimate("train_s", runs),
            OURS,
            tuple(runs["train_s"]),
            runs["disturbed"],
        )
        panels.setdefault(words, []).append(mean)
    return panels


if __name__ == "__main__":
    write_page(FOLDER)
