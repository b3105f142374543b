"""The text of `-a` and of every `--show…` as a listing: `GPU[0] : key: value`, also with DCU or HCU."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.model import Problem
from telemetry_parsers.rocm.listing import Card, Entry, Listing
from telemetry_parsers.rocm.words import is_notice, is_unsupported
from telemetry_parsers.text.lines import Line, quote

_OF_CARD = re.compile(r"\s{0,8}(ERROR|WARNING)?:?\s{0,8}(?:GPU|DCU|HCU)\[([0-9]{1,4})\]\s{0,40}:\s{0,40}(\S.*)\Z")
_PAIR = re.compile(r"([^:]{1,80}(?:\([^()]{0,40}\([^()]{0,20}\)\))?):(?:\s{1,40}(.*))?\Z")
# `pcie clock level 1 (16.0GT/s, x16 800Mhz)`: hy-smi leaves the colon out.
_LEVEL = re.compile(r"([a-z]{3,8} clock level) ([0-9]{1,3}\b.{0,80})\Z")
_DRIVER = re.compile(r"\s{0,8}(Driver [Vv]ersion)\s{0,8}:\s{0,8}(\S.{0,80})\Z")


def read_sections(lines: Sequence[Line]) -> Listing | None:
    """The listing of the sections in these lines, None when no line speaks of a card or the driver."""
    entries: dict[int, list[Entry]] = {}
    system: list[Entry] = []
    problems: list[Problem] = []
    seen = False
    for line in lines:
        match = _OF_CARD.match(line.text)
        driver = _DRIVER.match(line.text)
        seen = seen or match is not None or driver is not None
        if not line.ended:
            problems.append(Problem(line.where, "the text ends inside this line, which is not read"))
        elif match is not None:
            index, told = int(match[2]), match[3].rstrip()
            pair = None if match[1] else _entry(told, line)
            if pair is not None:
                entries.setdefault(index, []).append(pair)
            elif not is_unsupported(told) and not is_notice(told):
                problems.append(Problem(line.where, quote(line.text)))
        elif driver is not None:
            system.append(Entry(driver[1], driver[2].strip(), line.where))
    if not seen:
        return None
    cards = tuple(Card(index, tuple(found)) for index, found in entries.items())
    return Listing(cards, tuple(system), tuple(problems), complete=not lines or lines[-1].ended)


def _entry(told: str, line: Line) -> Entry | None:
    """The key and value of a line; None for a message about the card."""
    for pattern in (_PAIR, _LEVEL):
        match = pattern.match(told)
        if match is not None:
            return Entry(match[1].strip(), (match[2] or "").strip(), line.where)
    return None
