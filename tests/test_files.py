"""Files are written whole or not at all, and a lock ends with its process, however that ends."""

import json
import subprocess

import pytest
from click.testing import CliRunner

from dr_lib.__main__ import main
from dr_lib.errors import DrError
from dr_lib.files import (
    LISTING,
    expand_home,
    find_listed,
    lock,
    replace,
    write_json,
    write_listed,
    write_text,
)
from tests.processes import run_python

HOLD = """import sys, time
from pathlib import Path
from dr_lib.files import lock
held = lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("~", "/users/ana"),
        ("~/p.csv", "/users/ana/p.csv"),
        ("$HOME/p", "/users/ana/p"),
        ('"~/a,b", ~/c', '"/users/ana/a,b", /users/ana/c'),
        ("$SCRATCH/p", "/scratch/p"),
        ("a/~/b", "a/~/b"),
        ("~$notes.docx", "~$notes.docx"),
        ("", ""),
    ],
)
def test_the_home_directory_is_written_out(monkeypatch, text, path):
    """As a shell does it where there are no quotes; in several paths, too."""
    monkeypatch.setenv("HOME", "/users/ana")
    monkeypatch.setenv("SCRATCH", "/scratch")
    assert expand_home(text) == path


def test_no_folder_is_named_as_a_variable(tmp_path, monkeypatch):
    """One that is not set is an error, behind an equals sign too."""
    monkeypatch.delenv("NOWHERE", raising=False)
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(main, ["report", "--out=$NOWHERE/x", "rows"])
    assert said.exit_code == 1 and "$NOWHERE is not set: write the whole path" in said.output
    assert not list(tmp_path.iterdir())


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    """Half a file never takes the place of a whole one."""
    path = tmp_path / "row.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), replace(path) as temporary:
        temporary.write_text("{")
        raise RuntimeError("the disk is full")
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1} and list(tmp_path.iterdir()) == [path]


def test_a_file_that_does_not_fit_is_named(tmp_path):
    """As on a full disk, whose error names none; the old file stays."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "runs.csv"
    write_text(path, "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError) as error:
            write_text(path, "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.value.filename == str(path) and path.read_text() == "old"


def test_a_lock_ends_with_its_process(tmp_path):
    """Another process is kept out while the first lives, and let in when it was killed."""
    path = tmp_path / "folder" / "lock"
    with run_python(HOLD, path) as holder:
        assert holder.stdout.readline() == "held\n"
        assert lock(path) is None
    with lock(path, wait_s=5) as file:
        assert file is not None
        assert lock(path) is None  # a second time in one process, too


def test_what_a_report_listed_is_found_and_nothing_else(tmp_path):
    """Coreutils check the listing; a user's own file is none of it, a changed one is refused."""
    assert find_listed(tmp_path) == [] == find_listed(tmp_path / "nowhere")
    for name in ("a.csv", "b  c.png", "gone.tex"):
        write_listed(tmp_path / name, name.encode())
    subprocess.run(["sha256sum", "--check", "--quiet", LISTING], cwd=tmp_path, check=True)
    (tmp_path / "gone.tex").unlink()
    (tmp_path / "mine.txt").write_text("")
    with (tmp_path / LISTING).open("a") as listing:
        listing.write("0  ../elsewhere.csv\n")
    assert [path.name for path in find_listed(tmp_path)] == ["a.csv", "b  c.png", LISTING]
    (tmp_path / "a.csv").write_text("filled in by its author")
    with pytest.raises(DrError, match="a.csv was changed after a report wrote it: move it, or"):
        find_listed(tmp_path)
