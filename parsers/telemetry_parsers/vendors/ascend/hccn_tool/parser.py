"""Huawei's hccn_tool: answers of its sub-commands, alone or one after another with their command lines."""

from __future__ import annotations

from telemetry_parsers.model import Command, Poll, Problem
from telemetry_parsers.reports.parser import parser_of
from telemetry_parsers.reports.tool import Several, Shape, Tool, is_fine
from telemetry_parsers.text.echoes import Run
from telemetry_parsers.text.lines import quote
from telemetry_parsers.text.outputs import failure_of
from telemetry_parsers.vendors.ascend import VENDOR
from telemetry_parsers.vendors.ascend.hccn_tool.answer import parts, read_answer
from telemetry_parsers.vendors.ascend.hccn_tool.keys import COUNTERS, ERRORS, FLAGS, INDEX_SPACE, TOOL


def _missing(run: Run) -> Problem | None:
    """The problem of a command with a flag that this parser reads, where no error says why nothing is read behind it."""
    lines = [line for line in run.lines if line.text.strip()]
    is_other_text = bool(lines) and ":" not in lines[0].text
    if not FLAGS.keys() & set(run.arguments) or is_other_text or failure_of(run.lines, ERRORS):
        return None
    text = f"no answer that is understood to {TOOL} {quote(' '.join(run.arguments))}"
    return Problem(lines[0].where if lines else "text", text)


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR.word,
    shapes=(Shape(read_answer, empty=is_fine, tables=(COUNTERS,)),),
    silent="no output: a chip whose port has no such setting answers with nothing",
    errors=ERRORS,
    index_space=INDEX_SPACE,
    several=Several(
        TOOL,
        "an answer whose command is lost, or names no device, is not read: it may be any device's",
        parts,
        _missing,
    ),
)
_FOLDERS = ("/usr/local/Ascend/driver/tools", "/usr/local/bin", "/usr/bin")


def _poll(name: str, seconds: float, *lines: tuple[str, ...]) -> Poll:
    """A question to every chip; none of the tool's own measuring modes, which take seconds."""
    request = Command(alternatives=tuple((TOOL, *line) for line in lines), folders=_FOLDERS, per="device")
    return Poll(name, request, "slow" if seconds < 300 else "inventory", seconds, 30.0, lists_devices=False)


PARSER = parser_of(
    _TOOL,
    _poll("link", 60.0, ("-i", "{device}", "-link", "-g"), ("-g", "-dev_info", "-i", "{device}")),
    _poll("flaps", 60.0, ("-i", "{device}", "-link_stat", "-g")),
    _poll("statistics", 60.0, ("-i", "{device}", "-stat", "-g")),
    _poll("speed", 300.0, ("-i", "{device}", "-speed", "-g")),
    _poll("net-health", 300.0, ("-i", "{device}", "-net_health", "-g")),
    also=("link_up",),
)
