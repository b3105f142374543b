#!/usr/bin/env python3
"""Measure how many small changes to the code the tests notice.

usage: mutants.py draw SEED COUNT FILE        write COUNT changes ("mutants"), spread over all packages, to FILE
       mutants.py reach FILE LEARNT           run the tests once and learn which test files reach which mutant
       mutants.py try FILE LEARNT VERDICTS    try each mutant with the test files that reach it

Each call works on the checkout in the current folder and restores the product's files at its end. The tests are those of
`make test`. A mutant counts as noticed if one of them fails or hangs. `make mutants` makes the three calls.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOTS = (
    "parsers/telemetry_parsers",
    "exporters/telemetry_exporters",
    "daemon/telemetry_daemon",
    "daemon/telemetry_profile",
    "daemon/device_telemetry",
    "grafana/telemetry_grafana",
)
RECORDER = Path("parsers/_reached.py")
# Test files are tried until their total CPU time would exceed this budget.
BUDGET_SECONDS = 60.0
# Pytest's exit status if no tests were collected.
_NO_TESTS = 5
SWAPPED_OPERATORS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
RECORDER_SOURCE = '''"""Append to a file which mutants this process reaches, and during which test file."""
import glob
import os

_FOLDER = {folder!r}
_seen = set()
_test = ""

def during(test):
    global _test
    _test = test
    with open(f"{{_FOLDER}}/current.{{os.getpid()}}", "w") as file:
        file.write(test)

def _test_of_ancestors():
    pid = os.getpid()
    while pid > 1:
        try:
            with open(f"{{_FOLDER}}/current.{{pid}}") as file:
                return file.read()
        except OSError:  # not a process that runs tests
            pass
        try:
            with open(f"/proc/{{pid}}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            break
    return "?"

def reach(number):
    global _test
    if not _test:
        _test = _test_of_ancestors()
    if (number, _test) not in _seen:
        _seen.add((number, _test))
        try:
            with open(f"{{_FOLDER}}/reached", "a") as file:
                file.write(f"{{number}}\\t{{_test}}\\n")
        except OSError:  # another user's process, or one without file descriptors
            pass
'''
PLUGIN_SOURCE = """
import json, os, resource, pytest
import _reached
def _used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    _reached.during(item.nodeid.partition("::")[0])
    before = _used()
    try:
        return (yield)
    finally:
        with open({folder!r} + "/costs", "a") as file:
            file.write(json.dumps([item.nodeid, round(_used() - before, 3)]) + "\\n")
