"""What a recording rule is."""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_grafana.promql import DEVICE_LABELS


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus keeps ready."""

    name: str
    expression: str
    labels: frozenset[str]
    meaning: str


@dataclass(frozen=True, slots=True)
class RecordingGroup:
    """Rules that are evaluated together, in order; if `every` is empty, Prometheus' own interval holds."""

    name: str
    rules: tuple[Recording, ...]
    every: str = ""


def for_ten_minutes(function: str, series: str) -> str:
    """The least or the most of ten minutes; nothing of what has just begun, whose first values may be wrong."""
    return f"{function}({series}[10m]) and count_over_time({series}[5m] offset 5m)"


def device(name: str, expression: str, meaning: str) -> Recording:
    """A series of each device."""
    return Recording(name, expression, DEVICE_LABELS, meaning)
