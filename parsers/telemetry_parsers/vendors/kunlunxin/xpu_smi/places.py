"""The lines of `xpu_smi -m`: fields known by their places, the model in quotes because it holds a blank."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers import units
from telemetry_parsers.boxed.page import Page
from telemetry_parsers.boxed.targets import metric
from telemetry_parsers.model import Absent, Problem
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


def read_places(lines: Sequence[Line], page: Page) -> None:
    """Put the cards onto the page."""
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
            page.problems.append(Problem(line.where, f"no line of -m: {quote(line.text)}"))
        else:
            _take(fields, line, page)


def _take(fields: Sequence[str], line: Line, page: Page) -> None:
    index = units.whole(fields[2])
    if index is None or page.has(index):
        page.problems.append(Problem(line.where, f"card {fields[2]} is listed a second time; the first is kept"))
        return
    device = page.device(index)
    for place, target in PLACES.items():
        page.take(device, (target,), fields[place], line.where)
    unit = next((unit for model, unit in POWER_UNITS.items() if fields[MODEL].startswith(model)), None)
    if unit is None:
        text = f"power_watts: in what unit a {quote(fields[MODEL])} counts power is not known"
        page.problems.append(Problem(line.where, text))
        page.give(device, metric("power_watts"), Absent.NOT_UNDERSTOOD)
    else:
        page.take(device, (metric("power_watts", unit=unit),), fields[POWER], line.where)
