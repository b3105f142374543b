"""amd-smi: which of its shapes a text has, the one parser for all of them, and what to ask."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Output, Poll, Problem, Report
from telemetry_parsers.text.answers import failed, failed_midway
from telemetry_parsers.text.lines import Line, lines, quote
from telemetry_parsers.text.outputs import (
    report_on,
    report_on_error,
    report_on_silence,
    report_on_unknown,
    too_long,
    with_complaints,
)
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.amd.amd_smi import box, cards, columns, documents, keys, sections, tables
from telemetry_parsers.vendors.amd.amd_smi.blocks import Outcome
from telemetry_parsers.vendors.amd.amd_smi.words import ERRORS, SILENT, TOOL, VENDOR

_VERSION = re.compile(r"([A-Za-z_ -]{2,40})[ \t]?:[ \t]([^|]{1,300})(?:\||\Z)")
_VERSION_NAMES = {
    "amdsmi tool": "tool_version",
    "amdsmi library version": "library_version",
    "rocm version": "rocm_version",
}
_BOX = re.compile(r"\|[ \t]{1,4}AMD-SMI[ \t]{1,4}([0-9]\S{0,40})[ \t]")
_PYTHON = re.compile(r"\(Pdb\)|\{'[a-z_]{1,40}': ")
_MATRIX = re.compile(
    r"\s{0,8}(?:[A-Z -]{2,20} TABLE|(?:XGMI LINK|GPU LINK PORT) STATUS|(?:CURRENT|MEMORY)_PARTITION"
    r"|ACCELERATOR_PARTITION_(?:PROFILES|RESOURCES)):?\s{0,8}\Z"
)
_JSON_MARK = re.compile(r"^[ \t]{0,80}\"(?:gpu|gpu_data|gpu_id)\"[ \t]{0,4}:", re.MULTILINE)


def parse(capture: Capture) -> Report:
    """What amd-smi said: devices and readings, or the reason why there are none."""
    return report_on(capture, _one, SILENT)


def _one(output: Output) -> Report:
    refusal = too_long(output, TOOL)
    if refusal is not None:
        return refusal
    stdout, stderr = lines(output.text), lines(output.stderr, "stderr")
    outcome = _shape(stdout)
    if outcome is None:
        bare = without_prefix(stdout)
        outcome = _shape(bare) if bare != stdout else None
    if outcome is None:
        return _nothing(output, [*stdout, *stderr])
    report = cards.report_of(outcome)
    if output.status and not outcome.complete:
        return failed_midway(report, output.status)
    return with_complaints(report, output)


def _shape(found: Sequence[Line]) -> Outcome | None:
    """What a text says, by the shape that it has; None when it has none of the tool's."""
    outcome = documents.read_documents("".join(line.text + "\n" * line.ended for line in found))
    if outcome is not None:
        return outcome
    if sections.is_sections(found):
        return sections.read_sections(found)
    if tables.is_table(found):
        return tables.read_table(found)
    if box.is_box(found):
        return box.read_box(found)
    if columns.is_csv(found):
        return columns.read_csv(found)
    return _version(found)


def _version(found: Sequence[Line]) -> Outcome | None:
    """The line of `amd-smi version`: names and versions between bars."""
    line = next((line for line in found if line.ended and "AMDSMI Tool:" in line.text), None)
    if line is None:
        return None
    outcome = Outcome("text")
    for match in _VERSION.finditer(line.text):
        name = _VERSION_NAMES.get(match[1].strip().lower())
        if name is not None:
            outcome.facts[name] = match[2].strip()
    return outcome


def _nothing(output: Output, found: Sequence[Line]) -> Report:
    """The report on a text without any shape that gives readings."""
    why = report_on_silence(output, found, SILENT) or _refused(found) or report_on_error(output, found, TOOL, ERRORS)
    if why is not None:
        return why
    message = documents.error_of(output.text)
    if message is not None:
        return failed("exit_status", "JSON", quote(message))
    if _JSON_MARK.search(output.text):
        return failed("not_understood", "JSON", "JSON that is cut off or broken; no device in it is whole")
    return report_on_unknown(output, found, TOOL)


def _refused(found: Sequence[Line]) -> Report | None:
    """The report on a shape that is known and not read, with what to ask for instead."""
    for line in found:
        title = _BOX.match(line.text.strip())
        text = None
        if title is not None or ("AMD-SMI" in line.text and line.text.lstrip().startswith("|")):
            text = (
                "this is the overview of amd-smi without a sub-command, but not its headings, each on a line of its own"
            )
        elif _PYTHON.search(line.text):
            text = "this is Python's print of the data, not JSON"
        elif _MATRIX.match(line.text):
            text = "these are the tables of amd-smi topology, xgmi or partition; run them with --json"
        if text is not None:
            facts = (("tool_version", title[1]),) if title else ()
            advice = "" if "--json" in text else "; save the output of amd-smi metric --json"
            return Report("wrong_request", problems=(Problem(line.where, text + advice),), facts=facts)
    return None


_FOLDERS = ("/opt/rocm/bin", "/usr/bin", "/usr/local/bin")
# A process that is killed in the middle leaves the lock that librocm_smi shares with other users of it (RCCL) dead;
# with this it takes one of its own.
_ENVIRONMENT = (("RSMI_MUTEX_THREAD_ONLY", "1"),)


def _ask(*alternatives: tuple[str, ...]) -> Command:
    return Command(alternatives, env=_ENVIRONMENT, folders=_FOLDERS)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=tuple(
        dict.fromkeys(
            (
                *(field.metric for fields in keys.FIELDS.values() for field in fields),
                *keys.ECC_COUNTS.values(),
                "throttled",
                "performance_level",
                "processes",
                "retired_pages",
                "retired_pages_pending",
                "link_up",
                "link_receive_bytes_total",
                "link_transmit_bytes_total",
            )
        )
    ),
    # It takes seconds for a node of eight cards, and wakes those that sleep.
    polls=(
        Poll(
            "metric",
            _ask((TOOL, "metric", "--json"), (TOOL, "monitor", "--json")),
            "fast",
            interval=30.0,
            deadline=20.0,
            wakes=True,
        ),
        Poll("list", _ask((TOOL, "list", "--json")), "inventory", interval=300.0, deadline=20.0, wakes=True),
        Poll("static", _ask((TOOL, "static", "--json")), "inventory", interval=300.0, deadline=30.0, wakes=True),
        Poll(
            "process",
            _ask((TOOL, "process", "--json")),
            "slow",
            interval=60.0,
            deadline=20.0,
            lists_devices=False,
            wakes=True,
        ),
    ),
    parse=parse,
)
