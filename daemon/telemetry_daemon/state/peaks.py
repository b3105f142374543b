"""The peaks that are known with some settings."""

from __future__ import annotations

from telemetry_daemon.config.optional_sections import PeakSettings
from telemetry_daemon.config.settings import Settings
from telemetry_parsers.card_peaks import DTYPES, Peak, Rate
from telemetry_parsers.merge.peaks import Peaks


def known_peaks(settings: Settings) -> Peaks:
    """What the table and these settings say of peaks."""
    return Peaks({model: _peak(one) for model, one in settings.peaks.items()}, settings.peak_dtypes)


def _peak(settings: PeakSettings) -> Peak:
    known = [dtype for dtype in DTYPES if dtype in settings.flops or dtype in settings.flops_per_cycle]
    rates = (Rate(dtype, settings.flops.get(dtype), settings.flops_per_cycle.get(dtype)) for dtype in known)
    return Peak(tuple(rates), settings.memory_bytes_per_second, settings.origin)
