"""Every source of this machine asked once, with all that is known of how it went."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor.bus import Listing, listings
from telemetry_daemon.doctor.sources import Patient
from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.polling.cross_check import WHERE as PCI_BUS
from telemetry_daemon.polling.node import RealNode
from telemetry_daemon.polling.oneshot import OneShot
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture, Report, Snapshot

_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """What came of it; `captures` are all, in the order in which they came, each with what its parser made of it."""

    snapshot: Snapshot
    patients: tuple[Patient, ...]
    listed: tuple[Listing, ...]
    captures: tuple[tuple[Capture, Report | None], ...]


class _Kept:
    """All captures and reports; sources add theirs from their own threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._all: list[tuple[Capture, Report | None]] = []

    def keep(self, capture: Capture, report: Report | None) -> None:
        with self._turn:
            self._all.append((capture, report))

    def everything(self) -> tuple[tuple[Capture, Report | None], ...]:
        with self._turn:
            return tuple(self._all)


def read(
    loaded: Loaded, settings: Settings, only: Sequence[str], root: Path, tell_waiting: Callable[[Sequence[str]], None]
) -> Read:
    """All sources asked once, or these; the machine's files lie below the root. Who lets us wait is told."""
    kept = _Kept()
    node = RealNode(loaded, Clock(), kept.keep, root / "sys/bus/pci/devices")
    shot = OneShot(os.uname().nodename, node.sources(settings, only), Clock(), tell_waiting=tell_waiting)
    try:
        snapshot = shot.read(("inventory", "fast", "slow"), _TIMEOUT_SECONDS)
    finally:
        shot.close()
    captures = kept.everything()
    return Read(
        snapshot,
        tuple(_patients(snapshot, loaded, settings, captures)),
        tuple(_listed(snapshot, loaded, captures)),
        captures,
    )


def _patients(
    snapshot: Snapshot, loaded: Loaded, settings: Settings, captures: Sequence[tuple[Capture, Report | None]]
) -> Iterator[Patient]:
    of_source = {item.parser.name: item for item in loaded.parsers}
    for status in snapshot.sources:
        item = of_source[status.source]
        yield Patient(
            status=status,
            devices=snapshot.devices,
            parser=item.parser,
            origin=item.origin,
            configured_path=settings.source(status.source).path,
            captures={capture.poll: capture for capture, _ in captures if capture.source == status.source},
        )


def _listed(snapshot: Snapshot, loaded: Loaded, captures: Sequence[tuple[Capture, Report | None]]) -> Iterator[Listing]:
    """What each source that answers listed last."""
    listing = {
        (one.parser.name, poll.name) for one in loaded.parsers for poll in one.parser.polls if poll.lists_devices
    }
    newest = {
        one.source: report for one, report in captures if report is not None and (one.source, one.poll) in listing
    }
    for status in snapshot.sources:
        if status.state == "ok" and status.source in newest:
            is_told = any(problem.where == PCI_BUS for problem in status.problems)
            yield from listings(status.source, newest[status.source].devices, is_told=is_told)
