"""Change one place of the code at a time, and see which tests notice.

Mutations of the core and of what judges are drawn from a seed: a comparison turned, a constant
changed, or a line dropped. Each is committed to a copy of the last commit. There the module's own
tests run, then, with --full, the fast suite on what these did not notice. Results are written as
they are measured; the same command resumes, and with --full it goes on to the suite. The unchanged
code has to pass its tests.

    python -m tools.mutations [--seed 1] [--count 60] [--full]
"""

import ast
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

import pandas as pd

from dr_lib.files import replace

ROOT = Path(__file__).resolve().parents[1]
PLACES = (  # in dr_lib; ** is any folders, or none
    "*.py",
    "hardware/**/*.py",
    "statistics/**/*.py",
    "data/**/*.py",
    "training/**/*.py",
    "runs/**/*.py",
    "report/**/*.py",
    "**/claims/**/*.py",
    "**/evaluation/**/*.py",
    "**/scenarios/effects.py",
    "**/scenarios/costs.py",
    "**/export/gate.py",
)
TURNED = {
    ast.Lt: (b"<", ">="),
    ast.LtE: (b"<=", ">"),
    ast.Gt: (b">", "<="),
    ast.GtE: (b">=", "<"),
    ast.Eq: (b"==", "!="),
    ast.NotEq: (b"!=", "=="),
    ast.In: (b"in", "not in"),
    ast.NotIn: (rb"not\s+in", "in"),
    ast.Is: (b"is", "is not"),
    ast.IsNot: (rb"is\s+not", "is"),
}
NONE = "none"
KEPT = (ast.Import, ast.ImportFrom, ast.Return, ast.Pass)
TEST_LIMIT_S = 300  # a test that takes longer hangs
RUN_LIMIT_S = 3600  # so does a run of tests


class Mutation(NamedTuple):
    """Bytes of a file that something else replaces."""

    path: str
    line: int
    kind: str  # comparison, constant or line
    before: str  # the lines it is in, with single spaces
    after: str
    start: int
    end: int
    new: str

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def find_sites(path: str, source: bytes) -> list[list[Mutation]]:
    """List the sites of a file, each with its one or two mutations."""
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    offsets = [sum(map(len, lines[:number])) for number in range(len(lines))]
    # an annotation changes nothing; up to Python 3.11 what is in an f-string has no position
    left_alone: set[ast.AST] = set()
    for node in ast.walk(tree):
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        parts.append(node if isinstance(node, ast.JoinedStr) else None)
        left_alone.update(inner for part in parts if part for inner in ast.walk(part))

    sites = []
    for node in ast.walk(tree):
        if node in left_alone:
            continue
        for kind, start, end, texts in _find_changes(node, source, offsets):
            first = source.rfind(b"\n", 0, start) + 1
            last = (source + b"\n").find(b"\n", end)
            shown = [source[first:last]]
            shown += [source[first:start] + new.encode() + source[end:last] for new in texts]
            before, *after = (" ".join(text.decode().split()) for text in shown)
            line = source.count(b"\n", 0, start) + 1
            sites.append(
                [
                    Mutation(path, line, kind, before, text, start, end, new)
                    for text, new in zip(after, texts, strict=True)
                ]
            )
    return sites


def _find_changes(
    node: ast.AST, source: bytes, offsets: list[int]
) -> Iterator[tuple[str, int, int, list[str]]]:
    def span(node: ast.AST) -> tuple[int, int]:
        start = offsets[node.lineno - 1] + node.col_offset
        return start, offsets[node.end_lineno - 1] + node.end_col_offset

    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            old, new = TURNED[type(operator)]
            gap = source[span(left)[1] : span(right)[0]]
            found = re.match(rb"(?:[\s)\\]|#[^\n]*\n)*(" + old + rb")", gap)
            start, end = (span(left)[1] + place for place in found.span(1))
            yield "comparison", start, end, [new]
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield "constant", *span(node), [str(not node.value)]
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        others = {node.value + 1, node.value * 2} - {node.value, math.inf}
        yield "constant", *span(node), [repr(other) for other in sorted(others)]
    elif isinstance(node, ast.stmt) and not isinstance(node, KEPT):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_simple = not any(hasattr(node, name) for name in ("body", "cases"))
        if is_simple and not is_docstring:
            yield "line", *span(node), ["pass"]


