"""Peak rates of card models, from the built-in table and the settings."""

from __future__ import annotations

from telemetry_daemon.config.optional_sections import PeakSettings
from telemetry_daemon.config.settings import Settings
from telemetry_parsers.card_peaks import DTYPES, PeakRates, Rate
from telemetry_parsers.merge.peaks import PeakFinder


def configured_peaks(settings: Settings) -> PeakFinder:
    """Return the peak rates from the built-in table, overridden by the settings."""
    configured = {model: _to_peak_rates(peak_settings) for model, peak_settings in settings.peaks.items()}
    return PeakFinder(configured, settings.peak_dtypes)


def _to_peak_rates(settings: PeakSettings) -> PeakRates:
    dtypes = [dtype for dtype in DTYPES if dtype in settings.flops or dtype in settings.flops_per_cycle]
    rates = (Rate(dtype, settings.flops.get(dtype), settings.flops_per_cycle.get(dtype)) for dtype in dtypes)
    return PeakRates(tuple(rates), settings.memory_bytes_per_second, settings.origin)