"""


def possible_changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST | None]]:
    """Yield each node that can be changed, and its replacement. None deletes a statement."""
    skipped_ids = _unchangeable_node_ids(tree)
    for node in ast.walk(tree):
        if id(node) not in skipped_ids:
            yield from _changes(node)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST | None]]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED_OPERATORS:
            yield node, ast.Compare(node.left, [SWAPPED_OPERATORS[type(operator)]()], node.comparators)
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield node, ast.Constant(number + 1)
        case ast.Constant(value=str(text)) if text:
            yield node, ast.Constant(text + "x")
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            yield value, ast.Constant(None)
        case ast.Expr(value=ast.Call()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            yield node, None


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _unchangeable_node_ids(tree: ast.AST) -> set[int]:
    """Return the ids of nodes that are not changed: docstrings, annotations, f-strings, raised errors and imports."""
    nodes: list[ast.AST] = []
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                nodes.append(node.value)
            case ast.JoinedStr() | ast.AnnAssign(value=None) | ast.Raise() | ast.ImportFrom():
                nodes += ast.walk(node)
            case ast.AnnAssign() | ast.arg() if node.annotation is not None:
                nodes += ast.walk(node.annotation)
            case ast.FunctionDef(returns=ast.expr() as returns):
                nodes += ast.walk(returns)
    return {id(node) for node in nodes}


def draw(seed: int, count: int) -> list[dict[str, Any]]:
    """Return `count` mutants. Packages are drawn in proportion to their lines; each kind of change is equally likely."""
    rng = random.Random(seed)  # noqa: S311 – a draw that can be repeated, not a secret
    packages: dict[str, list[Path]] = defaultdict(list)
    for root in ROOTS:
        for path in sorted(Path(root).rglob("*.py")):
            parts = path.relative_to(root).parts
            packages[f"{root}/{parts[0] if len(parts) > 1 else ''}"].append(path)
    names = sorted(packages)
    weights = [sum(len(path.read_bytes().splitlines()) for path in packages[name]) for name in names]
    drawn: list[dict[str, Any]] = []
    while len(drawn) < count:
        path = rng.choice(packages[rng.choices(names, weights)[0]])
        if (mutant := _mutant(path, rng)) and mutant not in drawn:
            drawn.append(mutant)
    return drawn


def _mutant(path: Path, rng: random.Random) -> dict[str, Any] | None:
    text = path.read_text()
    kinds: dict[str, list[tuple[Any, ast.AST | None]]] = defaultdict(list)
    for node, replacement in possible_changes(ast.parse(text)):
        kinds[_kind(node, replacement)].append((node, replacement))
    if not kinds:
        return None
    node, replacement = rng.choice(kinds[rng.choice(sorted(kinds))])
    start, end = _offset(text, node.lineno, node.col_offset), _offset(text, node.end_lineno, node.end_col_offset)
    after = "pass" if replacement is None else f"({ast.unparse(ast.fix_missing_locations(replacement))})"
    return {
        "path": str(path),
        "line": node.lineno,
        "context": text[max(0, start - 80) : start],
        "before": text[start:end],
        "after": after,
    }


def _kind(node: ast.AST, replacement: ast.AST | None) -> str:
    if replacement is None:
        return "deleted"
    return type(node).__name__ if isinstance(node, ast.Compare | ast.Constant) else "returned"


def _offset(text: str, line: Any, column: Any) -> int:
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def _mutant_offset(text: str, mutant: dict[str, Any]) -> int | None:
    """Return the offset of the mutant's code, or None if the code has changed since the mutant was drawn."""
    offset = text.find(mutant["context"] + mutant["before"])
    return None if offset < 0 else offset + len(mutant["context"])


@contextmanager
def temporarily_changed(files: dict[Path, str]) -> Iterator[None]:
    """Give the files these contents, and restore the original files when the context ends."""
    originals = {path: path.read_text() if path.exists() else None for path in files}
    try:
        for path, text in files.items():
            path.write_text(text)
        yield
    finally:
        for path, original in originals.items():
            path.unlink() if original is None else path.write_text(original)


def instrumented_files(mutants: list[dict[str, Any]]) -> dict[Path, str]:
    """Return the files with a call of the recorder before the statement of each mutant."""
    by_path: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    for number, mutant in enumerate(mutants):
        text = Path(mutant["path"]).read_text() if Path(mutant["path"]).exists() else ""
        if (start := _mutant_offset(text, mutant)) is not None:
            by_path[Path(mutant["path"])].append((number, start))
    return {path: _with_recorder_calls(path.read_text(), offsets) for path, offsets in by_path.items()}


def _with_recorder_calls(text: str, offsets: list[tuple[int, int]]) -> str:
    tree = ast.parse(text)
    for number, start in offsets:
        body, index = _enclosing_statement(tree, text, start)
        call = ast.parse(f"__import__('_reached').reach({number})").body[0]
        for next_index, statement in enumerate(body, start=1):
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                index = max(index, next_index)
        body.insert(index, call)
    return ast.unparse(ast.fix_missing_locations(tree))


def _enclosing_statement(tree: ast.Module, text: str, start: int) -> tuple[list[ast.stmt], int]:
    """Return the innermost list of statements around an offset, and the index of the statement in it."""
    innermost: tuple[list[ast.stmt], int] = (tree.body, 0)
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            for index, statement in enumerate(body if isinstance(body, list) else ()):
                if hasattr(statement, "lineno") and _is_within(text, statement, start):
                    innermost = (body or [], index)
    return innermost


def _is_within(text: str, node: Any, start: int) -> bool:
    first = _offset(text, node.lineno, node.col_offset)
    return first <= start < _offset(text, node.end_lineno, node.end_col_offset)


