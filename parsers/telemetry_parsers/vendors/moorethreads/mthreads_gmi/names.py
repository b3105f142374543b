"""The list of `mthreads-gmi -L`: a line for each card, with its number, name and uuid and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.model import Device, Problem, Report
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.words import (
    INDEX_SPACE,
    MOST_DEVICES,
    TOOL,
    VENDOR,
    Answer,
    known,
)

# `GPU 0 : MTT S4000 (UUID : 0f1e…)`; the uuids of the tools that print the like begin with `GPU-`.
_CARD = re.compile(
    r"GPU[ \t]{0,4}([0-9]{1,4})[ \t]{0,4}:[ \t]{0,8}(\S.{0,80}?)[ \t]{0,8}"
    r"\(UUID[ \t]{0,4}:[ \t]{0,4}(?!GPU-|MIG-)([0-9A-Za-z/-]{1,64})\)\Z"
)


def read_names(lines: Sequence[Line]) -> Answer | None:
    """The report on a list of names, None when no line is one of it."""
    devices: dict[Device, None] = {}
    problems: list[Problem] = []
    for line in lines:
        text = line.text.strip()
        match = _CARD.match(text) if line.ended else None
        if match is not None:
            devices[Device(VENDOR, int(match[1]), model=known(match[2]), uuid=known(match[3]))] = None
        elif text:
            problems.append(Problem(line.where, f"not understood: {quote(text)}"))
    if not devices:
        return None
    if len(devices) > MOST_DEVICES:
        return Answer(failed("not_understood", "text", f"{len(devices)} devices, as {TOOL} never prints"))
    report = Report(devices=tuple(devices), problems=capped(problems), index_space=INDEX_SPACE, form="text")
    return Answer(report, complete=lines[-1].ended)
