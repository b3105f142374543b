"""The shapes of amd-smi's texts, and what to ask for in place of those that are not read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from telemetry_parsers.model import Output, Problem, Report
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Shape, of_lines
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block
from telemetry_parsers.vendors.amd.amd_smi.cards import fill, without_cards
from telemetry_parsers.vendors.amd.amd_smi.saved import box, columns, sections, tables

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
_ADVICE = "; save the output of amd-smi metric --json"


def _of_blocks(is_it: Callable[[Sequence[Line]], bool], read: Callable[[Sequence[Line], Draft], list[Block]]) -> Shape:
    return of_lines(is_it, lambda lines, draft: fill(draft, read(lines, draft)), empty=without_cards)


def _is_version(lines: Sequence[Line]) -> bool:
    return any(line.ended and "AMDSMI Tool:" in line.text for line in lines)


def _read_version(lines: Sequence[Line], draft: Draft) -> list[Block]:
    """The line of `amd-smi version`: names and versions between bars."""
    line = next(line for line in lines if _is_version([line]))
    for match in _VERSION.finditer(line.text):
        name = _VERSION_NAMES.get(match[1].strip().lower())
        if name is not None:
            draft.facts[name] = match[2].strip()
    return []


SHAPES = (
    _of_blocks(sections.is_sections, sections.read_sections),
    _of_blocks(tables.is_table, tables.read_table),
    of_lines(box.is_box, box.read_box),
    _of_blocks(columns.is_csv, columns.read_csv),
    _of_blocks(_is_version, _read_version),
)


def refused(_output: Output, lines: Sequence[Line]) -> Report | None:
    """The report on a shape that is known and not read, with what to ask for instead."""
    for line in lines:
        why = _unread(line.text)
        if why:
            title = _BOX.match(line.text.strip())
            facts = (("tool_version", title[1]),) if title else ()
            return Report("wrong_request", problems=(Problem(line.where, why),), facts=facts)
    return None


def _unread(text: str) -> str:
    """What a line shows that the text is, empty for other lines."""
    if "AMD-SMI" in text and text.lstrip().startswith("|"):
        return f"this is the overview of amd-smi without a sub-command, but not its headings, each on a line of its own{_ADVICE}"
    if _PYTHON.search(text):
        return f"this is Python's print of the data, not JSON{_ADVICE}"
    if _MATRIX.match(text):
        return "these are the tables of amd-smi topology, xgmi or partition; run them with --json"
    return ""
