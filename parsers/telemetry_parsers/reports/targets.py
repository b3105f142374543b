"""Targets of printed texts. A target is the metric, identity field or fact of a device that a text contains.

A table's row is one of these:

- `metric("power_cap_watts", unit="W")`: a number. The metric's unit in the catalogue determines which units a text may
  have; `unit` is the unit of a bare number. If a key or a heading has the unit, pass `draft.store(…, unit=…)`.
- `metric(…, words={"off": 0.0})`: a number, or one of these words.
- `metric(…, if_zero=Absent.NOT_SUPPORTED)`: a number. A printed 0 has a special meaning, such as no power limit.
- `switch("ecc_enabled", ON_OFF)`: only these words. `state(…)`: the same, but other texts give no reading.
- `parsed("pcie_link_generation", read)`: text that `read` parses, such as `16.0 GT/s x16`.
- `identity("uuid")`, `fact("firmware")`, `health({…})`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Value

# Maps the unit of a metric in the catalogue to the units that a printed text may have.
_UNITS: Mapping[str, units.Units] = {
    "ratio": units.RATIO,
    "celsius": units.CELSIUS,
    "watts": units.WATTS,
    "volts": units.VOLTS,
    "joules": units.JOULES,
    "bytes": units.BYTES,
    "hertz": units.HERTZ,
    "seconds": units.SECONDS,
    "": units.COUNT,
}
# The printed units of metrics that have no unit in the catalogue.
_UNITS_OF_METRIC: Mapping[str, units.Units] = {"fan_rpm": units.RPM}
_STATE = re.compile(r"P([0-9]{1,2})\Z")
_GENERATION = re.compile(r"(?:Gen[ \t]{0,2})?([0-9]{1,2})\Z", re.IGNORECASE)
_WIDTH = re.compile(r"[xX]?([0-9]{1,3})[xX]?\Z")
# Patterns of metrics whose numbers may have a letter or word that is not a unit: `P0`, `Gen4`, `x16`.
_NUMBER_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "performance_state": _STATE,
    "pcie_link_generation": _GENERATION,
    "pcie_link_generation_max": _GENERATION,
    "pcie_link_width": _WIDTH,
    "pcie_link_width_max": _WIDTH,
}
_SHORT_BUS = re.compile(r"([0-9a-fA-F]{2}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z")

ON_OFF: Mapping[str, float] = {"enable": 1.0, "enabled": 1.0, "on": 1.0, "disable": 0.0, "disabled": 0.0, "off": 0.0}
# A function that parses a text such as `x16`. The second argument is the unit in the key, if any.
Read = Callable[[str, str], Value]
# How texts other than the target's words are treated: parsed as a number, not understood, or ignored.
OtherWords = Literal["number", "not understood", "ignored"]


@dataclass(frozen=True, slots=True)
class Target:
    """The metric, identity field or fact that a printed text contains, and how the text is parsed."""

    kind: Literal["metric", "identity", "fact", "health"]
    key: str
    label: str = ""
    unit: str | None = None
    words: Mapping[str, Value] = field(default_factory=dict)
    other_words: OtherWords = "number"
    if_zero: Value = 0.0
    read: Read | None = None
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def accepts_any_text(self) -> bool:
        """Return whether even an unknown word results in a reading, possibly an `Absent` value."""
        return self.kind == "metric" and self.other_words != "ignored"


def metric(
    key: str, label: str = "", unit: str | None = None, words: Mapping[str, Value] | None = None, if_zero: Value = 0.0
) -> Target:
    """Return a target for a metric that is printed as a number or as one of these words."""
    return Target("metric", key, label, unit, MappingProxyType(dict(words or {})), if_zero=if_zero)


def only(key: str, label: str = "") -> tuple[Target]:
    """Return a tuple with a single metric target, for tables that map keys to tuples of targets."""
    return (metric(key, label),)


def switch(key: str, words: Mapping[str, Value], label: str = "") -> Target:
    """Return a target for a metric that is printed as one of these words. Other texts are not understood."""
    return Target("metric", key, label, words=MappingProxyType(dict(words)), other_words="not understood")


def state(key: str, words: Mapping[str, Value]) -> Target:
    """Return a target for a metric that is printed as one of these words. Other texts are ignored."""
    return Target("metric", key, words=MappingProxyType(dict(words)), other_words="ignored")


def parsed(key: str, read: Read, label: str = "") -> Target:
    """Return a target for a metric. `read` parses the printed text."""
    return Target("metric", key, label, read=read)


def identity(key: str) -> Target:
    """Return a target for a field of the device: index, model, bus_id, uuid, serial, driver."""
    return Target("identity", key)


def health(words: Mapping[str, str]) -> Target:
    """Return a target for health. `words` maps the tool's words to the catalogue's words."""
    return Target("health", "health", states=MappingProxyType(dict(words)))


def fact(key: str) -> Target:
    """Return a target for a label of `accelerator_info`."""
    return Target("fact", key)


def value_of(target: Target, text: str, unit: str = "") -> Value | None:
    """Return the text's value for the target, or None if the text is ignored."""
    clean_text = " ".join(text.split())
    word_value = target.words.get(clean_text.lower())
    if word_value is not None:
        return word_value
    if target.other_words != "number":
        return None if target.other_words == "ignored" else _absence_in_text(clean_text)
    value = target.read(clean_text, unit) if target.read is not None else _parse_number(target, clean_text, unit)
    return target.if_zero if value == 0.0 else value


def with_domain(address: str) -> str:
    """Return a bus address with a domain of four digits: `0000:2d:00.0` for `00:2d:00.0`."""
    match = _SHORT_BUS.match(address.strip())
    return f"00{match[1]}:{match[2]}" if match else address


def _parse_number(target: Target, clean_text: str, unit: str) -> Value:
    pattern = _NUMBER_PATTERNS.get(target.key)
    if pattern is not None:
        match = pattern.match(clean_text)
        return units.number(match[1]) if match else _absence_in_text(clean_text)
    allowed_units = _UNITS_OF_METRIC.get(target.key) or _UNITS[BY_KEY[target.key].unit]
    if not unit:
        return units.quantity(clean_text, allowed_units, target.unit)
    unit_name = units.find_unit(unit, allowed_units)
    return _absence_in_text(clean_text) if unit_name is None else units.quantity(clean_text, allowed_units, unit_name)


def _absence_in_text(clean_text: str) -> Absent:
    return units.placeholder(clean_text) or Absent.NOT_UNDERSTOOD
