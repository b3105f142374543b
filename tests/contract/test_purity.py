"""Parsers, and the formats and verdicts of profiles, reach nothing outside: no banned import anywhere in them, and no built-in that opens, runs or prints."""

from __future__ import annotations

import ast

from kits.captures import ROOT

FOLDER = ROOT / "parsers" / "telemetry_parsers"
PROFILE = ROOT / "daemon" / "telemetry_profile"
PURE = (FOLDER, *(PROFILE / room for room in ("facts", "formats", "verdict")))
BANNED_MODULES = frozenset(
    # What reads the clock, draws lots, or reaches files, processes, the network and other libraries.
    [
        "asyncio", "ctypes", "datetime", "importlib", "io", "logging", "multiprocessing", "os", "pathlib", "pickle",
        "platform", "prometheus_client", "psutil", "pydantic", "pynvml", "random", "secrets", "shutil", "signal",
        "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
    ]
)  # fmt: skip
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


def test_modules_reach_nothing_outside() -> None:
    modules = [PROFILE / f"{name}.py" for name in ("format_contract", "profile_document", "profile_screen")] + [
        path for folder in PURE for path in sorted(folder.rglob("*.py"))
    ]
    assert {
        PROFILE / "format_contract.py",
        PROFILE / "facts" / "device_timeline.py",
        FOLDER / "host.py",
        FOLDER / "vendors" / "moorethreads" / "mthreads_gmi.py",
    } <= set(modules)
    for path in modules:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert {name for name in imported(tree) if name.split(".")[0] in BANNED_MODULES} == set(), path
        assert called(tree) & BANNED_CALLS == set(), path
