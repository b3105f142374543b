"""Adds the readings, links, processes and retired pages of one card to a draft."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.metrics import reading, state_readings
from telemetry_parsers.model import Absent, Process, Reading, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric, parsed, switch
from telemetry_parsers.rocm.values import performance_level_of
from telemetry_parsers.vendors.amd.amd_smi.entries import ACTIVE, ENABLED, Block, Entry, Path, field_path, printed_text
from telemetry_parsers.vendors.amd.amd_smi.keys import (
    BOARD_SECTIONS,
    ECC_COUNTS,
    FALLBACK_TARGETS,
    FIELDS,
    STACK_LABELS,
    VIOLATION_SUFFIX,
    board_sensor_label,
    is_ignored,
    may_repeat,
    temperature_target,
)

_TOPOLOGY_LINKS = ("links",)
_XGMI_LINKS = ("link_metrics", "links")
_LINK_STATUS = ("link_status",)
_LINK_STATES: Mapping[str, float] = {**ENABLED, "u": 1.0, "d": 0.0, "up": 1.0, "down": 0.0}
_DISABLED_LINK = "X"
# `read` is the number of bytes that the card reads from its neighbour.
_BYTE_COUNTERS = (("read", "link_receive_bytes_total"), ("write", "link_transmit_bytes_total"))


def read_links(draft: Draft, device: int, block: Block) -> None:
    """Add the states and byte counts of a card's links. Their label is the neighbour or the link's number."""
    for neighbour, link in _parse_links(block, _TOPOLOGY_LINKS):
        if link.get("link_type", "").upper() == "XGMI":
            _store_link_state(draft, device, neighbour, link.get("link_status", ""), block)
    for neighbour, link in _parse_links(block, _XGMI_LINKS):
        for key, name in _BYTE_COUNTERS:
            if key in link:
                draft.store(device, (metric(name, neighbour),), link[key], f"{block.where} {neighbour} {key}")
    for link_index, text in enumerate(entry.text for entry in block.entries if entry.path == _LINK_STATUS):
        _store_link_state(draft, device, str(link_index), text, block)


def _store_link_state(draft: Draft, device: int, link: str, text: str, block: Block) -> None:
    draft.store(device, (parsed("link_up", _parse_link_state, link),), text, f"{block.where} link {link}")


def _parse_link_state(text: str, _unit: str) -> Value:
    """Return 1 if all links between two devices are up, else 0."""
    absence = units.placeholder(text)
    if absence is not None:
        return absence
    states = [state.strip().lower() for state in text.split("/") if state.strip().upper() != _DISABLED_LINK]
    values = [_LINK_STATES[state] for state in states if state in _LINK_STATES]
    return Absent.NOT_UNDERSTOOD if len(values) < len(states) else min(values, default=Absent.NOT_SUPPORTED)


def _parse_links(block: Block, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (neighbour, printed values by key) for each link in the list at this path."""
    links_by_group: dict[int, dict[str, str]] = {}
    for entry in block.entries:
        if entry.path[:-1] == path:
            links_by_group.setdefault(entry.group, {})[entry.path[-1]] = entry.text
    for link in links_by_group.values():
        neighbour_index = units.integer(link.get("gpu", ""))
        if neighbour_index is not None and neighbour_index != block.index:
            yield f"gpu{neighbour_index}", link


_PROCESS_LIST = "process_list"
_PROCESS = "process_info"
NO_PROCESSES = frozenset({"no running processes detected", "[]"})
NO_PAGES = frozenset({"no bad pages found.", "no bad pages found", "[]"})
_PAGE_SECTIONS = ("retired", "pending", "un_res")
# Paths that begin with one of these keys are read by other functions or have no metric.
_OTHER_SECTIONS = frozenset(
    {
        *_TOPOLOGY_LINKS, *_XGMI_LINKS, *_LINK_STATUS, _PROCESS_LIST, _PROCESS, *_PAGE_SECTIONS, "ecc_blocks", "throttle",
        "csv", "partition_id",
    }
)  # fmt: skip


