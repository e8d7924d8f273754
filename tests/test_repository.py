"""The repository itself: pairs in step, no outputs, parameters explained, import rules kept."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import nbformat
import papermill
import pytest

from tests.conftest import ROOT, find_studies
from tools.constraints import REQUIREMENTS, read_list

NOTEBOOKS = sorted(ROOT.glob("notebooks/*.py"))
MODULES = sorted(ROOT.glob("dr_lib/**/*.py"))
STUDIES = sorted(find_studies().glob("*.yaml"))
# the core, from the ground up: a module imports its own floor and those below, and no subject
CORE = (
    "code command errors files markdown numbers options parameters processes schema",
    "hardware",
    "statistics",
    "data",
    "training",
    "runs",
    "report",
    "__main__",
)
# a subject imports the core and no other; claims are imported by notebooks alone
SUBJECTS = "claims cluster evaluation explain mnist remote scenarios serving".split()
# tokens that the folders may have: whoever deletes lowers them
CEILINGS = {
    "notebooks": 12452,
    "dr_lib": 6218,
    "dr_lib/hardware": 4444,
    "dr_lib/statistics": 3494,
    "dr_lib/data": 32661,
    "dr_lib/training": 16092,
    "dr_lib/runs": 12177,
    "dr_lib/report": 12137,
    "dr_lib/claims": 4479,
    "dr_lib/cluster": 1337,
    "dr_lib/evaluation": 10440,
    "dr_lib/explain": 974,
    "dr_lib/mnist": 4838,
    "dr_lib/remote": 6073,
    "dr_lib/scenarios": 7841,
    "dr_lib/serving": 14297,
}
HEAVY = {"tensorflow", "jax", "torch", "keras", "mxnet"}
# of no use without their framework
TRAINING = "models resident checkpoint keras_backend callbacks fit frozen lite0".split()
MAY_IMPORT = {f"training/{name}.py": {"keras"} for name in TRAINING}
MAY_IMPORT |= {"data/prepared/batches.py": {"keras"}, "explain/grad_cam.py": {"keras"}}
MAY_IMPORT |= {
    f"scenarios/frameworks/{name}_network.py": {name} for name in ("keras", "torch", "mxnet")
}


def imports(tree: ast.Module, *, at_top: bool = False) -> set[str]:
    """Full names of what a module imports."""
    names = set()
    for node in tree.body if at_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def name_module(path: Path) -> str:
    """The name by which a file is imported."""
    name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    return name.removesuffix(".__init__")


def find_place(module: str) -> tuple[str, int]:
    """The subject of a module, empty for the core, and the floor."""
    first = module.removeprefix("dr_lib.").split(".")[0]
    if first in SUBJECTS:
        return first, 0
    (floor,) = [floor for floor, parts in enumerate(CORE) if first in parts.split()]
    return "", floor


def test_a_module_imports_downwards_and_no_other_subject():
    """The core knows no subject, and a subject no other: what two need is of the core."""
    modules = set(map(name_module, MODULES))
    wrong = set()
    for path in MODULES:
        importer = name_module(path)
        for name in imports(ast.parse(path.read_text())):
            imported = name if name in modules else name.rpartition(".")[0]
            if imported not in modules - {"dr_lib"} or importer == "dr_lib":
                continue
            subject, floor = find_place(importer)
            other, lower = find_place(imported)
            is_below = not other and (subject or lower <= floor)
            if not (is_below or subject == other):
                wrong.add(f"{importer} -> {imported}")
    assert wrong == set()


def count_tokens(path: Path) -> int:
    """Names, operators, numbers and strings of a file, without comments and docstrings; a string
    of over 200 characters counts one for each 5.
    """
    text = path.read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstrings |= {*range(node.body[0].lineno, node.body[0].end_lineno + 1)}
    counted = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    total = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in counted and token.start[0] not in docstrings:
            is_long = token.type == tokenize.STRING and len(token.string) > 200
            total += len(token.string) // 5 if is_long else 1
    return total


def test_tokens_are_counted_as_a_reader_does(tmp_path):
    """Seven of `x = f("a") + 1` and, in a function, six; comments and docstrings count nothing."""
    path = tmp_path / "counted.py"
    path.write_text(
        '"""A module."""\n\nx = f("a") + 1  # why\n\n\ndef g():\n    """Say."""\n    y\n'
    )
    assert count_tokens(path) == 8 + 6


@pytest.mark.parametrize(("folder", "most"), CEILINGS.items())
def test_a_folder_stays_small(folder, most):
    """A suite that a person reads in an evening."""
    pattern = "*.py" if folder == "dr_lib" else "**/*.py"
    number = sum(map(count_tokens, (ROOT / folder).glob(pattern)))
    advice = "delete some, or write the number into CEILINGS and say why"
    assert number <= most, f"{folder} has {number} tokens: {advice}"


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """The syntax trees of the library and of the notebooks."""
    return {path: ast.parse(path.read_text()) for path in [*MODULES, *NOTEBOOKS]}


def test_a_line_says_one_thing(trees):
    """Lines have 45 characters of code on average, and few assignments are parallel."""
    widths = []
    parallel = []
    for path, tree in trees.items():
        nodes = list(ast.walk(tree))
        texts = [node for node in nodes if isinstance(node, ast.Expr)]
        texts = [node for node in texts if isinstance(node.value, ast.Constant)]
        prose = {n for node in texts for n in range(node.lineno, node.end_lineno + 1)}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.strip() and number not in prose and not line.lstrip().startswith("#"):
                widths.append(len(line))
        assigned = [node for node in nodes if isinstance(node, ast.Assign)]
        assigned = [node for node in assigned if isinstance(node.value, ast.Tuple)]
        tuples = [node for node in assigned if isinstance(node.targets[0], ast.Tuple)]
        parallel += [f"{path.name}:{node.lineno}" for node in tuples]
    assert sum(widths) / len(widths) <= 45  # of the whole
    assert len(parallel) <= 2, parallel


def test_arguments_stand_in_the_call(trees):
    """Few calls are given a dictionary's items."""
    spread = []
    for path, tree in trees.items():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for node in calls:
            names = [word for word in node.keywords if word.arg is None]
            spread += [path.name for word in names if isinstance(word.value, ast.Name)]
    assert len(spread) <= 30, spread


