"""MetaX' mx-smi: which of its shapes a text has, and the one parser for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.boxed.lists import is_list, read_list
from telemetry_parsers.boxed.monitor import is_monitor, read_monitor
from telemetry_parsers.boxed.table import Box, is_table, read_table
from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.parser import parser_of
from telemetry_parsers.reports.tool import Shape, Tool, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.complaints import miscounted
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.metax import VENDOR
from telemetry_parsers.vendors.metax.mx_smi.keys import BOX, DOCUMENT, LIST, MONITOR, STATE
from telemetry_parsers.vendors.metax.mx_smi.saved import read_document, read_names
from telemetry_parsers.vendors.metax.mx_smi.slices import read_slices

# The tool, and the name under which it is sold, too.
_NAMES = ("mx-smi", "ht-smi")
_FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/bin", "/opt/htdriver/bin", "/opt/hpcc/bin")
_ATTACHED = re.compile(r"[ \t]{0,8}Attached GPUs[ \t]{0,60}:[ \t]{0,8}([0-9]{1,4})[ \t]{0,8}\Z")


def _read_table(lines: Sequence[Line], box: Box, draft: Draft) -> None:
    read_table(lines, box, draft)
    attached = next((int(match[1]) for line in lines if line.ended and (match := _ATTACHED.match(line.text))), None)
    if attached is not None and attached != draft.size():
        draft.complain("text", miscounted(attached, draft.size()))
    read_slices(lines, draft)


_TOOL = Tool(
    name=_NAMES[0],
    vendor=VENDOR.word,
    shapes=(
        Shape(read_document, "json", tables=(DOCUMENT,)),
        shape(is_table, _read_table, BOX),
        Shape(read_names, tables=(STATE,)),
        shape(is_list, read_list, LIST),
        shape(is_monitor, read_monitor, MONITOR),
    ),
    silent="no output: check that the driver metax is loaded and that /dev/mxcd can be opened",
    errors=(
        ErrorText("parse error: argument", "wrong_request"),
        ErrorText("no device", "no_devices", None, "check that lspci shows the cards"),
        ErrorText("no gpu", "no_devices", None, "check that lspci shows the cards"),
        ErrorText(
            "attached gpus                                     : 0", "no_devices", None, "lspci shows the cards?"
        ),
    ),
)


def _ask(*arguments: str) -> Command:
    return Command(tuple((name, *arguments) for name in _NAMES), folders=_FOLDERS)


PARSER = parser_of(
    _TOOL,
    Poll("readings", _ask()),
    Poll("temperatures", _ask("--show-temperature"), lists_devices=False),
    Poll("errors", _ask("--count-ecc"), "slow", 60.0, lists_devices=False),
    also=("processes",),
)
