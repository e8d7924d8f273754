"""Build the container, and compare its answers with those of this process: make container
MODEL=exported/litert_int8 PLATFORM=linux/arm64.

It needs Docker, or a program that takes its commands (DOCKER=podman). Without MODEL the network is
untrained. A platform that is not this machine's is emulated.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.untrained import export_untrained
from dr_lib.training.model_folder import read_folder
from tests.processes import find_port, is_ready, wait_until
from tests.serving.driver import post
from tools.bench import ROOT, draw_photograph

DOCKER = os.environ.get("DOCKER", "docker")
IMAGE = "fundus-grader"
NUM_PHOTOGRAPHS = 12
READY_S = 600  # emulated, on a machine that does much else


def run(*words: str | Path) -> str:
    """Run a command of Docker, and return what it prints; its errors go to the terminal."""
    return subprocess.run(
        [DOCKER, *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def ask_container(model: Path, photographs: list[bytes], platform: list[str]) -> list[dict]:
    """Build the image, run it as it asks to be, and return its answers."""
    run("build", *platform, "--tag", IMAGE, "--file", "dr_lib/serving/Dockerfile", ".")
    port = find_port()
    where = ["--publish", f"127.0.0.1:{port}:8080", "--volume", f"{model}:/opt/ml/model:ro"]
    container = run("run", "--detach", "--rm", *platform, *where, IMAGE)
    try:
        wait_until(lambda: is_ready(port), READY_S)
        return [post(port, photograph).json() for photograph in photographs]
    finally:
        run("stop", container)


def find_difference(answer: dict[str, Any], own: dict[str, Any]) -> float:
    """How far the probabilities differ; infinite where grade or field of view do."""
    for name in ("most_probable_grade", "fundus"):
        if answer[name] != own[name]:
            return float("inf")
    pairs = zip(answer["probabilities"], own["probabilities"], strict=True)
    return max(abs(there - here) for there, here in pairs)


def main() -> int:
    """Print how far the container differs from this process; 1 where it does too much."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="exported folder to serve")
    parser.add_argument("--platform", help="such as linux/arm64")
    given = parser.parse_args()
    if not shutil.which(DOCKER):
        sys.exit(f"{DOCKER} is not here: install Docker, or set DOCKER=podman")
    photographs = [draw_photograph(1024, 768, seed) for seed in range(NUM_PHOTOGRAPHS)]
    with tempfile.TemporaryDirectory() as folder:
        model = given.model
        if model is None:
            model = export_untrained(Path(folder), "small_cnn", 96, "litert_float32").path
        served = read_folder(model.resolve())
        # int8 makes much of how a processor rounds
        tolerance = 0.1 if "int8" in served.facts["format"] else 1e-3
        predict = Predictor(served, 1)
        platform = ["--platform", given.platform] if given.platform else []
        answers = ask_container(served.path, photographs, platform)
    expected = json.loads(json.dumps([predict(each) for each in photographs]))
    difference = max(map(find_difference, answers, expected))
    print("container:", answers[0]["machine"])
    print(f"a probability differs by {difference:.1e}, may by {tolerance:.0e}")
    return int(difference > tolerance)


if __name__ == "__main__":
    sys.exit(main())
