"""How each vendor's sources fared, in one word for each: what the kernel shows is judged by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from telemetry_daemon.polling.cross_check import WHERE as PCI_BUS
from telemetry_parsers.model import MergedDevice, Snapshot, SourceStatus
from telemetry_parsers.states import UNSUCCESSFUL

_OFF = frozenset({"disabled"})
_NOT_THERE = frozenset({"missing", "not_mine"})


@dataclass(frozen=True, slots=True)
class Fared:
    """A vendor's sources: `read_by` those that read its cards, `missing` and `bad` by name.

    It is switched off where the configuration leaves none that is there.
    """

    vendor: str
    read_by: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    asleep: tuple[str, ...] = ()
    is_switched_off: bool = False

    @property
    def is_well(self) -> bool:
        """Whether its cards are read and nothing speaks against it."""
        return bool(self.read_by or self.asleep) and not self.bad and not self.incomplete


def fared(snapshot: Snapshot, vendor: str, complete: Collection[str] = ()) -> Fared:
    """How the vendor's sources fared; `complete` are those that list all cards that they can, whatever the bus has."""
    readers = {source for device in snapshot.devices if device.vendor == vendor for source in _sources_of(device)}
    ours = [status for status in snapshot.sources if status.vendor == vendor or status.source in readers]
    return Fared(
        vendor,
        read_by=_names(status for status in ours if status.state == "ok" and status.source in readers),
        missing=_names(status for status in ours if status.state == "missing"),
        bad=_names(status for status in ours if status.state in UNSUCCESSFUL),
        incomplete=_names(status for status in ours if status.source not in complete and _is_incomplete(status)),
        asleep=_names(status for status in ours if status.state in ("suspended", "released")),
        is_switched_off=_OFF <= {status.state for status in ours} <= _OFF | _NOT_THERE,
    )


def _is_incomplete(status: SourceStatus) -> bool:
    return any(problem.where == PCI_BUS for problem in status.problems)


def _sources_of(device: MergedDevice) -> set[str]:
    return {reading.source for reading in device.readings} if device.up else set()


def _names(statuses: Iterable[SourceStatus]) -> tuple[str, ...]:
    return tuple(status.source for status in statuses)
