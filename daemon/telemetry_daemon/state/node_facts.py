"""What holds for the whole node and comes from no source: ranks, peaks, announced maintenance and the daemon's own metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable

from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.merge.peaks import Peaks
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks
from telemetry_parsers.model import MergedDevice, Sample


class NodeFacts:
    """The node's facts, set by those who know them; each change asks for a new snapshot."""

    def __init__(self, lock: threading.RLock, changed: Callable[[], None]) -> None:
        """The lock is held while a fact changes, and `changed` is called under it."""
        self._lock = lock
        self._changed = changed
        self._ranks = NodeRanks()
        self._peaks: Peaks | None = Peaks()
        self._maintenance: Callable[[], Maintenance] | None = None
        # For those who hold the lock.
        self.own: dict[str, tuple[Sample, ...]] = {}

    def set_own(self, metric: str, samples: tuple[Sample, ...]) -> None:
        """Set all samples of one of the daemon's own metrics."""
        with self._lock:
            self.own[metric] = samples
            self._changed()

    def set_ranks(self, ranks: NodeRanks) -> None:
        """Set which rank of a job runs on which chip."""
        with self._lock:
            self._ranks = ranks
            self._changed()

    def set_peaks(self, peaks: Peaks | None) -> None:
        """Set what is known of the cards' peaks, instead of the built-in table; None shows none."""
        with self._lock:
            self._peaks = peaks
            self._changed()

    def set_maintenance(self, maintenance: Callable[[], Maintenance]) -> None:
        """Set what gives the node's maintenance; call this again when the maintenance has changed."""
        with self._lock:
            self._maintenance = maintenance
            self._changed()

    def on(self, devices: tuple[MergedDevice, ...]) -> tuple[MergedDevice, ...]:
        """The devices with their ranks and peaks."""
        ranked = with_ranks(devices, self._ranks)
        return ranked if self._peaks is None else self._peaks.of(ranked)

    def maintenance(self) -> Maintenance | None:
        """The node's maintenance as it is now; None if nothing was set."""
        return self._maintenance() if self._maintenance else None

    def samples(self) -> tuple[Sample, ...]:
        """All samples of the daemon's own metrics, by the metrics' names."""
        return tuple(sample for metric in sorted(self.own) for sample in self.own[metric])
