"""Parses MetaX's mx-smi, also called ht-smi: its tables, lists, JSON and monitor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Any, cast

from telemetry_parsers import units
from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import IGNORED, CellReader, Column, cell_reader, column, nvidia_smi_columns
from telemetry_parsers.like_nvidia_smi.lists import CardListShape, is_card_heading, read_list
from telemetry_parsers.like_nvidia_smi.monitor import MonitorShape, is_monitor, read_monitor
from telemetry_parsers.like_nvidia_smi.processes import is_process_title
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, is_table, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import ON_OFF, Target, fact, health, identity, metric, only
from telemetry_parsers.reports.tool import Shape, Tool, ToolText, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText, broken_document, wrong_count
from telemetry_parsers.text.documents import OBJECTS, find_documents
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, bus_address, quote

_POWER, _CAP = metric("power_watts"), metric("power_cap_watts")
_HOTSPOT = metric("temperature_celsius", "hotspot", unit="C")
_UTILIZATION = metric("utilization_ratio", unit="%")
STATE = health({"available": "ok", "unavailable": "critical", "not available": "critical"})
_ENCODER = metric("engine_utilization_ratio", "encoder", unit="%")
_DECODER = metric("engine_utilization_ratio", "decoder", unit="%")
_SLICES_TITLE = "sliced gpu"
# Since 2.3, a board and its GPUs have separate cells, and the power is printed below the board.
_TABLE = CardTableShape(
    columns={
        "board": column(patterns.ID, fact("board")),
        "gpu": column(patterns.ID, identity("index")),
        **nvidia_smi_columns("name", "bus-id", "perf", "temp", "memory-usage"),
        "gpu-util": column(patterns.PERCENT, _UTILIZATION),
        "persistence-m": column(patterns.SWITCH, fact("persistence_mode")),
        "persist-m": column(patterns.SWITCH, fact("persistence_mode")),
        "sgpu-m": column(patterns.WORD, fact("sgpu_mode")),
        "power": column(patterns.WATTS, _POWER),
        "pwr:usage/cap": column(patterns.WATTS_PAIR, _POWER, _CAP),
        "gpu-state": column(patterns.NAME, STATE),
    },
    required_headings=frozenset({"gpu", "name", "bus-id", "gpu-util"}),
    banner=re.compile(r"\b(?:MX|HT)-SMI[ \t]{1,8}v?[0-9]"),
    versions=(
        (
            "tool_version",
            re.compile(r"\b(?:MX|HT|mx|ht)-(?:SMI|smi)[ \t]{1,8}(?:version:[ \t]{0,8})?v?([0-9]\S{0,40})(?=\s)"),
        ),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}(\S{1,40})(?=\s)")),
    ),
    expected_starts=("mx-smi", "ht-smi"),
    other_titles=(_SLICES_TITLE,),
)
# The table of a GPU's slices. Its column `Compute` is a slice's usable share, not its utilization.
_SLICE_COLUMNS: Mapping[str, Column] = {
    "minor": IGNORED,
    "gpu": column(patterns.ID, identity("index")),
    "sgpu-id": column(patterns.ID, identity("partition")),
    "compute": IGNORED,
    "vram quota": column(patterns.BYTES_PAIR, metric("memory_used_bytes"), metric("memory_total_bytes")),
    "sgpu-util": column(patterns.PERCENT, _UTILIZATION),
}


def _generation_targets(metric_key: str) -> tuple[Target, ...]:
    generation_by_speed = {f"{speed} gt/s": number for speed, number in units.PCIE_GENERATIONS.items()}
    return (metric(metric_key, words=generation_by_speed),)


def _throttle_targets(*reasons: str) -> dict[tuple[str, str], tuple[Target, ...]]:
    words = {"active": 1.0, "not active": 0.0}
    section = "xcore clocks throttle reason"
    return {(section, reason): (metric("throttled", reason.replace(" ", "_"), words=words),) for reason in reasons}


_BOARD_SENSORS = ("drmos_soc", "drmos_core", "tdiode")
_LIST = CardListShape(
    card_heading=re.compile(r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40}(?: \S{1,40}){0,4})[ \t]{1,20}([0-9a-fA-F:.]{6,20})\Z"),
    card_targets=(identity("index"), identity("model"), identity("bus_id")),
    targets_by_key={
        ("chip temperature", "hotspot"): only("temperature_celsius", "hotspot"),
        ("chip temperature", "soc"): only("temperature_celsius", "soc"),
        ("board temperature", "air-inlet"): only("temperature_celsius", "board"),
        ("ecc errors", "sram correctable"): only("ecc_corrected_total", "sram"),
        ("ecc errors", "sram uncorrectable"): only("ecc_uncorrected_total", "sram"),
        ("ecc errors", "dram correctable"): only("ecc_corrected_total", "dram"),
        ("ecc errors", "dram uncorrectable"): only("ecc_uncorrected_total", "dram"),
        ("retired pages", "single bit ecc"): only("retired_pages", "single_bit_ecc"),
        ("retired pages", "double bit ecc"): only("retired_pages", "double_bit_ecc"),
        ("ecc state", "state"): (metric("ecc_enabled", words=ON_OFF),),
        ("memory", "vram total"): only("memory_total_bytes"),
        ("memory", "vram used"): only("memory_used_bytes"),
        ("utilization", "gpu"): (_UTILIZATION,),
        ("utilization", "vpue"): (_ENCODER,),
        ("utilization", "vpud"): (_DECODER,),
        ("board power", "total"): (_POWER,),
        ("board power", "limit"): (_CAP,),
        ("clock", "xcore"): only("clock_hertz", "graphics"),
        ("clock", "mc"): only("clock_hertz", "memory"),
        ("clock", "vpue"): only("clock_hertz", "vpue"),
        ("clock", "vpud"): only("clock_hertz", "vpud"),
        ("xcore", "xcore_clk"): only("clock_hertz", "graphics"),
        ("mc0", "mc0_dficlk"): only("clock_hertz", "memory"),
        ("soc", "soc_clk"): only("clock_hertz", "soc"),
        ("vpue", "vpu_encclk"): only("clock_hertz", "vpue"),
        ("vpud", "vpu_decclk0"): only("clock_hertz", "vpud"),
        ("pcie info", "current speed"): _generation_targets("pcie_link_generation"),
        ("pcie info", "max speed"): _generation_targets("pcie_link_generation_max"),
        ("pcie info", "current width"): only("pcie_link_width"),
        ("pcie info", "max width"): only("pcie_link_width_max"),
        ("serial number", "board serial"): (identity("serial"),),
        ("hardware info", "board serial number"): (identity("serial"),),
        ("hardware info", "board part number"): (fact("part_number"),),
        ("version", "bios"): (fact("firmware"),),
        ("version", "kmd"): (identity("driver"),),
        **_throttle_targets(
            "applications limit", "over power", "chip over temperature", "vr over temperature",
            "hbm over temperature", "thermal over temperature", "pcc", "power brake", "didt", "other",
        ),
    },
    ignored=frozenset(
        {
            *(("board temperature", sensor) for sensor in (*_BOARD_SENSORS, "air-outlet")),
            *(("xcore clocks throttle reason", reason) for reason in ("idle", "low usage")),
            *(("memory", f"{pool} {part}") for pool in ("vis_vram", "xtt") for part in ("total", "used", "usage")),
            ("memory", "vram usage"),
            *(("board power", f"way {number}") for number in range(8)),
            *(("version", part) for part in ("maca", "hpcc", "smp0", "smp1", "ccx0", "ccx1", "ccx2", "vr0", "vr1", "mcu")),
            ("serial number", "chip serial"),
            *(("hardware info", f"{name} name") for name in ("model", "chip")),
            *(("hardware info", name) for name in ("manufacturer", "chip serial number", "memory type", "memory capacity")),
            ("mc0", "mc0_bypassclk"),
            *(("vpud", f"vpu_decclk{number}") for number in range(1, 8)),
        }
    ),
    ignored_sections=frozenset(
        {
            "pmbus voltage", "pmbus current", "pmbus power", "board voltage", "board current", "clocks", "csc", "mc1",
            "dnoc", "ccx", "dpm current performance level", "dpm performance levels", "single core usage", "ap usage",
            "hbm bandwidth", "pcie bandwidth", "pptable version", "vbios info", "sys info", "xcore power state",
            "vpue power state", "vpud power state", "hbm power state", "pci power state",
        }
    ),
    fact_by_header_key={"mx-smi version": "tool_version", "ht-smi version": "tool_version"},
    count_key="attached gpus",
    ignored_suffix=re.compile(r"[ \t]{0,4}\(sensor[0-9]{1,3}\)\Z"),
)  # fmt: skip

# Maps paths in a card's JSON object (`-j`) to targets.
_JSON_TARGETS: Mapping[tuple[str, ...], Target] = {
    ("device_id",): identity("index"),
    ("vbios_version",): fact("firmware"),
    ("hotspot",): _HOTSPOT,
    ("utilization",): _UTILIZATION,
    ("clocks", "XCORE"): metric("clock_hertz", "graphics", unit="MHz"),
    ("clocks", "XCORE", "XCORE_CLK"): metric("clock_hertz", "graphics", unit="MHz"),
    ("clocks", "MC"): metric("clock_hertz", "memory", unit="MHz"),
    ("clocks", "VPUE"): metric("clock_hertz", "vpue", unit="MHz"),
    ("clocks", "VPUD"): metric("clock_hertz", "vpud", unit="MHz"),
}
_JSON_VERSIONS: Mapping[str, str] = {"smi_version": "tool_version", "driver_version": "driver"}

_MONITOR = MonitorShape(
    heading_starts=("dev,", "idx,"),
    index_column="dev",
    columns={
        ("hottemp", "c"): _HOTSPOT,
        ("soctemp", "c"): metric("temperature_celsius", "soc", unit="C"),
        ("coretemp", "c"): metric("temperature_celsius", "core", unit="C"),
        ("power", "w"): metric("power_watts", unit="W"),
        ("gpu", "%"): _UTILIZATION,
        ("vpue", "%"): _ENCODER,
        ("vpud", "%"): _DECODER,
        ("vram", "%"): metric("memory_used_ratio", unit="%"),
        ("total", "gb"): metric("memory_total_bytes", unit="GB"),
        ("bdfid", ""): identity("bus_id"),
    },
    ignored=frozenset({"die", "visvram", "xtt"}),
)

_MAX_LINE_LENGTH = 400


def _read_slices(lines: Sequence[Line], draft: Draft) -> None:
    """Add the slices to the draft as partitions of their GPUs."""
    slice_lines = [*dropwhile(lambda line: line.text.strip("| \t").lower() != _SLICES_TITLE, lines)][1:]
    readers: list[CellReader] = []
    for line in slice_lines:
        text = line.text.strip()[:_MAX_LINE_LENGTH]
        if is_process_title(line):
            break
        if is_rule(text) or not text.startswith("|") or not text.endswith("|"):
            continue
        cells = text.strip("|").split("|")
        if readers:
            _read_slice(readers, cells, line, draft)
        else:
            headings = [headings_in(cell, frozenset(_SLICE_COLUMNS)) for cell in cells]
            draft.add_unknown(*(name for names in headings for name in names if name not in _SLICE_COLUMNS))
            readers = [cell_reader(names, _SLICE_COLUMNS) for names in headings]


def _read_slice(readers: Sequence[CellReader], cells: Sequence[str], line: Line, draft: Draft) -> None:
    pairs_by_cell = [reader.read(cell) for reader, cell in zip(readers, cells, strict=False)]
    pairs = [pair for cell_pairs in pairs_by_cell for pair in cell_pairs or ()]
    ids = {target.key: units.integer(text) for group, text in pairs for target in group if target.kind == "identity"}
    gpu, slice_number = ids.get("index"), ids.get("partition")
    parent = draft.positions().get(gpu) if gpu is not None else None
    if parent is None or slice_number is None or None in pairs_by_cell or len(cells) != len(readers):
        draft.add_problem(line.where, f"the row of a slice is malformed, or its GPU is not listed: {quote(line.text)}")
        return
    slice_device = draft.device((gpu, slice_number))
    draft.set_partition(slice_device, parent, str(slice_number))
    for targets, text in pairs:
        draft.store(slice_device, [target for target in targets if target.kind == "metric"], text, line.where)


# Only `telemetry parse` reads the JSON of `-j` and the names of `-L`.
# The version line above the JSON document: `mx-smi  version: 2.2.12`.
_VERSION_LINE = re.compile(r"[ \t]{0,8}[mh][xt]-smi[ \t]{1,8}version:[^\n]{0,80}$", re.MULTILINE)
# A line of `-L`: index, model, bus address, state, and the UUID or the reason for the state.
_NAME_ROW = re.compile(
    r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40})[ \t]{1,20}([0-9a-fA-F:.]{6,20})[ \t]{1,20}((?:Not )?Available)[ \t]{0,4}"
    r"\((?:UUID: (\S{1,80})|([^()]{1,120}))\)\Z"
)


def _read_json(text: ToolText, draft: Draft) -> bool:
    """Read all JSON documents into the draft. Return False if there are none."""
    json_text = _VERSION_LINE.sub("", text.joined)
    if '"attached_gpus"' not in json_text:
        return False
    json = find_documents(json_text, OBJECTS)
    complete_documents = [item for item in json.documents if not item.fault and isinstance(item.value, dict)]
    for document in complete_documents:
        _store_document(cast("dict[str, Any]", document.value), draft)
    if json.fault:
        draft.add_problem("JSON", broken_document(json.fault))
    draft.problems += json.problems(complete_documents)
    return bool(json.documents)


def _store_document(document: dict[str, Any], draft: Draft) -> None:
    for name, item in document.items():
        address = bus_address(name)
        if address is not None and isinstance(item, dict):
            _read_card(name, item, draft)
        elif _JSON_VERSIONS.get(name) == "driver":
            draft.driver = str(item)
        elif name in _JSON_VERSIONS:
            draft.tool_version = str(item)
    if str(document.get("attached_gpus")) != str(draft.device_count()):
        draft.add_problem("JSON", wrong_count(quote(str(document.get("attached_gpus"))), draft.device_count()))


def _read_card(address: str, card: dict[str, Any], draft: Draft) -> None:
    device = draft.device(address)
    draft.store(device, (identity("bus_id"),), address, "JSON")
    for path, target in _JSON_TARGETS.items():
        text = _text_at(card, path)
        if text is not None:
            draft.store(device, (target,), text, f"JSON {'/'.join(path)}")
    reason = _text_at(card, ("unavailable_reason",))
    if reason:
        draft.add_problem(f"JSON {quote(address)}", f"not available: {quote(reason)}")


def _text_at(card: dict[str, Any], path: Sequence[str]) -> str | None:
    value: Any = card
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _read_names(output: ToolText, draft: Draft) -> bool:
    """Read the GPUs listed by `-L`, and report unavailable GPUs."""
    for line in output.lines:
        match = _NAME_ROW.match(line.text.strip()) if line.ended else None
        if match is None and ("GPU#" in line.text or "vailable" in line.text) and "SGPU#" not in line.text:
            draft.add_problem(line.where, f"the line is not about a GPU: {quote(line.text)}")
        if match is None or draft.has_device(int(match[1])):
            continue
        device = draft.device(int(match[1]))
        for target, text in ((identity("model"), match[2]), (identity("bus_id"), match[3]), (STATE, match[4])):
            draft.store(device, (target,), text, line.where)
        if match[5]:
            draft.store(device, (identity("uuid"),), match[5], line.where)
        else:
            draft.add_problem(line.where, f"GPU {match[1]}: {quote(match[4])} ({quote(match[6])})")
    return bool(draft.device_count())


_TOOL_NAMES = ("mx-smi", "ht-smi")
_FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/bin", "/opt/htdriver/bin", "/opt/hpcc/bin")
_ATTACHED_COUNT = re.compile(r"[ \t]{0,8}Attached GPUs[ \t]{0,60}:[ \t]{0,8}([0-9]{1,4})[ \t]{0,8}\Z")


def _read_tables(lines: Sequence[Line], table: CardTableShape, draft: Draft) -> None:
    read_table(lines, table, draft)
    count = next((int(match[1]) for line in lines if line.ended and (match := _ATTACHED_COUNT.match(line.text))), None)
    if count is not None and count != draft.device_count():
        draft.add_problem("text", wrong_count(count, draft.device_count()))
    _read_slices(lines, draft)


_TOOL = Tool(
    name=_TOOL_NAMES[0],
    vendor="metax",
    shapes=(
        Shape(_read_json, "json", tables=(_JSON_TARGETS,)),
        shape(is_table, _read_tables, _TABLE),
        Shape(_read_names, tables=(STATE,)),
        shape(is_card_heading, read_list, _LIST),
        shape(is_monitor, read_monitor, _MONITOR),
    ),
    no_output="no output: check that the metax driver is loaded and that /dev/mxcd can be opened",
    errors=(
        ErrorText("parse error: argument", "wrong_request"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no gpu", "no_devices", None, "check that lspci shows the cards"),
        ErrorText(
            "attached gpus                                     : 0",
            "no_devices",
            None,
            "check that lspci shows the cards",
        ),
    ),
)


def _command(*arguments: str) -> Command:
    return Command(tuple((name, *arguments) for name in _TOOL_NAMES), folders=_FOLDERS)


PARSER = parser_of(
    _TOOL,
    Poll("readings", _command()),
    Poll("temperatures", _command("--show-temperature"), lists_devices=False),
    Poll("errors", _command("--count-ecc"), "slow", 60.0, lists_devices=False),
    more_metrics=("processes",),
)
