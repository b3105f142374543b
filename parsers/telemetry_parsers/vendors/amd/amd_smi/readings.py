"""The readings of one card: the text that counts for each metric; its links, processes and bad pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.metrics import reading, states
from telemetry_parsers.model import Absent, Process, Reading, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric, special, switch
from telemetry_parsers.rocm.values import level_of
from telemetry_parsers.vendors.amd.amd_smi.entries import ACTIVE, Block, Entry, Path, link_up, pattern, printed_text
from telemetry_parsers.vendors.amd.amd_smi.keys import (
    BOARDS,
    ECC_COUNTS,
    FIELDS,
    SPARES,
    STACKS,
    VIOLATION_END,
    board_sensor,
    is_many,
    is_quiet,
    temperature,
)

_TOPOLOGY = ("links",)
_XGMI = ("link_metrics", "links")
_STATUS = ("link_status",)
# `read` are the bytes that the card reads from its neighbour over the link.
_BYTES = (("read", "link_receive_bytes_total"), ("write", "link_transmit_bytes_total"))


def read_links(draft: Draft, device: int, block: Block) -> None:
    """Put the links of a card into the draft: by neighbour where it is named, else by their number."""
    for neighbour, link in _links(block, _TOPOLOGY):
        if link.get("link_type", "").upper() == "XGMI":
            _take_state(draft, device, neighbour, link.get("link_status", ""), block)
    for neighbour, link in _links(block, _XGMI):
        for key, name in _BYTES:
            if key in link:
                draft.take(device, (metric(name, neighbour),), link[key], f"{block.where} {neighbour} {key}")
    for number, text in enumerate(entry.text for entry in block.entries if entry.path == _STATUS):
        _take_state(draft, device, str(number), text, block)


def _take_state(draft: Draft, device: int, link: str, text: str, block: Block) -> None:
    draft.take(device, (special("link_up", link_up, link),), text, f"{block.where} link {link}")


def _links(block: Block, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the neighbour at the other end of each link in a list, and the texts of the link by key."""
    links: dict[int, dict[str, str]] = {}
    for entry in block.entries:
        if entry.path[:-1] == path:
            links.setdefault(entry.group, {})[entry.path[-1]] = entry.text
    for link in links.values():
        number = units.whole(link.get("gpu", ""))
        if number is not None and number != block.index:
            yield f"gpu{number}", link


_LIST = "process_list"
_PROCESS = "process_info"
NONE = frozenset({"no running processes detected", "[]"})
NO_PAGES = frozenset({"no bad pages found.", "no bad pages found", "[]"})
_PAGES = ("retired", "pending", "un_res")
# The first keys of links and processes, and of families without a reading.
_ELSEWHERE = frozenset(
    {*_TOPOLOGY, _XGMI[0], *_STATUS, _LIST, _PROCESS, *_PAGES, "ecc_blocks", "throttle", "csv", "partition_id"}
)


def read_processes(draft: Draft, device: int, block: Block) -> None:
    """Put the processes and pages of a card into the draft; a list whose end the text does not show is not counted."""
    groups, instead = _groups(block)
    if groups or instead is not None:
        listed = [item for group in groups if (item := _process(device, group)) is not None]
        draft.processes += listed
        draft.give(device, metric("processes"), _number(block, instead, len(listed), len(groups)))
    retired, pending = _count(block, "retired"), _count(block, "pending")
    if retired is not None:
        draft.give(device, metric("retired_pages", "all"), retired)
    if pending is not None:
        is_waiting = pending if isinstance(pending, Absent) else float(pending > 0)
        draft.give(device, metric("retired_pages_pending"), is_waiting)


def _groups(block: Block) -> tuple[Sequence[Mapping[Path, str]], str | None]:
    """Return the keys of each process, and the text that replaces the list."""
    groups: list[dict[Path, str]] = []
    instead: str | None = None
    for entry in block.entries:
        path = entry.path[1:] if entry.path[0] == _LIST else entry.path
        if path[:1] == (_PROCESS,) and len(path) > 1:
            # In the text form, a section within a process opens its own group. The name begins the next process.
            is_next = path[1] in ("name", "pid") and bool(groups) and path[1] in (key[0] for key in groups[-1])
            if is_next or not groups:
                groups.append({})
            groups[-1].setdefault(path[1:], entry.text)
        elif path in ((_PROCESS,), ()):
            instead = entry.text.strip().lower()
    return groups, instead


def _number(block: Block, instead: str | None, read: int, listed: int) -> Value:
    """Return the number of processes, if all of them were read and the end of the list was found."""
    if instead is not None:
        return float(read) if instead in NONE else Absent.NOT_REPORTED
    if block.open_at is not None and (block.open_at == () or block.open_at[0] in (_PROCESS, _LIST)):
        return Absent.NOT_REPORTED
    return Absent.NOT_UNDERSTOOD if read < listed else float(read)


def _process(device: int, keys: Mapping[Path, str]) -> Process | None:
    pid = units.whole(keys.get(("pid",), ""))
    return None if pid is None else Process(device, pid, printed_text(keys.get(("name",))) or "", _memory(keys))


def _memory(keys: Mapping[Path, str]) -> float | None:
    """Return the device memory of a process. `16.0 EB` is a wrapped count and ignored."""
    for path in (("memory_usage", "vram_mem"), ("vram",), ("mem_usage",), ("mem",)):
        if path in keys:
            value = units.quantity(keys[path], units.BYTES, "B")
            return None if isinstance(value, Absent) else value
    return None


