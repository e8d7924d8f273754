"""A notebook opened anywhere finds its library, and the repository's address stands once."""

import ast
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

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


def test_a_data_set_of_kaggle_that_holds_the_repository_is_copied(tmp_path, library):
    """Attached data sets cannot be written, and results have to be: a copy is made, once."""
    attached = tmp_path / "kaggle/input/datasets/someone/slug"
    shutil.copytree(library, attached)
    for path in (attached, *attached.rglob("*")):
        path.chmod(0o555)
    for _ in range(2):
        line, root, errors = run_setup(tmp_path, tmp_path / "working")
        assert Path(root) == tmp_path / "working/dr_repo" and re.fullmatch(LINE, line), errors
    assert all(path.stat().st_mode & 0o200 for path in Path(root).rglob("*"))


@pytest.mark.parametrize(
    ("place", "kind"), [("content", "gztar"), ("kaggle/input/datasets/someone/slug", "zip")]
)
def test_the_newest_archive_of_the_repository_is_unpacked(tmp_path, library, place, kind):
    """Photographs beside it stay where they are, and results of an older one; an upload that was
    cut short is named, and changes nothing.
    """
    folder = tmp_path / place
    folder.mkdir(parents=True)
    (tmp_path / "eyes").mkdir()
    (tmp_path / "eyes" / "eye.jpg").write_bytes(b"an eye")
    shutil.make_archive(folder / "z", kind, tmp_path / "eyes")
    later = time.time()
    for version in ("v1", "v2"):
        (library / "dr_lib" / "version.py").write_text(version)
        archive = Path(shutil.make_archive(folder / version, kind, library))
        later += 10
        os.utime(archive, (later, later))
        _, root, errors = run_setup(tmp_path, tmp_path / "working")
        assert Path(root, "dr_lib", "version.py").read_text() == version, errors
        Path(root, "results").touch()
    cut = folder / archive.name.replace("v2", "v3")
    cut.write_bytes(archive.read_bytes()[:1000])
    os.utime(cut, (later + 10, later + 10))
    _, root, errors = run_setup(tmp_path, tmp_path / "working")
    assert f"{cut} is incomplete, or no archive: upload it" in errors
    assert Path(root, "dr_lib", "version.py").read_text() == "v2"
    assert {path.name for path in Path(root).iterdir()} == {"dr_lib", "results"}


def test_a_published_notebook_clones_its_tag_or_commit_and_no_other(tmp_path, library):
    """The library of the same version comes, not the newest; the line names its commit. A version
    that is not there stops the notebook. DR_LIB_REPO comes before the address.
    """
    first = commit(library, ["tag", "v1"])
    (library / "dr_lib" / "later.py").write_text("")
    commit(library)
    address = str(library / ".git")
    for ref in ("v1", first):
        line, root, errors = run_setup(tmp_path, tmp_path / ref, address=address, ref=ref)
        assert re.search(r"commit (\w+)$", line)[1] == first[: len(line.split()[-1])], errors
        assert not Path(root, "dr_lib", "later.py").exists()
    _, root, errors = run_setup(tmp_path, tmp_path / "new", address=address, ref="v9")
    assert root == "" and errors.splitlines()[-1].startswith("no dr_lib here")
    _, root, _ = run_setup(tmp_path, tmp_path / "own", address="x", DR_LIB_REPO=str(library))
    assert root == str(library)


@pytest.mark.parametrize("address", ["", "nowhere.git"])
def test_without_library_and_address_one_sentence_says_what_to_do(tmp_path, address):
    """No traceback, nothing left behind."""
    address = address and str(tmp_path / address)
    line, root, errors = run_setup(tmp_path, tmp_path / "new", address=address, ref="v1")
    assert (line, root) == ("", "") and "Traceback" not in errors
    assert not list((tmp_path / "new").iterdir())
    advice = "no dr_lib here: open or upload its repository, or set DR_LIB_REPO"
    assert errors.splitlines()[-1].startswith(advice)


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


@pytest.mark.parametrize("stem", STEMS)
def test_metadata_suit_colab_and_kaggle(stem):
    """A GPU where it is the aim, and no saved outputs where photographs appear."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4)
    has_photographs = stem[:2] in ("01", "12", "13", "22")
    assert notebook.metadata.colab.get("private_outputs", False) == has_photographs
    assert notebook.metadata.kaggle.isGpuEnabled == (stem in GPU)
    assert notebook.metadata.get("accelerator") == ("GPU" if stem in GPU else None)


def test_make_sync_changes_nothing(tree):
    """The repository is what the tool makes of it."""
    before = read_tree(tree)
    assert make(tree, "sync").returncode == 0
    changed = {path for path, _ in before.items() ^ read_tree(tree).items()}
    assert not changed, f"make sync changes {changed}"


def test_publish_writes_the_address_everywhere_and_takes_it_back(tree):
    """Badges, set-up cells, READMEs, citation; other values later; then none of it."""
    kinds = ("notebooks", "README", "CITATION", "pyproject")
    before = read_tree(tree)
    make(tree, "publish", "URL=https://github.com/first/name", "REF=v0")
    make(tree, "publish", "URL=https://github.com/some-lab/eyes.git", "REF=v1.2")
    published = {
        name: text.decode() for name, text in read_tree(tree).items() if name.startswith(kinds)
    }
    assert not any("first/name" in text for text in published.values())
    for stem in STEMS:
        blob = f"some-lab/eyes/blob/v1.2/notebooks/{stem}.ipynb"
        kaggle = f"{KAGGLE}{blob}" + "&accelerator=nvidiaTeslaT4" * (stem in GPU)
        for name in (
            f"notebooks/{stem}.ipynb",
            f"notebooks/{stem}.py",
            "README.md",
            "README.pt-BR.md",
        ):
            text = published[name]
            assert text.count(f"({COLAB}{blob})") == text.count(f"({kaggle})") == 1, name
        found = 'address, ref = "https://github.com/some-lab/eyes", "v1.2"'
        assert found in published[f"notebooks/{stem}.py"]
    clone = "git clone https://github.com/some-lab/eyes && cd eyes\nmake demo"
    assert clone in published["README.pt-BR.md"]
    assert "\nrepository-code: https://github.com/some-lab/eyes\n" in published["CITATION.cff"]
    make(tree, "publish", "URL=")
    assert read_tree(tree) == before


@pytest.mark.parametrize(
    "arguments", [("URL=http://x",), ("URL=https://github.com/OWNER/NAME",), ()]
)
def test_a_bad_address_is_one_sentence(tree, arguments):
    """Nothing is written; without URL nothing is taken back either."""
    before = read_tree(tree)
    ran = make(tree, "publish", *arguments)
    assert ran.returncode and "URL=https://github.com/" in ran.stderr
    assert "Traceback" not in ran.stderr and read_tree(tree) == before
