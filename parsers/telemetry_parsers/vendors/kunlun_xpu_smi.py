"""Parses Kunlunxin's xpu-smi: its table, the list of `-q`, and the fields of `-m`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.like_nvidia_smi import cells as patterns
from telemetry_parsers.like_nvidia_smi.cells import column, nvidia_smi_columns
from telemetry_parsers.like_nvidia_smi.lists import CardListShape, Key, is_card_heading, read_list, xml_log
from telemetry_parsers.like_nvidia_smi.table import CardTableShape, is_table, read_table
from telemetry_parsers.model import Absent, Command, Poll
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import ON_OFF, Target, fact, identity, metric, only
from telemetry_parsers.reports.tool import Tool, of_lines, shape
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import ErrorText, listed_twice
from telemetry_parsers.text.lines import Line, quote

_TABLE = CardTableShape(
    columns={
        "xpu": column(patterns.ID, identity("index")),
        **nvidia_smi_columns("name", "persistence-m", "bus-id", "disp.a", "volatile uncorr. ecc", "fan", "temp"),
        **nvidia_smi_columns("perf", "pwr:usage/cap", "memory-usage", "compute m."),
        "l3-usage": column(patterns.BYTES_PAIR),
        "xpu-util": column(patterns.PERCENT, metric("utilization_ratio")),
        "sr-iov m.": column(patterns.NAME, fact("sr_iov")),
    },
    required_headings=frozenset({"xpu", "name", "bus-id"}),
    banner=re.compile(r"\bXPU-SMI\b.{1,80}\bXPU-RT Version:"),
    versions=(
        ("tool_version", re.compile(r"\bXPU-SMI[ \t]{1,8}([0-9]\S{0,40})(?=\s)")),
        ("driver", re.compile(r"Driver Version:[ \t]{0,8}([0-9]\S{0,40})(?=\s)")),
    ),
    expected_starts=("Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "),
    ends_with_processes=True,
)

# ((section, key) in `-q`, (section, key) in the XML log, targets)
_KEYS_AND_TARGETS: Sequence[tuple[Key, Key, tuple[Target, ...]]] = (
    (("", "product name"), ("xpu", "product_name"), (identity("model"),)),
    (("", "serial number"), ("xpu", "serial"), (identity("serial"),)),
    (("", "xpu uuid"), ("xpu", "uuid"), (identity("uuid"),)),
    (("", "minor number"), ("xpu", "minor_number"), (identity("index"),)),
    (("", "product architecture"), ("xpu", "product_architecture"), (fact("architecture"),)),
    (("", "xpu part number"), ("xpu", "xpu_part_number"), (fact("part_number"),)),
    (("*", "processes"), ("xpu", "processes"), (metric("processes", words={"none": 0.0}),)),
    (("firmware version", "all version"), ("firmware_version", "all_version"), (fact("firmware"),)),
    (("pcie generation", "max"), ("pcie_gen", "max_link_gen"), only("pcie_link_generation_max")),
    (("pcie generation", "current"), ("pcie_gen", "current_link_gen"), only("pcie_link_generation")),
    (("link width", "max"), ("link_widths", "max_link_width"), only("pcie_link_width_max")),
    (("link width", "current"), ("link_widths", "current_link_width"), only("pcie_link_width")),
    *(
        (("memory usage", kind), ("fb_memory_usage", kind), only(f"memory_{kind}_bytes"))
        for kind in ("total", "reserved", "used", "free")
    ),
    (("utilization", "xpu"), ("utilization", "xpu_util"), only("utilization_ratio")),
    (("ecc mode", "current"), ("ecc_mode", "current_ecc"), (metric("ecc_enabled", words=ON_OFF),)),
    (("volatile", "dram correctable"), ("volatile", "dram_correctable"), only("ecc_corrected_total", "dram")),
    (("volatile", "dram uncorrectable"), ("volatile", "dram_uncorrectable"), only("ecc_uncorrected_total", "dram")),
    (("temperature", "xpu current temp"), ("temperature", "xpu_temp"), only("temperature_celsius", "core")),
    (("temperature", "memory current temp"), ("temperature", "memory_temp"), only("temperature_celsius", "memory")),
    (("power readings", "enforced power limit"), ("power_readings", "enforced_power_limit"), only("power_cap_watts")),
    (("power readings", "power draw"), ("power_readings", "power_draw"), only("power_watts")),
    (("clocks", "cluster"), ("clocks", "cluster_clock"), only("clock_hertz", "cluster")),
    (("clocks", "cdnn"), ("clocks", "cdnn_clock"), only("clock_hertz", "cdnn")),
)
_ADDRESS = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z"
_LIST = CardListShape(
    card_heading=re.compile(f"XPU {_ADDRESS}"),
    card_targets=(identity("bus_id"),),
    targets_by_key={key: targets for key, _, targets in _KEYS_AND_TARGETS},
    ignored=frozenset({*(("", key) for key in ("product brand", "pcie id")), ("ecc mode", "pending"), ("xpu link info", "")}),
    ignored_sections=frozenset({"firmware version", "pci", "l3 usage", "ecc errors", "aggregate", "processes"}),
    fact_by_header_key={"driver version": "driver"},
    count_key="attached xpus",
)  # fmt: skip
_XML_LOG = CardListShape(
    card_heading=re.compile(f"xpu {_ADDRESS}"),
    card_targets=(identity("bus_id"),),
    targets_by_key={key: targets for _, key, targets in _KEYS_AND_TARGETS},
    ignored=frozenset(
        {
            *(("xpu", key) for key in ("product_brand", "oam_id", "accounted_processes")), ("ecc_mode", "pending_ecc"),
            ("power_readings", "power_state"),
        }
    ),
    ignored_sections=frozenset(
        {
            "xpu_smi_log", "firmware_version", "pci", "pci_xpu_link_info", "l3_usage", "ecc_errors", "aggregate",
            "supported_xpu_target_temp", "processes", "accounted_processes",
        }
    ),
    fact_by_header_key={"driver_version": "driver"},
    count_key="attached_xpus",
)  # fmt: skip

# Maps the index of a field in `-m` to its target. Field 6, the memory temperature, is not read: it is 0 on a P800.
_TARGETS_BY_INDEX: Mapping[int, Target] = {
    0: identity("bus_id"),
    2: identity("index"),
    3: identity("serial"),
    4: metric("temperature_celsius", "core", unit="C"),
    17: metric("memory_used_bytes", unit="MiB"),
    18: metric("memory_total_bytes", unit="MiB"),
    19: metric("utilization_ratio", unit="%"),
    20: fact("firmware"),
    21: identity("model"),
}
_POWER_INDEX, _MODEL_INDEX = 8, 21
# Maps the beginning of a model name to the unit of the power in `-m`. The unit for other models is unknown.
_POWER_UNIT_BY_MODEL: Mapping[str, str] = {"P800": "W", "K200": "mW"}
_MIN_FIELDS = 22

_ROW_START = re.compile(
    r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7][ \t]{1,8}[0-9]{1,4}[ \t]{1,8}[0-9]{1,4}[ \t]"
)
_FIELD = re.compile(r'"([^"]{0,80})"(?=\s|\Z)|([^\s"]{1,80})(?=\s|\Z)')
_MAX_LINE_LENGTH = 1000


def _is_field_row(line: Line) -> bool:
    """Return whether a line has a bus address, two numbers and a quoted model."""
    return _ROW_START.match(line.text.strip()) is not None and '"' in line.text


def _read_field_rows(lines: Sequence[Line], draft: Draft) -> None:
    for line in lines:
        text = line.text.strip()[:_MAX_LINE_LENGTH]
        if not text:
            continue
        matches = [*_FIELD.finditer(text)]
        # Only the model is in quotes. If it is not at its usual index, fields are missing.
        quoted_indices = [field_index for field_index, match in enumerate(matches) if match[1] is not None]
        fields = [match[1] if match[1] is not None else match[2] for match in matches]
        if not line.ended:
            fields = fields[:-1]  # the last field of a truncated line may be a fragment
        if _ROW_START.match(text) is None or len(fields) < _MIN_FIELDS or quoted_indices != [_MODEL_INDEX]:
            draft.add_problem(line.where, f"the line is not output of `-m`: {quote(line.text)}")
        else:
            _read_fields(fields, line, draft)


def _read_fields(fields: Sequence[str], line: Line, draft: Draft) -> None:
    index = units.integer(fields[2])
    if index is None or draft.has_device(index):
        draft.add_problem(line.where, listed_twice(f"card {fields[2]}"))
        return
    device = draft.device(index)
    for field_index, target in _TARGETS_BY_INDEX.items():
        draft.store(device, (target,), fields[field_index], line.where)
    unit = next((unit for model, unit in _POWER_UNIT_BY_MODEL.items() if fields[_MODEL_INDEX].startswith(model)), None)
    if unit is None:
        text = f"power_watts: the unit is unknown for model {quote(fields[_MODEL_INDEX])}"
        draft.add_problem(line.where, text)
        draft.set_value(device, metric("power_watts"), Absent.NOT_UNDERSTOOD)
    else:
        draft.store(device, (metric("power_watts", unit=unit),), fields[_POWER_INDEX], line.where)


_TOOL_NAMES = ("xpu-smi", "xpu_smi")

_TOOL = Tool(
    name="xpu-smi-kunlun",
    vendor="kunlunxin",
    shapes=(
        xml_log(_XML_LOG),
        shape(is_card_heading, read_list, _LIST),
        shape(is_table, read_table, _TABLE),
        of_lines(_is_field_row, _read_field_rows, tables=(_TARGETS_BY_INDEX,)),
    ),
    no_output="no output: check that the kunlun driver is loaded and that /dev/xpuctrl can be opened",
    errors=(
        ErrorText("no devices were found", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("argument was not expected", "wrong_request"),
        ErrorText("libxpuml", "failed", "library_mismatch", "reinstall the driver package"),
    ),
)

PARSER = parser_of(
    _TOOL,
    Poll(
        "readings",
        Command(
            tuple((name, *arguments) for arguments in (("-q",), ()) for name in _TOOL_NAMES),
            folders=("/usr/local/xpu/bin", "/usr/local/bin", "/usr/bin"),
        ),
    ),
)
