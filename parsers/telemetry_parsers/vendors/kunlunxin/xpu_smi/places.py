"""The lines of `xpu_smi -m`: fields known by their places, the model in quotes because it holds a blank."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers import units
from telemetry_parsers.model import Absent
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric
from telemetry_parsers.text.complaints import listed_twice
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.kunlunxin.xpu_smi.keys import FEWEST_PLACES, MODEL, PLACES, POWER, POWER_UNITS

_START = re.compile(
    r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7][ \t]{1,8}[0-9]{1,4}[ \t]{1,8}[0-9]{1,4}[ \t]"
)
_FIELD = re.compile(r'"([^"]{0,80})"(?=\s|\Z)|([^\s"]{1,80})(?=\s|\Z)')
_LONGEST = 1000


def is_places(lines: Sequence[Line]) -> bool:
    """Whether some line begins with a bus address and two numbers, and holds a quoted model."""
    return any(_START.match(line.text.strip()) and '"' in line.text for line in lines)


def read_places(lines: Sequence[Line], draft: Draft) -> None:
    """Put the cards into the draft."""
    for line in lines:
        text = line.text.strip()[:_LONGEST]
        if not text:
            continue
        matches = [*_FIELD.finditer(text)]
        # The model alone is in quotes: where it stands elsewhere, a field before it is lost.
        quoted = [at for at, match in enumerate(matches) if match[1] is not None]
        fields = [match[1] if match[1] is not None else match[2] for match in matches]
        if not line.ended:
            fields = fields[:-1]  # the last may be a fragment
        if _START.match(text) is None or len(fields) < FEWEST_PLACES or quoted != [MODEL]:
            draft.complain(line.where, f"no line of -m: {quote(line.text)}")
        else:
            _take(fields, line, draft)


def _take(fields: Sequence[str], line: Line, draft: Draft) -> None:
    index = units.whole(fields[2])
    if index is None or draft.has(index):
        draft.complain(line.where, listed_twice(f"card {fields[2]}"))
        return
    device = draft.device(index)
    for place, target in PLACES.items():
        draft.take(device, (target,), fields[place], line.where)
    unit = next((unit for model, unit in POWER_UNITS.items() if fields[MODEL].startswith(model)), None)
    if unit is None:
        text = f"power_watts: in what unit a {quote(fields[MODEL])} counts power is not known"
        draft.complain(line.where, text)
        draft.give(device, metric("power_watts"), Absent.NOT_UNDERSTOOD)
    else:
        draft.take(device, (metric("power_watts", unit=unit),), fields[POWER], line.where)
