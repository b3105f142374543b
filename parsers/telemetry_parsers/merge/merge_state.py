"""The state that a merge passes to the next merge."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Device, Identity


@dataclass(frozen=True, slots=True)
class MergeState:
    """The remembered devices, and what was learnt about them from earlier reports."""

    identities: tuple[Identity, ...] = ()
    # Maps each device id to (count of lists since the start, time of the newest list).
    seen: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    # Maps (vendor, UUID or address) of each unconfirmed device to the reports that list it.
    witnesses: Mapping[tuple[str, str], frozenset[tuple[str, str, float]]] = field(default_factory=dict)
    forgotten: Mapping[tuple[str, str], int] = field(default_factory=dict)  # maps (vendor, source) to a device count
    # Maps each (vendor, index space) to devices by index. These devices contain only the learnt address and UUID.
    learnt: Mapping[tuple[str, str], Mapping[int, Device]] = field(default_factory=dict)
    counters: Mapping[tuple[str, str, str], str] = field(default_factory=dict)  # maps (id, metric, label) to the source

    def is_same_as(self, other: MergeState) -> bool:
        """Return whether the states are the same, apart from `seen`."""
        return (
            not self.witnesses
            and not other.witnesses
            and self.identities is other.identities
            and self.forgotten is other.forgotten
            and self.learnt is other.learnt
            and self.counters is other.counters
        )

    def reuse_if_equal(self, other: MergeState) -> MergeState:
        """Return `other` if it equals this state apart from `seen`, else this state."""
        return other if replace(other, seen=self.seen) == self else self
