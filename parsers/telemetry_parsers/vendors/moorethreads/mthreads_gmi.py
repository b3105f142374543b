"""Moore Threads' mthreads-gmi: the shapes of its output, its polls, and its errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from telemetry_parsers.like_nvidia_smi.lists import CardListShape, is_card_heading, read_list
from telemetry_parsers.like_nvidia_smi.table import is_table
from telemetry_parsers.model import Command, Output, Poll, Problem, Reading, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import identity
from telemetry_parsers.reports.tool import Shape, Tool, ToolText, accept_no_devices, always_accept, of_lines, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.echoes import arguments_of
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.moorethreads import default_table, keys, query

TOOL = "mthreads-gmi"
_UNKNOWN_FLAG_MESSAGES = (
    "usage:",
    "invalid argument",
    "invalid parameter",
    "unknown argument",
    "unknown command",
    "unsupported option",
)
ERRORS = (
    # According to the vendor's checker, the usual cause is a disabled IOMMU.
    ErrorText("no mt gpu device found", "no_devices", None, "check that lspci shows the card and the IOMMU is enabled"),
    ErrorText("failed to load driver", "failed", "driver_gone", "load the mtgpu module or reinstall the driver"),
    ErrorText(
        "failed to initialize mtml",
        "failed",
        "driver_gone",
        "if the driver was just reloaded, wait a moment; otherwise load mtgpu and join the groups render and video",
    ),
    # The tool's message for an unknown flag is not documented, so messages that are common in other tools are expected.
    *(ErrorText(text, "wrong_request", None, "this version needs other flags") for text in _UNKNOWN_FLAG_MESSAGES),
)
_NO_OUTPUT = (
    "no output: in a container, mthreads-gmi needs Moore Threads' container toolkit (option --runtime mthreads)"
)

# A line of `-L`: `GPU 0 : MTT S4000 (UUID : 0f1e…)`. Other tools print UUIDs that begin with `GPU-`.
_NAMES = CardListShape(
    card_heading=re.compile(
        r"GPU[ \t]{0,4}([0-9]{1,4})[ \t]{0,4}:[ \t]{0,8}(\S.{0,80}?)[ \t]{0,8}"
        r"\(UUID[ \t]{0,4}:[ \t]{0,4}(?!GPU-|MIG-)([0-9A-Za-z/-]{1,64})\)\Z"
    ),
    card_targets=(identity("index"), identity("model"), identity("uuid")),
    targets_by_key={},
)
_VERSION = re.compile(
    r"[ \t]{0,8}mthreads-gmi version[ \t]{0,8}:?[ \t]{0,8}([0-9][^\s]{0,40})[ \t]{0,8}\Z", re.IGNORECASE
)
# Only processes are polled from the table, because other readings would be older than those of the query.
_PROCESSES = "processes"
_REPORT_TITLE = re.compile(r"={2,}\s{0,4}MUSA\s{1,4}Report={2,}\Z")


def _is_kept(poll: str, item: Reading) -> bool:
    return poll != _PROCESSES or item.metric == _PROCESSES


def _read_version(text: ToolText, draft: Draft) -> bool:
    draft.tool_version, draft.index_space = _find_version(text.lines), ""
    return draft.tool_version is not None and _find_report_title(text.lines) is None


def _find_version(lines: Sequence[Line]) -> str | None:
    return next((match[1] for line in lines if line.ended and (match := _VERSION.match(line.text))), None)


def _find_report_title(lines: Sequence[Line]) -> Line | None:
    return next((line for line in lines if _REPORT_TITLE.match(line.text.strip())), None)


def _report_on_summary(_output: Output, lines: Sequence[Line]) -> Report | None:
    """Return a report on a system summary without readings, or None for any other text."""
    title, version = _find_report_title(lines), _find_version(lines)
    if title is None:
        return None
    text = f"this is a musa_report.sh summary, which has no readings; save the output of {TOOL} itself"
    facts = (("tool_version", version),) if version else ()
    return Report("wrong_request", problems=(Problem(title.where, text),), facts=facts)


def _as_wrong_request(report: Report, output: Output) -> Report:
    """Return `wrong_request` if a command with arguments failed, so that the next command line is tried."""
    has_failed = report.outcome == "failed" and report.reason in ("not_understood", "exit_status")
    has_arguments = bool(arguments_of(output.name, TOOL))
    return replace(report, outcome="wrong_request", reason=None) if has_failed and has_arguments else report


_QUERY_TARGETS = (keys.FIELDS, keys.FAN_TARGET)
_TOOL = Tool(
    name=TOOL,
    vendor=keys.VENDOR,
    shapes=(
        shape(is_table, default_table.read_table, default_table.TABLE),
        of_lines(default_table.is_process_title, default_table.read_process_table, if_empty=accept_no_devices),
        of_lines(query.is_card_heading, query.read_list, tables=_QUERY_TARGETS),
        Shape(query.read_json, "json", tables=_QUERY_TARGETS),
        shape(is_card_heading, read_list, _NAMES),
        Shape(_read_version, if_empty=always_accept),
    ),
    no_output=_NO_OUTPUT,
    errors=ERRORS,
    checks_marks_first=False,
    fallbacks=(_report_on_summary,),
    finish=_as_wrong_request,
)
_FOLDERS = ("/usr/bin", "/usr/local/bin", "/usr/local/musa/bin")

PARSER = parser_of(
    _TOOL,
    Poll("readings", Command(((TOOL, "-q", "--json"), (TOOL, "-q"), (TOOL,)), folders=_FOLDERS)),
    Poll(_PROCESSES, Command(((TOOL,),), folders=_FOLDERS), tier="slow", interval=60.0, lists_devices=False),
    more_metrics=(_PROCESSES,),
    is_kept=_is_kept,
)