def read_processes(draft: Draft, device: int, block: Block) -> None:
    """Add a card's processes and retired pages to the draft."""
    groups, message = _process_groups(block)
    if groups or message is not None:
        processes = [item for group in groups if (item := _parse_process(device, group)) is not None]
        draft.processes += processes
        draft.set_value(device, metric("processes"), _process_count(block, message, len(processes), len(groups)))
    retired, pending = _page_count(block, "retired"), _page_count(block, "pending")
    if retired is not None:
        draft.set_value(device, metric("retired_pages", "all"), retired)
    if pending is not None:
        pending_flag = pending if isinstance(pending, Absent) else float(pending > 0)
        draft.set_value(device, metric("retired_pages_pending"), pending_flag)


def _process_groups(block: Block) -> tuple[Sequence[Mapping[Path, str]], str | None]:
    """Return (printed values by path, for each process; the message that is printed instead of processes, if any)."""
    groups: list[dict[Path, str]] = []
    message: str | None = None
    for entry in block.entries:
        path = entry.path[1:] if entry.path[0] == _PROCESS_LIST else entry.path
        if path[:1] == (_PROCESS,) and len(path) > 1:
            # In printed text, a repeated name or PID begins the next process.
            starts_process = path[1] in ("name", "pid") and bool(groups) and path[1] in (key[0] for key in groups[-1])
            if starts_process or not groups:
                groups.append({})
            groups[-1].setdefault(path[1:], entry.text)
        elif path in ((_PROCESS,), ()):
            message = entry.text.strip().lower()
    return groups, message


def _process_count(block: Block, message: str | None, read_count: int, listed_count: int) -> Value:
    """Return the number of processes, or an `Absent` value if the list may be incomplete."""
    if message is not None:
        return float(read_count) if message in NO_PROCESSES else Absent.NOT_REPORTED
    if block.open_path is not None and (block.open_path == () or block.open_path[0] in (_PROCESS, _PROCESS_LIST)):
        return Absent.NOT_REPORTED
    return Absent.NOT_UNDERSTOOD if read_count < listed_count else float(read_count)


def _parse_process(device: int, texts: Mapping[Path, str]) -> Process | None:
    pid, name = units.integer(texts.get(("pid",), "")), printed_text(texts.get(("name",))) or ""
    return None if pid is None else Process(device, pid, name, _process_memory(texts))


def _process_memory(texts: Mapping[Path, str]) -> float | None:
    for path in (("memory_usage", "vram_mem"), ("vram",), ("mem_usage",), ("mem",)):
        if path in texts:
            value = units.quantity(texts[path], units.BYTES, "B")
            return None if isinstance(value, Absent) else value
    return None


def _page_count(block: Block, section: str) -> Value | None:
    """Return the number of listed pages, or None if the section is not printed."""
    entries = [entry for entry in block.entries if entry.path[0] == section]
    if not entries:
        return None
    if entries[0].path == (section,):
        text = entries[0].text.strip()
        return 0.0 if text.lower() in NO_PAGES else units.placeholder(text) or Absent.NOT_UNDERSTOOD
    if block.open_path is not None and block.open_path[:1] == (section,):
        return Absent.NOT_REPORTED
    return float(sum(entry.path == (section, "page_address") for entry in entries))


# The label of the total error count of all RAS blocks.
_ALL_BLOCKS = "all"
_LABEL = re.compile(r"[a-z0-9_]{1,40}\Z")


def read_readings(draft: Draft, device: int, block: Block) -> None:
    """Add a card's readings to the draft."""
    chooser = _ReadingChooser(draft, device, block.open_path)
    for entry in block.entries:
        chooser.read_entry(entry)
    items = [item for item, _ in chooser.chosen.values()]
    metrics_with_block_counts = {
        item.metric
        for item in items
        if item.metric in ECC_COUNTS.values() and item.label != _ALL_BLOCKS and not isinstance(item.value, Absent)
    }
    # A total over all blocks is omitted if there are counts of single blocks.
    for item in (*items, *chooser.level_readings):
        if not (item.metric in metrics_with_block_counts and item.label == _ALL_BLOCKS):
            draft.add_reading(item)


# (reading, whether its key is a fallback)
_Candidate = tuple[Reading, bool]


