"""Durations as people write them to a command: `90`, `90s`, `10m`, `1h30m`, `2d`."""

from __future__ import annotations

import argparse
import re

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"([0-9]{1,9})([dhms])")
_WHOLE = re.compile(r"(?:[0-9]{1,9}[dhms]){1,4}\Z")


def seconds(text: str) -> float:
    """The seconds that a text names; for argparse, so a bad one is an ArgumentTypeError."""
    text = text.strip().lower()
    found = float(text) if text.isascii() and text.isdigit() and len(text) <= 9 else _parts(text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration; write 90s, 10m, 1h30m or 2d")
    return found


def _parts(text: str) -> float:
    if _WHOLE.match(text) is None:
        return 0.0
    return float(sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
