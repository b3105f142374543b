"""The processes that amd-smi lists with a card, and the pages that it took out of use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Process, Reading, Value
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Path
from telemetry_parsers.vendors.amd.amd_smi.words import known

_LIST = "process_list"
_PROCESS = "process_info"
NONE = frozenset({"no running processes detected", "[]"})
NO_PAGES = frozenset({"no bad pages found.", "no bad pages found", "[]"})
_PAGES = ("retired", "pending", "un_res")


@dataclass(slots=True)
class Found:
    """The processes of a device, and the counts that its lists give."""

    readings: list[Reading] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)


def is_mine(path: Path) -> bool:
    """Whether a path belongs to the list of processes or of pages."""
    return path[0] in (_LIST, _PROCESS, *_PAGES)


def read(position: int, block: Block) -> Found:
    """What a block says of processes and pages; a list whose end the text does not show is not counted."""
    found = Found()
    groups, said = _groups(block)
    if groups or said is not None:
        found.processes += [item for group in groups.values() if (item := _process(position, group)) is not None]
        gap = _gap(block, _PROCESS, said, found.processes == [] or len(found.processes) < len(groups))
        found.readings.append(reading(position, "processes", float(len(found.processes)) if gap is None else gap))
    found.readings += _pages(position, block)
    return found


def _groups(block: Block) -> tuple[dict[int, dict[Path, str]], str | None]:
    """The keys of each process, and what stands in place of a list."""
    groups: dict[int, dict[Path, str]] = {}
    said: str | None = None
    for entry in block.entries:
        path = entry.path[1:] if entry.path[0] == _LIST else entry.path
        if path[:1] == (_PROCESS,) and len(path) > 1:
            # A section within a process opens a group of its own in the text form; the name begins the next process.
            if path[1] in ("name", "pid") and (not groups or path[1:2] in [key[:1] for key in _last(groups)]):
                groups[len(groups)] = {}
            elif not groups:
                groups[0] = {}
            _last(groups).setdefault(path[1:], entry.text)
        elif path in ((_PROCESS,), ()):
            said = entry.text.strip().lower()
    return groups, said


def _last(groups: Mapping[int, dict[Path, str]]) -> dict[Path, str]:
    return groups[len(groups) - 1]


def _gap(block: Block, section: str, said: str | None, unread: bool) -> Absent | None:  # noqa: FBT001  # a fact, no mode
    """Why the number of a list's items is not known; None when it is."""
    if said is not None:
        return None if said in NONE else Absent.NOT_REPORTED
    if block.open_at is not None and (block.open_at == () or block.open_at[0] in (section, _LIST)):
        return Absent.NOT_REPORTED
    return Absent.NOT_UNDERSTOOD if unread else None


def _process(position: int, keys: Mapping[Path, str]) -> Process | None:
    pid = units.whole(keys.get(("pid",), ""))
    if pid is None:
        return None
    return Process(position, pid, known(keys.get(("name",))) or "", _memory(keys))


def _memory(keys: Mapping[Path, str]) -> float | None:
    """The device memory of a process; `16.0 EB` is a wrapped count and none."""
    for path in (("memory_usage", "vram_mem"), ("vram",), ("mem_usage",), ("mem",)):
        if path in keys:
            value = units.quantity(keys[path], units.BYTES, "B")
            return None if isinstance(value, Absent) else value
    return None


def _pages(position: int, block: Block) -> list[Reading]:
    """How many pages are retired, and whether some wait for it."""
    retired = _count(block, "retired")
    pending = _count(block, "pending")
    found = []
    if retired is not None:
        found.append(reading(position, "retired_pages", retired, "all"))
    if pending is not None:
        waiting = pending if isinstance(pending, Absent) else float(pending > 0)
        found.append(reading(position, "retired_pages_pending", waiting))
    return found


def _count(block: Block, section: str) -> Value | None:
    """The number of pages in a list; None where the output has no such list."""
    entries = [entry for entry in block.entries if entry.path[0] == section]
    if not entries:
        return None
    if entries[0].path == (section,):
        text = entries[0].text.strip()
        return 0.0 if text.lower() in NO_PAGES else units.placeholder(text) or Absent.NOT_UNDERSTOOD
    if block.open_at is not None and block.open_at[:1] == (section,):
        return Absent.NOT_REPORTED
    return float(sum(entry.path == (section, "page_address") for entry in entries))
