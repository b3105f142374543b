"""Facts about the node that no source reports: ranks, peak rates, maintenance and daemon metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable

from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.merge.peaks import PeakFinder
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks
from telemetry_parsers.model import MergedDevice, Sample


class NodeFacts:
    """The facts that no source reports. Each change calls `drop_snapshot`, so that the next snapshot includes the change."""

    def __init__(self, lock: threading.RLock, drop_snapshot: Callable[[], None]) -> None:
        self._lock = lock
        self._drop_snapshot = drop_snapshot
        self._ranks = NodeRanks()
        self._peaks: PeakFinder | None = PeakFinder()
        self._get_maintenance: Callable[[], Maintenance] | None = None
        # Guarded by the lock.
        self.daemon_samples: dict[str, tuple[Sample, ...]] = {}

    def set_daemon_metric(self, metric: str, samples: tuple[Sample, ...]) -> None:
        """Replace all samples of one of the daemon's own metrics."""
        with self._lock:
            self.daemon_samples[metric] = samples
            self._drop_snapshot()

    def set_ranks(self, ranks: NodeRanks) -> None:
        """Set the ranks of the chips."""
        with self._lock:
            self._ranks = ranks
            self._drop_snapshot()

    def set_peaks(self, peaks: PeakFinder | None) -> None:
        """Set the peak rates of card models. If None, no peak rates are shown."""
        with self._lock:
            self._peaks = peaks
            self._drop_snapshot()

    def set_maintenance(self, get_maintenance: Callable[[], Maintenance]) -> None:
        """Set the function that returns the maintenance. After each change of its result, call this again."""
        with self._lock:
            self._get_maintenance = get_maintenance
            self._drop_snapshot()

    def with_ranks_and_peaks(self, devices: tuple[MergedDevice, ...]) -> tuple[MergedDevice, ...]:
        """Return the devices with their ranks and peak rates."""
        ranked = with_ranks(devices, self._ranks)
        return ranked if self._peaks is None else self._peaks.with_peaks(ranked)

    def maintenance(self) -> Maintenance | None:
        """Return the current maintenance, or None if `set_maintenance` was never called."""
        return self._get_maintenance() if self._get_maintenance else None

    def samples(self) -> tuple[Sample, ...]:
        """Return all samples of the daemon's metrics, sorted by metric."""
        return tuple(sample for metric in sorted(self.daemon_samples) for sample in self.daemon_samples[metric])
