"""Fill docs/gallery.md: python -m tools.gallery runs its commands and makes what its marks name.

That is a figure, a figure of a notebook by its number (or the last), the first screen of a report,
or a table of one by its caption. Runs that are there are kept; to measure them again, delete their
folders below papermill_runs.
"""

import base64
import re
import shutil
import subprocess
import tempfile
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path

import nbformat
import pandas as pd
from PIL import Image

from dr_lib import hardware
from dr_lib.code import read_commit
from dr_lib.errors import DrError
from dr_lib.runs.row import read_runs
from tests.processes import find_port
from tests.test_readme import ROOT, read_commands
from tools.measured import write_origin

PAGE = ROOT / "docs" / "gallery.md"
PICTURES = PAGE.with_suffix("")
MARK = re.compile(r"(?s)(<!-- (papermill_runs/\S+)(?: ([^>\n]+?))? -->\n).*?(?=<!-- / -->)")
LIMIT = 80_000  # bytes of a picture
SIDE = 1100  # of a picture, the longer one at most [px]


def make(command: str) -> None:
    """Run a command as a shell does; what `plan` prints is run too, a run's machines together."""
    print(command, flush=True)
    if " plan " not in command:
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True)
        return
    coordinator = f"DR_LIB_COORDINATOR=127.0.0.1:{find_port()}"
    printed = subprocess.check_output(command.split(), cwd=ROOT, text=True).split("\n")
    for _, lines in groupby(filter(None, printed), lambda line: line.split()[-1]):
        shells = [["bash", "-c", f"{coordinator}; {line}"] for line in lines]
        machines = [subprocess.Popen(shell, cwd=ROOT) for shell in shells]
        if any([machine.wait() for machine in machines]):
            raise DrError(f"{command}: a machine failed")


def open_picture(path: Path, number: int) -> Image.Image:
    """A figure, one of a notebook by its number, or the first screen of a report, which is
    kept too.
    """
    if path.suffix == ".png":
        return Image.open(path)
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, "drawn.png")
        if path.suffix == ".ipynb":
            cells = nbformat.read(path, as_version=4).cells
            outputs = [output for cell in cells for output in cell.get("outputs", [])]
            shown = [output.get("data", {}) for output in outputs]
            pictures = [data["image/png"] for data in shown if "image/png" in data]
            drawn.write_bytes(base64.b64decode(pictures[number]))
        else:
            browser = shutil.which("chromium") or shutil.which("google-chrome")
            if not browser:
                raise DrError("the picture of a report needs chromium or google-chrome")
            options = f"--headless --no-sandbox --disable-gpu --user-data-dir={folder}/browser"
            options += f" --hide-scrollbars --window-size=1000,830 --screenshot={drawn}"
            command = [browser, *options.split(), path.as_uri()]
            subprocess.run(command, check=True, timeout=120, stderr=subprocess.DEVNULL)
            shutil.copy(path, PICTURES / f"{path.parent.name}-report.html")
        return Image.open(drawn).copy()


def shrink(picture: Image.Image, path: Path) -> None:
    """Save a picture with a palette, below the limit, and as large as that allows."""
    for side in range(SIDE, 300, -50):
        small = picture.convert("RGB")
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        # the median cut, Pillow's own choice, makes rare colours grey; kmeans spares crops bands
        kind = Image.Quantize.MAXCOVERAGE
        small = small.quantize(96, kind, kmeans=1, dither=Image.Dither.NONE)
        small.save(path, optimize=True)
        if path.stat().st_size < LIMIT:
            return
    raise DrError(f"{path.name} does not fit into {LIMIT} bytes")


def describe(source: str) -> str:
    """The machine as it was detected, n, the day and the commit of what a command wrote."""
    study, *folders = Path(source).parts[1:-1]
    if study == "sample":
        facts = hardware.probe().describe()
        row = {**facts, "started_at": str(date.today()), "commit": read_commit(ROOT)}
        drawn = len(pd.read_csv(ROOT / "papermill_runs/sample/records/labels.csv"))
        n = "1 photograph" if "start" in source else f"{drawn} photographs"
        return write_origin(pd.DataFrame([row]), n)
    rows = read_runs(ROOT / "papermill_runs" / study)
    rows = rows[rows["status"] == "ok"]
    if not folders:
        return write_origin(rows, f"{len(rows)} runs")
    # of the first run alone, in which no time counts
    (path,) = ROOT.glob(f"papermill_runs/{study}/runs/C1-r00-*/predictions.csv")
    num_patients = pd.read_csv(path).query("split == 'test'")["patient_id"].nunique()
    return write_origin(rows[:1].drop(columns="disturbed"), f"{num_patients} patients")


def find_table(report: str, caption: str) -> str:
    """The table of a report whose caption begins so, without its number."""
    for table in re.findall(r"(?s)<table>.*?</table>", report):
        text = re.sub(r"<strong>.*?</strong> ", "", table, count=1)
        if f"<caption>{caption}" in text:
            return text.replace("<tr>", "\n<tr>")
    raise DrError(f"no table of the report has the caption {caption}")


def fill(origins: dict[str, str], mark: re.Match) -> str:
    """What a mark names and, below it, where that comes from."""
    head, source, caption = mark.groups()
    if caption and not caption.isdigit():
        table = find_table((ROOT / source).read_text(encoding="utf-8"), caption)
        return f"{head}{table}\n\n{origins[source]}\n"
    name = "-".join(Path(source).with_suffix(".png").parts[-2:])
    shrink(open_picture(ROOT / source, int(caption or -1)), PICTURES / name)
    title = mark.string[: mark.start()].rpartition("\n## ")[2].partition("\n")[0]
    return f"{head}![{title}](gallery/{name})\n\n{origins[source]}\n"


if __name__ == "__main__":
    for command in dict.fromkeys(filter(None, read_commands(PAGE))):
        make(command)
    PICTURES.mkdir(exist_ok=True)
    page = PAGE.read_text(encoding="utf-8")
    # before a picture is written, which changes the commit
    origins = {mark[2]: describe(mark[2]) for mark in MARK.finditer(page)}
    PAGE.write_text(MARK.sub(partial(fill, origins), page), encoding="utf-8")
