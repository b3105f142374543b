"""Spans of time as people write them: `90`, `0.5`, `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import re

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,3})?\Z", re.ASCII)
_PART = re.compile(r"([0-9]{1,9})([dhms])")
_WHOLE = re.compile(r"(?:[0-9]{1,9}[dhms]){1,4}\Z")


def seconds_of(text: str) -> float | None:
    """The seconds that a text names; None if it names none."""
    text = text.strip().lower()
    if _NUMBER.match(text):
        return float(text)
    if _WHOLE.match(text):
        return float(sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
    return None
