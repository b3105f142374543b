"""Adds the peak rates of each merged device to its readings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from telemetry_parsers.card_peaks import Part, Peak, peak_of_part, peak_of_row, row_of
from telemetry_parsers.merge.merged import rebuilt
from telemetry_parsers.model import Absent, MergedDevice, MergedReading
from telemetry_parsers.readings import Readings

_ORIGIN_FACT = "peak_origin"
FLOPS, FLOPS_PER_CYCLE, MEMORY = "peak_flops", "flops_per_cycle", "peak_memory_bytes_per_second"
_SOURCE = "peaks"
_UNITS, _MEMORY_TOTAL = "compute_units", "memory_total_bytes"
# Cards of one model have different facts, such as the firmware.
_MOST_FOUND = 1024
Configured = Mapping[str, Peak]
_NOTHING_CONFIGURED: Configured = MappingProxyType({})
_Found = tuple[tuple[tuple[str, str], ...], tuple[MergedReading, ...]]
# Vendors whose tools print a card's PCI device id, as the fact `chip_id`.
_PCI_VENDORS: Mapping[str, str] = {"amd": "1002"}


class Peaks:
    """Finds peaks in the table and the configuration. Peaks of additional data types are shown if configured."""

    def __init__(self, configured: Configured = _NOTHING_CONFIGURED, dtypes: tuple[str, ...] = ()) -> None:
        self.configured = configured
        self._dtypes = dtypes
        # Results by the looks of a device, so that a card is looked up once and not at every snapshot.
        self._found: dict[object, _Found] = {}

    def of(self, devices: tuple[MergedDevice, ...]) -> tuple[MergedDevice, ...]:
        """Return the devices. Those of a known model get their peaks."""
        by_id = {device.id: device for device in devices}
        return tuple([self._with_peak(device, by_id.get(device.parent or "")) for device in devices])

    def _with_peak(self, device: MergedDevice, parent: MergedDevice | None) -> MergedDevice:
        if not device.up:
            return device
        card = parent or device
        clues = (_model(device), device.partition, device.facts, _number(device, _UNITS), device is card)
        key = clues if device is card else (*clues, _model(card), card.facts, _number(card, _MEMORY_TOTAL))
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _MOST_FOUND:
                self._found.clear()
            found = self._found[key] = self._find(device, card)
        facts, readings = found
        if not readings:
            return device
        return rebuilt(device, (*device.facts, *facts), Readings.of(device.readings).plus(readings))

    def _find(self, device: MergedDevice, card: MergedDevice) -> _Found:
        """Return the fact and readings to add to a device, empty if its peak is unknown."""
        peak = self._peak(device, card)
        readings = () if peak is None else tuple(_readings(peak, self._dtypes))
        return (((_ORIGIN_FACT, peak.origin),), readings) if peak is not None and readings else ((), ())

    def _peak(self, device: MergedDevice, card: MergedDevice) -> Peak | None:
        """Return the peak configured for an instance's own name, else the device's part of its card's peak."""
        name, model = _model(device), _model(card)
        if name != model and name in self.configured:
            return self.configured[name]
        row = row_of(model, _pci_id(card))
        part = _part(device, card, None if row is None else row.units)
        if model in self.configured:
            return peak_of_part(self.configured[model], part) if part.is_cut else self.configured[model]
        return None if row is None else peak_of_part(peak_of_row(row), part)


def _model(device: MergedDevice) -> str:
    """Return the currently reported model. The label keeps the model first reported."""
    return device.current_model or device.model


def _pci_id(card: MergedDevice) -> str:
    chip = dict(card.facts).get("chip_id", "")
    return f"{_PCI_VENDORS[card.vendor]}:{chip.removeprefix('0x')}" if chip and card.vendor in _PCI_VENDORS else ""


def _part(device: MergedDevice, card: MergedDevice, model_units: int | None) -> Part:
    facts = dict(device.facts)
    return Part(
        units=_number(device, _UNITS),
        model_units=model_units,
        is_partition=device.parent is not None or device.partition is not None,
        compute_partition=facts.get("compute_partition", ""),
        profile=facts.get("profile", ""),
        card_memory_bytes=_number(card, _MEMORY_TOTAL),
    )


def _number(device: MergedDevice, metric: str) -> float | None:
    value = Readings.of(device.readings).value(metric)
    return None if value is None or isinstance(value, Absent) else value


def _readings(peak: Peak, dtypes: Iterable[str]) -> Iterator[MergedReading]:
    """Yield readings of the 16-bit matrix rate, the additional data types, and the memory bandwidth."""
    shown = dict.fromkeys((*([peak.main_dtype] if peak.main_dtype else []), *dtypes))
    for metric, peak_of in ((FLOPS, peak.flops), (FLOPS_PER_CYCLE, peak.flops_per_cycle)):
        for dtype in shown:
            if (value := peak_of(dtype)) is not None:
                yield MergedReading(metric, dtype, value, _SOURCE)
    if peak.memory_bytes_per_second is not None:
        yield MergedReading(MEMORY, "", peak.memory_bytes_per_second, _SOURCE)
