"""Polls the sources of this machine once, and yields findings about them with remedies."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor.cards import Listing, source_listings
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.plugins.loading import ParserSet
from telemetry_daemon.polling.node_sources import RealNode, reports_owners
from telemetry_daemon.polling.oneshot import OneShot
from telemetry_daemon.polling.pci_bus import PCI_BUS
from telemetry_daemon.readers.tool_path import Tool, ToolSearch
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import (
    Absent,
    Capture,
    Command,
    Files,
    Library,
    MergedDevice,
    Report,
    Snapshot,
    SourceStatus,
)
from telemetry_parsers.states import BUSY, NOT_STARTED, UNSUCCESSFUL

_TIMEOUT_SECONDS = 60.0
_BUILT_IN_ORIGIN = "device-telemetry "
# Maps the reason or state of a source to the remedy.
_REMEDIES = {
    "disabled": "set sources.{source}.mode to enable the source",
    "suspended": "no action needed: suspended cards are polled only if sources.{source}.wake_suspended is set",
    "not_mine": "no action needed: the tool with this name belongs to another vendor",
    "stuck": (
        "kill the process (`ps -eo pid,stat,cmd` shows it); if its state is D, reset the device or reboot the node"
    ),
    BUSY: "see the line above; a poll that is repeated automatically needs no action",
    "no_devices": "no action needed if the node has no such card",
    "not_supported": "no action needed: this version or product does not report it",
    "timeout": "run the tool by hand; if it is only slow, raise sources.{source}.deadline",
    "no_permission": (
        "see the line above; if it names no cause, add the user to the groups of the device files (often video and render), "
        "or run as root"
    ),
    "driver_gone": 'load the vendor\'s driver (see dmesg); if the node has no such card, set sources.{source}.mode = "never"',
    "library_mismatch": "reboot after the driver upgrade, so that library and kernel module have the same version",
    "not_understood": "send the file that `telemetry doctor --bundle FILE` writes",
    "exit_status": "run the tool by hand and read its output",
    "too_much_output": "run the tool by hand and read its output",
    "killed": "find the reason in the kernel log (for example out of memory)",
    NOT_STARTED: (
        "see the line above; this user needs permission to run Python, to read the installed files (ls -lL), "
        "and to start enough processes (ulimit -u)"
    ),
    "internal": "this is a bug in device telemetry or in a plugin: report it",
}
_INSTALL_REMEDIES: Mapping[type, str] = {
    Command: "",  # the detail of the status, on the line above, contains the remedy
    Files: "load the vendor's driver if the node has cards of the vendor",
    Library: "install the vendor's driver with its library",
}
# The remedies for problems of working sources.
_BUS_REMEDY = "compare with `lspci`; a missing card has usually fallen off the bus: see dmesg, then reset it or reboot"
_OTHER_REMEDY = (
    "run the tool by hand. If it reports a fault, repair the card. If its output is wrong, ask the vendor. If its output is "
    "correct but misread here, send the file that `telemetry doctor --bundle FILE` writes"
)
_SEE_OWNERS_REMEDY = "see the line above; docs/owners.md describes what this source needs"
# Sources that report owners of cards need no vendor tool or driver.
_OWNER_REMEDIES: Mapping[str, str] = {
    "missing": "no action needed if the node has no such source; docs/owners.md lists the search paths",
    **dict.fromkeys(("timeout", "no_permission", "exit_status", "too_much_output"), _SEE_OWNERS_REMEDY),
}


@dataclass(frozen=True, slots=True)
class ExaminedSource:
    """A source with its status and captures. On another node, its parser is unknown."""

    status: SourceStatus
    devices: tuple[MergedDevice, ...]
    parser: Parser | None = None
    origin: str = _BUILT_IN_ORIGIN
    configured_path: str = ""
    captures: Mapping[str, Capture] = field(default_factory=dict)

    @property
    def is_built_in(self) -> bool:
        """Return whether the parser is built in."""
        return self.origin.startswith(_BUILT_IN_ORIGIN)


@dataclass(frozen=True, slots=True)
class PolledSources:
    """The result of polling the sources. The captures are in order of arrival."""

    snapshot: Snapshot
    examined_sources: tuple[ExaminedSource, ...]
    listings: tuple[Listing, ...]
    captures: tuple[tuple[Capture, Report | None], ...]


def poll_sources(
    loaded: ParserSet, settings: Settings, names: Sequence[str], root: Path, on_waiting: Callable[[Sequence[str]], None]
) -> PolledSources:
    """Poll the sources in `names`, by default all sources. Return only these sources."""
    received: list[tuple[Capture, Report | None]] = []

    def keep_capture(capture: Capture, report: Report | None) -> None:
        received.append((capture, report))  # called from each source's thread

    node = RealNode(loaded, Clock(), keep_capture, root / "sys/bus/pci/devices")
    includes_owners = any(entry.parser.name in names and reports_owners(entry.parser) for entry in loaded.parsers)
    # Owners are assigned to cards, so the sources of the cards are polled, too.
    others = [source.name for source in node.sources(settings)] if includes_owners else ()
    polled_sources = node.sources(settings, tuple(dict.fromkeys((*names, *others))))
    oneshot = OneShot(os.uname().nodename, polled_sources, Clock(), on_waiting=on_waiting)
    with closing(oneshot):
        snapshot = oneshot.read(("inventory", "fast", "slow"), _TIMEOUT_SECONDS)
    captures = tuple(received)
    parsers_by_source = {entry.parser.name: entry for entry in loaded.parsers}
    sources = tuple(
        ExaminedSource(
            status,
            snapshot.devices,
            parsers_by_source[status.source].parser,
            parsers_by_source[status.source].origin,
            settings.source(status.source).path,
            {capture.poll: capture for capture, _ in captures if capture.source == status.source},
        )
        for status in snapshot.sources
        if not names or status.source in names
    )
    return PolledSources(snapshot, sources, tuple(_device_listings(sources, captures)), captures)


def _device_listings(
    sources: Sequence[ExaminedSource], captures: Sequence[tuple[Capture, Report | None]]
) -> Iterator[Listing]:
    for source in sources:
        status, polls = source.status, source.parser.polls if source.parser is not None else ()
        list_keys = {(status.source, poll.name) for poll in polls if poll.lists_devices}
        reports = [
            report for capture, report in captures if report is not None and (capture.source, capture.poll) in list_keys
        ]
        if status.state == "ok" and reports:
            is_incomplete = any(problem.where == PCI_BUS for problem in status.problems)
            yield from source_listings(status.source, reports[-1].devices, is_incomplete=is_incomplete)


def findings(
    sources: Sequence[ExaminedSource], working_in_daemon: Collection[str] = (), complete_sources: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield findings about failed sources, and about the problems of working sources."""
    for source in sources:
        status = source.status
        if status.state in UNSUCCESSFUL and not (BUSY in status.detail and status.source in working_in_daemon):
            reason = f" ({status.reason})" if status.reason else ""
            problem_text = f"{status.state}{reason}: {status.detail or 'no reason was reported'}"
            yield Finding(status.source, problem_text, remedy(source) or _OTHER_REMEDY)
        elif status.state == "ok":
            for problem in status.problems:
                if problem.where != PCI_BUS or status.source not in complete_sources:
                    problem_text = f"{problem.where}: {problem.text}"
                    yield Finding(
                        status.source, problem_text, _BUS_REMEDY if problem.where == PCI_BUS else _OTHER_REMEDY
                    )


