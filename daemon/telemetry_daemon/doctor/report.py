"""What was found out as lines for people: the node, each source, the daemon, and last what is wrong with its remedies."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_daemon.doctor import beside, kernel, sources
from telemetry_daemon.doctor.examination import Examined
from telemetry_daemon.doctor.findings import counted
from telemetry_daemon.doctor.sources import wrapped
from telemetry_daemon.version import __version__


def lines(examined: Examined, *, tell_all: bool = False) -> Iterator[str]:
    """All lines; missing sources in full only where all is to be told."""
    yield from _head(examined)
    yield from _sources(examined, tell_all=tell_all)
    if not examined.is_partial and examined.other is None:
        yield ""
        for note in beside.notes(examined.daemon):
            yield from wrapped("daemon", note)
    yield ""
    yield from _findings(examined)


def _head(examined: Examined) -> Iterator[str]:
    machine, other = examined.machine, examined.other
    if other is not None:
        version = f"version {other.version}" if other.version else "a version that it does not tell"
        yield f"the daemon of {examined.snapshot.hostname or other.name}, asked at {other.name}: {version}"
    else:
        yield f"telemetry {__version__} on {examined.snapshot.hostname}, run as {machine.user}"
    on_bus = machine.on_bus if other is None else other.on_bus
    yield f"accelerators on the PCI bus: {', '.join(f'{count} × {name}' for name, count in on_bus.items()) or 'none'}"
    for note in kernel.notes(machine):
        yield from wrapped("", note)


def _sources(examined: Examined, *, tell_all: bool) -> Iterator[str]:
    shown = [patient for patient in examined.patients if tell_all or patient.status.state != "missing"]
    for patient in shown:
        yield ""
        yield from sources.lines(patient)
    absent = [patient.status.source for patient in examined.patients if patient not in shown]
    if absent:
        yield ""
        yield from wrapped("not found", ", ".join(absent))
        yield "           (telemetry doctor --all shows where they were looked for)"


def _findings(examined: Examined) -> Iterator[str]:
    if not examined.findings:
        yield "no findings"
        return
    yield f"{counted(len(examined.findings), 'finding')}:"
    for finding in examined.findings:
        yield from wrapped("  wrong", f"{finding.where}: {finding.what}")
        yield from wrapped("  to do", finding.remedy)
