"""A session of a service that is a list of answers: what is kept, what is closed, what stays."""

import json
import zipfile

import pytest

from dr_lib.errors import DrError
from dr_lib.remote.client import WAITS, RemoteError
from dr_lib.remote.colab import Colab
from dr_lib.remote.session import Session, read_records
from tests.remote.faults import build_house

RUN = "C1-r00-colab-2-cpus-4-gib"


class Shelf(Session):
    """A service that gives one answer to each question."""

    platform = "colab"
    name = "Shelf"
    by_hand = "clear it"
    devices = Colab.devices
    looks: list = []
    results = b""
    is_known = True
    deleted = 0

    def look(self, shown):
        """The next answer."""
        answer = self.looks.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def is_gone(self):
        """As it is set."""
        return not self.is_known

    def fetch(self, runs, folder):
        """The same results for each run."""
        for run in runs if self.results else ():
            (folder / f"{run}.zip").write_bytes(self.results)

    def delete(self):
        """Count it."""
        self.deleted += 1
        return "is deleted"


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A session that is running, with a row at the service, and what it says."""
    for name, seconds in (("pause", 0.01), ("patience", 0.2), ("hurry", 0.2)):
        monkeypatch.setattr(WAITS, name, seconds)
    path = build_house(tmp_path / "house", "colab")
    row = tmp_path / "house" / "dr_lib" / "row.json"
    with zipfile.ZipFile(tmp_path / "C1-r00.zip", "w") as archive:
        archive.write(row, f"rows/{RUN}.json")
    words = (path.with_suffix(""), "dr-x", "colab:cpu", "here", 1.0)
    session = Shelf(*words, runs=["C1-r00"], state="running")
    session.results = (tmp_path / "C1-r00.zip").read_bytes()
    session.row = json.loads(row.read_bytes())
    return session


DONE = ("complete", ["C1-r00 ended with 0"])
DOWN = RemoteError("503 Server Error")


@pytest.mark.parametrize(
    ("looks", "is_unattended", "is_known", "state", "rows"),
    [
        ([DOWN, DOWN, DONE], True, True, "closed", 1),
        ([DOWN] * 99, True, True, "running", 0),
        ([DOWN] * 99, False, True, "closed", 0),
        ([DOWN] * 99, True, False, "closed", 0),
        (
            [("error", ["MemoryError: no room", "[NbConvertApp] 3 bytes"])],
            True,
            True,
            "closed",
            0,
        ),
        ([KeyboardInterrupt()], True, True, "closed", 0),
    ],
)
def test_a_session_ends_closed_or_is_resumed(
    shelf, capsys, looks, is_unattended, is_known, state, rows
):
    """The record on disk says what is left to do; what is not closed is said."""
    shelf.looks = list(looks)
    shelf.is_unattended = is_unattended
    shelf.is_known = is_known
    if rows:
        assert shelf.make() == []
    else:
        with pytest.raises((DrError, KeyboardInterrupt)):
            shelf.make()
    assert shelf.state == state
    assert shelf.deleted == (state == "closed")
    assert len(list(shelf.folder.glob("rows/*"))) == rows
    assert ("repeat the command to resume" in capsys.readouterr().out) == (not shelf.deleted)
    if state == "closed":
        (record,) = read_records(shelf.folder)
        assert record["state"] == state


def test_rows_that_did_not_come_are_not_given_up(shelf):
    """An unattended session that is complete stays open until its rows are here."""
    shelf.looks = [DONE]
    shelf.is_unattended = True
    shelf.results = b"no archive"
    with pytest.raises(RemoteError, match="download is invalid"):
        shelf.make()
    assert shelf.state == "running"
    assert not shelf.deleted


def test_only_rows_of_the_study_are_copied(shelf, tmp_path):
    """A row of another study or run is ignored, and so is one without its columns; none leaves the
    study's folder, and a failed one never replaces a completed one.
    """
    failed = {"status": "failed", "error": "it fails"}
    rows = {
        "rows/C1-r00-cut.json": {"study": None},
        "rows/C1-r00-/../../../C1-r00-out.json": {"run_id": "C1-r00-/../../../C1-r00-out"},
        "rows/C1-r00-else.json": {"run_id": "C1-r00-else", "study": "another"},
        f"rows/{RUN}.json": failed,
    }
    results = tmp_path / "again" / "C1-r00.zip"
    results.parent.mkdir()
    shelf.copy_results(tmp_path / "C1-r00.zip")
    assert not shelf.failures
    with zipfile.ZipFile(results, "w") as archive:
        for name, changes in rows.items():
            archive.writestr(name, json.dumps(shelf.row | changes))
    shelf.copy_results(results)
    assert shelf.failures == [f"{RUN}: it fails"]
    (kept,) = shelf.folder.glob("rows/*")
    assert json.loads(kept.read_bytes())["status"] == "ok"
    assert not list(tmp_path.rglob("*out.json"))
