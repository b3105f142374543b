"""Reads amd-smi's text: a block of indented keys for each device."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.answers import CUT_LINE, SHORTENED, not_understood
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.amd.amd_smi.entries import Block, Entry, Path, field_path, normalize_key
from telemetry_parsers.vendors.amd.amd_smi.keys import ECC_COUNTS, FIELDS, SECTIONS, is_ignored, is_top_level
from telemetry_parsers.vendors.amd.amd_smi.readings import NO_PAGES, NO_PROCESSES

_DEVICE_HEADING = re.compile(r"(GPU|CPU|CORE|NIC|AINIC|SWITCH)[ \t]{0,4}:[ \t]{0,4}([0-9]{1,5})\Z")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_ #%/.()+-]{0,80}?)[ \t]{0,8}:(?:[ \t]{1,8}(\S.{0,2000}))?\Z")
# A clock level without a name: `0: 300 MHz`.
_LEVEL = re.compile(r"([0-9]{1,3}):[ \t]{1,8}(\S.{0,80})\Z")
_MAX_LIST_LINES = 64
_ELLIPSIS = "..."
_LEAF_SUFFIXES = ("_accumulated", "_status", "_activity")
_LIST_SECTIONS = frozenset({"retired", "pending", "process_info"})
# Messages that are printed if a list is empty.
_EMPTY_LIST_MESSAGES = (NO_PROCESSES | NO_PAGES) - {"[]"}


def is_device_heading(line: Line) -> bool:
    """Return whether a line starts the block of a device, such as `GPU: 0`."""
    return line.ended and _DEVICE_HEADING.match(line.text.strip()) is not None


def read_sections(lines: Sequence[Line], draft: Draft) -> list[Block]:
    """Return a block for each device in these lines."""
    parser = _SectionParser(draft, is_flat=_is_flat(lines))
    for line in lines:
        parser.read_line(line)
    return parser.finish()


def _is_flat(lines: Sequence[Line]) -> bool:
    """Return whether the text has lost its indentation."""
    start = next((position for position, line in enumerate(lines) if _DEVICE_HEADING.match(line.text.strip())), 0)
    lines_below = [line for line in lines[start + 1 :] if line.text.strip()]
    indented = [line for line in lines_below if _indent(line) > _indent(lines[start])]
    return not indented or any(_is_section(line) for line in lines_below if _indent(line) <= _indent(lines[start]))


def _is_section(line: Line) -> bool:
    name, colon, value = line.text.strip().partition(":")
    return bool(colon) and not value.strip() and normalize_key(name) in SECTIONS


def _indent(line: Line) -> int:
    text = line.text.expandtabs()
    return len(text) - len(text.lstrip())


class _SectionParser:
    def __init__(self, draft: Draft, *, is_flat: bool) -> None:
        self.blocks: list[Block] = []
        self._draft = draft
        self._is_flat = is_flat
        self._headings: list[tuple[int, str]] = []
        self._device_indent = 0
        self._group = 0
        self._list_lines: list[str] = []
        self._open_list: tuple[Path, Line] | None = None
        self._open_heading: tuple[Path, Line] | None = None
        self._stored_paths: set[tuple[int, Path]] = set()

    def read_line(self, line: Line) -> None:
        text = line.text.strip()
        if line.ended:
            self._finish_heading(line)
        if not line.ended:
            self._draft.add_problem(line.where, CUT_LINE)
        elif self._open_list is not None:
            self._continue_list(text, line)
        elif not text:
            self._complete_block()
        elif text == _ELLIPSIS:
            self._draft.add_problem(line.where, SHORTENED)
        elif device := _DEVICE_HEADING.match(text):
            self._complete_block()
            self._headings, self._device_indent = [], _indent(line)
            self._group += 1
            kind = device[1].lower()
            self.blocks.append(Block(kind, int(device[2]), f"{device[1]} {device[2]}", open_path=()))
        else:
            self._read_key(line, text)

    def _finish_heading(self, line: Line) -> None:
        """Store an empty value for a heading without lines below it."""
        if self._open_heading is None:
            return
        path, heading = self._open_heading
        self._open_heading = None
        if not line.text.strip() or _indent(line) <= _indent(heading):
            self._store_value(path, "", heading)
            if path[0] in _LIST_SECTIONS:
                self._draft.add_problem(heading.where, f"no lines follow this heading: {quote(heading.text)}")

    def finish(self) -> list[Block]:
        if self._open_heading is not None:
            self._store_value(self._open_heading[0], "", self._open_heading[1])
        if self._open_list is not None:
            self._draft.add_problem(self._open_list[1].where, "the text ends inside this list, which is not read")
        return self.blocks

    def _complete_block(self) -> None:
        """Mark the block as complete after a blank line or before the next device."""
        if self.blocks:
            self.blocks[-1].open_path = None

    def _read_key(self, line: Line, text: str) -> None:
        if self.blocks and not self._is_flat and _indent(line) <= self._device_indent:
            # A line that is not indented more than the card's heading is from another program.
            self._draft.add_problem(line.where, not_understood(text))
            return
        level = _LEVEL.match(text)
        match = _KEY.match(f"level {level[1]}: {level[2]}" if level else text)
        if self.blocks and self.blocks[-1].kind != "gpu":
            return
        if match is None and self._headings and self.blocks:
            self._read_bare_line(text, line)
            return
        if match is None or not self.blocks:
            self._draft.add_problem(line.where, not_understood(text))
            return
        key, value = normalize_key(match[1]), match[2]
        if value is None:
            value = self._text_of_bare_key(key, line)
        path = self._resolve_path(line, key, is_heading=value is None)
        if value is None:
            self._group += 1
            self._open_heading = None if self._is_flat else (path, line)
        elif value.startswith("[") and "]" not in value:
            self._list_lines, self._open_list = [value], (path, line)
        else:
            self._store_value(path, value, line)

    def _text_of_bare_key(self, key: str, line: Line) -> str | None:
        """Return an empty string if the key's value is missing, or None if the key is a heading."""
        if key == "gpu":
            self._draft.add_problem(line.where, "a card has no number; the lines below may belong to another card")
        return "" if self._is_flat and self._is_leaf(key) else None

    def _is_leaf(self, key: str) -> bool:
        """Return whether a key is known to have a value."""
        path = (*(name for _, name in self._headings), key)
        is_field = field_path(path) in FIELDS or field_path((path[0], key)) in FIELDS
        return is_field or key in (*ECC_COUNTS, "perf_level") or key.endswith(_LEAF_SUFFIXES)

    def _read_bare_line(self, text: str, line: Line) -> None:
        """Read a line without a key, such as a message that a list is empty."""
        path = tuple(name for _, name in self._headings)
        if text.lower() in _EMPTY_LIST_MESSAGES:
            self._store_value(path, text, line)
        elif not is_ignored(path) or ":" in (text[0], text[-1]):
            self._draft.add_problem(line.where, not_understood(text))

    def _resolve_path(self, line: Line, key: str, *, is_heading: bool) -> Path:
        """Return the path of a key below the current headings. Update the headings."""
        if self._is_flat:
            if is_heading and (key in SECTIONS or len(self._headings) > 1):
                del self._headings[0 if key in SECTIONS else 1 :]
        else:
            indent = _indent(line)
            while self._headings and self._headings[-1][0] >= indent:
                self._headings.pop()
        path = (*(name for _, name in self._headings), key)
        if is_heading:
            self._headings.append((_indent(line), key))
        elif self._is_flat and is_top_level(key):
            path = (key,)
        elif self._is_flat and field_path(path) not in FIELDS and field_path((path[0], key)) in FIELDS:
            path = (path[0], key)
        return path

    def _continue_list(self, text: str, line: Line) -> None:
        self._list_lines.append(text)
        path, first_line = self._open_list or ((), line)
        if "]" in text:
            self._store_value(path, " ".join(self._list_lines), first_line)
            self._open_list = None
        elif len(self._list_lines) > _MAX_LIST_LINES or not text:
            self._draft.add_problem(first_line.where, "the list is ignored, because it is not closed")
            self._open_list = None

    def _store_value(self, path: Path, value: str, line: Line) -> None:
        block = self.blocks[-1]
        if block.kind == "gpu" and (self._group, path) in self._stored_paths and not path[-1].startswith("policy"):
            self._draft.add_problem(line.where, f"the key is repeated, so a heading may be missing: {quote(line.text)}")
        elif block.kind == "gpu":
            self._stored_paths.add((self._group, path))
            where = f"{block.where} {line.where}"
            block.entries += [Entry(path, item, self._group, where) for item in list_items(value)]
        block.open_path = field_path(path)


def list_items(value: str) -> list[str]:
    """Return the items of a list such as `[0 %, N/A]`."""
    items_text, bracket, unit = value.partition("]")
    if not items_text.startswith("[") or not bracket:
        return [value.strip()]
    items = [item.strip(" \t'\"") for item in items_text[1:].split(",")]
    if len(items) > 1 and "" in items:
        return [value.strip()]  # an item is missing, so the positions of the other items are unknown
    return [f"{item} {unit}".strip() for item in items]
