"""Rows: written whole or not at all, checked, and read back as one table from many machines."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from dr_lib.code import hash_code, hash_notebook
from dr_lib.errors import DrError
from dr_lib.runs import run as run_module
from dr_lib.runs import schema
from dr_lib.runs.monitor import Monitor
from dr_lib.runs.row import RowError, read_left, read_runs
from dr_lib.runs.run import Run, RunIdentity
from dr_lib.runs.study import read_defaults
from tests.conftest import ROOT, commit
from tests.notebooks import forget
from tests.processes import run_python

PARAMETERS = {"model": "small_cnn", "repetition": 4, "seed": 20}


def begin(root: Path, repetition: int = 4, **options) -> Run:
    """A run of one notebook with the same parameters."""
    return Run(root, "n", PARAMETERS | {"repetition": repetition}, **options)


def finish(run: Run, **measured) -> dict:
    """The row of a run that has measured this."""
    return json.loads(run.finish(**measured).read_text())


def test_a_row_says_what_ran_and_is_written_once(tmp_path):
    """Identity, seed, load and whatever was measured stand in one flat row. NaN becomes null;
    infinity and a wrong type are refused, and no row is written; a training cell that is run again
    does not write over it.
    """
    run = Run(tmp_path, "10_train", PARAMETERS)
    for wrong in ({"train_s": float("inf")}, {"epoch_s": "fast"}):
        with pytest.raises(RowError, match=next(iter(wrong))):
            run.finish(**wrong)
    assert not list(tmp_path.rglob("rows/*.json"))
    path = run.finish(train_s=12.5, metric_auc_test=float("nan"), epoch_s=[2.0, 1.0])
    row = json.loads(path.read_text())
    assert path == tmp_path / "papermill_runs" / "adhoc" / "rows" / f"{row['run_id']}.json"
    known = {"study": "adhoc", "seed": 24, "model": "small_cnn", "status": "ok"}
    known |= {"train_s": 12.5, "epoch_s": [2.0, 1.0], "metric_auc_test": None}
    assert known.items() <= row.items() and 0 < row["wall_s"] < 60
    with pytest.raises(RowError, match="has its row: make another, from the cell"):
        run.finish(train_s=2.0)
    assert json.loads(path.read_text()) == row


def test_a_run_that_was_cut_off_goes_on_in_its_folder(tmp_path):
    """The same notebook and parameters without a row are the same run, until it has finished;
    another notebook, parameter or folder is another.
    """
    cut_off = begin(tmp_path)
    (cut_off.folder / "checkpoint").touch()
    again = Run(tmp_path, "n", dict(reversed(PARAMETERS.items())))
    assert (again.folder / "checkpoint").exists() and again.identity["resumed"] == 0
    assert finish(again, resumed=2)["resumed"] == 2
    others = [{}, {"repetition": 5}, {"epochs": 3}]
    runs = [Run(tmp_path, "n", PARAMETERS | other) for other in others]
    runs += [Run(tmp_path, "m", PARAMETERS), begin(tmp_path, results=str(tmp_path / "drive"))]
    assert len({run.folder for run in [cut_off, *runs]}) == 6


def test_a_run_that_is_still_alive_is_left_alone(tmp_path):
    """Two sessions with the same parameters are two runs; once the first is killed, reaped or
    not, its run goes on.
    """
    code = "import sys, time; from pathlib import Path; from dr_lib.runs.run import Run; "
    code += f"print(Run(Path(sys.argv[1]), 'n', {PARAMETERS!r}).folder.name, flush=True); "
    with run_python(code + "time.sleep(60)", tmp_path) as process:
        name = process.stdout.readline().strip()
        other = begin(tmp_path)
        assert other.folder.name != name
        other.finish()
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert begin(tmp_path).folder.name == name
    assert begin(tmp_path).folder.name == name


def tell(monkeypatch, run_id: str, folder: Path, **identity) -> None:
    """Have the next run be one of a study."""
    for name, value in RunIdentity(run_id, str(folder), **identity).environment().items():
        monkeypatch.setenv(name, value)


def test_a_studys_identity_wins(tmp_path, monkeypatch):
    """Inside a study the run has the study's name and folder, whatever `results` says and was
    cut off there, and ends in time; without one there is no end.
    """
    run = begin(tmp_path, results=str(tmp_path / "trial"))
    assert run.seconds_left() == float("inf")
    end = time.monotonic() + 60
    told = {"scenario": "C2", "retries": 1, "stop_at": end}
    tell(monkeypatch, "C2-r04-here", tmp_path / "trial", **told)
    run = begin(tmp_path, results=str(tmp_path / "drive"))
    assert 50 < run.seconds_left() <= 60
    row = finish(run)
    names = ("run_id", "study", "scenario", "retries")
    assert [row[name] for name in names] == ["C2-r04-here", "trial", "C2", 1]
    assert "stop_at" not in row and not (tmp_path / "drive").exists()


@pytest.mark.parametrize(
    ("own_s", "others_s", "share"),
    [
        (100.0, 30.0, 0.0),
        (0.0, 63.0, 0.5),
    ],
)
def test_others_work_marks_a_run_as_disturbed(tmp_path, monkeypatch, own_s, others_s, share):
    """CPU seconds of the whole machine beyond our own: by hand, of a run that may use two of 64
    CPUs for one second.
    """
    cpu_s = {"own": 0.0, "others": 0.0}
    times = namedtuple("Times", "user idle guest")
    process = SimpleNamespace(cpu_times=lambda: (cpu_s["own"], 0.0, 0.0, 0.0))
    machine = SimpleNamespace(
        Process=lambda: process,
        cpu_count=lambda: 64,
        cpu_times=lambda: times(sum(cpu_s.values()), 1000.0, 500.0),
    )
    monkeypatch.setattr(run_module, "psutil", machine)
    monkeypatch.setattr(run_module, "count_cpus", lambda: 2)
    run = begin(tmp_path)
    cpu_s.update(own=own_s, others=others_s)
    monkeypatch.setattr(run, "seconds", lambda: 1.0)
    row = finish(run)
    assert (row["others_cpu_share"], row["disturbed"]) == (share, share > 0.1)


@pytest.mark.parametrize(("percent", "is_disturbed"), [(99, True), (9, False)])
def test_a_gpu_that_others_use_disturbs_a_run(tmp_path, monkeypatch, percent, is_disturbed):
    """As the study saw before the run; its energy is then not the run's."""
    tell(monkeypatch, "C1-r00-here", tmp_path, others_gpu_share=percent / 100)
    monkeypatch.setattr(run_module, "_read_others_s", lambda: 0.0)
    row = finish(begin(tmp_path), gpu_energy_j=7.0)
    assert (row["others_gpu_share"], row["disturbed"]) == (percent / 100, is_disturbed)
    assert row["gpu_energy_j"] == (None if is_disturbed else 7.0)


