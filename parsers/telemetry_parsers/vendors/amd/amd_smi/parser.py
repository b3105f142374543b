"""amd-smi: which of its shapes a text has, the one parser for all of them, and what to ask."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.model import Command, Output, Poll, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.parser import parser_of
from telemetry_parsers.reports.tool import Shape, Text, Tool
from telemetry_parsers.text.answers import failed
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.amd import VENDOR
from telemetry_parsers.vendors.amd.amd_smi import cards, documents, keys
from telemetry_parsers.vendors.amd.amd_smi.saved import shapes
from telemetry_parsers.vendors.amd.amd_smi.words import ERRORS, SILENT, TOOL

_JSON_MARK = re.compile(r"^[ \t]{0,80}\"(?:gpu|gpu_data|gpu_id)\"[ \t]{0,4}:", re.MULTILINE)


def _read_json(text: Text, draft: Draft) -> bool:
    blocks = documents.read_documents(text.joined, draft)
    if blocks is not None:
        cards.fill(draft, blocks)
    return blocks is not None


def _error_in_json(output: Output, _lines: Sequence[Line]) -> Report | None:
    message = documents.error_of(output.text)
    return None if message is None else failed("exit_status", "JSON", quote(message))


def _no_whole_device(output: Output, _lines: Sequence[Line]) -> Report | None:
    if _JSON_MARK.search(output.text) is None:
        return None
    return failed("not_understood", "JSON", "JSON that is cut off or broken; no device in it is whole")


_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR.word,
    # All that the polls ask for is JSON.
    shapes=(Shape(_read_json, "json", cards.without_cards, (keys.FIELDS,)), *shapes.SHAPES),
    silent=SILENT,
    errors=ERRORS,
    marks_first=False,
    refusals=(shapes.refused,),
    remnants=(_error_in_json, _no_whole_device),
)
_FOLDERS = ("/opt/rocm/bin", "/usr/bin", "/usr/local/bin")
# A process that is killed in the middle leaves the lock that librocm_smi shares with other users of it (RCCL) dead;
# with this it takes one of its own.
_ENVIRONMENT = (("RSMI_MUTEX_THREAD_ONLY", "1"),)


def _ask(*commands: str) -> Command:
    return Command(tuple((TOOL, command, "--json") for command in commands), env=_ENVIRONMENT, folders=_FOLDERS)


# It takes seconds for a node of eight cards, and wakes those that sleep.
PARSER = parser_of(
    _TOOL,
    Poll("metric", _ask("metric", "monitor"), "fast", 30.0, 20.0, wakes=True),
    Poll("list", _ask("list"), "inventory", 300.0, 20.0, wakes=True),
    Poll("static", _ask("static"), "inventory", 300.0, 30.0, wakes=True),
    Poll("process", _ask("process"), "slow", 60.0, 20.0, lists_devices=False, wakes=True),
    also=(
        *keys.ECC_COUNTS.values(), "performance_level", "processes", "retired_pages", "retired_pages_pending",
        "link_up", "link_receive_bytes_total", "link_transmit_bytes_total",
    ),
)  # fmt: skip
