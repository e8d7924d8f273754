"""Which code made a row: its content and its commit, in small repositories under git."""

import shutil
from pathlib import Path

import nbformat
import pytest

from dr_lib.code import explain_commit, hash_code, read_commit
from tests.conftest import commit

FACTOR = "epochs: int = 3  # passes\nrepetition: int = 0  # index\n"
BODY = "import dr_lib.a\n\nprint(dr_lib.a.TWO)"


@pytest.fixture
def root(tmp_path) -> Path:
    """A repository with a library of two subjects, a notebook and a study."""
    root = tmp_path / "Ana Maria"
    texts = {
        "dr_lib/a.py": "ONE = 1\nTWO = 2\n",
        "dr_lib/report/b.py": "RED = 3\n",
        "dr_lib/runs/prices.csv": "usd\n1\n",
        "papermill_runs/grades.yaml": "notebook: n\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    cells = [
        nbformat.v4.new_markdown_cell("# Train"),
        nbformat.v4.new_code_cell(FACTOR, metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(BODY),
    ]
    (root / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), root / "notebooks/n.ipynb")
    commit(root)
    return root


def edit(root: Path, name: str, old: bytes, new: bytes) -> None:
    """Replace a part of a file."""
    content = (root / name).read_bytes()
    assert old in content
    (root / name).write_bytes(content.replace(old, new))


def execute(root: Path) -> None:
    """Do what Jupyter and papermill do to a notebook that is run in place."""
    path = root / "notebooks/n.ipynb"
    notebook = nbformat.read(path, 4)
    tags = {"tags": ["injected-parameters"]}
    notebook.cells.insert(2, nbformat.v4.new_code_cell("epochs = 9", metadata=tags))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"new{number}"
        if cell.cell_type == "code":
            cell.source += "\n"
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", text="3")]
            cell.metadata["collapsed"] = False
    notebook.cells.append(nbformat.v4.new_code_cell(""))
    notebook.metadata["kernelspec"] = {"name": "mine", "display_name": "Mine"}
    nbformat.write(notebook, path)


def write_crlf(root: Path) -> None:
    """Check all out with the line ends of Windows."""
    for path in root.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


SAME = {
    "nothing": lambda root: None,
    "a study file": lambda root: edit(root, "papermill_runs/grades.yaml", b"n\n", b"m\n"),
    "a price": lambda root: edit(root, "dr_lib/runs/prices.csv", b"1", b"2"),
    "a figure": lambda root: edit(root, "dr_lib/report/b.py", b"3", b"4"),
    "text of the notebook": lambda root: edit(root, "notebooks/n.ipynb", b"# Train", b"# It"),
    "a parameter": lambda root: edit(root, "notebooks/n.ipynb", b"int = 3", b"int = 4"),
    "the notebook is run": execute,
    "line ends": write_crlf,
}
OTHER = {
    "the library": lambda root: edit(root, "dr_lib/a.py", b"2", b"3"),
    "a new module": lambda root: (root / "dr_lib/c.py").write_text("x = 1\n"),
    "the notebook's code": lambda root: edit(root, "notebooks/n.ipynb", b"TWO", b"ONE"),
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_only_code_is_another_code_and_dirty(root, name):
    """What determines a run is its code by content; committing what is no code changes nothing
    but the commit's name.
    """
    before = hash_code(root, "n")
    first = read_commit(root, "n")
    {**SAME, **OTHER}[name](root)
    assert (hash_code(root, "n") == before) == (name in SAME)
    assert read_commit(root, "n") == (first if name in SAME else f"{first}-dirty")
    if name != "nothing":
        commit(root)
        assert len(read_commit(root, "n")) == 40


def test_the_library_alone_has_its_figures(root):
    """A report is made by what a training does not use, and by no notebook of trainings."""
    execute(root)
    edit(root, "notebooks/n.ipynb", b"TWO", b"ONE")
    assert "dirty" not in read_commit(root)
    SAME["a figure"](root)
    assert read_commit(root).endswith("-dirty")


def test_an_archive_has_the_same_code_and_no_commit(root):
    """Code that was downloaded as an archive is the same code, also inside another repository."""
    code = hash_code(root, "n")
    inside = root / "inside"
    for name in ("dr_lib", "notebooks"):
        shutil.copytree(root / name, inside / name)
    assert hash_code(inside, "n") == code
    assert (read_commit(inside, "n"), explain_commit(inside)) == ("", "")


def test_git_says_itself_why_it_knows_no_commit(root, tmp_path, monkeypatch):
    """A repository of somebody else, and no git at all; a hook's variables are no reason."""
    first = read_commit(root)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert (read_commit(root), explain_commit(root)) == (first, "")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own switch for its tests
    assert read_commit(root) == "" and "dubious ownership" in explain_commit(root)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git cannot be started" in explain_commit(root)
