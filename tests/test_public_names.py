"""The public names: what a user reads of them, and the notebooks that need no others."""

import ast
import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dr_lib

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "docs" / "measured" / "amd-epyc-2-cores" / "demo" / "rows"
NAMES = dr_lib.__all__
SLOW = {"build_model"}  # imports TensorFlow


def test_public_names_are_few_and_explained():
    """Each loads, under its own name, and completion offers it before that."""
    code = f"import dr_lib; assert {set(NAMES)} <= {{*dir(dr_lib)}}; dr_lib.no_such_name"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.stderr.endswith(
        "AttributeError: module 'dr_lib' has no attribute 'no_such_name'\n"
    )
    assert len(NAMES) <= 24
    for name in NAMES:
        assert name in dr_lib.__doc__, f"{name}: the docstring of dr_lib"
        assert getattr(dr_lib, name).__name__.rpartition(".")[2] == name


@pytest.mark.parametrize("name", NAMES)
def test_what_a_user_reads_of_a_name_has_an_example_that_runs(
    name, small_sample, tmp_path, monkeypatch
):
    """In a folder with a photograph, a prepared folder and the rows of a study."""
    value = getattr(dr_lib, name)
    shown = {each: getattr(dr_lib, each) for each in NAMES} | {"np": np, "pd": pd, "Path": Path}
    (example,) = doctest.DocTestFinder(recurse=False).find(value, name, False, shown)
    assert example.examples
    if name in SLOW:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "prepared").symlink_to(small_sample)
    rows = tmp_path / "papermill_runs" / "demo" / "rows"
    rows.mkdir(parents=True)
    for path in sorted(ROWS.glob("*.json"))[:2]:
        shutil.copy(path, rows)
    shutil.copy(ROOT / "dr_lib" / "data" / "retina.jpg", "photograph.jpg")
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("number", ["00", "01", "10", "11"])
def test_the_first_notebooks_need_no_other_name(number):
    """Behind the set-up cell they import from dr_lib alone, and the papers' claims, besides other
    packages; notebook 10 spells its training out, from the modules of training.
    """
    (notebook,) = ROOT.glob(f"notebooks/{number}_*.py")
    found = set()
    for node in ast.walk(ast.parse(notebook.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("dr_lib"):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    besides = ["dr_lib.claims."]
    if number == "10":
        besides += ["dr_lib.training.", "dr_lib.hardware.", "dr_lib.errors."]
    found = {name for name in found if not name.startswith(tuple(besides))}
    assert found - {"dr_lib.report.setup"} <= {f"dr_lib.{name}" for name in NAMES}
