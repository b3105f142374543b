"""Whether an object has the shape of a parser, before anything is asked of it."""

from __future__ import annotations

from typing import Any

from telemetry_parsers.model import Metric, Poll

_ATTRIBUTES = ("contract_version", "name", "vendor", "gives", "polls", "metrics", "parse")


def shape_violations(parser: Any) -> list[str]:
    """What the object lacks to be a parser; the values of its attributes are checked elsewhere."""
    missing = [name for name in _ATTRIBUTES if not hasattr(parser, name)]
    if missing:
        return [f"{type(parser).__name__} lacks something of the Parser protocol: {' '.join(missing)}"]
    violations = [
        f"{name} is not a string" for name in ("name", "vendor") if not isinstance(getattr(parser, name), str)
    ]
    if not isinstance(parser.contract_version, int):
        violations.append("contract_version is not a number")
    if not callable(parser.parse):
        violations.append("parse is no function")
    violations += _items("gives", parser.gives, str)
    violations += _items("polls", parser.polls, Poll)
    violations += _items("metrics", parser.metrics, Metric)
    return violations


def _items(name: str, items: Any, kind: type) -> list[str]:
    if not isinstance(items, tuple | list):
        return [f"{name} is not a tuple"]
    return [
        f"{name}[{place}] is {type(item).__name__}, not {kind.__name__}"
        for place, item in enumerate(items)
        if not isinstance(item, kind)
    ]
