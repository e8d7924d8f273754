"""The rows and pictures that everybody sees."""

import json
import re
import shutil
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from dr_lib.errors import DrError
from dr_lib.report.page import Page
from dr_lib.report.render import render
from dr_lib.runs.row import check_row, read_row
from tools.gallery import find_table
from tools.measured import FOLDER, draw_panels, read_measured, tabulate, write_page

ROWS = sorted(FOLDER.glob("*/*/*.json"))
DATA = pd.read_csv(FOLDER / "data.csv", index_col="data_sha256")


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.stem)
def test_a_public_row_is_a_finished_one_of_listed_data(path: Path):
    """By the schema, small, of a commit without changes, and without a path of the machine that
    made it; of data that everybody can have.
    """
    row = check_row(read_row(path))
    assert row["status"] == "ok" and row["data_sha256"] in DATA.index, "see data.csv"
    assert row["data_kind"] == DATA.loc[row["data_sha256"], "data_kind"]
    assert re.fullmatch("[0-9a-f]{40}", row["commit"])
    text = path.read_text(encoding="utf-8")
    assert len(text) < 10_000 and "/home/" not in text and "/root/" not in text


def test_the_list_of_data_names_each_preparation_once():
    """Its hash, what it is of, and what prepared it."""
    assert DATA.index.is_unique and DATA.index.str.fullmatch("[0-9a-f]{64}").all()
    assert set(DATA["data_kind"]) <= {"synthetic", "photographs"} and DATA.notna().all(
        axis=None
    )


def test_a_figure_of_a_gpu_is_of_a_commit():
    """Whoever checks it out has the code that was measured."""
    for path in FOLDER.glob("*/gpu.csv"):
        commits = pd.read_csv(path, dtype=str)["commit"].unique()
        assert all(re.fullmatch("[0-9a-f]{12}", commit) for commit in commits), path


def write_rows(folder: Path, machine: str, *rows: dict) -> None:
    """Rows of a machine, by what each has otherwise than one that lies there."""
    place = folder / machine / "demo"
    place.mkdir(parents=True, exist_ok=True)
    for columns in rows:
        path = place / f"{len(list(place.iterdir()))}.json"
        path.write_text(json.dumps(read_row(ROWS[0]) | columns), encoding="utf-8")


def test_cold_and_warm_runs_are_apart(tmp_path):
    """Three runs of 39.1, 14.7 and 12.6 s have no mean of 22 s."""
    times = [(39.1, True), (14.7, False), (12.6, False)]
    write_rows(tmp_path, "m", *({"train_s": train_s, "cold": cold} for train_s, cold in times))
    table = tabulate(read_measured(tmp_path))
    assert table[["cold", "n"]].to_numpy().tolist() == [["cold", 1], ["warm", 2]]
    assert table["training [s]"].str.split(" ").str[0].tolist() == ["39.1", "13.6"]


def draw_rows(folder: Path, machine: str, count: int = 3, **columns) -> None:
    """Warm rows of a machine."""
    own = {"cold": False, "commit": "c" * 40, "boot": machine}
    times = [{"train_s": 10.0 + k / 10} for k in range(count)]
    write_rows(folder, machine, *(own | time | columns for time in times))


def test_only_equal_work_is_on_one_axis(tmp_path):
    """Two processors that did the same share an axis; an H100 that trained another network on more
    epochs has its own, so that a processor is not faster than it.
    """
    draw_rows(tmp_path, "xeon", cpu="Xeon")
    draw_rows(tmp_path, "epyc", cpu="EPYC")
    work = {"model": "inception_v3", "image_size": 299, "epochs": 200}
    draw_rows(tmp_path, "h100", accelerator="H100", **work)
    draw_rows(tmp_path, "ryzen", cpu="Ryzen", data_sha256="f" * 64)
    panels = draw_panels(read_measured(tmp_path))
    shown = {words: sorted(mean.label for mean in means) for words, means in panels.items()}
    assert [len(labels) for labels in shown.values()] == [2, 1, 1]
    both, h100, ryzen = shown.values()
    assert both[0].startswith("EPYC, paper, warm") and both[1].startswith("Xeon, paper, warm")
    assert h100[0].startswith("H100") and ryzen[0].startswith("Ryzen")
    assert [len(mean.values) for means in panels.values() for mean in means] == [3] * 4


@pytest.mark.parametrize(
    ("own", "fault"),
    [
        ({}, ""),
        ({"commit": "c" * 40 + "-dirty"}, "changed code"),
        ({"cold": None}, "cold or warm not known"),
        ({"count": 2}, "fewer than 3 runs"),
        ({"train_s": 10.0}, "no interval: all times are equal"),
    ],
)
def test_a_mean_is_in_the_figure_by_its_rules_alone(tmp_path, own, fault):
    """Clean code, known warmth, three runs with an interval; the table says which is not met."""
    draw_rows(tmp_path, "m", **own)
    rows = read_measured(tmp_path)
    assert bool(draw_panels(rows)) == (not fault)
    assert tabulate(rows)["not in the figure"].tolist() == [fault]


