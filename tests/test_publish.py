"""A notebook opened anywhere finds its library, and the repository's address stands once."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import get_args

import jupytext
import nbformat
import pytest
from pydantic_core import PydanticUndefined

from dr_lib.parameters import find_model
from tests.conftest import ROOT, commit

STEMS = [path.stem for path in sorted(ROOT.glob("notebooks/*.py"))]
GPU = {"10_train", "30_train_scenario", "40_mnist_cuda"}
LINE = r"local, .+, Keras on \w+, commit (unknown|[0-9a-f]{7,}(-dirty)?)"
COLAB = "https://colab.research.google.com/github/"
KAGGLE = "https://www.kaggle.com/notebooks/welcome?src=https://github.com/"


def read_setup(stem: str) -> str:
    """The two set-up cells of a notebook, the one that fetches the library and the one that finds
    it.
    """
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4).cells
    (place,) = [i for i, cell in enumerate(cells) if cell.source.startswith("## Setup")]
    return f"{cells[place + 1].source}\n\n{cells[place + 2].source}"


@pytest.fixture
def library(tmp_path) -> Path:
    """The repository somewhere where no notebook looks."""
    shutil.copytree(
        ROOT / "dr_lib",
        tmp_path / "far/suite/dr_lib",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path / "far" / "suite"


def run_setup(
    tmp_path: Path, cwd: Path, *, address: str = "", ref: str = "", **variables: str
) -> tuple[str, str, str]:
    """Run the set-up cell in a folder; its line, the root that it found, and its errors."""
    cwd.mkdir(parents=True, exist_ok=True)
    line = f'address, ref = "{address}", "{ref}"'
    code = re.sub(r"(?m)^address, ref = .*", line, read_setup("11_gpu_vs_tpu"))
    for place in ("/kaggle/input", "/content"):
        assert f'"{place}"' in code
        code = code.replace(f'"{place}"', f'"{tmp_path}{place}"')
    environment = {**os.environ, "PYTHONPATH": ""}
    environment.pop("DR_LIB_REPO", None)
    environment.update(variables)
    command = [sys.executable, "-c", f"{code}\nprint(root)"]
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    *warnings, line, root = ran.stdout.splitlines() or ("", "")
    return line, root, "\n".join([*warnings, ran.stderr])


@pytest.mark.parametrize("stem", STEMS)
def test_the_set_up_cells_are_short_and_need_nothing(stem):
    """At most 50 lines of the standard library, the same in all notebooks but for the packages
    they add.
    """
    code = read_setup(stem).splitlines()
    template = read_setup("00_start_here").splitlines()
    assert len(code) <= 50 and code[:-1] == template[:-1]
    ast.parse("\n".join(code), feature_version=(3, 9))
    names = set(re.findall(r"(?m)^ *(?:from|import) (\S+)", "\n".join(code)))
    assert names <= {*sys.stdlib_module_names, "dr_lib.report"}


@pytest.mark.parametrize("stem", STEMS)
def test_what_has_choices_is_a_field_of_colabs_form(stem):
    """By Colab's documented rule, `name = value  # @param [choices]` or `{type:"boolean"}`: the
    choices are the parameter's, and the default is one of them.
    """
    rule = r'(\w+): \w+ = (\S+)  # @param (\[.*?\]|\{type:"boolean"\})(  # .+)?'
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4).cells
    (cell,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    known = find_model(stem).model_fields
    for line in [line for line in cell.source.splitlines() if "@param" in line]:
        name, value, field, _ = re.fullmatch(rule, line).groups()
        if field.startswith("["):
            assert json.loads(field) == [*get_args(known[name].annotation)]
        assert known[name].default in (ast.literal_eval(value), PydanticUndefined)


def test_a_notebook_and_its_source_hold_the_same_cells_and_saving_changes_neither(tree):
    """As JupyterLab opens and saves them with jupytext, which takes the cells of the newer of the
    two.
    """
    notebooks = tree / "notebooks"
    before = read_tree(notebooks)
    for stem in STEMS:
        source = jupytext.read(notebooks / f"{stem}.py")
        notebook = nbformat.read(notebooks / f"{stem}.ipynb", as_version=4)
        assert [cell.source for cell in source.cells] == [c.source for c in notebook.cells]
    for newer in (".py", ".ipynb"):
        for path in notebooks.glob(f"*{newer}"):
            path.touch()
        files = sorted(map(str, notebooks.glob("*.ipynb")))
        subprocess.run(
            [sys.executable, "-m", "jupytext", "--sync", *files], cwd=tree, check=True
        )
    after = read_tree(notebooks)
    for stem in STEMS:
        assert after[f"{stem}.py"] == before[f"{stem}.py"]
        saved, was = (json.loads(files[f"{stem}.ipynb"])["cells"] for files in (after, before))
        assert [cell["source"] for cell in saved] == [cell["source"] for cell in was]


@pytest.mark.parametrize(
    ("library_at", "cwd"), [("repo", "repo/notebooks/deep"), ("home/any name", "home")]
)
def test_the_library_is_found_upwards_and_in_a_clone_beside(tmp_path, library, library_at, cwd):
    """Inside the repository, and with its clone next to the notebook, nothing is fetched; one
    line says where it is.
    """
    shutil.copytree(library, tmp_path / library_at)
    line, root, _ = run_setup(tmp_path, tmp_path / cwd)
    assert Path(root) == tmp_path / library_at
    assert re.fullmatch(LINE, line) and "commit unknown" in line


@pytest.mark.parametrize("place", ["slug", "datasets/someone/slug/a folder"])
def test_a_data_set_of_kaggle_that_holds_the_repository_is_copied(tmp_path, library, place):
    """Attached data sets cannot be written, and results have to be: a copy is made, once."""
    attached = tmp_path / "kaggle/input" / place
    shutil.copytree(library, attached)
    for path in (attached, *attached.rglob("*")):
        path.chmod(0o555)
    for _ in range(2):
        line, root, errors = run_setup(tmp_path, tmp_path / "working")
        assert Path(root) == tmp_path / "working/dr_repo" and re.fullmatch(LINE, line), errors
    assert all(path.stat().st_mode & 0o200 for path in (Path(root), *Path(root).rglob("*")))


@pytest.mark.parametrize(
    ("place", "kind", "folder"),
    [("content", "gztar", "suite"), ("kaggle/input/datasets/someone/slug", "zip", "")],
)
def test_an_archive_of_the_repository_is_unpacked_and_no_other(
    tmp_path, library, place, kind, folder
):
    """Zip or tar.gz, with a folder around it or without; photographs beside it stay where they
    are.
    """
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / "eyes").mkdir()
    (tmp_path / "eyes" / "eye.jpg").write_bytes(b"an eye")
    for name in ("a", "z"):  # before and behind it
        shutil.make_archive(tmp_path / place / name, kind, tmp_path / "eyes")
    (tmp_path / place / "broken.zip").write_bytes(b"PK")
    around = library.parent if folder else library
    shutil.make_archive(tmp_path / place / "suite-v1", kind, around, folder or None)
    line, root, errors = run_setup(tmp_path, tmp_path / "working")
    assert Path(root) == tmp_path / "working/dr_repo" and re.fullmatch(LINE, line), errors
    assert [path.name for path in (tmp_path / "working").iterdir()] == ["dr_repo"]
    assert [path.name for path in Path(root).iterdir()] == ["dr_lib"]
    assert f"{tmp_path / place}/broken.zip is incomplete, or no archive: upload it" in errors


@pytest.mark.parametrize("kind", ["zip", "gztar"])
def test_a_newer_archive_replaces_what_an_older_one_left(tmp_path, library, kind):
    """As on Colab, where the disk stays with the machine; one that was cut short is named, and
    changes nothing; results stay.
    """
    (tmp_path / "content").mkdir()
    (tmp_path / "content" / "table.csv.gz").write_bytes(b"no archive")

    def upload(name: str) -> Path:
        archive = shutil.make_archive(tmp_path / "content" / name, kind, library)
        after = time.time() + 5 * len(list((tmp_path / "content").iterdir()))
        os.utime(archive, (after, after))
        return Path(archive)

    def list_markers() -> list[str]:
        _, root, errors = run_setup(tmp_path, tmp_path / "content")
        assert Path(root) == tmp_path / "content" / "dr_repo"
        return [path.name for path in (Path(root) / "dr_lib").glob("v*.py")] + [errors]

    (library / "dr_lib" / "v1.py").touch()
    upload("suite")
    assert list_markers()[0] == "v1.py"
    row = tmp_path / "content" / "dr_repo" / "papermill_runs" / "adhoc" / "rows" / "a.json"
    row.parent.mkdir(parents=True)
    row.touch()
    (library / "dr_lib" / "v1.py").rename(library / "dr_lib" / "v2.py")
    newer = upload("suite (1)")
    assert list_markers()[0] == "v2.py" and row.exists()
    cut = newer.with_name(newer.name.replace("(1)", "(2)"))
    cut.write_bytes(newer.read_bytes()[: newer.stat().st_size * 6 // 10])
    os.utime(cut, (time.time() + 60,) * 2)
    marker, errors = list_markers()
    assert marker == "v2.py" and f"{cut} is incomplete" in errors
    assert "table.csv.gz" not in errors


def test_dr_lib_repo_names_a_folder_or_a_git_address(tmp_path, library):
    """The variable comes before what lies around; a git address is cloned, beside the notebook
    and once.
    """
    shutil.copytree(library, tmp_path / "home/older")
    assert run_setup(tmp_path, tmp_path / "home", DR_LIB_REPO=str(library))[1] == str(library)
    suite = str(tmp_path / "suite.git")
    commit(library, ["clone", "-q", "--bare", library, suite])
    for _ in range(2):
        line, root, errors = run_setup(tmp_path, tmp_path / "new", DR_LIB_REPO=suite, ref="v9")
        assert root == str(tmp_path / "new/dr_repo") and "commit unknown" not in line, errors


def test_a_published_notebook_clones_its_tag_or_commit_and_no_other(tmp_path, library):
    """The library of the same version comes, not the newest; the line names its commit. A version
    that is not there stops the notebook, and again when it is run again.
    """
    first = commit(library, ["tag", "v1"])
    (library / "dr_lib" / "later.py").write_text("")
    commit(library)
    address = str(library / ".git")
    for ref in ("v1", first):
        line, root, errors = run_setup(tmp_path, tmp_path / ref, address=address, ref=ref)
        assert re.search(r"commit (\w+)$", line)[1] == first[: len(line.split()[-1])], errors
        assert not (Path(root) / "dr_lib" / "later.py").exists()
    for _ in range(2):
        _, root, errors = run_setup(tmp_path, tmp_path / "new", address=address, ref="v9")
        assert root == "" and errors.splitlines()[-1].startswith("no dr_lib here")


@pytest.mark.parametrize("address", ["", "nowhere.git"])
def test_without_library_and_address_one_sentence_says_what_to_do(tmp_path, address):
    """No traceback, nothing left behind."""
    address = address and str(tmp_path / address)
    line, root, errors = run_setup(tmp_path, tmp_path / "new", address=address, ref="v1")
    assert (line, root) == ("", "") and "Traceback" not in errors
    assert not list((tmp_path / "new").iterdir())
    advice = "no dr_lib here: open or upload its repository, or set DR_LIB_REPO"
    assert errors.splitlines()[-1].startswith(advice)


@pytest.mark.parametrize("stem", STEMS)
def test_metadata_suit_colab_and_kaggle(stem):
    """A GPU where it is the aim, no saved outputs where photographs appear, and no image that
    would pin a machine.
    """
    path = ROOT / "notebooks" / f"{stem}.ipynb"
    metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
    colab = {"name": f"{stem}.ipynb", "provenance": [], "toc_visible": True}
    colab |= {"gpuType": "T4"} if stem in GPU else {}
    colab |= {"private_outputs": True} if stem[:2] in ("01", "12", "13", "22") else {}
    kaggle = {"isInternetEnabled": True, "language": "python", "sourceType": "notebook"}
    kaggle["accelerator"] = "nvidiaTeslaT4" if stem in GPU else "none"
    kaggle["isGpuEnabled"] = stem in GPU
    assert metadata["colab"] == colab and metadata["kaggle"] == kaggle
    assert metadata.get("accelerator") == ("GPU" if stem in GPU else None)
    assert metadata["language_info"]["name"] == "python"
    assert "docker" not in json.dumps(metadata)


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the repository."""
    folder = tmp_path_factory.mktemp("tree")
    listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def make(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run make in the copy, whose .venv is this one's."""
    command = ["make", "-o", ".venv/ready", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True)


def read_tree(tree: Path) -> dict[str, bytes]:
    """What stands in every file."""
    files = (
        path
        for path in sorted(tree.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in files}


def test_make_sync_changes_nothing(tree):
    """The repository is what the tool makes of it."""
    before = read_tree(tree)
    assert make(tree, "sync").returncode == 0
    changed = {path for path, _ in before.items() ^ read_tree(tree).items()}
    assert not changed, f"make sync changes {changed}"


def test_publish_writes_the_address_everywhere_and_takes_it_back(tree):
    """Badges whose notebooks are there, set-up cells, READMEs, citation; other values later;
    then none of it.
    """
    kinds = ("notebooks", "README", "CITATION", "pyproject")
    names = [name for name in read_tree(tree) if name.startswith(kinds)]
    make(tree, "publish", "URL=https://github.com/first/name", "REF=v0")
    ran = make(tree, "publish", "URL=https://github.com/some-lab/eyes.git", "REF=v1.2")
    assert ran.returncode == 0
    published = read_tree(tree)
    assert not any(b"first/name" in published[name] for name in names)
    for stem in STEMS:
        blob = f"some-lab/eyes/blob/v1.2/notebooks/{stem}.ipynb"
        assert blob.partition("v1.2/")[2] in published
        kaggle = f"{KAGGLE}{blob}" + "&accelerator=nvidiaTeslaT4" * (stem in GPU)
        files = [f"notebooks/{stem}.ipynb", f"notebooks/{stem}.py"]
        for name in [*files, "README.md", "README.pt-BR.md"]:
            text = published[name].decode()
            assert text.count(f"({COLAB}{blob})") == text.count(f"({kaggle})") == 1, name
        found = json.dumps('address, ref = "https://github.com/some-lab/eyes", "v1.2"\n')[1:-1]
        assert found in published[f"notebooks/{stem}.ipynb"].decode()
    clone = b"git clone https://github.com/some-lab/eyes && cd eyes\nmake demo"
    assert clone in published["README.pt-BR.md"]
    assert b"\nrepository-code: https://github.com/some-lab/eyes\n" in published["CITATION.cff"]
    project = tomllib.loads(published["pyproject.toml"].decode())
    assert project["project"]["urls"] == {"Repository": "https://github.com/some-lab/eyes"}
    make(tree, "publish", "URL=")
    bare = read_tree(tree)
    placeholder = "/".join(("OWNER", "REPO")).encode()
    text = b"".join(bare[name] for name in names)
    assert not re.search(b"some-lab|badge.svg|Repository =", text)
    assert not any(placeholder in content for content in (*bare.values(), *published.values()))


@pytest.mark.parametrize(
    "arguments",
    [
        ("URL=http://x",),
        ("URL=https://github.com/OWNER/NAME",),
        ("URL=https://github.com/a/b", "REF=-x"),
        (),
    ],
)
def test_a_bad_address_is_one_sentence(tree, arguments):
    """Nothing is written; without URL nothing is taken back either."""
    before = read_tree(tree)
    ran = make(tree, "publish", *arguments)
    assert ran.returncode and "URL=https://github.com/" in ran.stderr
    assert "Traceback" not in ran.stderr
    # the second is make's own
    assert len(ran.stderr.splitlines()) <= 2 and read_tree(tree) == before
