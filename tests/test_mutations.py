"""Mutations: what is drawn, what applying one changes, and which tests are said to notice it."""

import ast
import sys

import pandas as pd
import pytest

from tests.conftest import commit
from tools import mutations

MODULE = '''"""Limits."""
LIMIT = 3
def is_allowed(x: "1 < 2" = 0) -> bool:
    assert "é" if x else f"{1 < 2}"
    return x not in (True, LIMIT)
'''
# by hand: sites, each with the line that it changes, its kind and that line afterwards. A float, an
# annotation, a docstring, what is in an f-string and a return stay; 0 doubled is 0
SITES = [
    (2, "constant", ["LIMIT = 4", "LIMIT = 6"]),
    (2, "line", ["pass"]),
    (3, "constant", ['def is_allowed(x: "1 < 2" = 1) -> bool:']),
    (4, "line", ["    pass"]),
    (5, "comparison", ["    return x in (True, LIMIT)"]),
    (5, "constant", ["    return x not in (False, LIMIT)"]),
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository of one module and no test."""
    (tmp_path / "dr_lib").mkdir()
    (tmp_path / "dr_lib" / "limits.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(mutations, "ROOT", tmp_path)
    monkeypatch.setattr(mutations, "PLACES", ("*.py",))
    return tmp_path


def test_a_mutation_changes_one_node_and_the_file_parses():
    """All sites of five lines, as listed by hand; every other line stays as it is."""
    sites = mutations.find_sites("limits.py", MODULE.encode())
    found = []
    for site in sites:
        changed = []
        for mutation in site:
            source = mutation.apply(MODULE.encode()).decode()
            ast.parse(source)
            lines = source.splitlines()
            changed.append(lines[mutation.line - 1])
            lines[mutation.line - 1] = MODULE.splitlines()[mutation.line - 1]
            assert lines == MODULE.splitlines()
            assert mutation.after == changed[-1].strip()
        found.append((mutation.line, mutation.kind, changed))
    assert sorted(found) == SITES


def test_a_seed_draws_the_same(project):
    """Each site once; another seed draws others."""
    drawn = mutations.draw(project, 1, 6)
    assert sorted((each.line, each.kind) for each in drawn) == [
        (line, kind) for line, kind, _ in SITES
    ]
    assert mutations.draw(project, 1, 6) == drawn != mutations.draw(project, 2, 6)
    assert mutations.draw(project, 1, 2) == drawn[:2]


@pytest.mark.slow
def test_what_noticed_is_told_and_a_second_call_goes_on(project, monkeypatch):
    """One of three defaults is seen by own tests, one by another, one by none; a test that fails
    by itself stops the work.
    """
    module = "def get(a=0, b=0, c=0):\n    return a, b, c\n"
    head = "from dr_lib.limits import get\n\n\n"
    (project / "dr_lib" / "limits.py").write_text(module)
    (project / "tests").mkdir()
    own = project / "tests" / "test_limits.py"
    own.write_text(f"{head}def test_a():\n    assert get()[0] == 0\n")
    other = project / "tests" / "test_other.py"
    other.write_text(f"{head}def test_b():\n    assert get()[1] == 0\n")
    (project / "pytest.ini").write_text("[pytest]\n")
    commit(project)
    for more, noticed in (([], ["", "", ""]), (["--full"], ["", "b", "none"])):
        monkeypatch.setattr(sys, "argv", ["mutations", *more])
        mutations.main()
        (results,) = project.glob("papermill_runs/mutations/seed-1-*.csv")
        table = pd.read_csv(results, keep_default_na=False).sort_values("after")[::-1]
        assert [name.rpartition("_")[2] for name in table["own"]] == ["a", "none", "none"]
        assert [name.rpartition("_")[2] for name in table["suite"]] == noticed
    own.write_text("def test_broken():\n    assert False\n")
    commit(project)
    with pytest.raises(SystemExit, match="test_broken fails on the unchanged code as well"):
        mutations.main()
