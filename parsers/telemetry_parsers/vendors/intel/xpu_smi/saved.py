"""What no poll asks xpu-smi for: CSV of `dump`, `ps`, the matrix of `topology -m`, and the JSON of `stats` and of `dump` of 2.x."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from telemetry_parsers import units
from telemetry_parsers.boxed.monitor import comma_cells
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric
from telemetry_parsers.text.answers import PROCESS_TABLE, misfit, no_row
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.intel.xpu_smi import keys
from telemetry_parsers.vendors.intel.xpu_smi.grids import split_label, target_of

_INDEX = ("deviceid", "device id")
_TILE = "tileid"
# The newest row of each device and tile: its line, the headings above it, its cells.
_Newest = dict[tuple[str, str], tuple[Line, Sequence[str], list[str]]]
_PS = re.compile(
    r"([0-9]{1,18})[ \t]{1,40}(\S.{0,200}?)[ \t]{1,80}([0-9]{1,4})[ \t]{1,40}[0-9]{1,18}[ \t]{1,40}([0-9]{1,18})\Z"
)
_LONGEST = 2000


def is_csv(lines: Sequence[Line]) -> bool:
    """Whether a heading line of comma-separated columns with a device's number is in these lines."""
    return any(_header(line) for line in lines)


def read_csv(lines: Sequence[Line], draft: Draft) -> None:
    """Put the newest row of each device into the draft, in the order of the devices."""
    header: list[str] = []
    newest: _Newest = {}
    for line in lines:
        names = _header(line)
        if names:
            header = names
            draft.name_unknown(*(name for name in header if not _is_known(name)))
        elif header and line.text.strip():
            _keep(draft, header, line, newest)
    for (index, tile), (line, headings, cells) in newest.items():
        _take_row(draft, index, tile, headings, cells, line)


def _keep(draft: Draft, header: Sequence[str], line: Line, newest: _Newest) -> None:
    """Keep a row as its device's newest; where the text ends inside it, it is kept only if there is no other."""
    cells = _split(line)
    if len(cells) != len(header):
        draft.complain(line.where, misfit(line.text))
        return
    place = _place(header, cells)
    if line.ended:
        newest[place] = (line, header, cells)
    elif place not in newest:
        newest[place] = (line, header, [*cells[:-1], ""])  # the last cell may be a fragment


def _take_row(draft: Draft, index: str, tile: str, header: Sequence[str], cells: Sequence[str], line: Line) -> None:
    number = units.whole(index)
    if number is not None and not tile and any(split_label(name)[0] == _TILE for name in header):
        draft.complain(line.where, f"the number of a tile is missing: {quote(line.text)}")
        return
    if number is None:
        draft.complain(line.where, f"no device's number: {quote(index)}")
        return
    device = draft.device(number)
    if units.whole(tile) is not None:
        parent, device = device, draft.device((number, tile))
        draft.partition(device, parent, tile)
    for target, cell in _given(header, cells):
        draft.take(device, (target,), cell, line.where)


def _given(header: Sequence[str], cells: Sequence[str]) -> Iterable[tuple[Target, str]]:
    """What each column gives; of several engines of a kind the busiest."""
    busiest: dict[tuple[str, str], tuple[Target, str]] = {}
    for name, cell in zip(header, cells, strict=True):
        target = _target(name)
        if target is not None:
            key = (target.key, target.label)
            before = busiest.get(key)
            busiest[key] = (target, cell if before is None else max(before[1], cell, key=_rank))
    return busiest.values()


def _rank(cell: str) -> float:
    """A number's place among those of its kind; what is none comes before all of them."""
    number = units.number(cell)
    return -1.0 if isinstance(number, Absent) else number


def is_ps(lines: Sequence[Line]) -> bool:
    """Whether the heading of `ps` is in these lines."""
    return any(_is_ps_head(line) for line in lines)


def read_ps(lines: Sequence[Line], draft: Draft) -> None:
    """Put the processes into the draft; nothing marks the end of the list, so that they are not counted."""
    started = False
    for line in lines:
        if _is_ps_head(line):
            started = True
            continue
        match = _PS.match(line.text.strip()[:_LONGEST]) if line.ended else None
        if match is not None and started:
            device = draft.device(int(match[3]))
            draft.processes.append(Process(device, int(match[1]), match[2].strip(), _memory_of(match[4])))
        elif started and line.text.strip():
            draft.complain(line.where, no_row(line.text, PROCESS_TABLE))


def _memory_of(text: str) -> float | None:
    """The bytes of a process, printed in thousands of bytes: the tool divides by 1000."""
    number = units.number(text)
    return None if isinstance(number, Absent) else number * 1000


def _is_ps_head(line: Line) -> bool:
    words = line.text[:_LONGEST].split()
    return line.ended and words[:1] == ["PID"] and "DeviceID" in words and words[-1:] == ["MEM"]


def _split(line: Line) -> list[str]:
    return comma_cells(line.text, longest=4 * _LONGEST, most_commas=_LONGEST)


def _header(line: Line) -> list[str]:
    if not line.ended or "," not in line.text[:_LONGEST]:
        return []
    cells = _split(line)
    names = [split_label(cell)[0] for cell in cells]
    is_head = any(name in _INDEX for name in names[:2]) and all(names)
    return cells if is_head else []


