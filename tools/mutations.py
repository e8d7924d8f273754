"""Change one place of the code at a time, and see which tests notice.

Mutations of the core and of what judges are drawn from a seed: a comparison turned, a constant
changed, or a line dropped. Each is committed to a copy of the last commit. There the module's own
tests run, then, with --full, the fast suite on what these did not notice. A test that fails on the
unchanged code as well is left out. Results are written as they are measured; the same command
resumes, and with --full it goes on to the suite.

    python -m tools.mutations [--seed 1] [--count 60] [--full] [--results FILE]
"""

import ast
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
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
# (path, before, after) of mutations that no test can notice, and why; the next is drawn instead
EQUIVALENT: dict[tuple[str, str, str], str] = {}
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
KEPT = (ast.Import, ast.ImportFrom, ast.Return, ast.Pass)
OWN, OPEN, SUITE, NONE = "own tests", "not own tests; suite not run", "suite", "none"
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


def draw(root: Path, seed: int, count: int) -> dict[int, Mutation]:
    """Draw mutations, every site of every file with the same probability.

    Returns:
        Them by number in the draw; an equivalent one leaves a gap.

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
    drawn = dict(enumerate((rng.choice(site) for site in sites), 1))
    kept = [number for number in drawn if _key(drawn[number]) not in EQUIVALENT]
    return {number: drawn[number] for number in kept[:count]}


def _key(mutation: Mutation) -> tuple[str, str, str]:
    return mutation.path, mutation.before, mutation.after


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
        self.left_out: list[str] = []  # options for tests that fail on the unchanged code
        subprocess.run(["git", "clone", "-q", str(ROOT), str(root)], check=True)
        self.commit = self._git("rev-parse", "HEAD")
        folders = self._git("rev-parse", "HEAD:dr_lib", "HEAD:tests").split()
        self.code = "+".join(name[:8] for name in folders)

    def find_noticing(self, mutation: Mutation, *tests: str) -> str:
        """Return the first test that a mutation makes fail, or nothing."""
        path = self.root / mutation.path
        while True:
            path.write_bytes(mutation.apply(path.read_bytes()))
            # committed, as some tests read whether the code is
            self._git("commit", "-qam", "mutated")
            code, test = self._test("-x", *tests, *self.left_out)
            self._git("reset", "-q", "--hard", self.commit)
            if code == 0:
                return ""
            if not test:
                return "a test hangs" if code in (1, -9) else f"pytest ends with {code}"
            # a file that cannot be imported may have tests that fail by themselves
            alone = (test,) if "::" in test else (test, "--collect-only")
            if self._test(*alone)[0] not in (1, 2):
                return test
            left_out = f"--deselect={test}" if "::" in test else f"--ignore={test}"
            if left_out in self.left_out:
                raise RuntimeError(f"{left_out} does not leave it out")
            print(left_out, flush=True)
            self.left_out.append(left_out)

    def _test(self, *words: str) -> tuple[int, str]:
        """Run pytest; return its exit code, negative if killed, and the first test that fails."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        command += ["-o", f"faulthandler_timeout={TEST_LIMIT_S}"]
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",  # a change within a second would be overlooked
        }
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(RUN_LIMIT_S)
            except subprocess.TimeoutExpired:
                code = -signal.SIGKILL
            with suppress(ProcessLookupError):  # nothing was left running
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.seek(0)
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output.read(), re.M)
        return code, failed[1] if failed else ""

    def _git(self, *words: str) -> str:
        identity = ("-c", "user.name=mutations", "-c", "user.email=mutations@example.org")
        command = ["git", "-C", str(self.root), *identity, *words]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.strip()


def measure(copy: Copy, mutation: Mutation, *, suite: bool) -> list[str | int]:
    """Test a mutation; return what noticed it, the test, seconds and the code's name."""
    began = time.monotonic()
    if suite:
        test = copy.find_noticing(mutation, "-n", "2", "--dist", "worksteal")
        noticed_by = SUITE if test else NONE
    else:
        test = copy.find_noticing(mutation, *find_tests(copy.root, mutation.path))
        noticed_by = OWN if test else OPEN
    return [noticed_by, test, round(time.monotonic() - began), copy.code]


def main() -> None:
    """Draw, apply, test, write."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--full", action="store_true", help="the suite on what is not noticed")
    parser.add_argument("--results", type=Path, help="papermill_runs/mutations/seed-SEED.csv")
    options = parser.parse_args()
    file = options.results or ROOT / f"papermill_runs/mutations/seed-{options.seed}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = [*Mutation._fields[:5], "noticed_by", "test", "seconds", "code"]
    table = pd.DataFrame(columns=columns, index=pd.Index([], name="number"), dtype=object)
    if file.is_file():
        table = pd.read_csv(
            file, index_col="number", keep_default_na=False, dtype={"test": str}
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = Copy(Path(folder) / "copy")
        mutations = draw(copy.root, options.seed, options.count)
        for number in table.index.intersection(list(mutations)):
            known = table.loc[number]
            if tuple(known.iloc[:5]) != mutations[number][:5] or known["code"] != copy.code:
                sys.exit(f"{file} is of other code or of another seed: name another file")
        for suite in (False, True)[: 1 + options.full]:
            for number, mutation in mutations.items():
                if (
                    number not in table.index
                    or suite
                    and table.loc[number, "noticed_by"] == OPEN
                ):
                    table.loc[number] = [*mutation[:5], *measure(copy, mutation, suite=suite)]
                    with replace(file) as temporary:
                        table.to_csv(temporary)
                    print(number, *table.loc[number], sep=" | ", flush=True)
    print(table.loc[list(mutations), "noticed_by"].value_counts().to_string(), f"in {file}")


if __name__ == "__main__":
    main()
