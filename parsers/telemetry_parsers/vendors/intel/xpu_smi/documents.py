"""The JSON of xpu-smi: `-j` of `discovery`, `stats`, `health` and `ps`, and the lines that `dump -j` of 2.x prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.reports.tool import Text
from telemetry_parsers.text.documents import OBJECTS, find_documents
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.intel.xpu_smi import keys
from telemetry_parsers.vendors.intel.xpu_smi.condition import judge
from telemetry_parsers.vendors.intel.xpu_smi.rows import memory_of

# One of these is in each of the documents.
_MARKS = (
    '"device_list"', '"device_level"', '"tile_level"', '"device_stepping"', '"memory_physical_size_byte"', '"metrics"',
    '"core_temperature"', '"device_util_by_proc_list"',
)  # fmt: skip
_Object = dict[str, Any]


def read_json(text: Text, draft: Draft) -> bool:
    """Put what the documents say into the draft; False where the text holds none."""
    joined = text.joined
    if not any(mark in joined for mark in _MARKS):
        return False
    newest: dict[str, _Object] = {}
    found = find_documents(joined, OBJECTS)
    whole = [item for item in found.documents if not item.fault and isinstance(item.value, dict)]
    for document in whole:
        _take_document(cast("_Object", document.value), newest, draft)
    if found.fault:
        draft.complain("JSON", f"cut off or broken: {found.fault}")
    for place, sample in newest.items():
        _take_sample(place, sample, draft)
    draft.problems += found.problems(whole)
    return bool(found.documents)


def _take_document(found: _Object, newest: dict[str, _Object], draft: Draft) -> None:
    for name, take in _LISTS.items():
        if name in found:
            for item in _objects(found[name]):
                take(item, draft)
            return
    metrics = found.get("metrics")
    if isinstance(metrics, dict):
        newest[str(found.get("device", ""))] = metrics
    elif "device_level" in found or "tile_level" in found:
        _take_stats(found, draft)
    elif "device_id" in found:
        _take_device(found, draft)
    else:
        draft.name_unknown(*found)


def _take_device(item: _Object, draft: Draft) -> None:
    index = units.whole(str(item.get("device_id", "")))
    if index is None or draft.has(index):
        draft.complain("JSON", f"a device without a number of its own: {quote(str(item)[:200])}")
        return
    device = draft.device(index)
    for name, value in item.items():
        target = keys.JSON_KEYS.get(name)
        if target is not None and isinstance(value, str):
            draft.take(device, (target,), value, f"JSON {quote(name)}")
        elif target is None and name not in keys.QUIET_JSON and name not in keys.HEALTH_JSON:
            draft.name_unknown(name)
    _take_health(item, device, draft)


def _take_health(item: _Object, device: int, draft: Draft) -> None:
    """The thresholds and the state of each component; a state that is not good is told as a problem, too."""
    states: dict[str, str] = {}
    for name, (number, sensor) in keys.HEALTH_JSON.items():
        component = item.get(name)
        if not isinstance(component, dict):
            continue
        state = str(component.get("status", ""))
        states[number] = state.lower()
        if state.lower() not in keys.HEALTHY:
            draft.complain(f"JSON {name}", f"{name}: {quote(state)}")
        for key, target in keys.THRESHOLDS.get(sensor, {}).items():
            draft.take(device, (target,), str(component.get(key, "")), f"JSON {name}/{key}")
    if states:
        judge(draft, device, states)


def _take_process(item: _Object, draft: Draft) -> None:
    index, pid = units.whole(str(item.get("device_id", ""))), units.whole(str(item.get("process_id", "")))
    if index is None or pid is None:
        draft.complain("JSON", f"no process of a device: {quote(str(item)[:200])}")
        return
    memory = memory_of(str(item.get("mem_size", "")))
    process = Process(draft.device(index), pid, str(item.get("process_name", "")), memory)
    if process not in draft.processes:
        draft.processes.append(process)


def _take_stats(found: _Object, draft: Draft) -> None:
    index = units.whole(str(found.get("device_id", "")))
    if index is None:
        draft.complain("JSON", f"no device's number: {quote(str(found.get('device_id')))}")
        return
    device = draft.device(index)
    _take_counters(found.get("device_level"), device, draft)
    _take_engines(found.get("engine_util"), device, draft)
    for tile in _objects(found.get("tile_level")):
        name = str(tile.get("tile_id", ""))
        if units.whole(name) is not None:
            part = draft.device((index, name))
            draft.partition(part, device, name)
            _take_counters(tile.get("data_list"), part, draft)
            _take_engines(tile.get("engine_util"), part, draft)


def _take_counters(entries: Any, device: int, draft: Draft) -> None:
    for entry in _objects(entries):
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
        numbers = [str(engine.get("value", "")) for engine in _objects(engines)]
        told = [text for text in numbers if not isinstance(units.number(text), Absent)]
        if numbers and kind in keys.ENGINE_KINDS:
            target = metric("engine_utilization_ratio", kind, unit="%")
            draft.take(device, (target,), max(told, key=float, default=numbers[0]), f"JSON {quote(kind)}")


def _take_sample(place: str, sample: _Object, draft: Draft) -> None:
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


def _objects(items: Any) -> Iterable[_Object]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


# The documents that are lists, by the name of the list.
_LISTS: Mapping[str, Callable[[_Object, Draft], None]] = {
    "device_list": _take_device,
    "device_util_by_proc_list": _take_process,
    "datas": _take_stats,
}
