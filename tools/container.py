"""Build and run the container without Docker, and its server on an emulated arm64: make container.

For root on Debian or Ubuntu. Where no registry can be reached, the base of the image is a Debian of
the same release with its Python. Both servers grade one drawn photograph, beside the same model in
this process.
"""

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

import psutil

from dr_lib.rooms.serving.grader.predict import Predictor
from dr_lib.training.model_folder import read_folder
from tests.rooms.serving.driver import (
    ROOT,
    find_port,
    is_ready,
    list_wheel_options,
    post,
    run_process,
    wait_until,
)
from tools.bench_server import draw_photograph, export_mobilenet

DOCKERFILE = ROOT / "dr_lib" / "rooms" / "serving" / "Dockerfile"
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
TEXTS = ("doc", "locale", "man")
TOLERANCE = 1e-5  # of a probability
READY_S = 600  # emulated, on a machine that does much else
# this machine's, for a proxy may have one of its own
CERTIFICATES = "/etc/ssl/certs:/etc/ssl/certs:ro"


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
    run(
        "debootstrap",
        "--variant=minbase",
        "--include=python3-pip,python-is-python3",
        *options,
        SUITE,
        root,
    )


@contextlib.contextmanager
def run_container(folder: Path, model: Path) -> Iterator[int]:
    """Build the Dockerfile, run the image as it asks to be, and see it end at SIGTERM; yields
    the port.
    """
    buildah = ("buildah", "--root", folder / "images", "--runroot", folder / "state")
    base = BASE
    if not run(*buildah, "pull", BASE, check=False):
        base = "localhost/base"
        root = folder / "debian"
        make_debian(root)
        # in an image pip may install beside Debian's
        next(root.glob("usr/lib/python3*/EXTERNALLY-MANAGED")).unlink()
        # nor do the images of Python hold them
        for left in (
            "var/cache/apt",
            "var/lib/apt/lists",
            *(f"usr/share/{of}" for of in TEXTS),
        ):
            shutil.rmtree(root / left)
        (folder / "base").write_text("FROM scratch\nCOPY . /\n")
        run(*buildah, "build", "--tag", base, "--file", folder / "base", root)
    build = (
        *buildah,
        "build",
        "--isolation",
        "chroot",
        "--format",
        "docker",
        "--volume",
        CERTIFICATES,
    )
    run(*build, "--from", base, "--tag", "grader", "--file", DOCKERFILE, ROOT)
    print(
        f"image of {run(*buildah, 'images', '--format', '{{.Size}}', 'localhost/grader')} on"
        f" {base}",
        flush=True,
    )
    image = json.loads(run(*buildah, "inspect", "--type", "image", "grader"))["OCIv1"]["config"]
    container = run(*buildah, "from", "--pull-never", "grader")
    port = find_port()
    log = folder / "log"
    serve = [
        *buildah,
        "run",
        "--isolation",
        "chroot",
        "--env",
        f"PORT={port}",
        "--volume",
        f"{model}:/opt/ml/model:ro",
    ]
    serve += [container, "--", *image["Entrypoint"], *image["Cmd"]]
    start = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(["unshare", "--mount", *serve], stdout=out, stderr=out)
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


@contextlib.contextmanager
def run_emulated(folder: Path, model: Path) -> Iterator[int]:
    """Serve with a Python and the wheels for arm64, emulated; yields the port."""
    root = folder / "arm64"
    wheels = folder / "wheels"
    make_debian(root, "--arch=arm64", "--foreign")  # unpacks what every Debian has
    for package in root.glob("var/cache/apt/archives/*.deb"):
        run("dpkg-deb", "--extract", package, root)
    options = (
        "--quiet",
        "--no-compile",
        "--target",
        wheels,
        *list_wheel_options(PYTHON, "aarch64"),
    )
    run(sys.executable, "-m", "pip", "install", *options)
    (root / "proc" / "cpuinfo").write_text(
        "".join(f"processor: {k}\n{NEOVERSE_N1}\n" for k in range(os.cpu_count()))
    )
    python = ("qemu-aarch64", "-cpu", "neoverse-n1", "-L", root, root / "usr/bin/python3")
    with run_process(
        model, folder / "log", python=python, ready_s=READY_S, PYTHONPATH=str(wheels)
    ) as server:
        yield server.port


def print_answer(title: str, answer: dict[str, Any]) -> None:
    """Print a line on an answer of the server."""
    versions = "Python {python}, LiteRT {ai_edge_litert}".format(**answer["machine"])
    probabilities = " ".join(f"{probability:.6f}" for probability in answer["probabilities"])
    print(
        f"{title:13} {versions:30} grade {answer['most_probable_grade']} {probabilities}",
        flush=True,
    )


def main() -> int:
    """Print the answers; 1 where a grade differs from that of this process, or a probability by
    more than it may.
    """
    if missing := [
        package for program, package in PACKAGES.items() if not shutil.which(program)
    ]:
        sys.exit(f"not here, and needed: apt-get install {' '.join(missing)}")
    if os.geteuid():
        sys.exit("debootstrap and buildah need root: sudo make container")
    differs = False
    with tempfile.TemporaryDirectory() as parent:
        # in int8 a network that nobody trained makes much of how a processor rounds
        model = export_mobilenet(Path(parent), "litert_float32")
        photograph = draw_photograph(1024, 768)
        expected = Predictor(read_folder(model), 1)(photograph)
        print_answer("this process", expected)
        for title, serve in (("container", run_container), ("arm64", run_emulated)):
            with tempfile.TemporaryDirectory() as folder, serve(Path(folder), model) as port:
                answer = json.loads(post(port, photograph).body)
            print_answer(title, answer)
            pairs = zip(answer["probabilities"], expected["probabilities"], strict=True)
            difference = max(abs(there - here) for there, here in pairs)
            print(f"{title:13} differs by {difference:.1e}, may by {TOLERANCE:.0e}")
            differs |= (
                answer["most_probable_grade"] != expected["most_probable_grade"]
                or difference > TOLERANCE
            )
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
