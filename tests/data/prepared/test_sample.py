"""The sample that every notebook may open: by several at once, and after the library has
changed.
"""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from dr_lib.data.prepared import sample
from dr_lib.data.prepared.folder import verify
from dr_lib.data.prepared.sample import open_sample
from dr_lib.errors import DrError


def test_two_that_open_it_at_once_draw_it_once(tmp_path):
    """The second waits and finds what the first has made. Deleted records are made again."""
    with ThreadPoolExecutor() as pool:
        found = list(
            pool.map(lambda _: open_sample(tmp_path, num_patients=16, workers=0), "ab")
        )
    assert found == [tmp_path / "records"] * 2
    assert len(list((tmp_path / "photographs/images").iterdir())) == 32
    shutil.rmtree(found[0])
    assert verify(open_sample(tmp_path, num_patients=16, workers=0))


def test_what_another_version_drew_is_drawn_anew_and_a_users_photographs_are_not_touched(
    small_sample, tmp_path, monkeypatch
):
    """A changed library; then a folder of that name which nobody drew."""
    records = shutil.copytree(small_sample.parent, tmp_path / "drawn") / "records"
    before = (records / "manifest.json").stat().st_mtime_ns
    open_sample(tmp_path / "drawn")
    assert (records / "manifest.json").stat().st_mtime_ns == before
    monkeypatch.setattr(sample, "DRAWING", 99)
    assert open_sample(tmp_path / "drawn", num_patients=17, workers=0) == records
    assert len(list((tmp_path / "drawn/photographs/images").iterdir())) == 34
    own = tmp_path / "own" / "photographs"
    own.mkdir(parents=True)
    (own / "eye.jpg").write_bytes(b"mine")
    with pytest.raises(DrError, match="holds other files"):
        open_sample(tmp_path / "own", num_patients=16, workers=0)
    assert (own / "eye.jpg").read_bytes() == b"mine"