def _place(header: Sequence[str], cells: Sequence[str]) -> tuple[str, str]:
    named = {split_label(name)[0]: cell for name, cell in zip(header, cells, strict=True)}
    return next((named[name] for name in _INDEX if name in named), ""), named.get(_TILE, "")


def _target(name: str) -> Target | None:
    target, _ = target_of(name)
    return target or keys.DISCOVERY.get(split_label(name)[0])


def _is_known(name: str) -> bool:
    bare = split_label(name)[0]
    return target_of(name)[1] or bare in keys.DISCOVERY or bare in keys.QUIET_DISCOVERY


_MATRIX = re.compile(r"GPU ([0-9]{1,4})(?:/[0-9]{1,3})?[ \t]{0,8}\|")
_LONGEST = 2000
_Object = dict[str, Any]


def is_matrix(lines: Sequence[Line]) -> bool:
    """Whether the heading of `topology -m` is in these lines."""
    return any(line.ended and "|CPU Affinity" in line.text for line in lines)


def read_matrix(lines: Sequence[Line], draft: Draft) -> None:
    """The devices that the matrix of links names: it holds no readings."""
    started = False
    for line in lines:
        match = _MATRIX.match(line.text.strip()[:_LONGEST]) if line.ended else None
        if "Affinity" in line.text:
            started = True
        elif match is not None:
            draft.device(int(match[1]))
        elif started and "|" in line.text:
            draft.complain(line.where, no_row(line.text, "the matrix"))


def take_process(item: _Object, draft: Draft) -> None:
    """Put a process of `ps -j` into the draft."""
    index, pid = units.whole(str(item.get("device_id", ""))), units.whole(str(item.get("process_id", "")))
    if index is None or pid is None:
        draft.complain("JSON", f"no process of a device: {quote(str(item)[:200])}")
        return
    memory = _memory_of(str(item.get("mem_size", "")))
    process = Process(draft.device(index), pid, str(item.get("process_name", "")), memory)
    if process not in draft.processes:
        draft.processes.append(process)


def take_stats(stats: _Object, draft: Draft) -> None:
    """Put the counters and engines of a device and of its tiles into the draft."""
    index = units.whole(str(stats.get("device_id", "")))
    if index is None:
        draft.complain("JSON", f"no device's number: {quote(str(stats.get('device_id')))}")
        return
    device = draft.device(index)
    _take_counters(stats.get("device_level"), device, draft)
    _take_engines(stats.get("engine_util"), device, draft)
    for tile in objects(stats.get("tile_level")):
        name = str(tile.get("tile_id", ""))
        if units.whole(name) is not None:
            part = draft.device((index, name))
            draft.partition(part, device, name)
            _take_counters(tile.get("data_list"), part, draft)
            _take_engines(tile.get("engine_util"), part, draft)


def _take_counters(entries: Any, device: int, draft: Draft) -> None:
    for entry in objects(entries):
        name = str(entry.get("metrics_type", "")).removeprefix(keys.STATISTICS)
        text = str(entry.get("value", ""))
        where = f"JSON {quote(name)}"
        if name == keys.MEMORY_USED:
            _take_memory(text, device, where, draft)
        elif name in keys.STATS_JSON:
            draft.take(device, (keys.STATS_JSON[name],), text, where)


def _take_memory(text: str, device: int, where: str, draft: Draft) -> None:
    """Memory in use, in the one of its two units in which the number can be meant."""
    number = units.number(text)
    in_bytes = not isinstance(number, Absent) and number >= keys.FEWEST_BYTES
    if not in_bytes and not isinstance(number, Absent) and number > keys.MOST_MEBIBYTES:
        draft.give(device, metric("memory_used_bytes"), Absent.NOT_UNDERSTOOD, text, where)
    else:
        draft.take(device, (metric("memory_used_bytes", unit="B" if in_bytes else "MiB"),), text, where)


def _take_engines(kinds: Any, device: int, draft: Draft) -> None:
    """The busiest engine of each kind."""
    for kind, engines in kinds.items() if isinstance(kinds, dict) else ():
        numbers = [str(engine.get("value", "")) for engine in objects(engines)]
        readable = [text for text in numbers if not isinstance(units.number(text), Absent)]
        if numbers and kind in keys.ENGINE_KINDS:
            target = metric("engine_utilization_ratio", kind, unit="%")
            draft.take(device, (target,), max(readable, key=float, default=numbers[0]), f"JSON {quote(kind)}")


def take_sample(place: str, sample: _Object, draft: Draft) -> None:
    """Put a line of `dump -j` into the draft; `place` is what it calls its device."""
    index = units.whole(place)
    if index is None:
        draft.complain("JSON", f"no device's number: {quote(place)}")
        return
    device = draft.device(index)
    for name, value in sample.items():
        target = keys.QUERY.fields.get(name)
        if target is not None and isinstance(value, str):
            draft.take(device, (target,), value, f"JSON {quote(name)}")
        elif target is None and name not in keys.QUERY.quiet:
            draft.name_unknown(name)


def objects(items: Any) -> Iterable[_Object]:
    """The objects in a list; none for anything else."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
