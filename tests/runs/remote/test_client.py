"""What calls a service's client waits for nothing that it has not asked for."""

import threading

import pytest

from dr_lib.runs.remote.client import call


def test_a_ctrl_c_at_any_moment_leaves_nothing_to_wait_for(cloud, monkeypatch):
    """The worst one: the clock of the call runs, and nothing is there yet that stops it. The process has to end."""
    start = threading.Thread.start

    def start_and_be_interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        call("kaggle", "quota", "--csv")
    waiting = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    for thread in waiting:
        thread.join(1)
    assert not [thread for thread in waiting if thread.is_alive()]
