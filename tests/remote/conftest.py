"""A house for studies, and stand-ins of both services for their own clients."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from dr_lib.__main__ import main
from dr_lib.files import lock, write_json
from dr_lib.remote.client import WAITS
from dr_lib.remote.colab import Colab
from tests.processes import find_port, is_listening, wait_until
from tests.remote.kaggle_service import KaggleService
from tools.runtimes import HOMES, find_python

ROOT = Path(__file__).resolve().parents[2]
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
    socket.send_fds(line, [json.dumps([{name!r}, *sys.argv[1:]]).encode()], [0, 1, 2])
    status = line.recv(1)
sys.exit(status[0] if status else 1)
"""
SHORT = {"pause": 0.3, "patience": 1.5, "hurry": 1.5, "watch": 5, "poll": 0.5}
SHORT |= {"ready": 3, "call": 8}


class Cloud:
    """The stand-ins' side, and a house with a study."""

    def __init__(self, home: Path, house: Path, kaggle: KaggleService):
        """Take the folder of Colab's account, the house, and Kaggle's service, made empty."""
        kaggle.reset()
        self.home = home
        self.house = house
        self.kaggle = kaggle

    def run(self, path: Path, on: str, *options: str) -> Result:
        """`python -m dr_lib run PATH --on ON --yes`, in this process."""
        return CliRunner().invoke(main, ["run", str(path), "--on", on, "--yes", *options])

    def fork(self, path: Path, on: str) -> int:
        """The same in a copy of this process, which the faults know; its id."""
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.point_at(os.getpid())
            result = self.run(path, on)
            trace = "" if isinstance(result.exception, SystemExit | None) else "Traceback"
            (self.house / "said").write_text(result.output + trace)
            os._exit(result.exit_code)
        self.point_at(pid)
        return pid

    def point_at(self, pid: int) -> None:
        """Name the process that faults may end."""
        self.kaggle.caller = pid
        (self.home / "caller").write_text(str(pid))

    def strike(self, on: str, faults: dict[str, list]) -> None:
        """Have the next calls of a service meet these faults."""
        if on.startswith("kaggle"):
            self.kaggle.faults = faults
        else:
            (self.home / "faults.json").write_text(json.dumps(faults))

    @property
    def said(self) -> str:
        """What a copy of this process has said; nothing, if it was killed."""
        path = self.house / "said"
        return path.read_text() if path.exists() else ""

    @property
    def sessions(self) -> list[dict]:
        """The records of sessions, beside the study."""
        return json.loads(
            (self.house / "papermill_runs" / "trial" / "sessions.json").read_text()
        )

    def list_left(self) -> list[str]:
        """Machines, scripts and data sets that exist."""
        path = self.home / "machines.json"
        machines = json.loads(path.read_text()) if path.exists() else {}
        return [*machines, *self.kaggle.scripts, *self.kaggle.data_sets]


@pytest.fixture(scope="module")
def services(tmp_path_factory) -> Iterator[tuple[KaggleService, Path]]:
    """What `open_services` yields."""
    with open_services(tmp_path_factory.mktemp("cloud")) as services:
        yield services


@pytest.fixture
def cloud(services, house, monkeypatch) -> Cloud:
    """The house with the library in it, and both real clients with their stand-ins."""
    kaggle, programs = services
    copy_library(house)
    (house / "requirements.txt").touch()
    monkeypatch.setattr("dr_lib.__main__.ROOT", house)
    enter(programs, house, monkeypatch)
    return Cloud(programs.parent, house, kaggle)


