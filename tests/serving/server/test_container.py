"""The container: what its Dockerfile says, and that what it copies and installs is enough to
serve.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import venv

import pytest

from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder
from tests.processes import is_listening
from tests.serving.driver import (
    ROOT,
    SERVING,
    post,
    run_process,
)


@pytest.fixture(scope="module")
def instructions():
    """The Dockerfile's instructions, (word, the rest), comments and line ends gone."""
    text = re.sub(r"^\s*#.*\n", "", (SERVING / "Dockerfile").read_text(), flags=re.M).replace(
        "\\\n", " "
    )
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def copied(instructions, tmp_path_factory):
    """A folder with what the COPY lines copy."""
    target = tmp_path_factory.mktemp("srv")
    for *sources, place in [shlex.split(rest) for word, rest in instructions if word == "COPY"]:
        (folder := target / place).mkdir(parents=True, exist_ok=True)
        for source in sources:  # of a folder Docker copies what is in it
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, folder, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / source, folder)
    return target


def test_it_obeys_the_contract(instructions):
    """SIGTERM reaches Python, for the forms are those without a shell; port 8080; root is not
    needed.
    """
    said = dict(instructions)
    assert json.loads(said["ENTRYPOINT"])[:3] == ["python", "-m", "dr_lib.serving"]
    assert json.loads(said["CMD"]) == ["serve"] and said["EXPOSE"] == "8080"
    assert not said["USER"].startswith(("root", "0"))
    assert "accept-bind-to-port" in said["LABEL"]


def test_it_copies_every_module_that_the_server_imports(copied, served_folder, jpeg, tmp_path):
    """From the copied files alone it serves, at all addresses of the container, and at its own
    alone elsewhere.
    """
    with run_process(served_folder, tmp_path / "log", cwd=copied) as server:
        assert post(server.port, jpeg).status_code == 200 and is_listening(
            server.port, "127.0.0.2"
        )
    with run_process(served_folder, tmp_path / "log", LISTEN_HOST="") as server:
        assert not is_listening(server.port, "127.0.0.2")


@pytest.mark.slow
def test_it_serves_from_a_clean_environment(copied, served_folder, jpeg, tmp_path):
    """A virtual environment with what the image installs, and nothing else, gives the answers of
    this one.
    """
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-qr"]
    install.append(SERVING / "requirements.lock")
    subprocess.run(install, check=True)
    with run_process(served_folder, tmp_path / "log", python=(python,), cwd=copied) as server:
        clean = post(server.port, jpeg)
    expected = Predictor(read_folder(served_folder), 1)(jpeg)["probabilities"]
    assert clean.json()["probabilities"] == expected