def remedy(source: ExaminedSource) -> str:
    """Return the remedy for a source that is not ok."""
    status, parser = source.status, source.parser
    cause = status.reason or status.state
    if parser is not None and not parser.gives and cause in _OWNER_REMEDIES:
        return _OWNER_REMEDIES[cause]
    if status.state == "missing":
        return _INSTALL_REMEDIES[type(parser.polls[0].request)] if parser is not None else "see the line above"
    key = next((words for words in (BUSY, NOT_STARTED) if words in status.detail), cause)
    return _REMEDIES.get(key, _REMEDIES.get(status.state, "")).format(source=status.source)


def installed_tools(source: ExaminedSource) -> tuple[Tool, ...]:
    """Return the tools of the source that are installed on this machine."""
    requests = [poll.request for poll in source.parser.polls] if source.parser is not None else []
    folders_by_tool = {
        command_line[0]: request.folders
        for request in requests
        if isinstance(request, Command)
        for command_line in request.alternatives
    }
    name, path, search_path = source.status.source, source.configured_path, os.environ.get("PATH", "")
    tools = (ToolSearch(name, path, search_path, folders).find(tool) for tool, folders in folders_by_tool.items())
    return tuple(tool for tool in tools if tool is not None)


def absent_metrics_by_reason(source: ExaminedSource) -> dict[str, list[str]]:
    """Return the absent metrics of a source, by the reason for their absence."""
    absent = {
        (reading.value.value, f"{reading.metric} {reading.label}".strip())
        for device in source.devices
        for reading in device.readings
        if reading.source == source.status.source
        and isinstance(reading.value, Absent)
        and not (device.parent and reading.value is Absent.NOT_REPORTED)
    }
    metrics_by_reason: dict[str, list[str]] = {}
    for reason, metric in sorted(absent):
        metrics_by_reason.setdefault(reason, []).append(metric)
    return metrics_by_reason
