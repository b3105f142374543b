"""amd-smi: the shapes of its output, its polls, and its errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from telemetry_parsers.model import Command, Output, Poll, Problem, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Shape, Tool, ToolText, of_lines
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.rocm.tool import PRIVATE_LOCKS_ENV
from telemetry_parsers.text.answers import ErrorText, failed
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.amd.amd_smi import cards, json_documents, keys, saved_csv, saved_sections, saved_tables
from telemetry_parsers.vendors.amd.amd_smi.cards import read_blocks, report_no_cards
from telemetry_parsers.vendors.amd.amd_smi.entries import TOOL, Block

_JOIN_GROUPS = "add the user to the groups render and video"
_LOAD_DRIVER = "load the amdgpu module"
_NO_SUCH_GPU = "select a GPU from the output of `amd-smi list`"
_UNKNOWN_COMMAND = "this version does not support the command line"
_REINSTALL = "reinstall amd-smi-lib of the same ROCm version"
ERRORS = (
    ErrorText("missing the following required groups", "failed", "no_permission", _JOIN_GROUPS),
    ErrorText("requires elevation", "failed", "no_permission", "run amd-smi as root"),
    ErrorText("can not find a device", "wrong_request", None, _NO_SUCH_GPU),
    ErrorText("cannot be found on the system", "wrong_request", None, _NO_SUCH_GPU),
    ErrorText("devicenotfoundexception", "wrong_request", None, _NO_SUCH_GPU),
    ErrorText("unable to detect any gpu", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("unable to get devices", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("not found in modules", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("driver_not_loaded", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("drivernotloaded", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("amdsmi_status_init_error", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("initialization error", "failed", "driver_gone", _LOAD_DRIVER),
    ErrorText("is invalid. run", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("invalid choice", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("is not supported on the system", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("is not of valid type or format", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("requires a value", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("invalidcommandexception", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("invalidparameter", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("parameternotsupportedexception", "wrong_request", None, _UNKNOWN_COMMAND),
    ErrorText("amd-smi: no such file or directory", "failed", "exit_status", "install the tool or give its path"),
    ErrorText("libamd_smi", "failed", "library_mismatch", _REINSTALL),
    ErrorText("no module named", "failed", "library_mismatch", _REINSTALL),
    ErrorText("amdsmi_cli_exceptions", "failed", "exit_status"),
    ErrorText("amdsmi has returned error", "failed", "exit_status"),
)
_NO_OUTPUT = "no output: load the amdgpu module, without which amd-smi prints nothing"

_VERSION_ENTRY = re.compile(r"([A-Za-z_ -]{2,40})[ \t]?:[ \t]([^|]{1,300})(?:\||\Z)")
_FACTS_BY_VERSION_NAME = {
    "amdsmi tool": "tool_version",
    "amdsmi library version": "library_version",
    "rocm version": "rocm_version",
}
_OVERVIEW_TITLE = re.compile(r"\|[ \t]{1,4}AMD-SMI[ \t]{1,4}([0-9]\S{0,40})[ \t]")
_PYTHON_DATA = re.compile(r"\(Pdb\)|\{'[a-z_]{1,40}': ")
_TABLE_TITLE = re.compile(
    r"\s{0,8}(?:[A-Z -]{2,20} TABLE|(?:XGMI LINK|GPU LINK PORT) STATUS|(?:CURRENT|MEMORY)_PARTITION"
    r"|ACCELERATOR_PARTITION_(?:PROFILES|RESOURCES)):?\s{0,8}\Z"
)
_ADVICE = "; save the output of amd-smi metric --json"


def _block_shape(is_mark: Callable[[Line], object], read: Callable[[Sequence[Line], Draft], list[Block]]) -> Shape:
    return of_lines(is_mark, lambda lines, draft: read_blocks(draft, read(lines, draft)), if_empty=report_no_cards)


def _is_version(line: Line) -> bool:
    return line.ended and "AMDSMI Tool:" in line.text


def _read_version(lines: Sequence[Line], draft: Draft) -> list[Block]:
    """Store the versions in the output of `amd-smi version`, a line such as `name: version | name: version`."""
    for match in _VERSION_ENTRY.finditer(next(filter(_is_version, lines)).text):
        name = _FACTS_BY_VERSION_NAME.get(match[1].strip().lower())
        if name is not None:
            draft.facts[name] = match[2].strip()
    return []


_TEXT_SHAPES = (
    _block_shape(saved_sections.is_device_heading, saved_sections.read_sections),
    _block_shape(saved_tables.table_headings, saved_tables.read_table),
    of_lines(saved_tables.is_overview_heading, saved_tables.read_overview),
    _block_shape(saved_csv.csv_headings, saved_csv.read_csv),
    _block_shape(_is_version, _read_version),
)


def report_on_unsupported(_output: Output, lines: Sequence[Line]) -> Report | None:
    """Return a report on unsupported output, or None for any other output."""
    for line in lines:
        reason = _unsupported_reason(line.text)
        if reason:
            title = _OVERVIEW_TITLE.match(line.text.strip())
            facts = (("tool_version", title[1]),) if title else ()
            return Report("wrong_request", problems=(Problem(line.where, reason),), facts=facts)
    return None


def _unsupported_reason(line: str) -> str:
    """Return why output that contains this line is not supported, or an empty string."""
    if "AMD-SMI" in line and line.lstrip().startswith("|"):
        return f"this is the overview of amd-smi, but its heading lines are missing{_ADVICE}"
    if _PYTHON_DATA.search(line):
        return f"this is Python data, not JSON{_ADVICE}"
    if _TABLE_TITLE.match(line):
        return "these are the tables of amd-smi topology, xgmi or partition; run these commands with --json"
    return ""


_GPU_KEY = re.compile(r"^[ \t]{0,80}\"(?:gpu|gpu_data|gpu_id)\"[ \t]{0,4}:", re.MULTILINE)


def _read_json(text: ToolText, draft: Draft) -> bool:
    blocks = json_documents.read_documents(text.joined, draft)
    if blocks is not None:
        cards.read_blocks(draft, blocks)
    return blocks is not None


def _report_on_json_error(output: Output, _lines: Sequence[Line]) -> Report | None:
    message = json_documents.error_message(output.text)
    return None if message is None else failed("exit_status", "JSON", quote(message))


def _report_on_broken_json(output: Output, _lines: Sequence[Line]) -> Report | None:
    if _GPU_KEY.search(output.text) is None:
        return None
    return failed("not_understood", "JSON", "the JSON is cut off or broken and has no complete device")


_TOOL = Tool(
    name=TOOL,
    vendor="amd",
    # JSON comes first, because all polls request it.
    shapes=(Shape(_read_json, "json", cards.report_no_cards, (keys.FIELDS,)), *_TEXT_SHAPES),
    no_output=_NO_OUTPUT,
    errors=ERRORS,
    checks_marks_first=False,
    fallbacks=(report_on_unsupported,),
    late_fallbacks=(_report_on_json_error, _report_on_broken_json),
)
_FOLDERS = ("/opt/rocm/bin", "/usr/bin", "/usr/local/bin")


def _command(*commands: str) -> Command:
    return Command(tuple((TOOL, command, "--json") for command in commands), env=PRIVATE_LOCKS_ENV, folders=_FOLDERS)


# On a node with eight cards, a call takes seconds. Each call wakes sleeping cards.
PARSER = parser_of(
    _TOOL,
    Poll("metric", _command("metric", "monitor"), "fast", 30.0, 20.0, wakes=True),
    Poll("list", _command("list"), "inventory", 300.0, 20.0, wakes=True),
    Poll("static", _command("static"), "inventory", 300.0, 30.0, wakes=True),
    Poll("process", _command("process"), "slow", 60.0, 20.0, lists_devices=False, wakes=True),
    more_metrics=(
        *keys.ECC_COUNTS.values(), "performance_level", "processes", "retired_pages", "retired_pages_pending",
        "link_up", "link_receive_bytes_total", "link_transmit_bytes_total",
    ),
)  # fmt: skip
