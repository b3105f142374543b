"""Facts about the whole node that no source reports: ranks, peaks, announced maintenance and the daemon's own metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable

from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.merge.peaks import Peaks
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks
from telemetry_parsers.model import MergedDevice, Sample


class NodeFacts:
    """The node's facts. Each change requests a new snapshot."""

    def __init__(self, lock: threading.RLock, changed: Callable[[], None]) -> None:
        """The lock is held while a fact changes, and `changed` is called under it."""
        self._lock = lock
        self._changed = changed
        self._ranks = NodeRanks()
        self._peaks: Peaks | None = Peaks()
        self._maintenance: Callable[[], Maintenance] | None = None
        # Only for holders of the lock.
        self.own: dict[str, tuple[Sample, ...]] = {}

    def set_daemon_metric(self, metric: str, samples: tuple[Sample, ...]) -> None:
        """Set all samples of a metric of the daemon."""
        with self._lock:
            self.own[metric] = samples
            self._changed()

    def set_ranks(self, ranks: NodeRanks) -> None:
        """Set which rank of a job runs on which chip."""
        with self._lock:
            self._ranks = ranks
            self._changed()

    def set_peaks(self, peaks: Peaks | None) -> None:
        """Set the peaks of the cards in place of the built-in table; None shows no peaks."""
        with self._lock:
            self._peaks = peaks
            self._changed()

    def set_maintenance(self, maintenance: Callable[[], Maintenance]) -> None:
        """Set the function that returns the maintenance. Call this again when the maintenance has changed."""
        with self._lock:
            self._maintenance = maintenance
            self._changed()

    def on(self, devices: tuple[MergedDevice, ...]) -> tuple[MergedDevice, ...]:
        """Return the devices with their ranks and peaks."""
        ranked = with_ranks(devices, self._ranks)
        return ranked if self._peaks is None else self._peaks.with_peaks(ranked)

    def maintenance(self) -> Maintenance | None:
        """Return the current maintenance, or None if no function was set."""
        return self._maintenance() if self._maintenance else None

    def samples(self) -> tuple[Sample, ...]:
        """Return all samples of the daemon's metrics, sorted by metric."""
        return tuple(sample for metric in sorted(self.own) for sample in self.own[metric])
