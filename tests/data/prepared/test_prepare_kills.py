"""Preparing under fire: killed at any moment and started again, it ends as if nothing had
happened.
"""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import psutil
import pytest

from dr_lib.data.labels.privacy import open_private
from dr_lib.data.prepared import crops
from dr_lib.data.prepared.folder import Prepared
from dr_lib.data.prepared.prepare import prepare
from dr_lib.data.prepared.split import split
from dr_lib.data.prepared.workers import crop_photograph
from dr_lib.errors import DrError
from tests.conftest import ROOT
from tests.data.prepared.test_prepare import digests, list_written, write_photographs
from tests.processes import fork, wait, wait_until

# audit events; files opened to write, too
CHANGES = {"os.chmod", "os.mkdir", "os.remove", "os.rename", "os.rmdir"}


@pytest.fixture
def folder(tmp_path) -> Path:
    """24 photographs, two of which cannot be used, and their label table."""
    photographs = write_photographs(tmp_path / "photographs", 24)
    cv2.imwrite(str(photographs / "maria_01_left.png"), np.zeros((200, 240, 3), np.uint8))
    (photographs / "maria_07_right.png").write_bytes(b"damaged")
    return tmp_path


def salt(folder: Path, name: str) -> Path:
    """The private folder of a run, with a salt that is always the same; a kill here leaves none,
    or all of it.
    """
    private = folder / name / "private"
    making = folder / name / "making"
    if not private.exists():
        making.mkdir(parents=True, exist_ok=True)
        (making / "salt").write_bytes(b"s" * 32)
        making.rename(private)
    return private


def start(folder: Path, name: str, **options) -> None:
    """Prepare the photographs into folder / name / out, in shards of two."""
    private = salt(folder, name)
    options = {"workers": 0} | options
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crops, "SHARD_SIZE", 2)
        prepare(
            folder / "photographs",
            folder / "labels.csv",
            folder / name / "out",
            private=private,
            **options,
        )


def look(folder: Path, name: str) -> list[dict[str, str]]:
    """All that a run has left behind, by file: digests, and the private tables, which name the
    folder, without it.
    """
    unnamed = {
        path.name: path.read_bytes().replace(f"/{name}/".encode(), b"/run/")
        for path in (folder / name / "private").iterdir()
    }
    return [digests(folder / name / "out"), unnamed]


def call(name: str, *arguments) -> list:
    """Call a function of this file in a process of its own, without threads, and return what it
    printed.
    """
    code = f"import sys; from {__name__} import {name} as call; call(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return [result.returncode, *map(json.loads, result.stdout.splitlines()), result.stderr]


def prepare_and_die(folder: str, workers: str) -> None:
    """Prepare into `killed`, and be killed at 80 % of the photographs, having said which processes
    work for it.
    """

    def progress(done: int, total: int) -> None:
        if done >= 0.8 * total:
            workers = psutil.Process().children(recursive=True)
            print(json.dumps([worker.pid for worker in workers]), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    start(Path(folder), "killed", workers=int(workers), progress=progress)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_after_a_kill_finished_shards_are_kept(folder, workers):
    """The workers end by themselves; no whole shard is redone."""
    start(folder, "whole")
    code, pids, _ = call("prepare_and_die", folder, workers)
    assert code == -signal.SIGKILL
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), timeout_s=30)
    before = list_written(folder / "killed" / "out")
    assert len(before) >= 8  # of 12
    start(folder, "killed", workers=workers)
    after = list_written(folder / "killed" / "out")
    assert sum(after[name] != before[name] for name in before) <= workers
    assert look(folder, "killed") == look(folder, "whole")


