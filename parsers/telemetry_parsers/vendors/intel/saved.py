"""Reads output of xpu-smi that no poll requests, such as `topology -m`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.answers import not_a_row
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.intel import keys
from telemetry_parsers.vendors.intel.rows import process_bytes

_MATRIX_ROW = re.compile(r"GPU ([0-9]{1,4})(?:/[0-9]{1,3})?[ \t]{0,8}\|")
_MAX_LINE_LENGTH = 2000
_JsonObject = dict[str, Any]


def is_matrix_heading(line: Line) -> bool:
    """Return whether a line is the heading line of `topology -m`."""
    return line.ended and "|CPU Affinity" in line.text


def read_matrix(lines: Sequence[Line], draft: Draft) -> None:
    """Add the devices in the matrix of `topology -m` to the draft."""
    is_below_heading = False
    for line in lines:
        match = _MATRIX_ROW.match(line.text.strip()[:_MAX_LINE_LENGTH]) if line.ended else None
        if "Affinity" in line.text:
            is_below_heading = True
        elif match is not None:
            draft.device(int(match[1]))
        elif is_below_heading and "|" in line.text:
            draft.add_problem(line.where, not_a_row(line.text, "the matrix"))


def add_process(item: _JsonObject, draft: Draft) -> None:
    """Add a process of `ps -j` to the draft."""
    index, pid = units.integer(str(item.get("device_id", ""))), units.integer(str(item.get("process_id", "")))
    if index is None or pid is None:
        draft.add_problem("JSON", f"the process has no device or no PID: {quote(str(item)[:200])}")
        return
    memory = process_bytes(str(item.get("mem_size", "")))
    process = Process(draft.device(index), pid, str(item.get("process_name", "")), memory)
    if process not in draft.processes:
        draft.processes.append(process)


def add_stats(stats: _JsonObject, draft: Draft) -> None:
    """Add the counters and engines of a device and its tiles to the draft."""
    index = units.integer(str(stats.get("device_id", "")))
    if index is None:
        draft.add_problem("JSON", f"{quote(str(stats.get('device_id')))} is not a device number")
        return
    device = draft.device(index)
    _store_counters(stats.get("device_level"), device, draft)
    _store_engines(stats.get("engine_util"), device, draft)
    for tile in objects_in(stats.get("tile_level")):
        name = str(tile.get("tile_id", ""))
        if units.integer(name) is not None:
            tile_device = draft.device((index, name))
            draft.set_partition(tile_device, device, name)
            _store_counters(tile.get("data_list"), tile_device, draft)
            _store_engines(tile.get("engine_util"), tile_device, draft)


def _store_counters(entries: Any, device: int, draft: Draft) -> None:
    for entry in objects_in(entries):
        name = str(entry.get("metrics_type", "")).removeprefix(keys.STATS_PREFIX)
        text = str(entry.get("value", ""))
        where = f"JSON {quote(name)}"
        if name == keys.MEMORY_USED:
            _store_memory(text, device, where, draft)
        elif name in keys.STATS_JSON:
            draft.store(device, (keys.STATS_JSON[name],), text, where)


def _store_memory(text: str, device: int, where: str, draft: Draft) -> None:
    """Store the memory in use. Its magnitude shows whether the unit is MiB or bytes."""
    number = units.number(text)
    is_bytes = not isinstance(number, Absent) and number >= keys.MIN_BYTES
    if not is_bytes and not isinstance(number, Absent) and number > keys.MAX_MEBIBYTES:
        draft.set_value(device, metric("memory_used_bytes"), Absent.NOT_UNDERSTOOD, text, where)
    else:
        draft.store(device, (metric("memory_used_bytes", unit="B" if is_bytes else "MiB"),), text, where)


def _store_engines(engines_by_kind: Any, device: int, draft: Draft) -> None:
    """Store the busiest engine of each kind."""
    for kind, engines in engines_by_kind.items() if isinstance(engines_by_kind, dict) else ():
        texts = [str(engine.get("value", "")) for engine in objects_in(engines)]
        readable_texts = [text for text in texts if not isinstance(units.number(text), Absent)]
        if texts and kind in keys.ENGINE_KINDS:
            target = metric("engine_utilization_ratio", kind, unit="%")
            draft.store(device, (target,), max(readable_texts, key=float, default=texts[0]), f"JSON {quote(kind)}")


def add_sample(index_text: str, sample: _JsonObject, draft: Draft) -> None:
    """Add the readings in a line of `dump -j` to the draft."""
    index = units.integer(index_text)
    if index is None:
        draft.add_problem("JSON", f"{quote(index_text)} is not a device number")
        return
    device = draft.device(index)
    for name, value in sample.items():
        target = keys.QUERY.fields.get(name)
        if target is not None and isinstance(value, str):
            draft.store(device, (target,), value, f"JSON {quote(name)}")
        elif target is None and name not in keys.QUERY.ignored:
            draft.add_unknown(name)


def objects_in(items: Any) -> Iterable[_JsonObject]:
    """Return the objects in a list, or [] for anything else."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
