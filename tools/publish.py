"""Update what the repository repeats: address, badges, fetching cell and metadata of each notebook.

`python -m tools.publish` brings them in step with pyproject.toml, where address, ref and
kinds of notebooks stand once, and docs/rows.md with the schema of a row. `--url` and `--ref` change
the address first.
"""

import argparse
import inspect
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from dr_lib.files import write_text
from dr_lib.runs import schema

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "pyproject.toml"
READMES = (ROOT / "README.md", ROOT / "README.pt-BR.md")
# Colab and Kaggle open GitHub's
ADDRESS = r"https://github\.com/(?!OWNER/)[\w-]+/[\w.-]+#\w[\w./-]*"
# the cell that fetches the library where none is; a source holds it as a comment, which jupytext
# makes a cell of the notebook
FETCHES = r'(?m)^# %% tags=\["active-ipynb"\]\n(?:#.*\n)+\n'
MARK = '# %% tags=["active-ipynb"]\n'
SECTIONS = {  # of docs/rows.md
    "In every row": [schema.Run],
    "Work": [schema.Work],
    "Software stack": [schema.Stack, schema.Versions],
    "Hardware, as detected": [schema.Hardware],
    "Null if a run has none; seconds are on a monotonic clock": [schema.Measured],
    "In some rows": [schema.Details],
    "While the monitor ran; null if not measured": [schema.Monitored],
}
FETCH = """\
# on Colab and Kaggle: fetch the library, if none is here
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

address, ref = "ADDRESS", "REF"
cwd = Path.cwd()
repo = os.getenv("DR_LIB_REPO", address)
places = [cwd / repo, cwd, *cwd.parents, *sorted(cwd.glob("*"))]
root = next((d for d in places if os.path.isdir(d / "dr_lib")), cwd / "dr_repo")
made = os.path.getmtime(root) if os.path.isdir(root / "dr_lib") else 0
if root == cwd / "dr_repo":  # copy a data set, unpack the newest archive, or clone
    data = Path("/kaggle/input")
    found = [] if made else [*data.rglob("dr_lib/report")]
    with TemporaryDirectory() as unpacked:
        for path in sorted([*Path("/content").glob("*"), *data.rglob("*")], key=os.path.getmtime):
            is_archive = path.name.endswith((".zip", ".tar.gz")) and path.is_file()
            # a larger one holds photographs
            if is_archive and path.stat().st_size < 1e8 and os.path.getmtime(path) > made:
                try:
                    shutil.unpack_archive(path, Path(unpacked, path.name))
                    found += Path(unpacked, path.name).rglob("dr_lib/report")
                except Exception:
                    print(f"{path} is incomplete, or no archive: upload it again")
        for path in found[-1:]:
            shutil.rmtree(root / "dr_lib", ignore_errors=True)  # results stay
            subprocess.run(["cp", "-rT", "--no-preserve=mode", path.parents[1], root])
    version = ref if repo == address else "HEAD"
    steps = [["clone", "-qn", repo, root], ["-C", root, "checkout", "-q", version]]
    is_there = found or made
    if not is_there and (not repo or any(subprocess.call(["git", *step]) for step in steps)):
        sys.exit("no dr_lib here: open or upload its repository, or set DR_LIB_REPO to it")
"""