def copy_library(house: Path) -> None:
    """Copy the library into a house, and name the parameters of its notebook there."""
    library = house / "dr_lib"
    shutil.copytree(ROOT / "dr_lib", library, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests" / "runs" / "quick.py", library)
    with (library / "parameters.py").open("a", encoding="utf-8") as table:
        table.write('NOTEBOOKS["quick"] = "dr_lib.quick:Quick"\n')


def enter(programs: Path, house: Path, patch: pytest.MonkeyPatch) -> None:
    """Have this process use the stand-ins, which are made empty, and little patience."""
    home = programs.parent
    end_machines(home)
    for name in ("faults.json", "struck", "stopped"):
        (home / name).unlink(missing_ok=True)
    for name, seconds in SHORT.items():
        patch.setattr(WAITS, name, seconds)
    patch.setattr("sys.executable", str(programs / "python"))
    patch.setenv("HOME", str(house.parent))
    patch.setattr(Colab, "content", f"{home}/machine/content")


def end_machines(home: Path) -> None:
    """End the machines of Colab's account, as its page does."""
    (home / "machines.json").unlink(missing_ok=True)
    for process in psutil.process_iter(["cwd"]):
        if str(process.info["cwd"]).startswith(f"{home}/machine"):
            process.kill()
    shutil.rmtree(home / "machine", ignore_errors=True)


@contextmanager
def open_services(home: Path, python: str = sys.executable) -> Iterator:
    """Start the stand-ins, whose machines have this Python; yield Kaggle's service and a folder
    of programs, in which a Python has both clients beside it.
    """
    clients = make_clients()
    programs = home / "bin"
    programs.mkdir(parents=True)
    kernel = home / "kernels" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(about))
    # each call of Colab's client prints first that there is a newer one
    news = {"latest_version": "99.0", "last_check": f"{datetime.now(UTC)}"}
    write_json(home / ".config" / "colab-cli" / "settings.json", news)
    port = find_port()
    environment = os.environ | {
        "COLAB": str(home),
        "COLAB_RELEASE_TAG": "here",
        "HOME": str(home),
        "JUPYTER": f"http://127.0.0.1:{port}",
        "JUPYTER_PATH": str(home / "kernels"),
    }
    jupyter = [clients, "-m", "jupyter", "server", "--allow-root", "--ServerApp.root_dir=/"]
    jupyter += ["--ServerApp.disable_check_xsrf=True", "--IdentityProvider.token="]
    kaggle = KaggleService(home / "kaggle", python)
    threading.Thread(target=kaggle.serve_forever, daemon=True).start()
    calls = [clients, Path(__file__).with_name("clients.py"), kaggle.address, f"{home}/line"]
    pipes = {"stdout": subprocess.PIPE, "stderr": (home / "log").open("wb")}
    with ExitStack() as stack:
        for command in ([*jupyter, f"--ServerApp.port={port}"], calls):
            server = subprocess.Popen(command, **pipes, env=environment)
            stack.callback(server.wait)
            stack.callback(server.terminate)
        assert server.stdout.readline()
        wait_until(lambda: is_listening(port), 60)
        for name in ("colab", "kaggle"):
            text = CALLER.format(python=sys.executable, line=f"{home}/line", name=name)
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        # no link: a virtual environment is found beside the program
        (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (programs / "python").chmod(0o755)
        yield kaggle, programs
    kaggle.reset()
    kaggle.shutdown()
    kaggle.server_close()


def make_clients() -> Path:
    """Install both clients in a folder that is kept, for a Python 3.12, which is returned."""
    home = HOMES / "clients"
    ready = home / f"ready-{zlib.crc32(' '.join((*PINNED, NEEDED)).encode())}"
    python = home / "bin" / "python"
    if not (found := find_python("3.12")):
        pytest.skip("no Python 3.12, which google-colab-cli needs: the clients were not tried")
    HOMES.mkdir(exist_ok=True)
    with lock(HOMES / "clients.lock", wait_s=600):
        if ready.exists():
            return python
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([found, "-m", "venv", "--clear", home], check=True)
        made = subprocess.run([*install, PINNED[0], *NEEDED.split()])
        # these ask for a certifi of their own day, which a mirror may not have yet
        if made.returncode or subprocess.run([*install, "--no-deps", *PINNED[1:]]).returncode:
            pytest.skip("pip could not install the clients: they were not tried")
        ready.touch()
    return python
