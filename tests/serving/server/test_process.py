"""A server that is started is ready, and ends with the block that uses it."""

from urllib.request import urlopen

import pytest

from dr_lib.errors import DrError
from dr_lib.serving.server.process import ServerProcess, wait_until_ready


def test_a_server_is_ready_when_it_is_there_and_is_gone_behind_its_block(
    served_folder, tmp_path
):
    """Where none listens any more, waiting is an error."""
    with ServerProcess(served_folder, tmp_path / "log", "--threads", 1) as server:
        assert urlopen(f"{server.url}/ping").status == 200 and 0 < server.ready_s < 60
    assert server.poll() == -9
    with pytest.raises(DrError, match=f"{server.url}/ping does not return 200$"):
        wait_until_ready(server.url, timeout_s=0.1)
