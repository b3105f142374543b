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
from telemetry_parsers.reports.targets import identity
from telemetry_parsers.reports.tool import Shape, Text, Tool, shape
from telemetry_parsers.text.answers import ErrorText
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.metax.mx_smi.document import read_document
from telemetry_parsers.vendors.metax.mx_smi.keys import BOX, DOCUMENT, LIST, MONITOR, STATE
from telemetry_parsers.vendors.metax.mx_smi.slices import read_slices

# The tool, and the name under which it is sold, too.
_NAMES = ("mx-smi", "ht-smi")
_FOLDERS = ("/opt/mxdriver/bin", "/opt/maca/bin", "/usr/bin", "/opt/htdriver/bin", "/opt/hpcc/bin")
# A line of `-L`: number, model, bus address, state, and behind it the UUID or the reason of the state.
_LISTED = re.compile(
    r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40})[ \t]{1,20}([0-9a-fA-F:.]{6,20})[ \t]{1,20}((?:Not )?Available)[ \t]{0,4}"
    r"\((?:UUID: (\S{1,80})|([^()]{1,120}))\)\Z"
)
_ATTACHED = re.compile(r"[ \t]{0,8}Attached GPUs[ \t]{0,60}:[ \t]{0,8}([0-9]{1,4})[ \t]{0,8}\Z")


def _read_table(lines: Sequence[Line], box: Box, draft: Draft) -> None:
    read_table(lines, box, draft)
    told = next((int(match[1]) for line in lines if line.ended and (match := _ATTACHED.match(line.text))), None)
    if told is not None and told != draft.size():
        draft.complain("text", f"the tool counts {told} cards and lists {draft.size()}")
    read_slices(lines, draft)


def _read_names(answer: Text, draft: Draft) -> bool:
    """The GPUs of `-L`; one that cannot be used is told as a problem."""
    for line in answer.lines:
        match = _LISTED.match(line.text.strip()) if line.ended else None
        if match is None and ("GPU#" in line.text or "vailable" in line.text) and "SGPU#" not in line.text:
            draft.complain(line.where, f"no line of a GPU: {quote(line.text)}")
        if match is None or draft.has(int(match[1])):
            continue
        device = draft.device(int(match[1]))
        for target, text in (
            (identity("model"), match[2]),
            (identity("bus_id"), match[3]),
            (STATE, match[4]),
        ):
            draft.take(device, (target,), text, line.where)
        if match[5]:
            draft.take(device, (identity("uuid"),), match[5], line.where)
        else:
            draft.complain(line.where, f"GPU {match[1]}: {quote(match[4])} ({quote(match[6])})")
    return bool(draft.size())


_TOOL = Tool(
    name=_NAMES[0],
    vendor="metax",
    shapes=(
        Shape(read_document, "json", tables=(DOCUMENT,)),
        shape(is_table, _read_table, BOX),
        Shape(_read_names, tables=(STATE,)),
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
