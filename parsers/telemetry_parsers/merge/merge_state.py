"""The state that a merge passes to the next merge."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Device, Identity


@dataclass(frozen=True, slots=True)
class MergeState:
    """The remembered devices, and what was learnt about them from earlier reports."""

    identities: tuple[Identity, ...] = ()
    # Maps each device id to (number of lists with the device since the start, time of the newest of these lists).
    list_history: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    # Maps (vendor, UUID or address) of each unconfirmed device to the reports that list it.
    witnesses: Mapping[tuple[str, str], frozenset[tuple[str, str, float]]] = field(default_factory=dict)
    forgotten_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by (vendor, source)
    # Maps each (vendor, index space) to devices by index. Only the address and the UUID of these devices are set.
    learnt_addresses: Mapping[tuple[str, str], Mapping[int, Device]] = field(default_factory=dict)
    counter_sources: Mapping[tuple[str, str, str], str] = field(default_factory=dict)  # by (device id, metric, label)

    def shares_objects_with(self, other: MergeState) -> bool:
        """Return whether both states have the same objects, except `list_history`, and no witnesses."""
        return (
            not self.witnesses
            and not other.witnesses
            and self.identities is other.identities
            and self.forgotten_counts is other.forgotten_counts
            and self.learnt_addresses is other.learnt_addresses
            and self.counter_sources is other.counter_sources
        )

    def reuse_if_equal(self, other: MergeState) -> MergeState:
        """Return `other` if both states are equal apart from `list_history`, else this state."""
        return other if replace(other, list_history=self.list_history) == self else self
