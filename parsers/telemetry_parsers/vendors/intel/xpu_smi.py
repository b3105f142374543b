"""Intel's xpu-smi: its polls, the shapes of its output (2.x is like nvidia-smi), and JSON of 1.x."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from telemetry_parsers import units
from telemetry_parsers.like_nvidia_smi.monitor import query_headings, read_query
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Shape, Tool, ToolText, accept_no_devices, of_lines, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText, broken_document
from telemetry_parsers.text.documents import OBJECTS, find_documents
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.intel import grids, keys, rows, saved
from telemetry_parsers.vendors.intel.keys import QUERY, TABLE, store_health

# Each JSON document of xpu-smi contains one of these keys.
_JSON_MARKS = (
    '"device_list"', '"device_level"', '"tile_level"', '"device_stepping"', '"memory_physical_size_byte"', '"metrics"',
    '"core_temperature"', '"device_util_by_proc_list"',
)  # fmt: skip
_JsonObject = dict[str, Any]


def read_json(text: ToolText, draft: Draft) -> bool:
    """Read all JSON documents in the text into the draft. Return False if there is no document."""
    joined_text = text.joined
    if not any(mark in joined_text for mark in _JSON_MARKS):
        return False
    newest_samples: dict[str, _JsonObject] = {}
    result = find_documents(joined_text, OBJECTS)
    complete_documents = [item for item in result.documents if not item.fault and isinstance(item.value, dict)]
    for document in complete_documents:
        _read_document(cast("_JsonObject", document.value), newest_samples, draft)
    if result.fault:
        draft.add_problem("JSON", broken_document(result.fault))
    for device_number, sample in newest_samples.items():
        saved.add_sample(device_number, sample, draft)
    draft.problems += result.problems(complete_documents)
    return bool(result.documents)


def _read_document(document: _JsonObject, newest_samples: dict[str, _JsonObject], draft: Draft) -> None:
    for name, read_item in _ITEM_READERS.items():
        if name in document:
            for item in saved.objects_in(document[name]):
                read_item(item, draft)
            return
    metrics = document.get("metrics")
    if isinstance(metrics, dict):
        newest_samples[str(document.get("device", ""))] = metrics
    elif "device_level" in document or "tile_level" in document:
        saved.add_stats(document, draft)
    elif "device_id" in document:
        _read_device(document, draft)
    else:
        draft.add_unknown(*document)


def _read_device(item: _JsonObject, draft: Draft) -> None:
    index = units.integer(str(item.get("device_id", "")))
    if index is None or draft.has_device(index):
        draft.add_problem("JSON", f"the device has no unique number: {quote(str(item)[:200])}")
        return
    device = draft.device(index)
    for name, value in item.items():
        target = keys.JSON_KEYS.get(name)
        if target is not None and isinstance(value, str):
            draft.store(device, (target,), value, f"JSON {quote(name)}")
        elif target is None and name not in keys.IGNORED_JSON_KEYS and name not in keys.HEALTH_JSON:
            draft.add_unknown(name)
    _read_health(item, device, draft)


def _read_health(item: _JsonObject, device: int, draft: Draft) -> None:
    states_by_item: dict[str, str] = {}
    for name, (item_number, sensor) in keys.HEALTH_JSON.items():
        component = item.get(name)
        if not isinstance(component, dict):
            continue
        state = str(component.get("status", ""))
        states_by_item[item_number] = state.lower()
        if state.lower() not in keys.HEALTHY_STATES:
            draft.add_problem(f"JSON {name}", f"the state is {quote(state)}")
        for key, target in keys.THRESHOLDS.get(sensor, {}).items():
            draft.store(device, (target,), str(component.get(key, "")), f"JSON {name}/{key}")
    if states_by_item:
        store_health(draft, device, states_by_item)


# Maps the name of a list in a document to the function that reads an item of the list.
_ITEM_READERS: Mapping[str, Callable[[_JsonObject, Draft], None]] = {
    "device_list": _read_device,
    "device_util_by_proc_list": saved.add_process,
    "datas": saved.add_stats,
}

_TOOL_NAME = "xpu-smi"
# Utilization, power, clock, core and memory temperature, memory used in percent and in MiB.
_DUMP_METRICS = "0,1,2,3,4,5,18"


def _is_banner(line: Line, table: CardTableShape) -> bool:
    return line.ended and table.banner.search(line.text) is not None


_TOOL = Tool(
    name=_TOOL_NAME,
    vendor="intel",
    shapes=(
        Shape(read_json, "json", tables=(keys.JSON_KEYS, keys.STATS_JSON, keys.THRESHOLDS, keys.HEALTH_STATE)),
        shape(_is_banner, read_table, TABLE),
        of_lines(
            grids.is_grid_heading,
            grids.read_grids,
            tables=(keys.DISCOVERY, keys.CONFIG, keys.CAP_RANGE, keys.STATS, keys.HEALTH),
        ),
        shape(query_headings, read_query, QUERY),
        of_lines(rows.is_ps_heading, rows.read_ps, if_empty=accept_no_devices),
        of_lines(saved.is_matrix_heading, saved.read_matrix),
        of_lines(rows.csv_headings, rows.read_csv, tables=(keys.STATS, keys.DISCOVERY)),
    ),
    no_output="no output: check that the i915 or xe driver is loaded and that /dev/dri can be opened",
    errors=(
        ErrorText("argument was not expected", "wrong_request"),
        ErrorText("arguments were not expected", "wrong_request"),
        ErrorText("usage: xpu-smi", "wrong_request", None, "this is the help text; the command needs a sub-command"),
        ErrorText("intel xpu system management interface", "wrong_request", None, "this is the help text"),
        ErrorText("no device discovered", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("device not found", "no_devices", None, "check that lspci shows the cards"),
        ErrorText(
            "level zero initialization error",
            "failed",
            "driver_gone",
            "load i915 or xe and install the level-zero driver",
        ),
        ErrorText("libze_loader", "failed", "library_mismatch", "install level-zero"),
    ),
)


def _command(*lines: tuple[str, ...], per: Literal["device"] | None = None) -> Command:
    return Command(tuple((_TOOL_NAME, *line) for line in lines), per=per, folders=("/usr/bin",))


_PS_COSTS = "`xpu-smi ps` uses 211 MB of each card's memory while it runs"
_DETAILS = _command(("discovery", "-d", "{device}", "-j"), ("discovery", "-d", "{device}"), per="device")
PARSER = parser_of(
    _TOOL,
    Poll("readings", _command(("dump", "-d", "-1", "-m", _DUMP_METRICS, "-i", "1", "-n", "1"), ())),
    Poll("discovery", _command(("discovery", "-j"), ("discovery",)), "slow", 60.0),
    Poll("details", _DETAILS, "inventory", 300.0, lists_devices=False),
    Poll("limits", _command(("config", "-d", "{device}"), per="device"), "inventory", 300.0, lists_devices=False),
    Poll("health", _command(("health", "-l")), "slow", 60.0, lists_devices=False),
    Poll("processes", _command(("ps",)), "slow", 60.0, lists_devices=False, costs=_PS_COSTS),
    more_metrics=("processes",),
)
