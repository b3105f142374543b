"""`telemetry doctor`: each source, where it was found, whether it works, what is absent, and what to do about it."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import threading
from collections.abc import Iterator, Sequence

from telemetry_daemon.commands import diagnosis, endings, options
from telemetry_daemon.commands.diagnosis import Patient
from telemetry_daemon.commands.lookup import unknown
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.node import RealNode
from telemetry_daemon.oneshot import OneShot
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.terminal import exits, log
from telemetry_daemon.times import Clock
from telemetry_daemon.version import __version__
from telemetry_exporters.text import clean
from telemetry_parsers.model import Capture, Report, Snapshot

_TIMEOUT_SECONDS = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Which sources, and the configuration."""
    options.add_source(parser, "check")
    parser.add_argument(
        "--all", action="store_true", help="also show where missing tools and libraries were looked for"
    )
    options.add_config(parser)


class _Kept:
    """The newest capture of each poll; sources add theirs from their own threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._captures: dict[str, dict[str, Capture]] = {}

    def keep(self, capture: Capture, _report: Report | None) -> None:
        with self._turn:
            self._captures.setdefault(capture.source, {})[capture.poll] = capture

    def of(self, source: str) -> dict[str, Capture]:
        with self._turn:
            return dict(self._captures.get(source, {}))


def run(arguments: argparse.Namespace) -> int:
    """Print what is known of each source; 2 when one of them failed."""
    endings.end_tools_first()
    log.setup("error", "text")
    settings = options.settings(arguments)
    kept = _Kept()
    with load(find(settings.parsers.paths)) as loaded:
        node = RealNode(loaded, Clock(), kept.keep)
        for name in sorted(set(arguments.source) - set(node.names())):
            raise unknown("source", name, node.names())
        options.check_names(arguments, settings, loaded.polls)
        shot = OneShot(os.uname().nodename, node.sources(settings, arguments.source), Clock())
        try:
            snapshot = shot.read(("inventory", "fast", "slow"), _TIMEOUT_SECONDS)
        finally:
            shot.close()
        patients = _patients(snapshot, loaded, settings, kept)
        lines = [*_head(snapshot, node.pci_counts()), *_report(patients, loaded, tell_all=arguments.all)]
    sys.stdout.write("".join(clean(line) + "\n" for line in lines))
    failed = loaded.failures or any(status.state in ("failed", "stuck") for status in snapshot.sources)
    return exits.PROBLEMS if failed else exits.OK


def _patients(snapshot: Snapshot, loaded: Loaded, settings: Settings, kept: _Kept) -> list[Patient]:
    of_source = {item.parser.name: item for item in loaded.parsers}
    return [
        Patient(
            status=status,
            parser=of_source[status.source].parser,
            origin=of_source[status.source].origin,
            configured_path=settings.source(status.source).path,
            captures=kept.of(status.source),
            devices=snapshot.devices,
        )
        for status in snapshot.sources
    ]


def _head(snapshot: Snapshot, on_bus: dict[str, int]) -> Iterator[str]:
    on_bus_text = ", ".join(f"{count} × {vendor}" for vendor, count in on_bus.items())
    yield f"telemetry {__version__} on {snapshot.hostname}, run as {_user()}"
    yield f"accelerators on the PCI bus: {on_bus_text or 'none'}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return f"user {os.getuid()}"


def _report(patients: Sequence[Patient], loaded: Loaded, *, tell_all: bool) -> Iterator[str]:
    shown = [patient for patient in patients if tell_all or patient.status.state != "missing"]
    for patient in shown:
        yield ""
        yield from diagnosis.lines(patient)
    absent = [patient.status.source for patient in patients if patient not in shown]
    if absent:
        yield ""
        yield from diagnosis.wrapped("not found", ", ".join(absent))
        yield "           (telemetry doctor --all shows where they were looked for)"
    for failure in loaded.failures:
        yield ""
        yield f"{options.failure_text(failure)}"