def _count(block: Block, section: str) -> Value | None:
    """Return the number of pages in a list, or None without such a list."""
    entries = [entry for entry in block.entries if entry.path[0] == section]
    if not entries:
        return None
    if entries[0].path == (section,):
        text = entries[0].text.strip()
        return 0.0 if text.lower() in NO_PAGES else units.placeholder(text) or Absent.NOT_UNDERSTOOD
    if block.open_at is not None and block.open_at[:1] == (section,):
        return Absent.NOT_REPORTED
    return float(sum(entry.path == (section, "page_address") for entry in entries))


# The location of errors without a block.
_TOTAL = "all"
_WORD = re.compile(r"[a-z0-9_]{1,40}\Z")


def read_readings(draft: Draft, device: int, block: Block) -> None:
    """Put the readings of a card into the draft; total errors only where those of no block are printed."""
    choice = _Choice(draft, device, block.open_at)
    for entry in block.entries:
        choice.take(entry)
    items = [item for item, _ in choice.chosen.values()]
    by_location = {
        item.metric
        for item in items
        if item.metric in ECC_COUNTS.values() and item.label != _TOTAL and not isinstance(item.value, Absent)
    }
    for item in (*items, *choice.levels):
        if not (item.metric in by_location and item.label == _TOTAL):
            draft.keep(item)


class _Choice:
    """The number that counts for each metric of a card if several keys have one; `chosen` marks spare readings."""

    def __init__(self, draft: Draft, device: int, open_at: Path | None) -> None:
        self._draft = draft
        self._device = device
        self._open_at = open_at
        self._stacks: Counter[Path] = Counter()
        self.chosen: dict[tuple[str, str], tuple[Reading, bool]] = {}
        self.levels: tuple[Reading, ...] = ()

    def take(self, entry: Entry) -> None:
        """Read the text of an entry for each metric that its path names."""
        path = pattern(entry.path)
        targets = FIELDS.get(path) or _of_a_family(entry.path) or self._stack(entry)
        for target in targets:
            self._add(target, entry, path)
        if path == ("perf_level",):
            self._take_level(entry)
        elif not targets and not (is_quiet(path) or path[0] in _ELSEWHERE) and printed_text(entry.text) is not None:
            self._draft.name_unknown("/".join(path[:4]))

    def _add(self, target: Target, entry: Entry, path: Path) -> None:
        value = self._draft.value_in(target, entry.text)
        if value is None:
            return
        item = reading(self._device, target.key, value, target.label)
        self._draft.complain_of(item, entry.text, entry.where)
        of_many = is_many(path)
        if of_many and not entry.text.strip():
            self._draft.complain(entry.where, f"{target.key}: the value of one of several is missing")
        if of_many and len(path) > 2 and self._open_at is not None and path[:2] == self._open_at[:2]:
            # If some are missing, the highest of the others may not be the highest of all.
            item = replace(item, value=Absent.NOT_UNDERSTOOD)
        key, candidate = (target.key, target.label), (item, target in SPARES.get(path, ()))
        before = self.chosen.get(key)
        self.chosen[key] = candidate if before is None else _better(before, candidate, is_many=of_many)

    def _stack(self, entry: Entry) -> tuple[Target, ...]:
        """Return the target of the next stack or die; empty if its temperature is not printed."""
        if entry.path not in STACKS:
            return ()
        self._stacks[entry.path] += 1
        sensor = f"{STACKS[entry.path]}{self._stacks[entry.path] - 1}"
        return (temperature(sensor),) if printed_text(entry.text) is not None else ()

    def _take_level(self, entry: Entry) -> None:
        word = level_of(entry.text)
        if not isinstance(word, Absent):
            self.levels = states(self._device, "performance_level", word)
        else:
            self.levels = ()
            if printed_text(entry.text) is not None or not entry.text.strip():
                item = reading(self._device, "performance_level", Absent.NOT_UNDERSTOOD)
                self._draft.complain_of(item, entry.text, entry.where)


def _better(first: tuple[Reading, bool], other: tuple[Reading, bool], *, is_many: bool) -> tuple[Reading, bool]:
    """Return the better reading: a number before an absence, the main key before a spare one, the higher of many."""
    if isinstance(other[0].value, Absent):
        return first
    if isinstance(first[0].value, Absent) or (first[1] and not other[1]):
        return other
    return other if is_many and first[1] == other[1] and other[0].value > first[0].value else first


def _of_a_family(path: Path) -> tuple[Target, ...]:
    """Return the target of a key that contains the label: a RAS block, a reason to throttle, a sensor of a board."""
    if path[0] == "ecc_blocks" and len(path) == 3 and path[2] in ECC_COUNTS and _WORD.match(path[1]):
        return (metric(ECC_COUNTS[path[2]], path[1]),)
    if path[0] == "throttle" and 2 <= len(path) <= 4 and path[1].endswith(VIOLATION_END):
        reason = path[1].removesuffix(VIOLATION_END)
        if _WORD.match(reason):
            return (switch("throttled", ACTIVE, reason),)
    if len(path) == 3 and path[0] in BOARDS and path[1] == "temperature" and _WORD.match(path[2]):
        return (temperature(board_sensor(path[2])),)
    return ()
