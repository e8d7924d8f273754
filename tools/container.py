"""Build and run the container without Docker, and its server on an emulated arm64: make container
MODEL=exported/litert_int8.

For root on Debian or Ubuntu. Where no registry can be reached, the base of the image is a Debian of
the same release with its Python. Both servers grade the same drawn photographs as the model in this
process. The image stays in buildah's storage as fundus-grader. Without MODEL the network is
untrained, with a last layer that tells the photographs apart.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from dr_lib.serving.export.convert import convert, load_network
from dr_lib.serving.grader.predict import Predictor
from dr_lib.serving.untrained import export_untrained
from dr_lib.training.model_folder import read_folder, write_folder
from tests.processes import find_port, is_ready, wait_until
from tests.serving.driver import ROOT, list_wheel_options, post, run_process
from tools.bench import draw_photograph
from tools.bench_server import draw_crops

DOCKERFILE = ROOT / "dr_lib" / "serving" / "Dockerfile"
BASE, PYTHON, SUITE = re.search(
    r"FROM (python:(3\.\d+)-slim-(\w+))", DOCKERFILE.read_text()
).groups()
# Debian's, by program
PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap", "qemu-aarch64": "qemu-user"}
# What /proc/cpuinfo says on a Graviton 2; LiteRT crashes where an emulated arm64 reads the host's.
# Newer cores sign pointers, which is slow to emulate.
NEOVERSE_N1 = """Features	: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimdrdm \
asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1
"""
TEXTS = ("usr/share/doc", "usr/share/locale", "usr/share/man")
TOLERANCE = 1e-3  # of a probability, in float32
IMAGE = "fundus-grader"
NUM_PHOTOGRAPHS = 12
SIDE = 96
READY_S = 600  # emulated, on a machine that does much else


def run(*command: str | Path, check: bool = True) -> str:
    """Run a command and return what it prints, or nothing where it fails and may; its mounts end
    with it.
    """
    ran = subprocess.run(
        ["unshare", "--mount", *command], capture_output=True, text=True, check=False
    )
    if ran.returncode and check:
        reason = f"{command[0]} failed; it needs a network, and a root that may mount:"
        sys.exit("\n".join([reason, *(ran.stdout + ran.stderr).strip().splitlines()[-5:]]))
    return "" if ran.returncode else ran.stdout.strip()


def make_debian(root: Path, *options: str) -> None:
    """Make a small Debian with Python and pip."""
    packages = "--include=python3-pip,python-is-python3"
    run("debootstrap", "--variant=minbase", packages, *options, SUITE, root)


@contextlib.contextmanager
def run_container(folder: Path, model: Path) -> Iterator[int]:
    """Build the Dockerfile, run the image as it asks to be, and see it end at SIGTERM; yields
    the port.
    """
    base = BASE
    if not run("buildah", "pull", BASE, check=False):
        base = "localhost/base"
        root = folder / "debian"
        make_debian(root)
        # in an image pip may install beside Debian's
        next(root.glob("usr/lib/python3*/EXTERNALLY-MANAGED")).unlink()
        # nor do the images of Python hold them
        for left in ("var/cache/apt", "var/lib/apt/lists", *TEXTS):
            shutil.rmtree(root / left)
        (folder / "base").write_text("FROM scratch\nCOPY . /\n")
        run("buildah", "build", "--tag", base, "--file", folder / "base", root)
    # this machine's certificates, for a proxy may have one of its own
    build = "buildah build --isolation chroot --format docker"
    build += " --volume /etc/ssl/certs:/etc/ssl/certs:ro"
    run(*build.split(), "--from", base, "--tag", IMAGE, "--file", DOCKERFILE, ROOT)
    size = run("buildah", "images", "--format", "{{.Size}}", IMAGE)
    print(
        f"image {IMAGE} of {size} on {base}; to"
        f" use it with Docker: buildah push {IMAGE} docker-archive:{IMAGE}.tar",
        flush=True,
    )
    image = json.loads(run("buildah", "inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    container = run("buildah", "from", "--pull-never", IMAGE)
    port = find_port()
    log = folder / "log"
    serve = f"unshare --mount buildah run --isolation chroot --env PORT={port}".split()
    serve += ["--volume", f"{model}:/opt/ml/model:ro", container, "--"]
    start = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*serve, *image["Entrypoint"], *image["Cmd"]], stdout=out, stderr=out
        )
    try:
        wait_until(lambda: is_ready(port) or process.poll() is not None, READY_S)
        assert process.poll() is None, log.read_text()
        print(f"ready {time.monotonic() - start:.1f} s after its start", flush=True)
        yield port
        # the server; buildah hands no signal on
        psutil.Process(process.pid).children(recursive=True)[-1].terminate()
        assert process.wait(30) == 0, log.read_text()
    finally:
        process.kill()  # and with it what it started
        process.wait()
        run("buildah", "rm", container)


@contextlib.contextmanager
def run_emulated(folder: Path, model: Path) -> Iterator[int]:
    """Serve with a Python and the wheels for arm64, emulated; yields the port."""
    root = folder / "arm64"
    wheels = folder / "wheels"
    make_debian(root, "--arch=arm64", "--foreign")  # unpacks what every Debian has
    for package in root.glob("var/cache/apt/archives/*.deb"):
        run("dpkg-deb", "--extract", package, root)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-compile")
    run(*pip, "--target", wheels, *list_wheel_options(PYTHON, "aarch64"))
    (root / "proc" / "cpuinfo").write_text(
        "".join(f"processor: {k}\n{NEOVERSE_N1}\n" for k in range(os.cpu_count()))
    )
    python = ("qemu-aarch64", "-cpu", "neoverse-n1", "-L", root, root / "usr/bin/python3")
    with run_process(
        model, folder / "log", python=python, ready_s=READY_S, PYTHONPATH=str(wheels)
    ) as server:
        yield server.port


def make_model(folder: Path) -> Path:
    """Export a small network with random weights whose last layer spreads the photographs over the
    grades.
    """
    network = load_network(export_untrained(folder / "keras", "small_cnn", SIDE).artifact)
    logits = np.log(network.predict(draw_crops(SIDE, NUM_PHOTOGRAPHS), verbose=0))
    kernel, bias = network.layers[-1].get_weights()
    scale = 2 / logits.std(axis=0).mean()
    network.layers[-1].set_weights([scale * kernel, scale * (bias - logits.mean(axis=0))])
    path = folder / "served"
    facts = {**read_folder(folder / "keras").facts, "format": "litert_float32"}
    path.mkdir()
    convert(network, "litert_float32", path / "model.tflite")
    return write_folder(path, "model.tflite", facts).path


def compare(title: str, port: int, expected: list[dict[str, Any]], tolerance: float) -> bool:
    """Print how a server's answers differ from those of this process; whether they do too much."""
    answers = [
        json.loads(post(port, draw_photograph(1024, 768, seed)).body)
        for seed in range(NUM_PHOTOGRAPHS)
    ]
    versions = "Python {python}, LiteRT {ai_edge_litert}".format(**answers[0]["machine"])
    grades = [answer["most_probable_grade"] for answer in answers]
    difference = max(
        abs(there - here)
        for answer, own in zip(answers, expected, strict=True)
        for there, here in zip(answer["probabilities"], own["probabilities"], strict=True)
    )
    print(
        f"{title}: {versions}; grades {grades}; a probability differs by {difference:.1e} at"
        f" most, may by {tolerance:.0e}",
        flush=True,
    )
    return difference > tolerance or grades != [own["most_probable_grade"] for own in expected]


