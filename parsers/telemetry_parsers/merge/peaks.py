"""Adds the peak rates of each merged device to its readings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from telemetry_parsers.card_peaks import CardPart, PeakRates, find_row, peak_of_part, peak_of_row
from telemetry_parsers.merge.merged import with_readings
from telemetry_parsers.model import Absent, MergedDevice, MergedReading
from telemetry_parsers.readings import Readings

_ORIGIN_FACT = "peak_origin"
FLOPS, FLOPS_PER_CYCLE, MEMORY = "peak_flops", "flops_per_cycle", "peak_memory_bytes_per_second"
_SOURCE = "peaks"
_COMPUTE_UNITS, _MEMORY_TOTAL = "compute_units", "memory_total_bytes"
# Variants of a model, such as other firmware versions, have separate entries in the cache.
_MAX_CACHED = 1024
PeaksByModel = Mapping[str, PeakRates]
_NO_PEAKS: PeaksByModel = MappingProxyType({})
_Additions = tuple[tuple[tuple[str, str], ...], tuple[MergedReading, ...]]
# PCI vendor ids, for vendors whose tools print the PCI device id of a card (the fact `chip_id`).
_PCI_VENDORS: Mapping[str, str] = {"amd": "1002"}


class PeakFinder:
    """Finds peak rates in the configuration or the model table."""

    def __init__(self, configured: PeaksByModel = _NO_PEAKS, dtypes: tuple[str, ...] = ()) -> None:
        self.configured = configured
        self._dtypes = dtypes
        # The added facts and readings, by the properties of a device that determine them.
        self._cache: dict[object, _Additions] = {}

    def with_peaks(self, devices: tuple[MergedDevice, ...]) -> tuple[MergedDevice, ...]:
        """Add peak rates to devices of known models."""
        by_id = {device.id: device for device in devices}
        return tuple([self._add_peak(device, by_id.get(device.parent or "")) for device in devices])

    def _add_peak(self, device: MergedDevice, parent: MergedDevice | None) -> MergedDevice:
        if not device.up:
            return device
        card = parent or device
        properties = (_model(device), device.partition, device.facts, _number(device, _COMPUTE_UNITS), device is card)
        key = properties if device is card else (*properties, _model(card), card.facts, _number(card, _MEMORY_TOTAL))
        result = self._cache.get(key)
        if result is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            result = self._cache[key] = self._create_additions(device, card)
        facts, readings = result
        if not readings:
            return device
        return with_readings(device, (*device.facts, *facts), Readings.of(device.readings).extended(readings))

    def _create_additions(self, device: MergedDevice, card: MergedDevice) -> _Additions:
        peak = self._find_peak(device, card)
        readings = () if peak is None else tuple(_peak_readings(peak, self._dtypes))
        return (((_ORIGIN_FACT, peak.origin),), readings) if peak is not None and readings else ((), ())

    def _find_peak(self, device: MergedDevice, card: MergedDevice) -> PeakRates | None:
        """Return the peak rates of a device. A partition has a share of its card's peak rates."""
        name, model = _model(device), _model(card)
        if name != model and name in self.configured:
            return self.configured[name]
        row = find_row(model, _pci_id(card))
        part = _card_part(device, card, None if row is None else row.units)
        if model in self.configured:
            return peak_of_part(self.configured[model], part) if part.is_partial else self.configured[model]
        return None if row is None else peak_of_part(peak_of_row(row), part)


def _model(device: MergedDevice) -> str:
    """Return the current model, or else the first reported model."""
    return device.current_model or device.model


def _pci_id(card: MergedDevice) -> str:
    chip = dict(card.facts).get("chip_id", "")
    return f"{_PCI_VENDORS[card.vendor]}:{chip.removeprefix('0x')}" if chip and card.vendor in _PCI_VENDORS else ""


def _card_part(device: MergedDevice, card: MergedDevice, model_units: int | None) -> CardPart:
    facts = dict(device.facts)
    return CardPart(
        units=_number(device, _COMPUTE_UNITS),
        model_units=model_units,
        is_partition=device.parent is not None or device.partition is not None,
        compute_partition=facts.get("compute_partition", ""),
        profile=facts.get("profile", ""),
        card_memory_bytes=_number(card, _MEMORY_TOTAL),
    )


def _number(device: MergedDevice, metric: str) -> float | None:
    value = Readings.of(device.readings).value(metric)
    return None if value is None or isinstance(value, Absent) else value


def _peak_readings(peak: PeakRates, dtypes: Iterable[str]) -> Iterator[MergedReading]:
    shown_dtypes = dict.fromkeys((*([peak.main_dtype] if peak.main_dtype else []), *dtypes))
    for metric, get_rate in ((FLOPS, peak.flops), (FLOPS_PER_CYCLE, peak.flops_per_cycle)):
        for dtype in shown_dtypes:
            if (value := get_rate(dtype)) is not None:
                yield MergedReading(metric, dtype, value, _SOURCE)
    if peak.memory_bytes_per_second is not None:
        yield MergedReading(MEMORY, "", peak.memory_bytes_per_second, _SOURCE)