@pytest.mark.parametrize("name", ["crops-00002.tfrecord", "crops-00002.csv"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_a_shard_damaged_after_a_kill_is_written_again(folder, name, is_cut):
    """With a bit flipped or half of it gone, with those after it: the same bytes at the end."""

    def stop(done: int, total: int) -> None:
        if done > 14:
            raise InterruptedError

    start(folder, "whole")
    with pytest.raises(InterruptedError):
        start(folder, "killed", progress=stop)
    path = folder / "killed" / "out" / name
    content = bytearray(path.read_bytes())
    half = len(content) // 2
    content[half] ^= 1
    path.write_bytes(content[:half] if is_cut else content)
    start(folder, "killed")
    assert look(folder, "killed") == look(folder, "whole")


def die_at_change(number: int, folder: Path) -> None:
    """Count from now on what this process changes in the folder; at that number leave it half
    done and die.
    """
    left = number
    dying = False

    def hook(event: str, arguments: tuple) -> None:
        nonlocal left, dying
        is_writing = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if dying or not (is_writing or event in CHANGES):
            return
        # rmtree names files without their folder
        path = os.path.join(folder, os.fsdecode(arguments[0]))
        if not path.startswith(str(folder)):
            return
        left -= 1
        if not left:
            dying = True
            # to a lock nobody writes
            if is_writing and not path.endswith("lock") and not os.path.isdir(path):
                Path(path).write_bytes(b'{"half')
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def crop_or_die(photograph: tuple, method: str, size: int) -> tuple:
    """Crop a photograph; over one file the process dies, as of a damage that breaks a decoder."""
    if "maria_05" in photograph[1] and multiprocessing.parent_process():
        os.kill(os.getpid(), signal.SIGSEGV)
    return crop_photograph(photograph, method, size)


def die(photograph: tuple, method: str, size: int) -> None:
    """Die over any file, as where memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_die_lose_nothing(folder, monkeypatch):
    """As when memory runs out; the photographs over which they died are cropped by others."""
    monkeypatch.setattr("dr_lib.data.prepared.workers.TASKS_PER_WORKER", 1)
    start(folder, "whole")

    def kill_workers(done: int, total: int) -> None:
        for worker in multiprocessing.active_children() if done == 1 else ():
            worker.kill()

    start(folder, "killed", workers=2, progress=kill_workers)
    assert look(folder, "killed") == look(folder, "whole")


def test_a_file_that_kills_its_worker_is_a_rejection_with_its_name(folder, monkeypatch):
    """The others are cropped; the same command tries it again. Of three one after another the
    machine is the cause.
    """
    start(folder, "whole")
    monkeypatch.setattr(crops, "crop_photograph", crop_or_die)
    start(folder, "killed", workers=2)
    rejected = pd.read_csv(folder / "killed" / "private" / "rejected.csv").set_index("image")
    died = rejected[rejected["reason"].str.contains("two processes died")]
    names = ["maria_05_left.png", "maria_05_right.png"]
    assert sorted(Path(name).name for name in died.index) == names
    monkeypatch.setattr(crops, "crop_photograph", die)
    with pytest.raises(DrError, match="over 3 photographs one after another workers died"):
        start(folder, "other", workers=1)
    monkeypatch.undo()
    start(folder, "killed")
    found, whole = (
        Prepared(folder / name / "out").photographs.drop(columns=["shard", "offset", "split"])
        for name in ("killed", "whole")
    )
    assert found.equals(whole)


def test_two_at_once_are_kept_apart(folder):
    """While one prepare is at work, another one of the same folder is refused with a sentence,
    and the first ends.
    """
    with pytest.raises(DrError, match="another prepare is using"):
        start(folder, "whole", progress=lambda *_: start(folder, "whole"))
    start(folder, "whole")


def kill_at_every_change(what: str, folder: str) -> None:
    """Do something, be killed at the first change of a file or folder and do it again; then at the
    second, and so on.

    Prints after each how both ended, and whether what is left is what one run leaves that nobody
    killed.
    """
    folder = Path(folder)
    number = 0
    code = -signal.SIGKILL
    begin, act, find = KILLED[what]

    def act_and_die(name: str) -> None:
        die_at_change(number, folder / name)
        act(folder, name)

    begin(folder, "done")
    wait(fork(partial(act, folder, "done")))
    while code == -signal.SIGKILL:
        number += 1
        begin(folder, str(number))
        code = wait(fork(partial(act_and_die, str(number))))
        again = wait(fork(partial(act, folder, str(number))))
        same = find(folder, str(number)) == find(folder, "done")
        print(json.dumps({"killed": code, "code": again, "same": same}))


def divide(folder: Path, name: str) -> None:
    """Divide a prepared folder."""
    split(folder / name, seed=5)


def draw_salt(folder: Path, name: str) -> None:
    """Draw a salt, or find the one that is there."""
    with open_private(folder / name) as drawn:
        assert len(drawn) == 32


KILLED = {  # what is done -> how it begins, what does it, and what it leaves
    "prepare": (salt, partial(start, scheme="paper"), look),
    "divide": (
        lambda at, name: shutil.copytree(at / "whole" / "out", at / name),
        divide,
        lambda at, name: digests(at / name),
    ),
    "salt": (lambda at, name: None, draw_salt, lambda at, name: sorted(os.listdir(at / name))),
}


@pytest.mark.parametrize(
    ("what", "least"),
    [
        pytest.param("prepare", 25, marks=pytest.mark.slow),
        pytest.param("divide", 5, marks=pytest.mark.slow),
        ("salt", 4),
    ],
)
def test_every_kill_point(tmp_path, what, least):
    """Killed at each change of a file in turn, with half of it written, and started again: as if
    nothing had been.
    """
    write_photographs(tmp_path / "photographs", 24 if what == "divide" else 10)
    if what == "divide":
        start(tmp_path, "whole")
    code, *found, errors = call("kill_at_every_change", what, tmp_path)
    # the last had no such change any more
    assert code == 0 and len(found) >= least and found[-1]["killed"] == 0, errors
    assert [row for row in found if row["code"] or not row["same"]] == [], errors
