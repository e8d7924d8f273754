"""A house for studies, and stand-ins for the two clients beside its Python."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dr_lib.__main__ import main
from dr_lib.files import lock
from tools.runtimes import HOMES, find_python, put_stand_ins

ROOT = Path(__file__).resolve().parents[3]
PINNED = ("google-colab-cli==0.7.5", "kaggle==2.2.5", "kagglesdk>=0.1.38")
NEEDED = (
    "six bleach jupytext protobuf python-dateutil python-dotenv python-slugify requests tqdm"
    " jupyter_server"
)
CALLER = """\
#!{python} -IS
import json
import socket
import sys

with socket.socket(socket.AF_UNIX) as line:
    line.connect({line!r})
    socket.send_fds(line, [json.dumps(sys.argv[1:]).encode()], [1, 2])
    status = line.recv(1)
sys.exit(status[0] if status else 1)
"""


class Cloud:
    """The stand-ins' side of things."""

    def __init__(self, home: Path, house: Path):
        """Hold the folder of the stand-ins and the house."""
        self.home = home
        self.house = house

    def run(self, path: Path, on: str, *options: str) -> Result:
        """`python -m dr_lib run PATH --on ON --yes`, in this process."""
        return CliRunner().invoke(main, ["run", str(path), "--on", on, "--yes", *options])

    def start(self, path: Path, on: str) -> subprocess.Popen:
        """The same in a process of its own."""
        code = "import sys; from pathlib import Path; import dr_lib.__main__ as command; "
        code += (
            "command.ROOT = Path(sys.argv.pop(1)); sys.executable = sys.argv.pop(1);"
            " command.main()"
        )
        command = [
            sys.executable,
            "-c",
            code,
            str(self.house),
            sys.executable,
            "run",
            str(path),
            "--on",
            on,
            "--yes",
        ]
        pipes = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        # what is started in the background ignores it
        heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        # a session is what Ctrl-C reaches
        return subprocess.Popen(
            command, **pipes, text=True, start_new_session=True, preexec_fn=heed
        )

    def fork(self, path: Path, on: str) -> int:
        """The same in a copy of this process, which notes what was said; its id."""
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            result = self.run(path, on)
            self.said.write_text(result.output)
            os._exit(result.exit_code)
        return pid

    @property
    def said(self) -> Path:
        """What a copy of this process has said."""
        return self.house / "said"

    @property
    def calls(self) -> list[list[str]]:
        """What the clients were called with."""
        return [json.loads(line) for line in (self.home / "calls").read_text().splitlines()]

    @property
    def sessions(self) -> list[dict]:
        """The record of sessions, beside the study."""
        return json.loads(
            (self.house / "papermill_runs" / "trial" / "sessions.json").read_text()
        )

    def list_left(self) -> list[str]:
        """Machines, scripts and data sets that are still there."""
        return [
            path.name
            for service in ("colab", "kaggle")
            for path in (self.home / service).glob("*")
        ]


@pytest.fixture
def cloud(house, tmp_path, monkeypatch) -> Cloud:
    """The house with the library in it, and clients that do the work in a folder."""
    (house / "dr_lib").symlink_to(ROOT / "dr_lib")
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    monkeypatch.setattr("sys.executable", str(put_stand_ins(tmp_path / "bin")))
    monkeypatch.setenv("STAND_IN", str(tmp_path / "cloud"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("dr_lib.rooms.remote.kaggle.POLL_S", 0.2)
    monkeypatch.setattr("dr_lib.rooms.remote.kaggle.LISTENED_S", 0.5)
    monkeypatch.setattr("dr_lib.rooms.remote.colab.WATCHED_S", 10.0)
    monkeypatch.setattr("dr_lib.rooms.remote.client.PAUSE_S", 0.1)
    for name in ("client.PATIENCE_S", "session.HURRY_S", "kaggle.READY_S"):
        monkeypatch.setattr(f"dr_lib.rooms.remote.{name}", 3.0)
    return Cloud(tmp_path / "cloud", house)


@pytest.fixture(scope="session")
def clients() -> Path:
    """The Python of `make_clients`."""
    return make_clients()


def make_clients() -> Path:
    """A Python 3.12 with both clients, in a folder that is kept; one process of the tests makes
    it.
    """
    home = HOMES / "clients"
    ready = home / f"ready-{zlib.crc32(' '.join((*PINNED, NEEDED)).encode())}"
    if not (found := find_python("3.12")):
        pytest.skip(
            "no Python 3.12 here, which google-colab-cli needs: the real clients were not asked"
        )
    HOMES.mkdir(exist_ok=True)
    with lock(HOMES / "clients.lock", wait_s=600):
        if not ready.exists():
            install = [
                home / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            subprocess.run([found, "-m", "venv", "--clear", home], check=True)
            made = subprocess.run([*install, PINNED[0], *NEEDED.split()])
            # these ask for a certifi of their own day, which a mirror may not have yet
            made = (
                made
                if made.returncode
                else subprocess.run([*install, "--no-deps", *PINNED[1:]])
            )
            if made.returncode:
                pytest.skip("pip could not install the clients: they were not asked")
            ready.touch()
    return home / "bin" / "python"


@contextmanager
def put_kaggle(clients: Path, folder: Path, address: str) -> Iterator[None]:
    """Put Kaggle's own client, for a service at this address, into a folder of programs."""
    with tempfile.TemporaryDirectory() as home:
        command = [
            clients,
            Path(__file__).with_name("kaggle_client.py"),
            address,
            f"{home}/line",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            text = CALLER.format(python=sys.executable, line=f"{home}/line")
            (folder / "kaggle").write_text(text)
            (folder / "kaggle").chmod(0o755)
            yield
            server.terminate()
