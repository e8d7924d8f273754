"""Write docs/gallery.md and its pictures: python -m tests.gallery, by the commands that it shows.

Runs that are there are kept; to measure anew, delete their folders below papermill_runs.
"""

import base64
import shutil
import socket
import subprocess
import tempfile
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import nbformat
import pandas as pd
from PIL import Image

from dr_lib import hardware
from dr_lib.errors import DrError
from dr_lib.processes import read_commit
from dr_lib.runs.row import read_runs
from tests.measured import write_origin

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "gallery"
SAMPLE = ROOT / "papermill_runs" / "sample" / "records" / "labels.csv"
LIMIT = 80_000  # bytes of a picture
SIDE = 1100  # of a picture, the longer one at most [px]
PROGRAM = ".venv/bin/python -m dr_lib"
INTRODUCTION = """# Gallery

What comes out, before you install anything. `make gallery` made this page and its pictures by the
commands shown here. All photographs and images are **synthetic**: times count here, scores say
nothing about patients. A run is *disturbed* if other processes took more than 10 % of the CPU: its
time is not that of a quiet machine. Figures that show each run draw it hollow.
"""


class Entry(NamedTuple):
    """A section of the page: what was typed, and which of the results is shown."""

    title: str
    words: str
    commands: tuple[str, ...]
    rows: str  # folder of the rows that are shown, empty where there are none
    picture: str = ""  # path of what a command wrote: a figure, a notebook or a report
    table: str = ""  # caption of a table in the report of the rows
    counted: str = "runs"


def ask(study: str) -> tuple[str, str]:
    """The commands that run a study and report it."""
    folder = f"papermill_runs/{study}"
    return f"{PROGRAM} run {folder}.yaml", f"{PROGRAM} report {folder}"


EVALUATE = (
    f"{PROGRAM} run papermill_runs/demo.yaml",
    f"{PROGRAM} evaluate papermill_runs/demo/runs/C1-r00-*/predictions.csv"
    " --out papermill_runs/demo/evaluation",
)
SERVE = ask("serving_demo")
SCALE = (f"{PROGRAM} plan papermill_runs/scaling_demo.yaml --commands", ask("scaling_demo")[1])
ENTRIES = (
    Entry(
        "Crops",
        "Photographs cropped to their field of view: of each grade, and of each status that a crop"
        " can have in the sample.",
        (".venv/bin/papermill notebooks/01_prepare_fundus.ipynb out.ipynb -p num_shown 16",),
        "",
        "out.ipynb",
        counted="photographs",
    ),
    Entry(
        "Training time",
        "Figure 1 of a study of trainings: the machine at hand above the means that Araújo et al."
        " printed.",
        ask("demo"),
        "demo",
        "papermill_runs/demo/figure_1.png",
    ),
    Entry(
        "ROC curve",
        "How well one of these models refers, with its frozen operating points.",
        EVALUATE,
        "demo",
        "papermill_runs/demo/evaluation/roc.png",
        counted="patients",
    ),
    Entry(
        "Calibration",
        "Whether its probabilities are true.",
        EVALUATE,
        "demo",
        "papermill_runs/demo/evaluation/calibration.png",
        counted="patients",
    ),
    Entry(
        "Effects of factors",
        "By how much each level multiplies the time of an epoch.",
        ask("scenarios_demo"),
        "scenarios_demo",
        "papermill_runs/scenarios_demo/effects.png",
    ),
    Entry(
        "Serving time",
        "The time of a prediction in two formats, above the machines of Camargo et al. Each run is"
        " a new server with an untrained network.",
        SERVE,
        "serving_demo",
        "papermill_runs/serving_demo/figure_2_mobilenet.png",
    ),
    Entry(
        "Serving cost",
        "What a million predictions cost on a machine that is never idle. The instance names the"
        " price alone: the machine is the one below.",
        SERVE,
        "serving_demo",
        table="Costs from our times",
    ),
    Entry(
        "CUDA C and Keras",
        "The speed-up of CUDA C over Keras in equal and in unlike batches. This machine has no GPU:"
        " the CUDA C program was built for its CPU, and the original's way, which needs a GPU, was"
        " not measured.",
        ask("mnist_demo"),
        "mnist_demo",
        "papermill_runs/mnist_demo/figure_2.png",
    ),
    Entry(
        "Several machines",
        "Every command that `plan` prints was started, with `DR_LIB_COORDINATOR` on 127.0.0.1: the"
        " machines are processes of one, which share its cores. This rehearsal shows what joining"
        " costs; the speed-up of real machines was not measured.",
        SCALE,
        "scaling_demo",
        table="An epoch by the number of machines",
    ),
    Entry(
        "A report",
        "The first page of [a report](gallery/report.html), one file that holds its figures and"
        " tables. To read all of it, download it and open it in a browser.",
        ask("demo"),
        "demo",
        "papermill_runs/demo/report.html",
    ),
)


