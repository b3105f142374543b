"""State that merge keeps from one snapshot to the next."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Device, Identity


@dataclass(frozen=True, slots=True)
class MergeState:
    """The known devices and what was learnt about them."""

    identities: tuple[Identity, ...] = ()
    seen: Mapping[str, tuple[int, float]] = field(default_factory=dict)  # lists since the start, and time of the newest
    # Witnesses of devices not accepted yet.
    doubts: Mapping[tuple[str, str], frozenset[tuple[str, str, float]]] = field(default_factory=dict)
    forgotten: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by vendor and source
    # By vendor and index space, address and uuid of each index.
    learnt: Mapping[tuple[str, str], Mapping[int, Device]] = field(default_factory=dict)
    counters: Mapping[tuple[str, str, str], str] = field(default_factory=dict)  # the source of each (id, metric, label)

    def is_as(self, other: MergeState) -> bool:
        """Return whether the states are identical except for `seen`; always False while a device is doubted."""
        return (
            not self.doubts
            and not other.doubts
            and self.identities is other.identities
            and self.forgotten is other.forgotten
            and self.learnt is other.learnt
            and self.counters is other.counters
        )

    def or_equal(self, other: MergeState) -> MergeState:
        """Return the other state if both are equal, so that `is_as` is true from now on."""
        return other if replace(other, seen=self.seen) == self else self
