"""The processes that amd-smi lists with a card, and the pages that it took out of use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Process, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Path
from telemetry_parsers.vendors.amd.amd_smi.words import known

_LIST = "process_list"
_PROCESS = "process_info"
NONE = frozenset({"no running processes detected", "[]"})
NO_PAGES = frozenset({"no bad pages found.", "no bad pages found", "[]"})
_PAGES = ("retired", "pending", "un_res")


def is_mine(path: Path) -> bool:
    """Whether a path belongs to the list of processes or of pages."""
    return path[0] in (_LIST, _PROCESS, *_PAGES)


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
    """The keys of each process, and what stands in place of a list."""
    groups: list[dict[Path, str]] = []
    instead: str | None = None
    for entry in block.entries:
        path = entry.path[1:] if entry.path[0] == _LIST else entry.path
        if path[:1] == (_PROCESS,) and len(path) > 1:
            # A section within a process opens a group of its own in the text form; the name begins the next process.
            is_next = path[1] in ("name", "pid") and bool(groups) and path[1] in (key[0] for key in groups[-1])
            if is_next or not groups:
                groups.append({})
            groups[-1].setdefault(path[1:], entry.text)
        elif path in ((_PROCESS,), ()):
            instead = entry.text.strip().lower()
    return groups, instead


def _number(block: Block, instead: str | None, read: int, listed: int) -> Value:
    """The number of processes, where all that are listed are read and the list shows its end."""
    if instead is not None:
        return float(read) if instead in NONE else Absent.NOT_REPORTED
    if block.open_at is not None and (block.open_at == () or block.open_at[0] in (_PROCESS, _LIST)):
        return Absent.NOT_REPORTED
    return Absent.NOT_UNDERSTOOD if read < listed else float(read)


def _process(device: int, keys: Mapping[Path, str]) -> Process | None:
    pid = units.whole(keys.get(("pid",), ""))
    return None if pid is None else Process(device, pid, known(keys.get(("name",))) or "", _memory(keys))


def _memory(keys: Mapping[Path, str]) -> float | None:
    """The device memory of a process; `16.0 EB` is a wrapped count and none."""
    for path in (("memory_usage", "vram_mem"), ("vram",), ("mem_usage",), ("mem",)):
        if path in keys:
            value = units.quantity(keys[path], units.BYTES, "B")
            return None if isinstance(value, Absent) else value
    return None


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