def make(command: str) -> None:
    """Run a command as a shell does; what `plan` prints is run too, a run's machines together."""
    print(command, flush=True)
    if " plan " not in command:
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True)
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"DR_LIB_COORDINATOR=127.0.0.1:{free.getsockname()[1]}"
    printed = subprocess.check_output(command.split(), cwd=ROOT, text=True).split("\n")
    for _, lines in groupby(filter(None, printed), lambda line: line.split()[-1]):
        shells = [["bash", "-c", f"{coordinator}; {line}"] for line in lines]
        machines = [subprocess.Popen(shell, cwd=ROOT) for shell in shells]
        if any([machine.wait() for machine in machines]):
            raise DrError(f"{command}: a machine failed")


def open_picture(path: Path) -> Image.Image:
    """A figure, the last one of a notebook, or the first page of a report."""
    if path.suffix == ".png":
        return Image.open(path)
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, "drawn.png")
        if path.suffix == ".ipynb":
            cells = nbformat.read(path, as_version=4).cells
            outputs = [output for cell in cells for output in cell.get("outputs", [])]
            data = [output.data for output in outputs if "data" in output]
            pictures = [kinds["image/png"] for kinds in data if "image/png" in kinds]
            drawn.write_bytes(base64.b64decode(pictures[-1]))
        else:
            browser = shutil.which("chromium") or shutil.which("google-chrome")
            if not browser:
                raise DrError("the picture of a report needs chromium or google-chrome")
            options = f"--headless --no-sandbox --disable-gpu --user-data-dir={folder}/browser"
            options += f" --hide-scrollbars --window-size=1000,{SIDE} --screenshot={drawn}"
            command = [browser, *options.split(), path.as_uri()]
            subprocess.run(command, check=True, timeout=120, stderr=subprocess.DEVNULL)
            shutil.copy(path, PICTURES)
        return Image.open(drawn).copy()


def shrink(picture: Image.Image, path: Path) -> None:
    """Save a picture with a palette, below the limit, and as large as that allows."""
    for side in range(SIDE, 300, -50):
        small = picture.convert("RGB")
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        # the median cut, Pillow's own choice, makes rare colours grey
        small = small.quantize(96, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        small.save(path, optimize=True)
        if path.stat().st_size < LIMIT:
            return
    raise DrError(f"{path.name} does not fit into {LIMIT} bytes")


def find_table(report: Path, caption: str) -> str:
    """The table above a caption, as the report has it."""
    before, found, _ = report.read_text(encoding="utf-8").partition(caption)
    if not found:
        raise DrError(f"{report} has no table {caption}")
    return before[before.rindex("<table") : before.rindex("</table>")] + "</table>"


def describe(entry: Entry) -> str:
    """The machine as it was detected, n, the day and the commit."""
    if not entry.rows:
        facts = hardware.probe().describe()
        row = {**facts, "started_at": str(date.today()), "commit": read_commit(ROOT)}
        return write_origin(pd.DataFrame([row]), f"{len(pd.read_csv(SAMPLE))} {entry.counted}")
    rows = read_runs(ROOT / "papermill_runs" / entry.rows)
    rows = rows[rows["status"] == "ok"]
    count = f"{len(rows)} {entry.counted}"
    if entry.counted == "patients":  # no time is shown that could be disturbed
        rows = rows[rows["run_id"].str.startswith("C1-r00-")].drop(columns="disturbed")
        (path,) = (ROOT / "papermill_runs" / entry.rows).glob("runs/C1-r00-*/predictions.csv")
        predictions = pd.read_csv(path)
        test = predictions[predictions["split"] == "test"]
        count = f"{test['patient_id'].nunique()} {entry.counted}"
    return write_origin(rows, count)


def write_page() -> None:
    """Run every command once, then write the pictures and the page."""
    for command in dict.fromkeys(command for entry in ENTRIES for command in entry.commands):
        make(command)
    PICTURES.mkdir(exist_ok=True)
    sections = [INTRODUCTION]
    for entry in ENTRIES:
        if entry.table:
            report = ROOT / "papermill_runs" / entry.rows / "report.html"
            shown = find_table(report, entry.table)
        else:
            name = f"{entry.title.lower().replace(' ', '_')}.png"
            shrink(open_picture(ROOT / entry.picture), PICTURES / name)
            shown = f"![{entry.title}](gallery/{name})"
        commands = "\n".join(entry.commands)
        sections.append(
            f"## {entry.title}\n\n{entry.words}\n\n{shown}\n\n{describe(entry)}\n\n"
            f"```sh\n{commands}\n```\n"
        )
    text = "\n".join(sections)
    (ROOT / "docs" / "gallery.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_page()