def draw(root: Path, seed: int, count: int) -> list[Mutation]:
    """Draw mutations, every site of every file with the same probability.

    Raises:
        SystemExit: a place has no file.
    """
    paths: set[Path] = set()
    for place in PLACES:
        found = set(root.glob(f"dr_lib/{place}"))
        if not found:
            sys.exit(f"PLACES of tools/mutations.py: dr_lib/{place} matches nothing")
        paths |= found
    sites = []
    for path in sorted(paths):
        sites += find_sites(path.relative_to(root).as_posix(), path.read_bytes())
    rng = Random(seed)
    rng.shuffle(sites)
    return [rng.choice(site) for site in sites][:count]


def find_tests(root: Path, path: str) -> list[str]:
    """Find a module's own tests: its file, else its folder's, else those of the folder above."""
    module = Path("tests", *Path(path).parts[1:])
    own = module.with_name(f"test_{module.name}")
    if (root / own).is_file():
        return [str(own)]
    folder = next(folder for folder in module.parents if any((root / folder).glob("test_*.py")))
    return sorted(str(test.relative_to(root)) for test in (root / folder).glob("test_*.py"))


class Copy:
    """A clone of the last commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        self.commit = self._git("rev-parse", "HEAD")

    def find_noticing(self, mutation: Mutation, *tests: str) -> str:
        """Return the first test that a mutation makes fail, or none."""
        path = self.root / mutation.path
        path.write_bytes(mutation.apply(path.read_bytes()))
        # committed, as some tests read whether the code is
        self._git("commit", "-qam", "mutated")
        code, test = self._test(*tests)
        self._git("reset", "-q", "--hard", self.commit)
        if test and self._test(test)[0]:
            sys.exit(f"{test} fails on the unchanged code as well: mend it first")
        return test or (f"pytest ends with {code}" if code else NONE)

    def _test(self, *words: str) -> tuple[int, str]:
        """Run pytest; return its exit code, negative if killed, and the first test that fails."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words]
        command += ["-o", f"faulthandler_timeout={TEST_LIMIT_S}"]
        # bytecode of a change within a second would be overlooked
        environment = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=os.environ | environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            with suppress(subprocess.TimeoutExpired):
                process.wait(RUN_LIMIT_S)
            with suppress(ProcessLookupError):  # nothing was left running
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            output.seek(0)
            failed = re.search(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.read())
        return code, failed[1] if failed else ""

    def _git(self, *words: str) -> str:
        identity = ("-c", "user.name=mutations", "-c", "user.email=mutations@example.org")
        command = ["git", "-C", str(self.root), *identity, *words]
        return subprocess.check_output(command, text=True).strip()


def main() -> None:
    """Draw, apply, test, write."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--full", action="store_true", help="the suite on what is not noticed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = Copy(Path(folder) / "copy")
        name = (
            f"seed-{options.seed}-{copy.commit[:12]}.csv"  # other code has results of its own
        )
        file = ROOT / "papermill_runs" / "mutations" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        mutations = draw(copy.root, options.seed, options.count)
        if file.is_file():
            table = pd.read_csv(file, keep_default_na=False)
        else:
            table = pd.DataFrame(mutations)[[*Mutation._fields[:5]]].assign(own="", suite="")
        for column in ("own", "suite")[: 1 + options.full]:
            for number, mutation in enumerate(mutations):
                if table.loc[number, column] or table.loc[number, "own"] not in ("", NONE):
                    continue
                tests = ["-n", "2", "--dist", "worksteal"]
                if column == "own":
                    tests = find_tests(copy.root, mutation.path)
                table.loc[number, column] = copy.find_noticing(mutation, *tests)
                with replace(file) as temporary:
                    table.to_csv(temporary, index=False)
                print(number + 1, *table.loc[number], sep=" | ", flush=True)
    noticed = table[["own", "suite"]].isin(["", NONE]).eq(False).sum()
    print(f"{noticed['own']} by own tests, {noticed['suite']} by the suite, in {file}")


if __name__ == "__main__":
    main()