def test_the_first_run_of_a_kind_since_the_boot_is_cold(tmp_path, monkeypatch):
    """Of two at the same time both; another network, version of the backend or boot begins cold, a
    failed run warms nothing.
    """
    kind = {"train_s": 1.0, "backend": "jax", "jax": "0.7"}
    begin(tmp_path, 0).fail("it fails", **kind)
    both = [begin(tmp_path, number) for number in (1, 2)]
    assert [finish(run, **kind)["cold"] for run in both] == [True, True]
    others = [{}, {"jax": "0.8"}, {"network": 2}, {"image_size": 64}]
    cold = [finish(begin(tmp_path, 3), **kind | other)["cold"] for other in others]
    assert cold == [False, True, True, True]
    assert not finish(begin(tmp_path, 4), **kind)["cold"]
    monkeypatch.setattr(run_module, "find_boot", lambda: "the next")
    assert finish(begin(tmp_path, 5), **kind)["cold"]


def test_a_run_that_cannot_succeed_is_failed_and_over(tmp_path):
    """Its row has the reason; the same parameters are then another run, from the start."""
    run = begin(tmp_path)
    row = json.loads(run.fail("the loss is nan in epoch 3").read_text())
    assert (row["status"], row["error"]) == ("failed", "the loss is nan in epoch 3")
    assert begin(tmp_path).folder != run.folder


