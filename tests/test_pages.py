"""README and docs: what they link to, show and name is there."""

import re
import shlex
import tomllib
from datetime import date
from pathlib import Path

import click
import papermill
import pytest
from markdown_it import MarkdownIt
from papermill.cli import papermill as papermill_command

import dr_lib
from dr_lib.__main__ import main
from dr_lib.files import read_yaml
from tests.conftest import find_studies
from tests.test_readme import PAGES, read_commands

ROOT = Path(__file__).resolve().parents[1]
STUDIES = sorted(find_studies().glob("*.yaml"))
TEXTS = [*PAGES, ROOT / "papermill_runs" / "README.md", ROOT / "CONTRIBUTING.md"]
TARGETS = re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text())
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def find_anchor(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def list_anchors(page: Path) -> set[str]:
    """The anchors of a page."""
    return {find_anchor(line) for line in re.findall(r"(?m)^#+ (.*)", page.read_text())}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_link_and_picture_is_there(page):
    """Files by their place beside the page, anchors by the headings of the page that they name."""
    blocks = MarkdownIt("gfm-like", {"linkify": False}).parse(page.read_text())
    tokens = [token for block in blocks for token in block.children or []]
    links = [token.attrs.get("href") or token.attrs.get("src") for token in tokens]
    for link in filter(None, links):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in list_anchors(target), link


def test_the_readme_in_portuguese_has_the_same_blocks():
    """Each heading, paragraph, and line of a list or table."""
    texts = [(ROOT / f"README{end}.md").read_text() for end in ("", ".pt-BR")]
    english, portuguese = (re.findall(r"(?m)^(?:#+ |\||- |$)", text) for text in texts)
    assert english == portuguese, "README.pt-BR.md has other blocks than README.md"


def check_command(command: str) -> None:
    """Parse one command by the program that it calls; an error where it cannot be."""
    words = shlex.split(re.sub(r"^(\w+=\S* )+", "", command))
    program = Path(words[0]).name
    if program == "make":
        assert {word for word in words[1:] if "=" not in word} <= {*TARGETS}
    elif program == "pip" or words[1:3] == ["-m", "pip"]:
        assert set(re.findall(r"\[(\w+)\]", words[-1])) <= set(EXTRAS)
    elif program == "papermill":
        options = [word for word in words[1:] if word != "--help-notebook"]
        context = papermill_command.make_context("papermill", options)
        declared = papermill.inspect_notebook(str(ROOT / words[1]))
        assert {name for name, _ in context.params["parameters"]} <= set(declared)
    elif words[1:3] == ["-m", "dr_lib"]:
        name, *rest = [word for word in words[3:] if word != "--debug"]
        check_ours(main.get_command(None, name).make_context(name, rest))
    elif words[1] == "-m":
        source = (ROOT / f"{words[2].replace('.', '/')}.py").read_text()
        assert all(f'"{word}"' in source for word in words if word.startswith("--"))


def check_ours(context: click.Context) -> None:
    """The study files and parameters of a command that its own parser has read."""
    values = context.params
    studies = [f"{folder}.yaml" for folder in values.get("folders") or ()]
    for study in filter(None, [values.get("study"), *studies]):
        assert (ROOT / str(study)).is_file(), study
    declared = {name for path in ROOT.glob("notebooks/*.py") for name in list_parameters(path)}
    assert {name for name, _ in values.get("parameters") or ()} <= declared


def list_parameters(notebook: Path) -> list[str]:
    """The parameters of a notebook's source."""
    return re.findall(r"(?m)^(\w+): (?:str|int|float|bool) =", notebook.read_text())


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_command_is_one_that_its_program_takes(page):
    """Also those that need an account, a GPU or Docker; in blocks and between backticks."""
    spans = re.findall(r"`([^`]+)`", re.sub("(?s)```.*?```", "", page.read_text()))
    calls = r"(?:\S*=\S* )?(?:make|\.venv/bin/\S+) .*(?<!-m dr_lib)$"
    inline = [span for span in spans if re.match(calls, span)]
    for command in [*filter(None, read_commands(page)), *inline]:
        check_command(command.rstrip(";"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_command_of_a_study_file_exists(path):
    """In its comments."""
    for name in re.findall(r"-m dr_lib ([a-z]+)", path.read_text()):
        assert name in main.list_commands(None)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_a_page_names_nothing_that_is_gone(page):
    """Between backticks: a path is there, an option is one of ours."""
    commands = [main.get_command(None, name) for name in main.list_commands(None)]
    options = {opt for command in commands for each in command.params for opt in each.opts}
    options |= {"--debug", "--help", "--help-notebook", "--ntasks-per-node", "--install"}
    text = re.sub("(?s)```.*?```", "", page.read_text())
    for span in re.findall(r"`([^`]+)`", text):
        for path in re.findall(r"(?:dr_lib|docs|notebooks|tests|tools)/[\w./-]+", span):
            assert (ROOT / path).exists(), span
        for option in re.findall(r"(?<!\S)--[a-z0-9-]+", span):
            assert option in options, span
        for name in re.findall(r"-p (\w+)", span):
            assert any(name in list_parameters(p) for p in ROOT.glob("notebooks/*.py")), span


def test_the_citation_names_this_version_and_its_date():
    """As the library calls itself; a day, not later than a release could have been."""
    cited = read_yaml(ROOT / "CITATION.cff")
    assert cited["version"] == dr_lib.__version__
    assert date(2026, 11, 26) <= cited["date-released"] <= date.today()
