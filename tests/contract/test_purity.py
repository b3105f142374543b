"""Parsers reach nothing outside: no banned import anywhere in them, and no built-in that opens, runs or prints."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kits.captures import ROOT

FOLDER = ROOT / "parsers" / "telemetry_parsers"
MODULES = sorted(FOLDER.rglob("*.py"))
BANNED_MODULES = frozenset(
    [
        "asyncio",
        "ctypes",
        "datetime",
        "importlib",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "pickle",
        "platform",
        "prometheus_client",
        "psutil",
        "pydantic",
        "pynvml",
        "random",
        "secrets",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
    ]
)
BANNED_CALLS = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"})


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
    return names


def called(tree: ast.AST) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_module_reaches_nothing_outside(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert {name for name in imported(tree) if name.split(".")[0] in BANNED_MODULES} == set()
    assert called(tree) & BANNED_CALLS == set()


def test_modules_are_found() -> None:
    assert {FOLDER / "host.py", FOLDER / "vendors" / "moorethreads" / "mthreads_gmi" / "parser.py"} <= set(MODULES)
