"""The peaks of card models, from the built-in table and the settings."""

from __future__ import annotations

from telemetry_daemon.config.optional_sections import PeakSettings
from telemetry_daemon.config.settings import Settings
from telemetry_parsers.card_peaks import DTYPES, Peak, Rate
from telemetry_parsers.merge.peaks import Peaks


def configured_peaks(settings: Settings) -> Peaks:
    """Return the peaks of the built-in table, overridden by these settings."""
    return Peaks({model: _peak(peak_settings) for model, peak_settings in settings.peaks.items()}, settings.peak_dtypes)


def _peak(settings: PeakSettings) -> Peak:
    dtypes = [dtype for dtype in DTYPES if dtype in settings.flops or dtype in settings.flops_per_cycle]
    rates = (Rate(dtype, settings.flops.get(dtype), settings.flops_per_cycle.get(dtype)) for dtype in dtypes)
    return Peak(tuple(rates), settings.memory_bytes_per_second, settings.origin)
