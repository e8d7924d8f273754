"""Fixtures that several tests share: real data, a small prepared sample, a clone for notebooks
and a kernel.
"""

import atexit
import gc
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from jupyter_client import KernelManager

from tests.runs.conftest import dear, house  # noqa: F401  of studies, here and elsewhere

ROOT = Path(__file__).resolve().parents[1]


@cache
def find_studies() -> Path:
    """A folder with the study files as they are committed: no test reads one that a user edited."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = ["git", "-C", str(ROOT), "archive", "HEAD", "papermill_runs"]
    committed = subprocess.run(archive, capture_output=True).stdout
    if not committed:  # no clone
        return ROOT / "papermill_runs"
    with tarfile.open(fileobj=io.BytesIO(committed)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "papermill_runs"


def commit(folder: Path, *more: list[str]) -> str:
    """Put a folder under git, or what changed in it, then run further commands; its commit."""
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
    git += ["-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"], *more):
        subprocess.run([*git, *command], check=True, capture_output=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


def pytest_configure(config: pytest.Config) -> None:
    """JAX compiles a program once for all processes of a test run, in half the time: the
    programs run briefly.
    """
    if hasattr(config, "workerinput"):  # it has these from the process that started it
        return
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": folder.name,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XLA_FLAGS": "--xla_backend_optimization_level=1",  # 0 gives NaN on several devices
    }


def pytest_collection_finish() -> None:
    """A collection of garbage, as each training makes, passes over all that is imported by now."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real photographs, which never enter the repository."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data beside the repository")
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder that all processes of this test run share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    (folder / "shared").mkdir(exist_ok=True)
    return folder / "shared"


@pytest.fixture(scope="session")
def small_sample(shared) -> Path:
    """The sample in small: the records of 16 drawn patients; read only."""
    from dr_lib.data.prepared.sample import open_sample

    return open_sample(shared / "sample", num_patients=16, workers=0)


@pytest.fixture
def clone(tmp_path) -> Path:
    """The repository as a user has it, without results: what the notebooks write stays out of
    the real one.
    """
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """What a page displays, as text."""
    from dr_lib.report import page

    texts = []
    monkeypatch.setattr(
        page, "display", lambda shown, **how: texts.append(getattr(shown, "data", shown))
    )
    return texts


@pytest.fixture(scope="session")
def kernel() -> Iterator[KernelManager]:
    """A kernel that stays: what many notebooks import, it imports once."""
    manager = KernelManager()
    manager.start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)
