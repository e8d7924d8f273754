"""The commands of README and docs in a fresh clone, in their order, as a reader pastes them."""

import re
import shlex
import signal
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from tests.processes import is_ready, wait_until

ROOT = Path(__file__).resolve().parents[1]
# a page that goes on from another one stands behind it
FIRST = ["photographs", "training", "evaluation", "serving"]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in FIRST)]
PAGES += sorted({*ROOT.glob("docs/*.md")} - {*PAGES})
PAGES.append(ROOT / "README.pt-BR.md")
# network, account, a module of the reader's own
ELSEWHERE = (
    r"^(make |docker )|bin/(colab|kaggle) |pip install|jupyter lab|dr_lib environments"
    r"| --on |tools.bench_| own:"
)
# they need larger crops, more photographs, every fold, a private report, predictions, another port;
# the last are other options of what was run before
HELP = r"resolution.yaml|evaluate .*--folds|missed.csv|evaluate predictions| --port "
HELP += r"|evaluate .*--lang"
SHELL = set("cd curl docker git head make tar".split())  # what readers have without .venv
LITTLE = {
    "weights: imagenet": "weights: mobilenet.weights.h5",
    "image_size: 299": "image_size: 32",
    "epochs: 5": "epochs: 1",
    ", split-2-of-5.csv, split-3-of-5.csv, split-4-of-5.csv, split-5-of-5.csv": "",
}


def read_commands(readme: Path) -> list[str]:
    """The lines of all shell blocks, without comments, long lines in one piece."""
    text = readme.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = "".join(re.findall("(?s)```sh\n(.*?)```", text)).splitlines()
    return [" ".join(re.sub(r"\s#\s.*", "", line).split()) for line in lines]


def shorten(command: str, clone: Path) -> str:
    """What stands for a command that takes minutes or reads rows that nobody has: its plan, or
    its help.
    """
    if found := re.match(r"(.*?-m dr_lib) (\w+) (.*)", command):
        program, name, rest = found.groups()
        folders = [word for word in shlex.split(rest) if word.startswith("papermill_runs/")]
        if re.search(HELP, command):
            return f"{program} {name} --help"
        if name == "run" and "grades.yaml" not in rest:
            return f"{program} plan {folders[0]}"
        if name != "plan" and not all(list(clone.glob(folder)) for folder in folders):
            return f"{program} {name} --help"
    return command


def test_git_ignores_what_the_commands_read_and_write():
    """Photographs, labels with patients' names, and all results."""
    commands = [command for page in PAGES for command in read_commands(page)]
    text = "\n".join(command for command in commands if "tools.bench_" not in command)
    found = re.findall(r"(?:--out|--images|--labels|--records|_PRICES)[ =](\S+)", text)
    paths = {path.strip("/") for path in found}
    command = ["git", "check-ignore", *paths, *(f"{path}/" for path in paths)]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert len(paths) > 8 and {path.strip("/") for path in ignored} == paths


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_is_found_without_an_activated_environment(page):
    """What pip brings is called by its place in .venv; no command but the system's own is
    expected on the PATH.
    """
    lines = [line for command in read_commands(page) for line in re.split(r"[;|&]+", command)]
    programs = [re.sub(r"^(\w+=\S* )+", "", line.strip()).split()[:1] for line in lines]
    names = {name for (name,) in filter(None, programs)}
    assert not {name for name in names - SHELL if not name.startswith(".venv/bin/")}


@pytest.fixture
def photographs(tmp_path) -> Path:
    """A clone with two folders of drawn photographs, one prepared, and the study of the README
    made small.
    """
    from dr_lib.data.synthetic import draw_sample
    from dr_lib.training.models import build_model

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    (clone / ".venv").symlink_to(ROOT / ".venv")
    drawn = draw_sample(tmp_path / "drawn", num_patients=40, workers=0)
    (drawn / "images").rename(clone / "photographs")
    table = pd.read_csv(drawn / "labels.csv")[["image", "grade"]]
    table["image"] = table["image"].map(lambda image: Path(image).name)
    table.to_csv(clone / "labels.csv", index=False)
    study = clone / "papermill_runs" / "grades.yaml"
    text = study.read_text()
    for there, here in LITTLE.items():
        assert there in text
        text = text.replace(there, here)
    study.write_text(text)
    base = build_model("mobilenet", 32).get_layer("base")
    base.save_weights(clone / "mobilenet.weights.h5")
    return clone


@pytest.mark.slow
def test_each_command_can_be_pasted_behind_the_one_before(photographs):
    """From photographs to a served model and its evaluation; what takes minutes is planned, or
    shows its help.
    """
    clone = photographs
    server = None
    done = []
    try:
        lines = [command for page in PAGES for command in read_commands(page)]
        for command in filter(None, dict.fromkeys(lines)):
            sent = re.search(r"curl .*@(\w\S*)", command)
            if re.search(ELSEWHERE, command) or (sent and not (clone / sent[1]).exists()):
                continue
            command = shorten(command, clone)
            notebook = re.search(r"notebooks/\S+", command)
            # other parameters of a notebook that was run are in test_pages.py
            if notebook and any(notebook[0] in other for other in done):
                continue
            if " serve " in command and "--help" not in command:
                server = subprocess.Popen(shlex.split(command), cwd=clone)
                wait_until(lambda ended=server.poll: is_ready(8080) or ended() is not None, 60)
                assert server.poll() is None
                continue
            if "data/other" in command:  # another hospital's
                run("mv photographs others; cp -r others photographs", clone)
                run(command_of("prepare", done).replace("data/prepared", "data/other"), clone)
            # 80 drawn photographs cannot show that a format is as good; one is served
            if " export " in command:
                command += " --force --format litert_float32"
            if " load http" in command:  # as many requests, without the pauses of two minutes
                command += " --seconds 5" if "--rate" in command else " --gap 0"
            if "10_train" in command or "40_mnist_cuda" in command:
                command += " -p epochs 1"
            result = run(command, clone, check=False)
            # the plan of paper A names the command that divides the data as it did
            is_told = " plan " in command and "split data/prepared --scheme" in result.stderr
            assert is_told or result.returncode == 0, (
                f"{command}\n{result.stdout}\n{result.stderr}"
            )
            done.append(command)
    finally:
        if server:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
    assert server and server.returncode == 0 and len(done) > 15


def run(command: str, clone: Path, check: bool = True) -> subprocess.CompletedProcess:
    """Run one command as a shell does, in the clone."""
    where = {"cwd": clone, "capture_output": True, "text": True, "timeout": 600, "check": check}
    return subprocess.run(["bash", "-c", command], **where)


def command_of(name: str, done: list[str]) -> str:
    """The command of that name that was run."""
    return next(command for command in done if f"dr_lib {name} " in command)
