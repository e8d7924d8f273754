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
from packaging.requirements import Requirement

from dr_lib.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder
from tests.processes import is_listening
from tests.serving.driver import (
    ROOT,
    SERVING,
    post,
    read_image_environment,
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
    check = json.loads(said["HEALTHCHECK"].split("CMD")[1])
    assert check[0] == "python" and "/ping" in check[-1]
    assert "accept-bind-to-port" in said["LABEL"]
    assert re.fullmatch(r"python:3\.\d+(\.\d+)?-slim\S*", said["FROM"])


def test_it_copies_every_module_that_the_server_imports(
    instructions, copied, served_folder, jpeg, tmp_path
):
    """From the copied files alone it serves, at all addresses of the container, and at its own
    alone elsewhere.

    The health check has status 0 where /ping says 200, another where nobody listens.
    """
    check = [sys.executable, *json.loads(dict(instructions)["HEALTHCHECK"].split("CMD")[1])[1:]]

    def is_healthy():
        environment = read_image_environment() | {"PORT": str(server.port)}
        return not subprocess.run(check, env=environment, stderr=subprocess.DEVNULL).returncode

    with run_process(served_folder, tmp_path / "log", cwd=copied) as server:
        assert post(server.port, jpeg).status == 200 and is_listening(server.port, "127.0.0.2")
        assert is_healthy() and server.stop() == 0 and not is_healthy()
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
    assert clean.status == 200
    expected = Predictor(read_folder(served_folder), 1)(jpeg)["probabilities"]
    assert clean.facts["probabilities"] == expected


@pytest.mark.slow
def test_its_wheels_for_graviton_exist_and_are_small(instructions, tmp_path):
    """For the Python of the image nothing is compiled, and all wheels have at most 120 MB."""
    version = re.search(r"3\.\d+", dict(instructions)["FROM"])[0]
    command = [sys.executable, "-m", "pip", "download", "-q", "--dest", tmp_path]
    command += ["--only-binary=:all:", "--python-version", version]
    for tag in ("_2_28", "_2_27", "_2_17", "2014"):
        command += ["--platform", f"manylinux{tag}_aarch64"]
    subprocess.run([*command, "--requirement", SERVING / "requirements.lock"], check=True)
    wheels = {path.name.split("-")[0]: path.stat().st_size for path in tmp_path.glob("*.whl")}
    assert {"ai_edge_litert", "numpy", "opencv_python_headless", "granian"} <= set(wheels)
    assert not set(wheels) & {"tensorflow", "keras", "pydantic"}
    assert sum(wheels.values()) <= 120e6


def test_every_package_has_a_version_and_hashes():
    """What the container's requirements name is there, as they allow it; pip takes no other."""
    lock = (SERVING / "requirements.lock").read_text().replace("\\\n", " ")
    lines = [line for line in lock.splitlines() if line and not line.startswith("#")]
    assert all(" --hash=sha256:" in line for line in lines)
    versions = dict(line.split()[0].split("==") for line in lines)
    for line in (SERVING / "requirements.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            named = Requirement(line)
            assert versions[named.name] in named.specifier, named.name
