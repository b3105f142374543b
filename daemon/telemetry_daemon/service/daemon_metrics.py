"""The daemon's own metrics, such as its version."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.state.peaks import configured_peaks
from telemetry_daemon.state.store import Store
from telemetry_daemon.version import __version__
from telemetry_parsers.model import Sample

Labels = tuple[tuple[str, str], ...]


class DaemonMetrics:
    """Sets the daemon's own metrics in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._samples: dict[str, tuple[Sample, ...]] = {}

    def set_version(self) -> None:
        """Set the versions of the daemon and of Python."""
        self._set("telemetry_build_info", {(("version", __version__), ("python", sys.version.split()[0])): 1.0})

    def record_reload(self, *, succeeded: bool) -> None:
        """Record whether the last load of the configuration succeeded."""
        self._set("telemetry_config_last_reload_successful", {(): float(succeeded)})

    def set_plugin_failures(self, plugins: Sequence[str]) -> None:
        """Set the plugins that failed to load."""
        self._set("telemetry_plugin_load_failures", {(("plugin", name),): 1.0 for name in plugins})

    def configure(self, settings: Settings) -> None:
        """Set the expected devices per vendor, and the peak rates of the card models."""
        self._set("telemetry_devices_expected", _by_vendor(settings.expect.devices))
        self._store.facts.set_peaks(configured_peaks(settings))

    def set_known_since(self, unix_seconds: float) -> None:
        """Set the time since which the node's devices have been recorded."""
        self._set("telemetry_remembers_since_timestamp_seconds", {(): unix_seconds})

    def set_pci(self, counts: Mapping[str, int]) -> None:
        """Set the number of accelerators on the PCI bus per vendor."""
        self._set("telemetry_pci_devices", _by_vendor(counts))

    def set_compat(self, is_served: Mapping[str, bool]) -> None:
        """Set whether each configured exporter's page is served."""
        values: dict[Labels, float] = {(("exporter", name),): float(is_up) for name, is_up in sorted(is_served.items())}
        self._set("telemetry_compat_up", values)

    def _set(self, metric: str, values: Mapping[Labels, float]) -> None:
        samples = tuple(Sample(metric, value, labels) for labels, value in values.items())
        if self._samples.get(metric) != samples:  # equal samples would cause a needless snapshot
            self._samples[metric] = samples
            self._store.facts.set_daemon_metric(metric, samples)


def _by_vendor(counts: Mapping[str, int]) -> dict[Labels, float]:
    return {(("vendor", vendor),): float(count) for vendor, count in sorted(counts.items())}