class _ReadingChooser:
    """Chooses one reading for each (metric, label)."""

    def __init__(self, draft: Draft, device: int, open_path: Path | None) -> None:
        self._draft = draft
        self._device = device
        self._open_path = open_path
        self._stack_counts: Counter[Path] = Counter()
        self.chosen: dict[tuple[str, str], _Candidate] = {}
        self.level_readings: tuple[Reading, ...] = ()

    def read_entry(self, entry: Entry) -> None:
        """Store the entry's value as a candidate for each of its metrics."""
        path = field_path(entry.path)
        targets = FIELDS.get(path) or _labelled_targets(entry.path) or self._stack_targets(entry)
        for target in targets:
            self._add_candidate(target, entry, path)
        if path == ("perf_level",):
            self._read_performance_level(entry)
        elif not (targets or is_ignored(path) or path[0] in _OTHER_SECTIONS) and printed_text(entry.text) is not None:
            self._draft.add_unknown("/".join(path[:4]))

    def _add_candidate(self, target: Target, entry: Entry, path: Path) -> None:
        value = self._draft.value_in(target, entry.text)
        if value is None:
            return
        item = reading(self._device, target.key, value, target.label)
        self._draft.report_bad_value(item, entry.text, entry.where)
        is_repeated = may_repeat(path)
        if is_repeated and not entry.text.strip():
            self._draft.add_problem(entry.where, f"{target.key}: one of the values is missing")
        if is_repeated and len(path) > 2 and self._open_path is not None and path[:2] == self._open_path[:2]:
            # The list may be cut off before its highest value.
            item = replace(item, value=Absent.NOT_UNDERSTOOD)
        key, candidate = (target.key, target.label), (item, target in FALLBACK_TARGETS.get(path, ()))
        previous = self.chosen.get(key)
        self.chosen[key] = candidate if previous is None else _preferred(previous, candidate, is_repeated=is_repeated)

    def _stack_targets(self, entry: Entry) -> tuple[Target, ...]:
        """Return the temperature target of the next memory stack or die, if any."""
        if entry.path not in STACK_LABELS:
            return ()
        self._stack_counts[entry.path] += 1
        sensor = f"{STACK_LABELS[entry.path]}{self._stack_counts[entry.path] - 1}"
        return (temperature_target(sensor),) if printed_text(entry.text) is not None else ()

    def _read_performance_level(self, entry: Entry) -> None:
        word = performance_level_of(entry.text)
        if not isinstance(word, Absent):
            self.level_readings = state_readings(self._device, "performance_level", word)
        else:
            self.level_readings = ()
            if printed_text(entry.text) is not None or not entry.text.strip():
                item = reading(self._device, "performance_level", Absent.NOT_UNDERSTOOD)
                self._draft.report_bad_value(item, entry.text, entry.where)


def _preferred(previous: _Candidate, candidate: _Candidate, *, is_repeated: bool) -> _Candidate:
    """Return the preferred candidate: a number, then a main key, then the highest of repeated numbers."""
    (previous_item, previous_is_fallback), (item, is_fallback) = previous, candidate
    if isinstance(item.value, Absent):
        return previous
    if isinstance(previous_item.value, Absent) or (previous_is_fallback and not is_fallback):
        return candidate
    is_higher = previous_is_fallback == is_fallback and item.value > previous_item.value
    return candidate if is_repeated and is_higher else previous


def _labelled_targets(path: Path) -> tuple[Target, ...]:
    """Return the target for a path with a label, such as `ecc_blocks/umc/correctable_count`, or () for other paths."""
    if path[0] == "ecc_blocks" and len(path) == 3 and path[2] in ECC_COUNTS and _LABEL.match(path[1]):
        return (metric(ECC_COUNTS[path[2]], path[1]),)
    if path[0] == "throttle" and 2 <= len(path) <= 4 and path[1].endswith(VIOLATION_SUFFIX):
        reason = path[1].removesuffix(VIOLATION_SUFFIX)
        if _LABEL.match(reason):
            return (switch("throttled", ACTIVE, reason),)
    if len(path) == 3 and path[0] in BOARD_SECTIONS and path[1] == "temperature" and _LABEL.match(path[2]):
        return (temperature_target(board_sensor_label(path[2])),)
    return ()
