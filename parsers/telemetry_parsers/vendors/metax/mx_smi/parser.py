"""MetaX' mx-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.boxed.lists import is_list, read_list
from telemetry_parsers.boxed.monitor import is_monitor, read_monitor
from telemetry_parsers.boxed.table import is_table, read_table
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.frame import parse as parse_with
from telemetry_parsers.reports.targets import identity
from telemetry_parsers.reports.tool import Shape, Text, Tool, of_lines, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.metax.mx_smi.document import read_document
from telemetry_parsers.vendors.metax.mx_smi.keys import BOX, LIST, MONITOR, OTHER_NAME, STATE, TOOL, VENDOR
from telemetry_parsers.vendors.metax.mx_smi.slices import read_slices

_FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/bin", "/opt/htdriver/bin", "/opt/hpcc/bin")
# A line of `-L`: number, model, bus address, state, and behind it the UUID or the reason of the state.
_LISTED = re.compile(
    r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40})[ \t]{1,20}([0-9a-fA-F:.]{6,20})[ \t]{1,20}((?:Not )?Available)[ \t]{0,4}"
    r"\((?:UUID: (\S{1,80})|([^()]{1,120}))\)\Z"
)
_ATTACHED = re.compile(r"[ \t]{0,8}Attached GPUs[ \t]{0,60}:[ \t]{0,8}([0-9]{1,4})[ \t]{0,8}\Z")


def _is_table(lines: Sequence[Line]) -> bool:
    return is_table(lines, BOX)


def _read_table(lines: Sequence[Line], draft: Draft) -> None:
    read_table(lines, BOX, draft)
    told = next((int(match[1]) for line in lines if line.ended and (match := _ATTACHED.match(line.text))), None)
    if told is not None and told != draft.size():
        draft.complain("text", f"the tool counts {told} cards and lists {draft.size()}")
    read_slices(lines, draft)


def _read_names(answer: Text, draft: Draft) -> bool:
    """The GPUs of `-L`; one that cannot be used is told as a problem."""
    for line in answer.lines:
        match = _LISTED.match(line.text.strip()) if line.ended else None
        if match is None and ("GPU#" in line.text or "vailable" in line.text) and "SGPU#" not in line.text:
            draft.complain(line.where, f"no line of a GPU: {quote(line.text)}")
        if match is None or draft.has(int(match[1])):
            continue
        device = draft.device(int(match[1]))
        for target, text in (
            (identity("model"), match[2]),
            (identity("bus_id"), match[3]),
            (STATE, match[4]),
        ):
            draft.take(device, (target,), text, line.where)
        if match[5]:
            draft.take(device, (identity("uuid"),), match[5], line.where)
        else:
            draft.complain(line.where, f"GPU {match[1]}: {quote(match[4])} ({quote(match[6])})")
    return bool(draft.size())


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR,
    shapes=(
        Shape(read_document, "json"),
        of_lines(_is_table, _read_table),
        Shape(_read_names),
        shape(is_list, read_list, LIST),
        shape(is_monitor, read_monitor, MONITOR),
    ),
    silent="no output: check that the driver metax is loaded and that /dev/mxcd can be opened",
    errors=(
        ErrorText("parse error: argument", "wrong_request"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no gpu", "no_devices", None, "check that lspci shows the cards"),
        ErrorText(
            "attached gpus                                     : 0", "no_devices", None, "lspci shows the cards?"
        ),
    ),
)


def parse(capture: Capture) -> Report:
    """What mx-smi said: devices and readings, or the reason why there are none."""
    return parse_with(capture, _TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=(
        "utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts", "power_cap_watts",
        "temperature_celsius", "performance_state", "ecc_corrected_total", "ecc_uncorrected_total", "retired_pages",
        "processes", "ecc_enabled", "engine_utilization_ratio", "clock_hertz", "throttled", "memory_used_ratio",
        "pcie_link_generation", "pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max", "health",
    ),
    polls=(
        Poll(name="readings", request=Command(alternatives=((TOOL,), (OTHER_NAME,)), folders=_FOLDERS)),
        Poll(
            name="temperatures",
            request=Command(
                alternatives=((TOOL, "--show-temperature"), (OTHER_NAME, "--show-temperature")), folders=_FOLDERS
            ),
            lists_devices=False,
        ),
        Poll(
            name="errors",
            request=Command(alternatives=((TOOL, "--count-ecc"), (OTHER_NAME, "--count-ecc")), folders=_FOLDERS),
            tier="slow",
            interval=60.0,
            lists_devices=False,
        ),
    ),
    parse=parse,
)  # fmt: skip