def test_a_run_is_priced_by_its_training(tmp_path):
    """An hour on F4s_v2 costs 0.169 USD, the formula takes the training alone."""
    row = finish(begin(tmp_path, instance="F4s_v2"), train_s=3000.0, setup_s=600.0)
    assert (row["priced_as"], row["usd_per_hour"]) == ("F4s_v2", 0.169)
    expected = [0.169 * 3000 / 3600, 0.169]
    assert [row["formula_usd"], row["cost_usd"]] == pytest.approx(expected)


def test_rows_of_several_machines_are_one_table(tmp_path):
    """Two folders are read together; the same row twice counts once, and rows that contradict
    are not pooled.
    """
    with pytest.raises(RowError, match="run a study, or notebook 10"):
        read_runs(tmp_path)
    for machine in ("a", "b"):
        path = begin(tmp_path / machine).finish(train_s=1.0)
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    assert len(read_runs(tmp_path / "a", tmp_path / "b")) == len(read_runs(tmp_path)) == 2
    other = tmp_path / "c" / "rows" / path.name
    other.parent.mkdir(parents=True)
    other.write_text(path.read_text().replace('"train_s": 1.0', '"train_s": 2.0'))
    with pytest.raises(
        RowError, match=f"is twice, in .*{path.name} .* same kind need study files"
    ):
        read_runs(tmp_path)


def test_what_a_system_adds_is_no_row(tmp_path):
    """Finder's shadows; a copy that a cloud made of a row is that row, and what
    was written only in part is named.
    """
    path = begin(tmp_path).finish(train_s=1.0)
    path.with_name("._" + path.name).write_bytes(b"\0\5\x16\7")
    copy = path.with_name(f"{path.stem} (1).json")
    shutil.copy(path, copy)
    assert len(read_runs(tmp_path)) == 1 and list(read_left(path.parents[1])) == [path.stem]
    copy.write_text("")
    with pytest.raises(RowError, match=re.escape(f"{copy} is not a row")):
        read_runs(tmp_path)


def test_a_row_of_another_schema_is_not_taken_for_none(tmp_path):
    """Else its run would be made again, and the row be lost."""
    path = begin(tmp_path).finish(train_s=1.0)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 1}))
    for read in (read_runs, read_left):
        with pytest.raises(DrError, match=f"{re.escape(str(path))}: it is of schema 1"):
            read(path.parents[1])


BARE = {  # columns of numbers without a unit of schema.UNITS, or with one in words
    *"learning_rate data_share cpu_quota usd_per_hour others_cpu_share others_gpu_share".split(),
    *"forward_error gradient_error load_seconds largest_difference".split(),
}


def test_what_a_run_and_its_monitor_write_is_in_the_schema(tmp_path):
    """Whatever they write into a row, beside its parameters, has its type there; the unit
    follows from the name.
    """
    units = {"train_s": "s", "cpu_percent_mean": "%", "images_per_s": "1/s", "seed": ""}
    assert {name: schema.find_unit(name) for name in units} == units
    numbers = [name for name, kind in schema.COLUMNS.items() if kind is float]
    bare = {name for name in numbers if not schema.find_unit(name)}
    assert bare == BARE, f"{bare ^ BARE}: name it in BARE, or its unit in UNITS of schema.py"
    row = finish(begin(tmp_path))
    assert row.keys() <= schema.COLUMNS.keys(), "declare them in dr_lib/runs/schema.py"
    with Monitor(tmp_path / "samples.csv", 0.1) as monitor:
        pass
    assert monitor.summarise().keys() == schema.MONITORED.keys(), "dr_lib/runs/schema.py"


def test_every_column_is_written_somewhere():
    """None is declared alone; what counts the sides of a split is written by their names."""
    paths = [*ROOT.glob("dr_lib/**/*.py"), *ROOT.glob("notebooks/*.py")]
    texts = [path.read_text(encoding="utf-8") for path in paths if path.name != "schema.py"]
    words = set(re.findall(r"\w+", " ".join(texts)))
    columns = [name for name in schema.COLUMNS if not re.match("num_(images|patients)_", name)]
    unknown = set(columns) - words
    assert not unknown, f"nothing writes {unknown}"


