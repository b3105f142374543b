"""Huawei's npu-smi: the shapes of its output, its polls, and its errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.model import Command, Output, Poll, Problem, Reading, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import DeviceTool, Shape, Tool, ToolText, always_accept, of_lines, report_no_devices
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.echoes import Run
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.text.tool_marks import foreign_tool
from telemetry_parsers.vendors.ascend.npu_smi import blocks, default_table, keys, readings, saved
from telemetry_parsers.vendors.ascend.npu_smi.keys import PLACEHOLDERS
from telemetry_parsers.vendors.ascend.npu_smi.readings import Slot
from telemetry_parsers.vendors.ascend.npu_smi.saved import answers_in

TOOL = "npu-smi"
_LOAD_OR_JOIN = "load the driver, or join the group HwHiAiUser if it is loaded"
ERRORS = (
    ErrorText("there is no npu card on this server", "no_devices", None, "check that lspci shows the cards"),
    ErrorText(
        "ret is -8020", "failed", "no_permission", "another container owns the card; run npu-smi there or on the host"
    ),
    ErrorText("ret is -8002", "failed", "no_permission", "run npu-smi as root or as a member of the group HwHiAiUser"),
    ErrorText("ret is -8006", "failed", "timeout", "the driver did not answer in time"),
    ErrorText("ret is -8008", "no_devices", None, "check that lspci shows the cards"),
    ErrorText("ret is -8012", "failed", "driver_gone", "the device is not ready yet"),
    ErrorText("ret is -8255", "wrong_request"),
    ErrorText("ret is -8005", "failed", "driver_gone", _LOAD_OR_JOIN),
    ErrorText("initialize failed", "failed", "driver_gone", _LOAD_OR_JOIN),
    ErrorText("initialized failed", "failed", "driver_gone", _LOAD_OR_JOIN),
    ErrorText("drvmngget", "failed", "driver_gone", _LOAD_OR_JOIN),
    ErrorText("npu get board type failed", "failed", "driver_gone", "the driver does not support the card; see dmesg"),
    ErrorText("invalid card id", "failed", "exit_status", "the card is no longer on the bus; compare with lspci"),
    ErrorText("libdcmi", "failed", "library_mismatch", "reinstall the driver package"),
    ErrorText("libdrvdsmi", "failed", "library_mismatch", "set LD_LIBRARY_PATH to the driver's lib64 folders"),
    ErrorText("does not support", "wrong_request", None, "this product does not report the value"),
    ErrorText("there is no npu chip on this card", "failed", "driver_gone", "the card answers, but its chips do not"),
    ErrorText("must input", "wrong_request", None, "this query needs a card and a chip"),
    ErrorText("cannot be executed on a", "wrong_request", None, "run npu-smi on the host"),
    ErrorText("error parameter of", "wrong_request", None, "this version or product does not support the command"),
    ErrorText("usage: npu-smi", "wrong_request", None, "this version or product does not support the command"),
)
_NO_OUTPUT = "no output: npu-smi always prints something unless it is killed"

_VERSION = re.compile(
    r"[ \t]{0,8}npu-smi[ \t]{1,8}(?:version[ \t]{0,8}:?[ \t]{0,8})?(v?[0-9][^\s|]{0,40})[ \t]{0,8}\Z", re.IGNORECASE
)
_UNSUPPORTED_PHRASES = ("does not support", "dose not support")
# Polls do not repeat metrics of the default table, because values read at different times would alternate.
_METRICS_BY_POLL: Mapping[str, frozenset[str]] = {
    "usages": frozenset({"engine_utilization_ratio", "memory_bandwidth_ratio"}),
    "common": frozenset({"clock_hertz", "clock_max_hertz", "compute_units", "power_card_watts"}),
    "memory": frozenset({"temperature_celsius", "clock_hertz"}),
    "temperatures": frozenset({"temperature_celsius"}),
    "voltage": frozenset({"voltage_volts"}),
    "ecc": frozenset({"ecc_corrected_total", "ecc_uncorrected_total", "retired_pages", "retired_pages_pending"}),
    "pcie-errors": frozenset({"pcie_replays_total", "pcie_errors_total"}),
    "health": frozenset(),
    "board": frozenset(),
    "card": frozenset(),
    "mapping": frozenset(),
}

_TABLE_TEMPERATURE = ("temperature_celsius", "core")
_MAX_SEARCHED_CHARACTERS = 16_384


def _is_added(poll: str, item: Reading) -> bool:
    """Return whether a poll adds this reading to those of the default table."""
    added_metrics = _METRICS_BY_POLL.get(poll)
    return added_metrics is None or (item.metric in added_metrics and (item.metric, item.label) != _TABLE_TEMPERATURE)


def _read_blocks(text: ToolText, draft: Draft) -> bool:
    common_keys = frozenset[str]() if "-t" in text.arguments else keys.COMMON_KEYS
    # Other tools print some of the same keys, so the text is also searched for words that identify other tools.
    is_npu_smi = any(blocks.is_block_line(line, common_keys) for line in text.lines)
    if not is_npu_smi or foreign_tool(text.joined, TOOL) is not None:
        return False
    # To save time, product names are searched only at the start of the text, and only if it mentions memory.
    upper_text = text.joined.upper()
    output_start = text.output.text[:_MAX_SEARCHED_CHARACTERS] if "DDR" in upper_text or "MEMORY" in upper_text else ""
    has_no_hbm = keys.NO_HBM_PATTERN.search(output_start) is not None and keys.HBM_PATTERN.search(output_start) is None
    blocks.read_answer(text.lines, blocks.OutputContext(_requested_slot(text), has_no_hbm), draft)
    return True


def _requested_slot(text: ToolText) -> Slot:
    """Return the card and the chip that the command line requests."""
    command = text.command_of(TOOL)
    return Slot(units.integer(command.value_of("-i") or text.output.target), units.integer(command.value_of("-c")))


def _read_version(text: ToolText, draft: Draft) -> bool:
    versions = (match[1] for line in text.lines if line.ended and (match := _VERSION.match(line.text)))
    draft.tool_version = next(versions, None)
    return draft.tool_version is not None


def _report_on_unsupported_query(output: Output, lines: Sequence[Line]) -> Report | None:
    """Return an empty report if this card does not support the query, else None."""
    first_line = next((line.text.lower() for line in lines if line.text.strip()), "")
    return Report() if output.target and any(phrase in first_line for phrase in _UNSUPPORTED_PHRASES) else None


def _find_missing_answer(run: Run) -> Problem | None:
    if any(line.text.strip() for line in run.lines):
        return None
    return Problem("text", f"the answer to {TOOL} {quote(' '.join(run.arguments))} is missing")


_TOOL = Tool(
    name=TOOL,
    vendor="ascend",
    shapes=(
        of_lines(default_table.is_table, default_table.read_chips, report_no_devices, default_table.TABLES),
        of_lines(readings.mapping_headings, readings.read_mapping, if_empty=always_accept),
        of_lines(saved.watch_headings, saved.read_watch, if_empty=always_accept),
        of_lines(saved.topology_row, saved.read_topology, if_empty=always_accept),
        Shape(_read_blocks, if_empty=always_accept, tables=keys.TABLES),
        Shape(_read_version, if_empty=always_accept),
    ),
    no_output=_NO_OUTPUT,
    errors=ERRORS,
    index_space="",  # the shapes' readers set PHYSICAL_SPACE if all indices are physical ids
    words=PLACEHOLDERS,
    per_device=DeviceTool(TOOL, "an answer that does not name its chip is not read", answers_in, _find_missing_answer),
    checks_marks_first=False,
    fallbacks=(_report_on_unsupported_query,),
)


def _poll_per_card(name: str, query: str, interval: float, *, first_chip: bool = False) -> Poll:
    """Return a poll that calls the tool for each card, or for the first chip of each card."""
    line = (TOOL, "info", "-t", query, "-i", "{card}")
    lines = ((*line, "-c", "0"), line) if first_chip else (line,)
    request = Command(alternatives=lines, folders=_FOLDERS, per="card")
    return Poll(name, request, "slow" if interval < 300 else "inventory", interval, 30.0, lists_devices=False)


_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/bin")
_MAPPING = Command(alternatives=((TOOL, "info", "-m"),), folders=_FOLDERS)
PARSER = parser_of(
    _TOOL,
    Poll("readings", Command(alternatives=((TOOL, "info"),), folders=_FOLDERS)),
    Poll("mapping", _MAPPING, "inventory", 300.0, lists_devices=False),
    _poll_per_card("usages", "usages", 60.0),
    _poll_per_card("common", "common", 60.0),
    _poll_per_card("memory", "memory", 60.0),
    _poll_per_card("temperatures", "temp", 120.0),
    _poll_per_card("voltage", "volt", 120.0),
    _poll_per_card("board", "board", 300.0, first_chip=True),
    _poll_per_card("card", "board", 300.0),
    _poll_per_card("ecc", "ecc", 300.0),
    _poll_per_card("health", "health", 300.0, first_chip=True),
    _poll_per_card("pcie-errors", "pcie-err", 300.0, first_chip=True),
    more_metrics=("processes", "retired_pages_pending"),
    is_kept=_is_added,
)
