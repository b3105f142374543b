"""The file with other thresholds for `telemetry check`: numbers by the names of the table, and how many devices are expected."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.terminal.suggestions import nearest_or_all
from telemetry_parsers.vendors import VENDOR_WORDS

if sys.version_info >= (3, 11):
    import tomllib
else:  # the library of which tomllib was made
    import tomli as tomllib

_LARGEST_BYTES = 1 << 20
_MOST_DEVICES = 4096
# What conditions of devices compare with; the other numbers are those of alerts, which Prometheus evaluates.
NUMBERS = (
    "ecc_corrected",
    "ecc_corrected_sram",
    "retired_pages",
    "remapped_rows",
    "limit_margin_celsius",
    "hot_celsius",
    "hot_junction_celsius",
    "critical_celsius",
    "critical_junction_celsius",
    "fan_stopped_celsius",
    "at_cap_ratio",
)
_SECTIONS = ("thresholds", "expect")


@dataclass(frozen=True, slots=True)
class Changes:
    """What the file says: numbers by name, and devices by vendor."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)


def changes_in(path: str) -> Changes:
    """What is in the file. Raises CommandError, which names everything that is wrong."""
    document = _document(path)
    problems = [
        f"[{name}]: no such section; there are {', '.join(_SECTIONS)}" for name in document if name not in _SECTIONS
    ]
    numbers, expected = (_section(document, name, problems) for name in _SECTIONS)
    problems += [
        f"thresholds.{name}: no such number{nearest_or_all(name, NUMBERS)}" for name in numbers if name not in NUMBERS
    ]
    problems += [
        f"expect.{name}: no such vendor{nearest_or_all(name, VENDOR_WORDS)}"
        for name in expected
        if name not in VENDOR_WORDS
    ]
    problems += [
        f"thresholds.{name}: must be a number of at least 0, not {value!r}"
        for name, value in numbers.items()
        if not _is_number(value)
    ]
    problems += [
        f"expect.{name}: must be a whole number from 0 to {_MOST_DEVICES}, not {value!r}"
        for name, value in expected.items()
        if type(value) is not int or not 0 <= value <= _MOST_DEVICES
    ]
    if problems:
        raise CommandError(*(f"{path}: {problem}" for problem in problems))
    return Changes({name: float(value) for name, value in numbers.items()}, expected)


def _document(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(read_file(path, _LARGEST_BYTES).decode())
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path}: is not valid TOML: {error}") from None


def _section(document: dict[str, Any], name: str, problems: list[str]) -> dict[str, Any]:
    section = document.get(name, {})
    if isinstance(section, dict):
        return section
    problems.append(f"{name}: must be a section, as in [{name}]")
    return {}


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0  # type: ignore[operator,arg-type]  # it is one of the two
