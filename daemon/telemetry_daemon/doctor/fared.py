"""How each vendor's sources fared, in one word for each: what the kernel shows is judged by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from telemetry_daemon.polling.cross_check import WHERE as PCI_BUS
from telemetry_parsers.model import MergedDevice, Snapshot, SourceStatus

_BAD = frozenset({"failed", "stuck"})


@dataclass(frozen=True, slots=True)
class Fared:
    """A vendor's sources: `read_by` those that read its cards, `missing` and `bad` by name."""

    vendor: str
    read_by: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    asleep: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether its cards are read and nothing speaks against it."""
        return bool(self.read_by or self.asleep) and not self.bad and not self.incomplete


def fared(snapshot: Snapshot, vendor: str) -> Fared:
    """How the vendor's sources fared."""
    readers = {source for device in snapshot.devices if device.vendor == vendor for source in _sources_of(device)}
    ours = [status for status in snapshot.sources if status.vendor == vendor or status.source in readers]
    return Fared(
        vendor,
        read_by=_names(status for status in ours if status.state == "ok" and status.source in readers),
        missing=_names(status for status in ours if status.state == "missing"),
        bad=_names(status for status in ours if status.state in _BAD),
        incomplete=_names(status for status in ours if any(one.where == PCI_BUS for one in status.problems)),
        asleep=_names(status for status in ours if status.state in ("suspended", "released")),
    )


def _sources_of(device: MergedDevice) -> set[str]:
    return {reading.source for reading in device.readings} if device.up else set()


def _names(statuses: Iterable[SourceStatus]) -> tuple[str, ...]:
    return tuple(status.source for status in statuses)
