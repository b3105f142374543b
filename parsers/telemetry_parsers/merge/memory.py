"""What merge remembers from one snapshot to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from telemetry_parsers.model import Device, Identity


@dataclass(frozen=True, slots=True)
class MergeState:
    """The devices that are known, and what was learnt of them.

    `learnt` maps (vendor, index space) and index to address and uuid; `counters` pins (id, metric, label) to a source.
    `seen` has, for each device that was seen since the start, the number of lists and the time of the last.
    `doubts` are devices that nobody believes in yet, with who told of them; `forgotten` counts by vendor and source.
    """

    identities: tuple[Identity, ...] = ()
    seen: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    doubts: Mapping[tuple[str, str], frozenset[tuple[str, str, float]]] = field(default_factory=dict)
    forgotten: Mapping[tuple[str, str], int] = field(default_factory=dict)
    learnt: Mapping[tuple[str, str], Mapping[int, Device]] = field(default_factory=dict)
    counters: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
