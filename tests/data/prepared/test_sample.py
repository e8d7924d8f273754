"""The sample that every notebook may open: by several at once, and after the library has
changed.
"""

import threading

import pytest

from dr_lib.data.prepared import sample
from dr_lib.data.prepared.sample import open_sample
from dr_lib.errors import DrError


def test_two_that_open_it_at_once_draw_it_once(tmp_path):
    """The second waits and finds what the first has made."""
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(open_sample(tmp_path, num_patients=16, workers=1))
        )
        for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        found == [tmp_path / "records"] * 2
        and len(list((tmp_path / "photographs/images").iterdir())) == 32
    )


def test_what_another_version_drew_is_drawn_anew_and_a_users_photographs_are_not_touched(
    tmp_path, monkeypatch
):
    """A changed library; then a folder of that name which nobody drew."""
    records = open_sample(tmp_path / "drawn", num_patients=16, workers=1)
    before = (records / "manifest.json").stat().st_mtime_ns
    assert (
        open_sample(tmp_path / "drawn").stat()
        and (records / "manifest.json").stat().st_mtime_ns == before
    )
    monkeypatch.setattr(sample, "_hash_code", lambda: "another")
    assert open_sample(tmp_path / "drawn", num_patients=17, workers=1) == records
    assert len(list((tmp_path / "drawn/photographs/images").iterdir())) == 34
    own = tmp_path / "own" / "photographs"
    own.mkdir(parents=True)
    (own / "eye.jpg").write_bytes(b"mine")
    with pytest.raises(DrError, match="holds other files"):
        open_sample(tmp_path / "own", num_patients=16, workers=1)
    assert (own / "eye.jpg").read_bytes() == b"mine"
