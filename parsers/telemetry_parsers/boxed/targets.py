"""What a printed text gives: a metric, an identity or a fact of a device, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from telemetry_parsers import units
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Value

_FAMILIES: Mapping[str, units.Units] = MappingProxyType(
    {
        "ratio": units.RATIO,
        "celsius": units.CELSIUS,
        "watts": units.WATTS,
        "joules": units.JOULES,
        "bytes": units.BYTES,
        "hertz": units.HERTZ,
        "": units.COUNT,
    }
)
_STATE = re.compile(r"P([0-9]{1,2})\Z")
_GENERATION = re.compile(r"(?:Gen[ \t]{0,2})?([0-9]{1,2})\Z", re.IGNORECASE)
_WIDTH = re.compile(r"[xX]?([0-9]{1,3})[xX]?\Z")
# Metrics whose numbers are printed with a letter that is no unit.
_MARKED: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "performance_state": _STATE,
        "pcie_link_generation": _GENERATION,
        "pcie_link_generation_max": _GENERATION,
        "pcie_link_width": _WIDTH,
        "pcie_link_width_max": _WIDTH,
    }
)
_SHORT_BUS = re.compile(r"([0-9a-fA-F]{2}):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z")

ON_OFF: Mapping[str, float] = MappingProxyType(
    {"enable": 1.0, "enabled": 1.0, "on": 1.0, "disable": 0.0, "disabled": 0.0, "off": 0.0}
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a text goes. `unit` is what a bare number is in; `words` stand for numbers.

    `only_words`: any other text gives nothing at all, because it speaks of something else.
    """

    kind: Literal["metric", "identity", "fact", "health"]
    key: str
    label: str = ""
    unit: str | None = None
    words: Mapping[str, Value] = field(default_factory=dict)
    only_words: bool = False
    states: Mapping[str, str] = field(default_factory=dict)


def metric(key: str, label: str = "", unit: str | None = None, words: Mapping[str, Value] | None = None) -> Target:
    """A reading of that metric."""
    return Target("metric", key, label, unit, MappingProxyType(dict(words or {})))


def only(key: str, label: str = "") -> tuple[Target]:
    """A reading of that metric and nothing else, as tables of keys want it."""
    return (metric(key, label),)


def state(key: str, words: Mapping[str, Value]) -> Target:
    """A reading of that metric where the text is one of these words, nothing where it is not."""
    return Target("metric", key, words=MappingProxyType(dict(words)), only_words=True)


def identity(key: str) -> Target:
    """A field of the device: index, model, bus_id, uuid, serial, driver."""
    return Target("identity", key)


def health(words: Mapping[str, str]) -> Target:
    """The state of health; `words` are the tool's for those of the catalogue, in lower case."""
    return Target("health", "health", states=MappingProxyType(dict(words)))


def fact(key: str) -> Target:
    """A label of `accelerator_info`."""
    return Target("fact", key)


def value_of(target: Target, text: str) -> Value | None:
    """The number in a text of that target, None where it speaks of something else."""
    bare = " ".join(text.split())
    word = target.words.get(bare.lower())
    if word is not None or target.only_words:
        return word
    marked = _MARKED.get(target.key)
    if marked is not None:
        match = marked.match(bare)
        return units.number(match[1]) if match else units.placeholder(bare) or Absent.NOT_UNDERSTOOD
    return units.quantity(bare, _FAMILIES[BY_KEY[target.key].unit], target.unit)


def with_domain(address: str) -> str:
    """A bus address whose domain has two digits, `00:2d:00.0`, with four; any other text as it is."""
    match = _SHORT_BUS.match(address.strip())
    return f"00{match[1]}:{match[2]}" if match else address
