"""Kunlunxin's xpu-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

from telemetry_parsers.boxed.lists import is_list, read_list
from telemetry_parsers.boxed.markup import markup
from telemetry_parsers.boxed.table import is_table, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.parser import parser_of
from telemetry_parsers.reports.tool import Tool, of_lines, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.vendors.kunlunxin import VENDOR
from telemetry_parsers.vendors.kunlunxin.xpu_smi.keys import BOX, LIST, LOG, PLACES
from telemetry_parsers.vendors.kunlunxin.xpu_smi.places import is_places, read_places

_COMMANDS = ("xpu-smi", "xpu_smi")


_TOOL = Tool(
    name="xpu-smi-kunlun",
    vendor=VENDOR.word,
    shapes=(
        markup(LOG),
        shape(is_list, read_list, LIST),
        shape(is_table, read_table, BOX),
        of_lines(is_places, read_places, tables=(PLACES,)),
    ),
    silent="no output: check that the driver kunlun is loaded and that /dev/xpuctrl can be opened",
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
            tuple((name, *more) for more in (("-q",), ()) for name in _COMMANDS),
            folders=("/usr/local/xpu/bin", "/usr/local/bin", "/usr/bin"),
        ),
    ),
)
