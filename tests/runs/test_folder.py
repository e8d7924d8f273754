"""A folder is of one study."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

from dr_lib.runs.folder import keep_for
from dr_lib.runs.study import Study
from tests.runs.conftest import complete, run_quietly, write_study


def test_two_studies_do_not_share_a_folder(house, command):
    """Where factors differ, or their order, runs would have the same names; until one is completed
    the file may change, and repetitions may follow.
    """
    factors = {"pace": ["even", "fast"], "level": ["a", "b"]}
    path = write_study(house, factors=factors)
    assert run_quietly(path, house, max_hours=1e-9) == []
    for other in (dict(reversed(factors.items())), factors | {"level": ["b"]}):
        write_study(house, factors=other)
        command("plan", path)
        complete(house, write_study(house, factors=factors), {"C1": 1.0})
        write_study(house, factors=other)
        for name in ("plan", "run"):
            fault = "differs in factors: rename one of the studies, or delete"
            assert fault in command(name, path, status=1)
        shutil.rmtree(path.with_suffix("") / "rows")
    write_study(house, factors=factors, repetitions=3)
    assert run_quietly(path, house, max_hours=1e-9) == []


def test_machines_that_begin_at_once_keep_one_folder(tmp_path):
    """A scheduler starts many jobs in the same moment, on a disk that all of them share."""
    study = Study(notebook="n", repetitions=1)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: keep_for(tmp_path, study), range(60)))
    assert json.loads((tmp_path / "study.json").read_bytes())["notebook"] == "n"
