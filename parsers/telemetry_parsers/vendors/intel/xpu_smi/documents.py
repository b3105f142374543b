"""The JSON of xpu-smi: which document it is, and what `discovery -j` and `health -j` hold; saved.py reads the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from telemetry_parsers import units
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Text
from telemetry_parsers.text.complaints import cut_document
from telemetry_parsers.text.documents import OBJECTS, find_documents
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.intel.xpu_smi import keys, saved
from telemetry_parsers.vendors.intel.xpu_smi.condition import judge

# One of these is in each of the documents.
_MARKS = (
    '"device_list"', '"device_level"', '"tile_level"', '"device_stepping"', '"memory_physical_size_byte"', '"metrics"',
    '"core_temperature"', '"device_util_by_proc_list"',
)  # fmt: skip
_Object = dict[str, Any]


def read_json(text: Text, draft: Draft) -> bool:
    """Read the documents into the draft; False where the text holds none."""
    joined = text.joined
    if not any(mark in joined for mark in _MARKS):
        return False
    newest: dict[str, _Object] = {}
    json = find_documents(joined, OBJECTS)
    whole = [item for item in json.documents if not item.fault and isinstance(item.value, dict)]
    for document in whole:
        _take_document(cast("_Object", document.value), newest, draft)
    if json.fault:
        draft.complain("JSON", cut_document(json.fault))
    for place, sample in newest.items():
        saved.take_sample(place, sample, draft)
    draft.problems += json.problems(whole)
    return bool(json.documents)


def _take_document(document: _Object, newest: dict[str, _Object], draft: Draft) -> None:
    for name, take in _LISTS.items():
        if name in document:
            for item in saved.objects(document[name]):
                take(item, draft)
            return
    metrics = document.get("metrics")
    if isinstance(metrics, dict):
        newest[str(document.get("device", ""))] = metrics
    elif "device_level" in document or "tile_level" in document:
        saved.take_stats(document, draft)
    elif "device_id" in document:
        _take_device(document, draft)
    else:
        draft.name_unknown(*document)


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
    """The thresholds and the state of each component; a state that is not good is a problem, too."""
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


# The documents that are lists, by the name of the list.
_LISTS: Mapping[str, Callable[[_Object, Draft], None]] = {
    "device_list": _take_device,
    "device_util_by_proc_list": saved.take_process,
    "datas": saved.take_stats,
}
