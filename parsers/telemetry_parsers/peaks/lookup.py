"""The peak of a model: that of the table's row with exactly this name, or else with this PCI id."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from telemetry_parsers.peaks.peak import Peak, Rate
from telemetry_parsers.peaks.table import PER_UNIT, ROWS, Row


def peak_of(model: str, pci_id: str = "") -> Peak | None:
    """The peak of a whole device; None where its name and its PCI id (`1002:74a1`) are unknown, or contradict each other."""
    row = row_of(model, pci_id)
    return None if row is None else peak_of_row(row)


def row_of(model: str, pci_id: str = "") -> Row | None:
    """The row with that name, or else with that PCI id; None where there is none, or where the named card has another id."""
    named = _by_name().get(model)
    if named is None:
        return _by_pci_id().get(pci_id)
    return None if pci_id and named.pci_ids and pci_id not in named.pci_ids else named


def peak_of_row(row: Row) -> Peak:
    """The peak that the row's source quotes."""
    per_unit = PER_UNIT[row.architecture]
    rates = (Rate(dtype, quote.teraflops * 1e12, float(row.units * per_unit[dtype])) for dtype, quote in row.quoted)
    memory = row.memory_gigabytes_per_second
    return Peak(tuple(rates), None if memory is None else memory * 1e9, "vendor")


@cache
def _by_name() -> Mapping[str, Row]:
    return {name: row for row in ROWS for name in row.names}


@cache
def _by_pci_id() -> Mapping[str, Row]:
    """The rows by those PCI ids that one model alone has."""
    ids = [pci_id for row in ROWS for pci_id in row.pci_ids]
    return {pci_id: row for row in ROWS for pci_id in row.pci_ids if ids.count(pci_id) == 1}