def main() -> int:
    """Print what the servers answer; 1 where they differ from this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="exported folder to serve")
    parser.add_argument("--no-arm64", action="store_true", help="without the emulated arm64")
    options = parser.parse_args()
    if missing := [
        package for program, package in PACKAGES.items() if not shutil.which(program)
    ]:
        sys.exit(f"not here, and needed: apt-get install {' '.join(missing)}")
    if os.geteuid():
        sys.exit("debootstrap and buildah need root: sudo make container")
    differs = False
    with tempfile.TemporaryDirectory() as parent:
        model = options.model.resolve() if options.model else make_model(Path(parent))
        served = read_folder(model)
        # int8 makes much of how a processor rounds
        tolerance = 0.1 if "int8" in served.facts["format"] else TOLERANCE
        predict = Predictor(served, 1)
        expected = [
            predict(draw_photograph(1024, 768, seed)) for seed in range(NUM_PHOTOGRAPHS)
        ]
        if len({own["most_probable_grade"] for own in expected}) < 2:
            print(
                "this model gives all drawn photographs one grade: the comparison shows little"
            )
        servers = {"container": run_container, "arm64": run_emulated}
        if options.no_arm64:
            del servers["arm64"]
        for title, serve in servers.items():
            with tempfile.TemporaryDirectory() as folder, serve(Path(folder), model) as port:
                differs |= compare(title, port, expected, tolerance)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