def test_exceptions_are_a_tree(trees):
    """Each exception is a child of DrError."""
    children = {}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                children[node.name] = [ast.unparse(base) for base in node.bases]
    assert len(children) <= 20, sorted(children)
    assert {name for name, bases in children.items() if bases != ["DrError"]} == {"DrError"}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_module_imports_a_framework_at_its_top(path):
    """Only what is of no use without a framework imports it; nothing imports a backend."""
    names = imports(ast.parse(path.read_text()), at_top=True)
    allowed = MAY_IMPORT.get(path.relative_to(ROOT / "dr_lib").as_posix(), set())
    assert {name.split(".")[0] for name in names} & HEAVY <= allowed


def list_imported(module: str) -> set[str]:
    """All that importing a module loads."""
    code = f"import sys; before = set(sys.modules); import {module}; "
    code += "print(*(set(sys.modules) - before))"
    return set(
        subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).split()
    )


def test_importing_the_library_costs_nothing():
    """`import dr_lib` imports no other package, and a study starts in papermill's time."""
    assert list_imported("dr_lib") == {"dr_lib"}
    assert list_imported("dr_lib.runs.runner") & {"pandas", "scipy", "cv2"} == set()


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem
)
def test_a_notebook_has_a_source_no_outputs_and_typed_parameters(path):
    """Nothing that a run showed is published. papermill lists each parameter with its type and its
    help; comments may stand between groups of them. What is in English is in Portuguese too.
    """
    assert path.with_suffix(".py").is_file()
    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    (cell,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    known = papermill.inspect_notebook(str(path))
    assert len(known) == len(re.findall(r"(?m)^[^#\n]", cell.source))
    assert all(each["help"] for each in known.values())
    english, portuguese = (
        [
            (tags[1:], cell.source.count("\n\n"))
            for cell in notebook.cells
            if lang in (tags := cell.metadata.get("tags", []))
        ]
        for lang in ("en", "pt")
    )
    assert english == portuguese, f"cells with the tags en and pt in notebooks/{path.stem}.py"


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_study_files_fit_their_notebooks(path):
    """Every study that is committed can be planned."""
    from dr_lib.runs.study import load_study, plan_runs

    assert plan_runs(load_study(path, ROOT), "here")


def test_nothing_committed_is_large_or_speaks_of_one_machine():
    """No file over 1 MiB, no absolute path of somebody's machine."""
    listed = subprocess.check_output(["git", "-C", ROOT, "ls-files", "-z"], text=True)
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    folder = ROOT / "papermill_runs"
    files = [find_studies() / path.name if path.parent == folder else path for path in files]
    assert all(path.stat().st_size < 2**20 for path in files)
    machine_path = re.compile(r"(?<![\w.])/(?:home|root|work|tmp)/\w")
    for path in files:
        text = path.read_text(encoding="utf-8", errors="ignore")
        assert not machine_path.search(text), path.name


def test_the_container_installs_what_the_notebooks_do():
    """Each package of the server is pinned to a version that requirements.txt allows, and what
    these bring along.
    """
    known = read_list(REQUIREMENTS)
    pinned = read_list(ROOT / "dr_lib/serving/requirements.txt")
    for name in pinned.keys() & known.keys():
        (pin,) = pinned[name].specifier
        assert pin.version in known[name].specifier
    assert pinned.keys() - known.keys() == {"anyio"}