def main() -> None:
    """Change the address if requested, and update everything that depends on it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--url", help="https://github.com/OWNER/NAME, empty to remove the address"
    )
    parser.add_argument(
        "--ref", default="main", help="branch or tag that the notebooks open (main)"
    )
    options = parser.parse_args()
    if options.url is not None:
        set_address(options.url.removesuffix("/").removesuffix(".git"), options.ref)
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    address = project["project"]["urls"].get("Repository", "")
    table = project["tool"]["dr_lib"]
    code = f"repository-code: {address}\n"
    clone = f"git clone {address} && cd {Path(address).name}\n"
    change(
        ROOT / "CITATION.cff", r"(?m)^(?:repository-code: .*\n)?(?=license: )", address and code
    )
    for readme in READMES:
        change(readme, r"(?<=```sh\n)(?:git clone .*\n)?(?=make demo)", address and clone)
    fetch = FETCH.replace('"ADDRESS", "REF"', f'"{address}", "{table["ref"]}"')
    comment = "".join(f"# {line}".rstrip() + "\n" for line in fetch.splitlines())
    for source in sorted(ROOT.glob("notebooks/*.py")):
        kinds = [kind for kind in ("gpu", "photographs") if source.name[:2] in table[kind]]
        blob = f"{address}/blob/{table['ref']}/notebooks/{source.stem}.ipynb"
        write_badges(source, make_badges(blob, "gpu" in kinds) if address else [])
        change(source, FETCHES, f"{MARK}{comment}\n")
        write_notebook(source, kinds)
    write_columns(ROOT / "docs" / "rows.md")


def write_columns(page: Path) -> None:
    """Write the columns of a row from its schema."""
    lines = []
    for about, tables in SECTIONS.items():
        lines += [f"## {about}", "", "| column | type | unit | meaning |"]
        lines.append("| --- | --- | --- | --- |")
        source = "".join(map(inspect.getsource, tables))
        for name, kind, meaning in re.findall(r'(\w+): (\w+)\n    """(.+)"""', source):
            unit = schema.find_unit(name)
            lines.append(f"| `{name}` | {kind} | {unit} | {meaning} |")
        lines.append("")
    columns = "\n".join(lines)
    change(page, r"(?s)(?<=<!-- columns -->\n\n).*(?=<!-- /columns -->)", f"{columns}\n")


def set_address(url: str, ref: str) -> None:
    """Write the address into pyproject.toml, or remove it; SystemExit if it is invalid."""
    if url and not re.fullmatch(ADDRESS, f"{url}#{ref}"):
        raise SystemExit(
            f"{url} at {ref!r} is not a GitHub repository: give URL=https://github.com/WHOSE/NAME"
            " REF=v1"
        )
    line = url and f'Repository = "{url}"\n'
    change(PROJECT, r"(?<=\[project\.urls\]\n)(?:Repository = .*\n)?", line)
    change(PROJECT, r'(?m)^ref = ".*?"', f'ref = "{url and ref}"')


def make_badges(blob: str, has_gpu: bool) -> list[str]:
    """Make the Markdown links that open a GitHub notebook on Colab and on Kaggle."""
    colab = blob.replace("https://github.com", "https://colab.research.google.com/github")
    kaggle = f"https://www.kaggle.com/notebooks/welcome?src={blob}"
    kaggle += "&accelerator=nvidiaTeslaT4" if has_gpu else ""
    return [
        f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab})",
        f"[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]({kaggle})",
    ]


def write_badges(source: Path, badges: list[str]) -> None:
    """Write badges into the source of a notebook and into the READMEs."""
    lines = "".join(f"# {badge}\n" for badge in badges)
    # below the title
    change(source, r"\n#\n(?:(?:# \[!\[.*\n)+#\n)?", f"\n#\n{lines}#\n" if lines else "\n#\n")
    for readme in READMES:
        shown = " ".join([f"[{source.stem}](notebooks/{source.stem}.ipynb)", *badges])
        change(readme, rf"(?<=\| )\[{source.stem}\].*? (?=\|)", f"{shown} ")


def write_notebook(source: Path, kinds: Sequence[str]) -> None:
    """Generate a notebook from its source, with the metadata for Jupyter, Colab and Kaggle.

    Args:
        source: the .py.
        kinds: gpu, where a notebook wants one; photographs, where its outputs show some.
    """
    import jupytext
    import nbformat
    from jupytext.combine import combine_inputs_with_outputs

    path = source.with_suffix(".ipynb")
    notebook = jupytext.reads(source.read_text(encoding="utf-8"), "py:percent")
    if path.exists():  # cells that did not change keep their names
        notebook = combine_inputs_with_outputs(notebook, nbformat.read(path, as_version=4))
    has_gpu = "gpu" in kinds
    colab = {"name": path.name, "provenance": [], "toc_visible": True}
    if has_gpu:
        colab["gpuType"] = "T4"
    if "photographs" in kinds:
        colab["private_outputs"] = True  # Colab then saves none
    kaggle = {
        "accelerator": "nvidiaTeslaT4" if has_gpu else "none",
        "isGpuEnabled": has_gpu,
        "isInternetEnabled": True,
        "language": "python",
        "sourceType": "notebook",
    }
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "colab": colab,
        "kaggle": kaggle,
    }
    if has_gpu:
        notebook.metadata["accelerator"] = "GPU"
    write_text(path, nbformat.writes(notebook) + "\n")


def change(path: Path, pattern: str, replacement: str) -> None:
    """Replace the first match of a pattern in a file; SystemExit if there is none."""
    text = path.read_text(encoding="utf-8")
    changed, count = re.subn(pattern, lambda _: replacement, text, count=1)
    if not count:
        name = path.relative_to(ROOT)
        raise SystemExit(f"{name}: no place was found for {replacement.strip()!r}")
    write_text(path, changed)


if __name__ == "__main__":
    main()
