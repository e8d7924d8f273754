"""A server that is started is ready, finishes what it accepted, or says that it cannot start."""

from urllib.request import urlopen

import pytest

from dr_lib.errors import DrError
from dr_lib.rooms.serving.server.process import ServerProcess, wait_until_ready


def test_a_server_is_ready_when_it_is_there_and_ends_when_it_is_stopped(
    served_folder, tmp_path
):
    """Stopped it ends with 0, and behind a block it is gone."""
    with ServerProcess(served_folder, tmp_path / "log", "--threads", 1) as server:
        assert urlopen(f"{server.url}/ping").status == 200 and 0 < server.ready_s < 60
        assert "ready" in (tmp_path / "log").read_text()
        assert server.stop() == 0
    with ServerProcess(served_folder, tmp_path / "log") as server:
        pass
    assert server.poll() == -9
    with pytest.raises(DrError, match=f"{server.url}/ping does not return 200$"):
        wait_until_ready(server.url, timeout_s=0.1)


def test_a_server_that_cannot_start_is_an_error(tmp_path):
    """Its log says why."""
    with pytest.raises(DrError, match=r"does not return 200; see .*/log$"):
        ServerProcess(tmp_path / "none", tmp_path / "log")
    assert "no model to serve" in (tmp_path / "log").read_text()
