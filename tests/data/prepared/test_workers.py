"""Work handed out to processes comes back in order, in small portions, and the processes do not
outlive it.
"""

import hashlib
import multiprocessing
import os
import resource
import subprocess
import sys
import time

import pytest

from dr_lib.data.photograph.crop import crop_fundus
from dr_lib.data.prepared.workers import TASKS_PER_WORKER, crop_photograph, map_over
from dr_lib.errors import DrError
from tests.conftest import ROOT
from tests.data.photograph.pictures import IMAGE, to_file


@pytest.mark.parametrize("workers", [0, 2])
def test_items_are_drawn_as_results_are_taken(workers):
    """Results come in the order of the items, and only a few items are under way, however many
    there are.
    """
    drawn = []

    def draw():
        for number in range(-2000, 0):
            drawn.append(number)
            yield number

    with map_over(workers) as map_items:
        results = map_items(abs, draw())
        assert next(results) == 2000
        assert len(drawn) <= max(workers, 1) * TASKS_PER_WORKER
        assert list(results) == list(range(1999, 0, -1))


def test_an_error_in_a_worker_is_raised_here():
    """A mistake in the work is no dead worker."""
    with pytest.raises(ZeroDivisionError), map_over(2) as map_items:
        list(map_items(eval, ["1", "1 / 0"]))


@pytest.mark.parametrize("after_s", [0, 0.003])
def test_workers_killed_while_they_hand_over_a_result_are_replaced(after_s):
    """Half of a result, more than a pipe holds, arrives; nobody waits for the other half."""
    with map_over(2) as map_items:
        results = map_items(bytes, [5_000_000] * 100)
        next(results)
        time.sleep(after_s)
        for worker in multiprocessing.active_children():
            worker.kill()
        assert len(list(results)) == 99


def test_an_item_that_kills_two_workers_is_lost_or_an_error():
    """The others are done."""
    items = ["1", "__import__('os').abort()", "3"]
    with map_over(2, lambda item: f"lost {item[-7:]}") as map_items:
        assert list(map_items(eval, items)) == [1, "lost abort()", 3]
    with pytest.raises(DrError, match="workers died"), map_over(1) as map_items:
        list(map_items(eval, items))


def test_a_script_that_starts_itself_again_is_told_so(tmp_path):
    """Workers import it; none begins."""
    script = tmp_path / "script.py"
    script.write_text(
        "from dr_lib.data.prepared.workers import map_over\n"
        "with map_over(1) as map_items:\n    print(list(map_items(abs, [1])))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, env=environment)
    assert done.returncode == 1 and b"below `if __name__ ==" in done.stderr


def test_what_is_decoded_is_what_was_hashed(tmp_path, monkeypatch):
    """A file that is written anew while it is read has the crop of the content that it names."""
    path = tmp_path / "eye.jpg"
    path.write_bytes(to_file(IMAGE, ".jpg"))
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    expected = crop_photograph((7, str(path), "id"), "robust", 99)[0]

    def overwrite(source, *options, **more):
        path.write_bytes(b"another")
        return crop_fundus(source, *options, **more)

    monkeypatch.setattr("dr_lib.data.prepared.workers.crop_fundus", overwrite)
    framed, listed = crop_photograph((7, str(path), "id"), "robust", 99)
    assert framed == expected and listed["content_id"] == before


def test_what_the_machine_cannot_open_is_not_rejected(tmp_path):
    """A process without a free file descriptor says nothing about the photograph."""
    path = tmp_path / "eye.jpg"
    path.write_bytes(b"not empty")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(DrError, match="the photograph of row 7 cannot be read"):
            crop_photograph((7, str(path), "id"), "robust", 299)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "not a picture" in crop_photograph((7, str(path), "id"), "robust", 299)[1]["reason"]


def test_a_worker_imports_no_tables():
    """Each would take a second longer to start."""
    code = (
        "import sys, dr_lib.data.prepared.workers; print({'pandas', 'scipy'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