def test_a_mean_is_of_equal_work_and_of_whole_runs(tmp_path):
    """Three runs of 10.1 s beside one of more epochs and one by two GPUs; the last part of a
    resumed one is in no mean. Another notebook's row, without a mode, has its own.
    """
    own = [{}, {}, {}, {"epochs": 99, "train_s": 50.0}, {"num_replicas": 2, "train_s": 6.0}]
    own += [{"resumed": 1, "train_s": 1.0}, {"mode": None, "train_s": 3.0}]
    like = {"cold": False, "train_s": 10.1}
    write_rows(tmp_path, "m", *(like | columns for columns in own))
    table = tabulate(read_measured(tmp_path))
    found = zip(table["n"], table["training [s]"].str.split(" ").str[0], strict=True)
    assert sorted(found) == [(1, "3"), (1, "50"), (1, "6"), (3, "10.1")]


def test_a_column_that_the_first_machine_lacks_is_read(tmp_path):
    """A processor's rows have no energy, those of a GPU have it: 100 J for each image."""
    for machine, energy_j in {"cpu": None, "gpu": 100.0}.items():
        work = {"num_images_train": 1, "epoch_s": [1.0], "gpu_energy_j": energy_j}
        write_rows(tmp_path, machine, work)
    path = tmp_path / "cpu" / "demo" / "0.json"
    path.write_text(path.read_text().replace('"gpu_energy_j": null, ', ""))
    energy = tabulate(read_measured(tmp_path))["GPU energy an image [J]"]
    assert energy.str.split(" ").str[0].tolist() == ["not", "100"]


def test_each_mean_of_the_public_figure_fulfils_the_rules():
    """By its own rows, whoever put them there."""
    rows = read_measured(FOLDER)
    table = tabulate(rows)
    shown = (table["not in the figure"] == "").sum()
    assert sum(map(len, draw_panels(rows).values())) == shown
    assert (FOLDER / "training.png").exists() == bool(shown)


def test_the_page_is_in_step_with_its_rows(tmp_path):
    """The command writes the same table again."""
    assert ROWS
    copy = tmp_path / "measured"
    shutil.copytree(FOLDER, copy)
    write_page(copy)
    assert (copy / "README.md").read_text() == (FOLDER / "README.md").read_text()
    assert all(path.stat().st_size < 80_000 for path in copy.glob("*.png"))


def test_the_gallery_says_where_each_picture_comes_from():
    """Commands, machine, n, day and a commit without changes; the pictures are there and small."""
    page = FOLDER.parent / "gallery.md"
    origin = (
        r"(?m)^.+, \d+ CPUs, \d+ GiB; n = \d+ \w+(, \d+ disturbed)?; \d{4}-\d\d-\d\d; commit"
        r" [0-9a-f]{12}(, [0-9a-f]{12})*$"
    )
    shown = []
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        pictures = re.findall(r"!\[.+\]\((.+)\)", section)
        assert pictures or "</table>" in section, section
        assert re.search(origin, section) and "\n```sh\n.venv/bin/" in section, section
        shown += [page.parent / picture for picture in pictures]
    assert len(shown) > 6 and {*shown} == {*page.with_suffix("").glob("*.png")}
    assert max(picture.stat().st_size for picture in shown) < 80_000


def test_the_gallery_finds_a_table_by_its_caption(shown):
    """Of a page with several it is the one with this caption, alone and without its number."""
    page = Page()
    for value, caption in (
        (1.5, "Rows that are not timed, with reasons."),
        (2.5, "Costs from our times, at hourly prices."),
        (3.5, "An epoch by the number of machines [95 % interval]."),
    ):
        page.table(pd.DataFrame({"train_s": [value]}), "one", caption)
    outputs = [nbformat.v4.new_output("display_data", {"text/html": html}) for html in shown]
    cell = nbformat.v4.new_code_cell("", metadata={"tags": ["report"]}, outputs=outputs)
    report = render(nbformat.v4.new_notebook(cells=[cell]), "en")
    table = find_table(report, "Costs from our times")
    assert table.startswith("<table><caption>Costs from") and table.endswith("</table>")
    assert ">2.5<" in table and not any(text in table for text in (">1.5<", ">3.5<", "Table"))
    with pytest.raises(DrError, match="no table of the report has the caption Costs of"):
        find_table(report, "Costs of")
