"""Every registered parser keeps the contract: pure, and correct on captures of every tool, whole, damaged or failed."""

import ast
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kits.captures import (
    ROOT,
    Case,
    command_parsers,
    of_each_layout,
    own_cases,
    registered_parsers,
    shared_files,
    shared_folder,
    shared_text,
    text_capture,
    text_of,
)
from telemetry_parsers.checks.mutations import cut_positions, mutations
from telemetry_parsers.checks.report_rules import numbers
from telemetry_parsers.checks.suite import (
    check,
    cut_violations,
    declaration_violations,
    parse_violations,
    sample_violations,
)
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture

PARSERS = registered_parsers()
# The folder of each parser's shared captures; the host has none.
SHARED_FOLDERS = {
    "amdgpu-sysfs": "sysfs",
    "hccn-tool": "hccn_tool",
    **{name: name for name in ("amd-smi", "rocm-smi", "rocminfo", "hy-smi", "mthreads-gmi", "npu-smi")},
    **{name: f"others/{name}" for name in ("cnmon", "mx-smi", "ixsmi", "efsmi", "xpu-smi-kunlun")},
    "xpu-smi": "others/xpu-smi-intel",
}
# Outputs of a source in the folder of another source.
ALSO_OWN = {"amdgpu-sysfs": {"sysfs-dcu-values"}}
by_parser = pytest.mark.parametrize("name", sorted(PARSERS))
by_capture = pytest.mark.parametrize("case", own_cases(), ids=lambda case: case.id)
# `make test` tries one of this many real outputs of other tools, different ones for each parser.
ONE_OF = 7


def captures_of(case: Case) -> list[Capture]:
    return case.captures(PARSERS[case.tool])


def few_cuts(text: str) -> Iterator[int]:
    return cut_positions(text, 8)


def all_cuts(text: str) -> Iterator[int]:
    """Return where to cut a text: everywhere but inside a rule or the blanks between columns."""
    return (cut for cut in range(len(text)) if cut == 0 or text[cut - 1 : cut + 1] not in ("  ", "--", "=="))


@by_parser
def test_parser_declaration_is_valid(name: str) -> None:
    assert PARSERS[name].name == name
    assert declaration_violations(PARSERS[name]) == []


@by_parser
def test_parser_keeps_contract_on_each_layout(name: str) -> None:
    parser = PARSERS[name]
    for case in of_each_layout(own_cases(name)):
        for capture in captures_of(case):
            found = parse_violations(parser, capture)
            forms = list(mutations(capture, rounds=3))
            for form in forms[:: len(forms) // 150 + 1]:
                found += [f"{form.name}: {text}" for text in parse_violations(parser, form.capture)]
            found += cut_violations(parser, capture, few_cuts)
            assert found == [], case.id


@pytest.mark.long
@by_capture
def test_parser_keeps_contract_on_its_captures(case: Case) -> None:
    parser = PARSERS[case.tool]
    assert [text for capture in captures_of(case) for text in sample_violations(parser, capture)] == []


@pytest.mark.long
@by_capture
def test_cuts_invent_no_number(case: Case) -> None:
    parser = PARSERS[case.tool]
    assert [text for capture in captures_of(case) for text in cut_violations(parser, capture, all_cuts)] == []


@by_parser
def test_declared_metrics_are_those_of_the_captures(name: str) -> None:
    parser = PARSERS[name]
    captures = [capture for case in own_cases(name) for capture in captures_of(case)]
    given = {metric for capture in captures for _, metric, _, _ in numbers(parser.parse(capture))}
    assert set(parser.gives) == given


@by_parser
def test_parser_rejects_captures_of_other_tools(name: str) -> None:
    for case in of_each_layout(case for case in own_cases() if case.tool != name):
        for capture in captures_of(case):
            assert_reads_nothing(PARSERS[name], capture, case.id)


@pytest.mark.needs("captures")
@pytest.mark.parametrize("one_of", [ONE_OF, pytest.param(1, marks=pytest.mark.long)])
@by_parser
def test_parser_rejects_real_output_of_other_tools(name: str, one_of: int) -> None:
    folder = shared_folder()
    own_folder = None if folder is None else folder / SHARED_FOLDERS.get(name, "none of them")
    files = [path for path in shared_files() if path.parent != own_folder and path.stem not in ALSO_OWN.get(name, ())]
    assert len(files) > 150
    assert sum(path.parent.parent.name == "new-vendors" for path in files) > 80
    for path in files[sorted(PARSERS).index(name) % one_of :: one_of]:
        assert_reads_nothing(PARSERS[name], text_capture(PARSERS[name], shared_text(path)), str(path))


def assert_reads_nothing(parser: Parser, capture: Capture, shown: str) -> None:
    report = parser.parse(capture)
    assert parse_violations(parser, capture) == [], shown
    assert report.outcome != "ok", shown
    assert (report.devices, report.readings) == ((), ()), shown


def test_suite_accepts_good_parser() -> None:
    parser = PARSERS["mthreads-gmi"]
    assert check(parser, [text_of("mthreads-gmi", "table-new-busy")]) == []


COMMAND_PARSERS = command_parsers()
# Exit statuses that do not mean a failed query: see QUIET_STATUSES of rocm.words.
STATUS = 3


def with_status(capture: Capture, status: int) -> Capture:
    return replace(capture, outputs=tuple(replace(output, status=status) for output in capture.outputs))


@pytest.mark.parametrize("name", sorted(COMMAND_PARSERS))
def test_bad_exit_status_is_reported_beside_data(name: str) -> None:
    parser = COMMAND_PARSERS[name]
    for capture in (capture for case in own_cases(name) for capture in case.captures(parser)):
        good = parser.parse(with_status(capture, 0))
        if good.outcome != "ok":
            continue
        bad = parser.parse(with_status(capture, STATUS))
        assert any(f"exit status {STATUS}" in problem.text for problem in bad.problems), bad.problems
        if bad.outcome == "ok":
            assert (bad.devices, bad.readings) == (good.devices, good.readings)
        else:  # what is cut off is not whole
            assert (bad.outcome, bad.reason) == ("failed", "exit_status")


FOLDER = ROOT / "parsers" / "telemetry_parsers"
PROFILE = ROOT / "daemon" / "telemetry_profile"
PURE = (FOLDER, *(PROFILE / room for room in ("facts", "formats", "verdict")))
BANNED_MODULES = frozenset(
    # Modules for the clock, random numbers, files, processes, the network and other libraries.
    [
        "asyncio", "ctypes", "datetime", "importlib", "io", "logging", "multiprocessing", "os", "pathlib", "pickle",
        "platform", "prometheus_client", "psutil", "pydantic", "pynvml", "random", "secrets", "shutil", "signal",
        "socket", "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
    ]
)  # fmt: skip
BANNED_CALLS = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"})
# getattr and setattr with names of fields are allowed.
ALLOWED_CALLS = {FOLDER / "dataclass.py": {"exec"}}


def imports_and_calls(tree: ast.AST) -> Iterator[str]:
    """Yield the first part of each imported module, and the name of each function that is called by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def test_pure_modules_have_no_side_effects() -> None:
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
        names = imports_and_calls(ast.parse(path.read_text(encoding="utf-8")))
        assert (BANNED_MODULES | BANNED_CALLS).intersection(names) == ALLOWED_CALLS.get(path, set()), path
