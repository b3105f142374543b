"""Whether a number was read or made up: the numbers in an input, and how they may be changed into readings."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from telemetry_parsers.model import Capture, Plain
from telemetry_parsers.text.lines import plain
from telemetry_parsers.units import PCIE_GENERATIONS

_TOKEN = re.compile(r"[0-9]{1,24}(?:\.[0-9]{1,12})?")
_INTEGERS = ("<B", "<H", "<I", "<Q")

# The factors by which a printed number may become one in base units: those of units.py and no others.
FACTORS: tuple[tuple[int, int], ...] = (
    (1, 1),
    (1, 100),
    *((1, 1000**power) for power in (1, 2, 3)),
    *((1000**power, 1) for power in (1, 2, 3)),
    *((1024**power, 1) for power in (1, 2, 3, 4)),
    (125_000, 1),  # megabits to bytes
    (1, 65_536),  # AMD counts energy in 2^-16 J
)
# A PCIe generation may be printed as a speed.
GENERATIONS = frozenset({"pcie_link_generation", "pcie_link_generation_max"})
# Readings that are no number of the input: counted rows and pages, …
COUNTED = frozenset({"processes", "retired_pages"})
# … quotients of two numbers of the input: SIMDs over SIMDs a unit, a speed over the highest …
QUOTIENTS = frozenset({"compute_units", "fan_ratio"})
# … and differences of two values that came from one call. States (0 or 1) are exempt by their range.
DIFFERENCES = frozenset({"telemetry_host_memory_used_bytes"})


def comes_from_input(metric: str, value: float, tokens: frozenset[str]) -> bool:
    """Whether a reading comes from the input: printed there, or counted, looked up or divided as its metric allows."""
    if metric in COUNTED | DIFFERENCES:
        return True
    if metric in GENERATIONS and any(_spelling(speed) in tokens for speed in speeds_of(value)):
        return True
    return is_spelled(value, tokens) or (metric in QUOTIENTS and is_quotient(value, tokens))


def tokens_of(capture: Capture) -> frozenset[str]:
    """All numbers in a capture, in one spelling each."""
    tokens: set[str] = set()
    for output in capture.outputs:
        for text in {output.text, plain(output.text), output.stderr}:
            tokens.update(_tokens_in(text))
        for piece in _pieces(output.data):
            if isinstance(piece, str):
                tokens.update(_tokens_of_value(piece))
            elif isinstance(piece, int | float) and abs(piece) < 1e300:
                tokens.add(_spelling(abs(piece)))
    return frozenset(tokens)


def is_spelled(value: float, tokens: frozenset[str]) -> bool:
    """Whether some token times a unit's factor is this value."""
    return any(_spelling(abs(value) * over / times) in tokens for times, over in FACTORS)


def is_quotient(value: float, tokens: frozenset[str]) -> bool:
    """Whether some token over another is this value."""
    return any(_spelling(value * float(token)) in tokens for token in tokens)


def speeds_of(generation: float) -> tuple[float, ...]:
    """The speeds of a PCIe generation, in GT/s and in tenths of them."""
    gigatransfers = [float(speed) for speed, number in PCIE_GENERATIONS.items() if number == generation]
    return (*gigatransfers, *(10 * speed for speed in gigatransfers))


def _spelling(number: float) -> str:
    return format(number, ".12g")


def _tokens_in(text: str) -> frozenset[str]:
    return frozenset(_spelling(float(token)) for token in set(_TOKEN.findall(text)))


@lru_cache(maxsize=8192)  # the damaged forms of a capture share all values but one
def _tokens_of_value(value: str) -> frozenset[str]:
    return _tokens_in(value) | {_spelling(number) for number in _numbers_of_bytes(value)}


def _pieces(data: Plain) -> Iterator[Plain]:
    """The values in nested data that are neither dicts nor lists."""
    waiting: list[Any] = [data]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        else:
            yield item


def _numbers_of_bytes(text: str) -> Iterator[float]:
    """The little-endian numbers at each place of base64 bytes from a reader; none for another text."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # text, not bytes
        return
    for code in _INTEGERS:
        width = struct.calcsize(code)
        for position in range(0, len(content) - width + 1, min(width, 2)):
            yield float(struct.unpack_from(code, content, position)[0])
