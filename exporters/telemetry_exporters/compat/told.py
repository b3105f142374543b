"""What one device tells: who it is, and the place of each of its numbers among those of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from telemetry_parsers.model import MergedDevice


@dataclass(frozen=True, slots=True)
class Node:
    """The node as other exporters name it: its host name, and Kubernetes' name for it where that is known.

    `tells_owners` is whether pods are told at all: other exporters have empty labels for a card that nobody holds then.
    """

    hostname: str
    kubernetes_name: str = ""
    tells_owners: bool = False


@dataclass(frozen=True, slots=True)
class Who:
    """A device, the whole card that it is or belongs to, and the labels of its one owner."""

    device: MergedDevice
    card: MergedDevice
    node: Node
    owner: Mapping[str, str]

    def fact(self, name: str) -> str:
        """One of the device's facts, else the whole card's; empty where neither has it."""
        return dict(self.device.facts).get(name) or dict(self.card.facts).get(name, "")


# What a label of another exporter says of a device; None where there is no such label.
Fact = Callable[[Who], str | None]


@dataclass(frozen=True, slots=True)
class Told:
    """A device with the places of its numbers, by metric and word; what it does not tell has no place.

    `gaps` are the metrics of which some word has no number now, though the device supports it. Whoever decides by a number takes
    it through `decisive`: another number there may mean other lines.
    """

    who: Who
    places: Mapping[str, Mapping[str, int]]
    gaps: frozenset[str]
    decisive: Callable[[int], float]

    def words(self, metric: str) -> Mapping[str, int]:
        """The words of the metric's label that have a number, in order; the word is empty where the metric has no label."""
        return self.places.get(metric, {})