def reach(mutants: list[dict[str, Any]], command: list[str]) -> dict[str, Any]:
    """Run the tests once. Return the test files that reach each mutant, and the CPU seconds of each test file."""
    folder = Path("build/mutants").absolute()
    shutil.rmtree(folder, ignore_errors=True)  # The folder does not exist before the first run.
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    plugin = Path("tests/kits/pytest_reached.py")
    conftest = Path("tests/conftest.py")
    files = {
        RECORDER: RECORDER_SOURCE.format(folder=str(folder)),
        plugin: PLUGIN_SOURCE.format(folder=str(folder)),
        conftest: conftest.read_text().replace("pytest_plugins = (", 'pytest_plugins = ("kits.pytest_reached", '),
        **instrumented_files(mutants),
    }
    with temporarily_changed(files):
        subprocess.run(command, check=False)
    costs: dict[str, float] = defaultdict(float)
    for line in (folder / "costs").read_text().splitlines():
        test, seconds = json.loads(line)
        costs[test.partition("::")[0]] += seconds
    reached: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "reached").read_text().splitlines():
        number, _, test = line.partition("\t")
        reached[number].add(test)
    return {"costs": costs, "reached": {number: sorted(tests) for number, tests in reached.items()}}


def try_mutant(mutant: dict[str, Any], files: list[str], costs: dict[str, float]) -> str:
    """Run the tests with the mutant. Return noticed, unnoticed, not reached, or gone if its code has changed since the draw."""
    path = Path(mutant["path"])
    text = path.read_text() if path.exists() else ""
    if (start := _mutant_offset(text, mutant)) is None:
        return "gone"
    test_files = _affordable_files(mutant["path"], files, costs)
    if not test_files:
        return "not reached"
    with temporarily_changed({path: text[:start] + mutant["after"] + text[start + len(mutant["before"]) :]}):
        return "noticed" if any(_fails(chunk, costs) for chunk in _chunks(test_files)) else "unnoticed"


def _affordable_files(path: str, files: list[str], costs: dict[str, float]) -> list[str]:
    """Return the files to try: first those that are named after the product's folder or module, then the cheap ones."""
    words = {word.removesuffix(".py") for word in path.split("/")[2:]}

    def priority(file: str) -> tuple[int, float]:
        return -len(words & set(re.split(r"[/_.]", file))), costs[file]

    chosen: list[str] = []
    spent = 0.0
    for file in sorted((file for file in files if file in costs), key=priority):
        spent += costs[file]
        if chosen and spent > BUDGET_SECONDS:
            break
        chosen.append(file)
    return chosen


def _chunks(files: list[str]) -> Iterator[list[str]]:
    """Yield the first three files, because most mutants are noticed by them, then the other files."""
    yield files[:3]
    if files[3:]:
        yield files[3:]


def _fails(files: list[str], costs: dict[str, float]) -> bool:
    """Return whether a test fails or hangs. The timeout is so long that a slow machine does not reach it."""
    command = [".venv/bin/python", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--level", "quick", *files]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(120 + 10 * sum(costs[file] for file in files)) not in (0, _NO_TESTS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return True


def main(arguments: list[str]) -> int:
    """Run the subcommand. Return the exit status."""
    match arguments:
        case ["draw", seed, count, file]:
            Path(file).write_text(json.dumps(draw(int(seed), int(count)), indent=1))
        case ["reach", file, learnt, *command]:
            Path(learnt).write_text(json.dumps(reach(json.loads(Path(file).read_text()), command or ["make", "test"])))
        case ["try", file, learnt, verdicts]:
            mutants, learned = json.loads(Path(file).read_text()), json.loads(Path(learnt).read_text())
            results = []
            for number, mutant in enumerate(mutants):
                began = time.monotonic()
                results.append(try_mutant(mutant, learned["reached"].get(str(number), []), learned["costs"]))
                print(
                    f"{number} {results[-1]} {time.monotonic() - began:.0f}s {mutant['path']}:{mutant['line']} {mutant['before'][:60]!r} -> {mutant['after'][:60]!r}",
                    flush=True,
                )
            Path(verdicts).write_text(json.dumps(results))
            print({word: results.count(word) for word in sorted(set(results))})
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
