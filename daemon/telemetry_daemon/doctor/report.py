"""What was found out as lines for people: the node, each source, the daemon, and last what is wrong with its remedies."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping

from telemetry_daemon.doctor import beside, sources
from telemetry_daemon.doctor.examination import Examined
from telemetry_daemon.doctor.findings import counted
from telemetry_daemon.doctor.sources import Row
from telemetry_daemon.version import __version__
from telemetry_exporters import human

_WIDTH = 120
_NO_BREAK = "\u00a0"
_EMPTY: Row = ("", "")


def lines(examined: Examined, shown: Callable[[str], str], *, tell_all: bool = False) -> Iterator[str]:
    """All lines, each text as it is to be shown; missing sources in full only where all is to be told."""
    for word, text in _rows(examined, tell_all=tell_all):
        # Before it is broken into lines: then a word still stands beside what it announces.
        yield from _wrapped(word, shown(text))


def _wrapped(word: str, text: str) -> Iterator[str]:
    """A word and the text after it, wrapped to the width; an empty line for an empty text without a word."""
    start = f"{word:<10} " if word else ""
    indent = " " * len(start)
    whole = text.replace(" × ", f"{_NO_BREAK}×{_NO_BREAK}")
    wrapped = textwrap.wrap(whole, _WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)
    yield from (line.replace(_NO_BREAK, " ") for line in wrapped or ([start.rstrip()] if not word else []))


def _rows(examined: Examined, *, tell_all: bool) -> Iterator[Row]:
    yield from _head(examined)
    yield from _sources(examined, tell_all=tell_all)
    if not examined.is_partial and examined.other is None:
        yield _EMPTY
        for note in beside.notes(examined.daemon):
            yield "daemon", note
        for flight in examined.flights:
            text = (
                f"{flight.cause.replace('_', ' ')}, {human.utc(flight.wall_time)}: telemetry top --replay {flight.path}"
            )
            yield "recorded", text
    yield _EMPTY
    yield from _findings(examined)


def _head(examined: Examined) -> Iterator[Row]:
    machine, other = examined.machine, examined.other
    if other is not None:
        version = f"version {other.version}" if other.version else "a version that it does not tell"
        yield "", f"the daemon of {examined.snapshot.hostname or other.name}, asked at {other.name}: {version}"
        yield "", f"accelerators on the PCI bus: {_on_bus(other.on_bus)}"
        return
    groups = f", in the groups {' '.join(machine.groups)}" if machine.groups else ""
    yield "", f"telemetry {__version__} on {examined.snapshot.hostname}, run as {machine.user}{groups}"
    drivers = sorted({card.driver or "none" for card in machine.cards})
    driven = f"; kernel drivers: {', '.join(drivers)}" if drivers else ""
    yield "", f"accelerators on the PCI bus: {_on_bus(machine.on_bus)}{driven}"
    if machine.nodes:
        may = sum(not node.refusal for node in machine.nodes)
        yield "", f"device nodes: {len(machine.nodes)}, of which this user may open {may}"
    for note in examined.notes:
        yield "", note


def _on_bus(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {vendor}" for vendor, count in counts.items()) or "none"


def _sources(examined: Examined, *, tell_all: bool) -> Iterator[Row]:
    shown = [patient for patient in examined.patients if tell_all or patient.status.state != "missing"]
    for patient in shown:
        yield _EMPTY
        yield from sources.rows(patient)
    absent = [patient.status.source for patient in examined.patients if patient not in shown]
    if absent:
        yield _EMPTY
        yield "not found", ", ".join(absent)
        yield "          ", "(telemetry doctor --all shows where they were looked for)"


def _findings(examined: Examined) -> Iterator[Row]:
    if not examined.findings:
        yield "", "no findings"
        return
    yield "", f"{counted(len(examined.findings), 'finding')}:"
    for finding in examined.findings:
        yield "  wrong", f"{finding.where}: {finding.what}"
        yield "  to do", finding.remedy
