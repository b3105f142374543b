"""Targets of printed texts: a metric, an identity or a fact of a device, and how the text is read.

A table's row is one of these:

- `metric("power_cap_watts", unit="W")`: a number. The metric's unit in the catalogue determines which units a text may
  have; `unit` is the unit of a bare number. If a key or a heading has the unit, pass `draft.take(…, unit=…)`.
- `metric(…, words={"off": 0.0})`: these words stand for numbers; any other text is a number as usual.
- `metric(…, zero=Absent.NOT_SUPPORTED)`: the meaning of a printed 0 that is not a number, such as a limit of 0 W.
- `switch("ecc_enabled", ON_OFF)`: these words and no numbers. `state(…)`: the same, but other texts give no reading.
- `special("pcie_link_generation", read)`: for texts that are not a quantity, such as `16.0 GT/s x16`.
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

# The units allowed in a text, by the unit of its metric in the catalogue.
_FAMILIES: Mapping[str, units.Units] = {
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
# Counts that some tools print with a unit.
_OF_METRIC: Mapping[str, units.Units] = {"fan_rpm": units.RPM}
_STATE = re.compile(r"P([0-9]{1,2})\Z")
_GENERATION = re.compile(r"(?:Gen[ \t]{0,2})?([0-9]{1,2})\Z", re.IGNORECASE)
_WIDTH = re.compile(r"[xX]?([0-9]{1,3})[xX]?\Z")
# Metrics whose numbers are printed with a letter that is not a unit.
_MARKED: Mapping[str, re.Pattern[str]] = {
    "performance_state": _STATE,
    "pcie_link_generation": _GENERATION,
    "pcie_link_generation_max": _GENERATION,
    "pcie_link_width": _WIDTH,
    "pcie_link_width_max": _WIDTH,
}
_SHORT_BUS = re.compile(r"([0-9a-fA-F]{2}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z")

ON_OFF: Mapping[str, float] = {"enable": 1.0, "enabled": 1.0, "on": 1.0, "disable": 0.0, "disabled": 0.0, "off": 0.0}
# Reads a text that is not a quantity. The second argument is the unit in its key (empty for none).
Read = Callable[[str, str], Value]
# The meaning of a text that is none of a target's words: a number, not understood, or no reading of this metric.
Rest = Literal["number", "not understood", "nothing"]


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a text and how it is read; made by the functions below."""

    kind: Literal["metric", "identity", "fact", "health"]
    key: str
    label: str = ""
    unit: str | None = None
    words: Mapping[str, Value] = field(default_factory=dict)
    rest: Rest = "number"
    zero: Value = 0.0
    read: Read | None = None
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sure(self) -> bool:
        """Return whether every text gives a reading, present or absent."""
        return self.kind == "metric" and self.rest != "nothing"


def metric(
    key: str, label: str = "", unit: str | None = None, words: Mapping[str, Value] | None = None, zero: Value = 0.0
) -> Target:
    """Return a target for a reading of that metric."""
    return Target("metric", key, label, unit, MappingProxyType(dict(words or {})), zero=zero)


def only(key: str, label: str = "") -> tuple[Target]:
    """Return a single target for a reading of that metric, as tables of keys need it."""
    return (metric(key, label),)


def switch(key: str, words: Mapping[str, Value], label: str = "") -> Target:
    """Return a target for a metric whose text is one of these words; other texts are not understood."""
    return Target("metric", key, label, words=MappingProxyType(dict(words)), rest="not understood")


def state(key: str, words: Mapping[str, Value]) -> Target:
    """Return a target for a metric whose text is one of these words; other texts give no reading."""
    return Target("metric", key, words=MappingProxyType(dict(words)), rest="nothing")


def special(key: str, read: Read, label: str = "") -> Target:
    """Return a target for a metric whose text is not a quantity and is read by `read`."""
    return Target("metric", key, label, read=read)


def identity(key: str) -> Target:
    """Return a target for a field of the device: index, model, bus_id, uuid, serial, driver."""
    return Target("identity", key)


def health(words: Mapping[str, str]) -> Target:
    """Return a target for the state of health; `words` maps the tool's words in lower case to those of the catalogue."""
    return Target("health", "health", states=MappingProxyType(dict(words)))


def fact(key: str) -> Target:
    """Return a target for a label of `accelerator_info`."""
    return Target("fact", key)


def value_of(target: Target, text: str, unit: str = "") -> Value | None:
    """Return the number in a text, or None if the text is about something else. `unit` is the unit in the text's key or heading, in any case."""
    bare = " ".join(text.split())
    word = target.words.get(bare.lower())
    if word is not None:
        return word
    if target.rest != "number":
        return None if target.rest == "nothing" else _no_number(bare)
    value = target.read(bare, unit) if target.read is not None else _number_of(target, bare, unit)
    return target.zero if value == 0.0 else value


def with_domain(address: str) -> str:
    """Return a bus address whose domain has two digits, `00:2d:00.0`, with four; any other text unchanged."""
    match = _SHORT_BUS.match(address.strip())
    return f"00{match[1]}:{match[2]}" if match else address


def _number_of(target: Target, bare: str, unit: str) -> Value:
    marked = _MARKED.get(target.key)
    if marked is not None:
        match = marked.match(bare)
        return units.number(match[1]) if match else _no_number(bare)
    family = _OF_METRIC.get(target.key) or _FAMILIES[BY_KEY[target.key].unit]
    if not unit:
        return units.quantity(bare, family, target.unit)
    named = units.spelled(unit, family)
    return _no_number(bare) if named is None else units.quantity(bare, family, named)


def _no_number(bare: str) -> Absent:
    return units.placeholder(bare) or Absent.NOT_UNDERSTOOD
