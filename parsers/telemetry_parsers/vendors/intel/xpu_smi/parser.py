"""Intel's xpu-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from telemetry_parsers.boxed.query import is_query, read_query
from telemetry_parsers.boxed.table import Box, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.parser import parser_of
from telemetry_parsers.reports.tool import Shape, Tool, may_be_empty, of_lines, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.intel import VENDOR
from telemetry_parsers.vendors.intel.xpu_smi import documents, grids, keys, rows, saved
from telemetry_parsers.vendors.intel.xpu_smi.keys import BOX, QUERY

_NAME = "xpu-smi"
# Utilization, power, clock, temperatures, memory used as a share and in MiB: the numbers are those of 1.x.
_DUMPED = "0,1,2,3,4,5,18"


def _is_table(lines: Sequence[Line], box: Box) -> bool:
    """The version line alone: the headings are those of others, too."""
    return any(line.ended and box.banner.search(line.text) for line in lines)


_TOOL = Tool(
    name=_NAME,
    vendor=VENDOR.word,
    shapes=(
        Shape(
            documents.read_json, "json", tables=(keys.JSON_KEYS, keys.STATS_JSON, keys.THRESHOLDS, keys.HEALTH_STATE)
        ),
        shape(_is_table, read_table, BOX),
        of_lines(
            grids.is_grid,
            grids.read_grid,
            tables=(keys.DISCOVERY, keys.CONFIG, keys.CAP_RANGE, keys.STATS, keys.HEALTH),
        ),
        shape(is_query, read_query, QUERY),
        of_lines(rows.is_ps, rows.read_ps, empty=may_be_empty),
        of_lines(saved.is_matrix, saved.read_matrix),
        of_lines(rows.is_csv, rows.read_csv, tables=(keys.STATS, keys.DISCOVERY)),
    ),
    silent="no output: check that the driver i915 or xe is loaded and that /dev/dri can be opened",
    errors=(
        ErrorText("argument was not expected", "wrong_request"),
        ErrorText("arguments were not expected", "wrong_request"),
        ErrorText("usage: xpu-smi", "wrong_request", None, "this is the help text; name a sub-command"),
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


def _ask(*lines: tuple[str, ...], per: Literal["device"] | None = None) -> Command:
    return Command(tuple((_NAME, *line) for line in lines), per=per, folders=("/usr/bin",))


_DETAILS = _ask(("discovery", "-d", "{device}", "-j"), ("discovery", "-d", "{device}"), per="device")
PARSER = parser_of(
    _TOOL,
    Poll("readings", _ask(("dump", "-d", "-1", "-m", _DUMPED, "-i", "1", "-n", "1"), ())),
    Poll("discovery", _ask(("discovery", "-j"), ("discovery",)), "slow", 60.0),
    Poll("details", _DETAILS, "inventory", 300.0, lists_devices=False),
    Poll("limits", _ask(("config", "-d", "{device}"), per="device"), "inventory", 300.0, lists_devices=False),
    Poll("health", _ask(("health", "-l")), "slow", 60.0, lists_devices=False),
    Poll("processes", _ask(("ps",)), "slow", 60.0, lists_devices=False),
    also=("processes",),
)
