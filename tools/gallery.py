"""Fill docs/gallery.md and papermill_runs/examples: python -m tools.gallery runs the page's
commands, and makes what its marks name.

That is a figure, a figure of a notebook by its number (or the last), or the first screen of a
report. Runs that are there are kept; to measure them again, delete their folders below
papermill_runs.
"""

import base64
import io
import re
import shutil
import subprocess
import tempfile
from datetime import date
from functools import partial
from pathlib import Path

import nbformat
import pandas as pd
from PIL import Image

from dr_lib import hardware
from dr_lib.code import read_commit, shorten_commit
from dr_lib.errors import DrError
from dr_lib.runs.row import read_runs
from tests.test_readme import ROOT, read_commands

PAGE = ROOT / "docs" / "gallery.md"
PICTURES = PAGE.with_suffix("")
EXAMPLES = ROOT / "papermill_runs" / "examples"
MARK = re.compile(r"(?s)(<!-- (papermill_runs/\S+)(?: (\d+))? -->\n).*?(?=<!-- / -->)")
LIMIT = 80_000  # bytes of a picture
SIDE = 1100  # of a picture, the longer one at most [px]


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


def shrink(picture: Image.Image, path: Path, limit: int = LIMIT) -> None:
    """Save a picture with a palette, below the limit, and as large as that allows."""
    for side in range(SIDE, 300, -50):
        small = picture.convert("RGB")
        small.thumbnail((side, side), Image.Resampling.LANCZOS)
        # the median cut, Pillow's own choice, makes rare colours grey; kmeans spares crops bands
        kind = Image.Quantize.MAXCOVERAGE
        small = small.quantize(96, kind, kmeans=1, dither=Image.Dither.NONE)
        small.save(path, optimize=True)
        if path.stat().st_size < limit:
            return
    raise DrError(f"{path.name} does not fit into {limit} bytes")


def describe(source: str) -> str:
    """The machine as it was detected, how many runs, the day and the commit."""
    study = Path(source).parts[1]
    if study == EXAMPLES.name:
        facts = hardware.probe().describe()
        rows = pd.DataFrame([facts | {"started_at": str(date.today())}])
        rows = rows.assign(commit=read_commit(ROOT), disturbed=False)
    else:
        rows = read_runs(ROOT / "papermill_runs" / study)
        rows = rows[rows["status"] == "ok"]
    last = rows.sort_values("started_at").iloc[-1]
    machine = f"{last['cpu']}, {last['num_cpus']} CPUs, {last['memory_gib']:.0f} GiB"
    commits = ", ".join(sorted(set(rows["commit"].map(shorten_commit))))
    disturbed = int(rows["disturbed"].sum())
    runs = f"runs: {len(rows)}, {disturbed} disturbed"
    return f"{machine}; {runs}; {last['started_at'][:10]}; commit {commits}"


def fill(origins: dict[str, str], mark: re.Match) -> str:
    """The picture that a mark names and, below it, where that comes from."""
    head, source, number = mark.groups()
    name = "-".join(Path(source).with_suffix(".png").parts[-2:])
    shrink(open_picture(ROOT / source, int(number or -1)), PICTURES / name)
    title = mark.string[: mark.start()].rpartition("\n## ")[2].partition("\n")[0]
    return f"{head}![{title}](gallery/{name})\n\n{origins[source]}\n"


def finish_example(path: Path, origin: str) -> None:
    """Write above an executed notebook where it comes from, and make its pictures small."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":  # without what frameworks log
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                picture = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
                with tempfile.TemporaryDirectory() as folder:
                    small = Path(folder, "small.png")
                    shrink(picture, small, LIMIT * 3 // 4)
                    data["image/png"] = base64.b64encode(small.read_bytes()).decode()
    text = f"Executed by `make gallery` on the synthetic sample. {origin}"
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text, id="origin"))
    nbformat.write(notebook, path)


if __name__ == "__main__":
    EXAMPLES.mkdir(exist_ok=True)
    PICTURES.mkdir(exist_ok=True)
    for command in dict.fromkeys(filter(None, read_commands(PAGE))):
        print(command, flush=True)
        subprocess.run(["bash", "-c", command], cwd=ROOT, check=True)
    page = PAGE.read_text(encoding="utf-8")
    # before a picture is written, which changes the commit
    origins = {mark[2]: describe(mark[2]) for mark in MARK.finditer(page)}
    origin = describe(f"papermill_runs/{EXAMPLES.name}/")
    PAGE.write_text(MARK.sub(partial(fill, origins), page), encoding="utf-8")
    for example in EXAMPLES.glob("*.ipynb"):
        finish_example(example, origin)
