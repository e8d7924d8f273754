"""Fixtures for serving: a small model as it is served, and photographs."""

import math
from pathlib import Path

import pytest

from dr_lib.files import lock
from tests.serving.driver import draw_photograph, encode, open_service, run_in_thread


@pytest.fixture(scope="session")
def served_folder(shared) -> Path:
    """The folder of a small_cnn of 32 px with random weights as float32 LiteRT; read only."""
    from dr_lib.serving.untrained import export_untrained

    folder = shared / "served"
    with lock(shared / "served.lock", wait_s=math.inf):
        if not folder.exists():
            made = export_untrained(shared / "exported", "small_cnn", 32, "litert_float32")
            made.path.rename(folder)
    return folder


@pytest.fixture(scope="session")
def jpeg() -> bytes:
    """A drawn photograph that shows a retina."""
    return encode(draw_photograph())


@pytest.fixture(scope="module")
def port(served_folder):
    """A server whose clients have three seconds."""
    with (
        pytest.MonkeyPatch.context() as patch,
        run_in_thread(open_service(served_folder)) as port,
    ):
        patch.setattr("dr_lib.serving.server.app.REQUEST_S", 3.0)
        yield port
