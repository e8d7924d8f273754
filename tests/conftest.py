"""Fixtures that several tests share: real data beside the repository, and a small prepared sample."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real photographs, which never enter the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data beside the repository")
    return folder


@pytest.fixture(scope="session")
def small_sample(tmp_path_factory) -> Path:
    """The sample in small: the records of 24 drawn patients; read only."""
    from dr_lib.data.shards.sample import open_sample

    return open_sample(tmp_path_factory.mktemp("sample"), num_patients=24, workers=1)
