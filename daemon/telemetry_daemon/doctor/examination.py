"""Derives findings from the data of a node, the most important first, and formats the report as lines."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping

from telemetry_daemon.doctor import cards, daemon, limits, sources
from telemetry_daemon.doctor.cards import Listing
from telemetry_daemon.doctor.daemon import DaemonView, LocalDaemon
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.limits import Folder, Limits
from telemetry_daemon.doctor.machine import Machine
from telemetry_daemon.doctor.sources import ExaminedSource
from telemetry_daemon.state.flights import FlightFile
from telemetry_daemon.version import __version__
from telemetry_exporters import human
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Capture, Command, Files, Health, Library, Snapshot

_WIDTH = 120
_NO_BREAK = "\u00a0"
# A row of the report: (heading, text). The heading may be empty.
_Row = tuple[str, str]
_EMPTY_ROW: _Row = ("", "")
_OUTPUT_NOUNS: Mapping[type, str] = {Command: "run", Files: "file", Library: ""}


@dataclass(frozen=True, slots=True)
class Examination:
    """The data that was read about a node, and the findings. `remote_daemon` is None for this node."""

    snapshot: Snapshot
    examined_sources: tuple[ExaminedSource, ...]
    machine: Machine = field(default_factory=Machine)
    limits: Limits = field(default_factory=Limits)
    folders: tuple[Folder, ...] = ()
    daemon: LocalDaemon = field(default_factory=LocalDaemon)
    listings: tuple[Listing, ...] = ()
    earlier_findings: tuple[Finding, ...] = ()
    flights: tuple[FlightFile, ...] = ()
    expected: Mapping[str, int] = field(default_factory=dict)
    remote_daemon: DaemonView | None = None
    owners_are_shown: bool = False
    is_partial: bool = False
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def examine(examined: Examination) -> Examination:
    """Return the examination with its findings and notes."""
    container_listings = cards.listings_in_container(examined.machine, examined.listings, examined.expected)
    findings = _findings(examined, {listing.source for listing in container_listings})
    return replace(examined, findings=tuple(findings), notes=tuple(cards.notes(examined.machine, container_listings)))


def examine_remote(view: DaemonView) -> Examination:
    """Examine another node, using only the data of its daemon."""
    snapshot, counts = view.snapshot, cards.present_device_counts(view.snapshot)
    examined_sources = tuple(ExaminedSource(status, snapshot.devices) for status in snapshot.sources)
    complete_sources = {
        status.source for status in snapshot.sources if view.expected.get(status.vendor) == counts[status.vendor]
    }
    findings = [*sources.findings(examined_sources, complete_sources=complete_sources)]
    if view.is_real:
        findings += cards.device_fault_findings([snapshot], {})
        findings += cards.missing_card_findings([snapshot], view.expected)
        findings += cards.remote_contradiction_findings(view.bus_counts, snapshot.devices)
    notes = () if view.is_real else ("faults of simulated or recorded cards are not findings",)
    return Examination(snapshot, examined_sources, remote_daemon=view, findings=tuple(findings), notes=notes)


def _findings(examined: Examination, complete_sources: Collection[str]) -> Iterator[Finding]:
    yield from examined.earlier_findings
    if examined.is_partial:
        yield from sources.findings(examined.examined_sources)
        return
    machine, local_daemon = examined.machine, examined.daemon
    view = local_daemon.view
    snapshots = [examined.snapshot, *([view.snapshot] if view is not None and view.is_real else [])]
    paths_by_cause = {flight.cause: flight.path for flight in reversed(examined.flights)}
    yield from cards.device_fault_findings(snapshots, paths_by_cause)
    yield from cards.missing_card_findings(snapshots, examined.expected)
    node_vendors = {vendor for node in machine.nodes if len(node.vendors) == 1 for vendor in node.vendors}
    vendors = sorted({*machine.bus_counts, *node_vendors})
    sources_by_vendor = [cards.vendor_sources(examined.snapshot, vendor, complete_sources) for vendor in vendors]
    yield from cards.unread_card_findings(machine, sources_by_vendor)
    yield from sources.findings(examined.examined_sources, daemon.working_sources(local_daemon), complete_sources)
    bus_addresses = {
        vendor: [card.bus_id for card in machine.host_cards if card.vendor == vendor] for vendor in machine.bus_counts
    }
    yield from cards.contradiction_findings(bus_addresses, examined.listings, examined.snapshot.devices)
    yield from daemon.findings(examined.snapshot, local_daemon)
    yield from limits.container_findings(examined.limits, machine.container)
    yield from limits.unit_findings(local_daemon.unit)
    yield from limits.proc_findings(examined.limits, owners_are_shown=examined.owners_are_shown)
    yield from limits.folder_findings(examined.folders, machine.container, local_daemon)


def text_lines(examined: Examination, sanitize: Callable[[str], str], *, show_all: bool = False) -> Iterator[str]:
    """Yield the lines of the text output, made printable by `sanitize`."""
    for heading, text in _report_rows(examined, show_all=show_all):
        prefix = f"{heading:<10} " if heading else ""
        # No-break spaces prevent a line break around `×`.
        joined = sanitize(text).replace(" × ", f"{_NO_BREAK}×{_NO_BREAK}")
        indent = " " * len(prefix)
        wrapped = textwrap.wrap(joined, _WIDTH, initial_indent=prefix, subsequent_indent=indent, break_on_hyphens=False)
        yield from (line.replace(_NO_BREAK, " ") for line in wrapped or ([] if heading else [""]))


def _report_rows(examined: Examination, *, show_all: bool) -> Iterator[_Row]:
    yield from (("", text) for text in _summary_lines(examined))
    statuses = [source.status for source in examined.examined_sources]
    missing_sources = [status.source for status in statuses if status.state == "missing" and not show_all]
    for source in examined.examined_sources:
        if source.status.source not in missing_sources:
            yield _EMPTY_ROW
            yield from _source_rows(source)
    if missing_sources:
        yield from (_EMPTY_ROW, ("not found", ", ".join(missing_sources)))
        yield "          ", "(telemetry doctor --all shows the search paths)"
    if not examined.is_partial and examined.remote_daemon is None:
        yield _EMPTY_ROW
        yield from (("daemon", note) for note in daemon.notes(examined.daemon))
        for flight in examined.flights:
            cause, time = flight.cause.replace("_", " "), human.utc(flight.wall_time)
            yield "recorded", f"{cause}, {time}: telemetry top --replay {flight.path}"
    heading = f"{counted(len(examined.findings), 'finding')}:" if examined.findings else "no findings"
    yield from (_EMPTY_ROW, ("", heading))
    for finding in examined.findings:
        yield "  wrong", f"{finding.where}: {finding.what}"
        yield "  to do", finding.remedy


def _summary_lines(examined: Examination) -> Iterator[str]:
    machine, remote_daemon = examined.machine, examined.remote_daemon
    bus_counts = machine.bus_counts if remote_daemon is None else remote_daemon.bus_counts
    counts = ", ".join(f"{count} × {vendor}" for vendor, count in bus_counts.items()) or "none"
    if remote_daemon is not None:
        version = f"version {remote_daemon.version}" if remote_daemon.version else "an unknown version"
        yield f"the daemon of {examined.snapshot.hostname or remote_daemon.name}, at {remote_daemon.name}: {version}"
        yield f"accelerators on the PCI bus: {counts}"
        yield from examined.notes
        return
    groups = f", in the groups {' '.join(machine.groups)}" if machine.groups else ""
    yield f"telemetry {__version__} on {examined.snapshot.hostname}, run as {machine.user}{groups}"
    drivers = sorted({card.driver or "none" for card in machine.cards})
    driver_text = f"; kernel drivers: {', '.join(drivers)}" if drivers else ""
    yield f"accelerators on the PCI bus: {counts}{driver_text}"
    if machine.nodes:
        accessible = sum(not node.refusal_errno for node in machine.nodes)
        yield f"device nodes: {len(machine.nodes)}, accessible by this user: {accessible}"
    yield from examined.notes


def _source_rows(source: ExaminedSource) -> Iterator[_Row]:
    status = source.status
    yield "", _source_heading(source)
    if status.state not in ("missing", "disabled"):
        for tool in sources.installed_tools(source):
            suffix = "" if os.access(tool.path, os.X_OK) else ", which this user may not run"
            yield "  at", tool.path + (", which telemetry refuses to run as root" if tool.distrust_reason else suffix)
        for poll in status.polls:
            yield "  poll", _poll_text(poll, source.captures.get(poll.poll))
    if status.state != "ok":
        yield "  why", status.detail or "no reason was reported"
        yield "  to do", sources.remedy(source)
        return
    for problem in status.problems:
        yield "  problem", f"{problem.where}: {problem.text}"
    for reason, metrics in sources.absent_metrics_by_reason(source).items():
        yield "  absent", f"{reason}: {', '.join(metrics)}"
    if status.unknown_fields:
        yield "  unknown", f"fields unknown to the parser: {', '.join(status.unknown_fields)}"


def _source_heading(source: ExaminedSource) -> str:
    status = source.status
    device_count = sum(any(reading.source == status.source for reading in device.readings) for device in source.devices)
    parts = (
        f"{status.source}: {status.state}{f' ({status.reason})' if status.reason else ''}",
        f"version {status.version}" if status.version else "",
        counted(device_count, "device") if device_count else "",
        "" if source.is_built_in else f"of {source.origin}",
    )
    return ", ".join(filter(None, parts))


def _poll_text(health: Health, capture: Capture | None) -> str:
    parts = [f"{health.poll} {health.state}{f' ({health.reason})' if health.reason else ''}", f"{health.seconds:.3f} s"]
    if capture is not None:
        noun, output_count = _OUTPUT_NOUNS[type(capture.request)], len(capture.outputs)
        parts += [counted(output_count, noun)] if noun and output_count else []
        parts += [f"{capture.cpu_seconds:.3f} s of CPU"] if capture.cpu_seconds else []
    return ", ".join(parts)