def test_a_run_has_the_parameters_of_its_notebooks_cell(tmp_path):
    """As the row names them, and no folder; where its files go, and its price, are in no row."""
    declared = read_defaults(ROOT / "notebooks" / "30_train_scenario.ipynb")
    values = declared | {"accelerator": "cpu", "threads": 2, "data_source": "/private/a.npz"}
    values |= {"x": 1, "instance": "F4s_v2", "results": str(tmp_path / "out"), "repetition": 3}
    run = Run.of_notebook(tmp_path, "30_train_scenario", values, batch_size=8)
    row = finish(run, accelerator="Tesla T4")
    known = {"accelerator_asked": "cpu", "accelerator": "Tesla T4", "threads_asked": 2}
    known |= {"data_source": "a.npz", "batch_size": 8, "seed": 23, "priced_as": "F4s_v2"}
    assert known.items() <= row.items() and not {"instance", "results", "x"} & set(row)
    assert run.study_dir == tmp_path / "out"
    with pytest.raises(DrError, match="^sample_s is 11.0: "):  # paper C: 10 s at most
        Run.of_notebook(tmp_path, "30_train_scenario", values | {"sample_s": 11.0})


CELLS = {  # of a notebook, by what they do
    "parameters": "results: str = ''\nepochs: int = 3\nseed: int = 20\nrepetition: int = 0",
    "set-up": "import sys\naddress, ref = '', ''\nsys.path.insert(0, str(root))",
    "run": "from dr_lib import Run\n\nasked = dict(seed=seed, repetition=repetition)\n"
    'run = Run(root, "n", {"epochs": epochs, **asked})',
    "train": 'rate = 0.1\ncode = run.identity["code_sha256"]',
    "row": 'path = run.finish(rate=rate, commit=run.identity["commit"], code_sha256=code)',
}
AS_IT_IS = {
    "published": ["parameters", CELLS["set-up"].replace("''", "'https'"), *list(CELLS)[2:]],
}
OWN = CELLS["train"].replace("0.1", "0.2")
EDITED = {"put right": ["parameters", "set-up", "run", OWN, "train", "row"]}


def test_a_kernel_with_an_old_library_makes_no_run(clone):
    """A module that was edited after it was imported has another hash than what runs."""
    code = """
import sys, time
from pathlib import Path
sys.path.insert(0, str(Path.cwd()))
from dr_lib import Run
from dr_lib.runs.row import RowError
Run(Path.cwd(), "n", {"seed": 20, "repetition": 0})
time.sleep(0.1)
Path("dr_lib/files.py").touch()
try:
    Run(Path.cwd(), "n", {"seed": 20, "repetition": 1})
except RowError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=clone, capture_output=True, text=True
    )
    assert ran.stdout == "files.py changed since this kernel began: restart it, and run again\n"


@pytest.mark.parametrize("name", [*AS_IT_IS, *EDITED])
def test_a_row_says_whether_the_kernel_ran_other_cells(clone, kernel, name):
    """Cells sent one by one, as Jupyter does: what is not the notebook's makes another code, and
    the commit says that it was edited; parameters and a published address do not.
    """
    parts = [nbformat.v4.new_code_cell(source) for source in CELLS.values()]
    parts[0].metadata["tags"] = ["parameters"]
    path = clone / "notebooks" / "n.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=parts), path)
    commit_now = commit(clone)
    (client := kernel.client()).start_channels()
    client.wait_for_ready(timeout=60)
    forget(client, clone)
    client.execute(
        f"from pathlib import Path; root = Path({str(clone)!r})", store_history=False
    )
    for cell in {**AS_IT_IS, **EDITED}[name]:
        reply = client.execute_interactive(CELLS.get(cell, cell), output_hook=print)
        assert reply["content"]["status"] == "ok", reply["content"]
    client.stop_channels()
    (row,) = read_left(clone / "papermill_runs" / "adhoc").values()
    unlike = [
        row["code_sha256"] != hash_code(clone, "n"),
        row["notebook_sha256"] != hash_notebook(clone, "n"),
        row["commit"].endswith("-edited"),
        row["commit"] != commit_now,
    ]
    assert unlike == [name in EDITED] * 4
