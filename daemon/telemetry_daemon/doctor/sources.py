"""The sources of this machine: each polled once, with its state, problems and remedies."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor.cards import Listing, listings
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.plugins.loading import Loaded
from telemetry_daemon.polling.node_sources import RealNode, reports_owners
from telemetry_daemon.polling.oneshot import OneShot
from telemetry_daemon.polling.pci_bus import WHERE as PCI_BUS
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
_OWN = "device-telemetry "
# Remedies by state and reason, or by state alone.
_REMEDIES = {
    "disabled": "to use it, set sources.{source}.mode",
    "suspended": "nothing: suspended cards are left alone (unless sources.{source}.wake_suspended is set)",
    "not_mine": "nothing: the tool of that name is another vendor's",
    "stuck": (
        "end its process (ps -eo pid,stat,cmd shows it); one in state D cannot be ended: reset the device, or reboot "
        "the node"
    ),
    BUSY: "see the line above; if it is polled again automatically, there is nothing to do",
    "no_devices": "nothing, if the node has no such card",
    "not_supported": "nothing: this version or product does not report it",
    "timeout": "run the tool by hand; raise sources.{source}.deadline if it is only slow",
    "no_permission": (
        "see the line above; otherwise add the user to the groups that own the device files (often video and render), "
        "or run as root"
    ),
    "driver_gone": 'load the vendor\'s driver (see dmesg); if the node has no such card: sources.{source}.mode = "never"',
    "library_mismatch": "reboot after the driver upgrade, so that library and kernel module have the same version",
    "not_understood": "send the file of `telemetry doctor --bundle FILE`",
    "exit_status": "run the tool by hand and read its output",
    "too_much_output": "run the tool by hand and read its output",
    "killed": "look for the reason in the kernel log (out of memory?)",
    NOT_STARTED: (
        "see the line above: this user must be allowed to run Python, to read the installed files (ls -lL), "
        "and to start enough processes (ulimit -u)"
    ),
    "internal": "this is a bug of ours or of a plugin: report it",
}
_INSTALL: Mapping[type, str] = {
    Command: "",  # the line above has the remedy
    Files: "load the vendor's driver, if the node has its cards",
    Library: "install the vendor's driver with its library",
}
# Remedies for problems of a working source.
_NOT_LISTED = (
    "compare with `lspci`; a card that is not listed is often one that fell off the bus: dmesg, reset or reboot"
)
_OF_OTHER_PROBLEMS = (
    "run the tool by hand. If it reports a fault, see to the card. If its output is wrong, ask the vendor. If its output is "
    "right but misread here, send the file of `telemetry doctor --bundle FILE`"
)
_SEE_ABOVE = "see the line above; docs/owners.md says what this source needs"
# Sources of owners, which have no tool and no driver.
_OF_OWNERS: Mapping[str, str] = {
    "missing": "nothing, if the node has none; docs/owners.md says where it is looked for",
    **dict.fromkeys(("timeout", "no_permission", "exit_status", "too_much_output"), _SEE_ABOVE),
}


@dataclass(frozen=True, slots=True)
class Patient:
    """A source with its health and captures. For another node, parser and captures are unknown."""

    status: SourceStatus
    devices: tuple[MergedDevice, ...]
    parser: Parser | None = None
    origin: str = _OWN
    configured_path: str = ""
    captures: Mapping[str, Capture] = field(default_factory=dict)

    @property
    def is_of_ours(self) -> bool:
        """Return whether the parser is built in."""
        return self.origin.startswith(_OWN)


@dataclass(frozen=True, slots=True)
class Read:
    """The result of polling all sources. `captures` are in order of arrival, each with its report."""

    snapshot: Snapshot
    patients: tuple[Patient, ...]
    listed: tuple[Listing, ...]
    captures: tuple[tuple[Capture, Report | None], ...]


def read(
    loaded: Loaded, settings: Settings, only: Sequence[str], root: Path, show_waiting: Callable[[Sequence[str]], None]
) -> Read:
    """Poll all sources, or only the given ones, once; sources of owners also poll those that read cards. System files are below the root."""
    kept: list[tuple[Capture, Report | None]] = []

    def keep(capture: Capture, report: Report | None) -> None:
        kept.append((capture, report))  # called from each source's thread

    node = RealNode(loaded, Clock(), keep, root / "sys/bus/pci/devices")
    of_owners = any(item.parser.name in only and reports_owners(item.parser) for item in loaded.parsers)
    others = [source.name for source in node.sources(settings)] if of_owners else ()
    asked = node.sources(settings, tuple(dict.fromkeys((*only, *others))))
    shot = OneShot(os.uname().nodename, asked, Clock(), on_waiting=show_waiting)
    with closing(shot):
        snapshot = shot.read(("inventory", "fast", "slow"), _TIMEOUT_SECONDS)
    captures = tuple(kept)
    of_source = {item.parser.name: item for item in loaded.parsers}
    patients = tuple(
        Patient(
            status,
            snapshot.devices,
            of_source[status.source].parser,
            of_source[status.source].origin,
            settings.source(status.source).path,
            {capture.poll: capture for capture, _ in captures if capture.source == status.source},
        )
        for status in snapshot.sources
        if not only or status.source in only
    )
    return Read(snapshot, patients, tuple(_listed(patients, captures)), captures)


def _listed(patients: Sequence[Patient], captures: Sequence[tuple[Capture, Report | None]]) -> Iterator[Listing]:
    for patient in patients:
        status, polls = patient.status, patient.parser.polls if patient.parser is not None else ()
        listing = {(status.source, poll.name) for poll in polls if poll.lists_devices}
        reports = [
            report for capture, report in captures if report is not None and (capture.source, capture.poll) in listing
        ]
        if status.state == "ok" and reports:
            names_missing = any(problem.where == PCI_BUS for problem in status.problems)
            yield from listings(status.source, reports[-1].devices, names_missing=names_missing)


def findings(
    patients: Sequence[Patient], fine_elsewhere: Collection[str] = (), complete: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield failing and stuck sources, and problems of working ones. Sources in `fine_elsewhere` work in the daemon; `complete` sources list all cards that they can."""
    for patient in patients:
        status = patient.status
        if status.state in UNSUCCESSFUL and not (BUSY in status.detail and status.source in fine_elsewhere):
            reason = f" ({status.reason})" if status.reason else ""
            what = f"{status.state}{reason}: {status.detail or 'no reason was reported'}"
            yield Finding(status.source, what, remedy(patient) or _OF_OTHER_PROBLEMS)
        elif status.state == "ok":
            for problem in status.problems:
                if problem.where != PCI_BUS or status.source not in complete:
                    what = f"{problem.where}: {problem.text}"
                    yield Finding(status.source, what, _NOT_LISTED if problem.where == PCI_BUS else _OF_OTHER_PROBLEMS)


def remedy(patient: Patient) -> str:
    """Return what to do about a source that is not ok."""
    status, parser = patient.status, patient.parser
    cause = status.reason or status.state
    if parser is not None and not parser.gives and cause in _OF_OWNERS:
        return _OF_OWNERS[cause]
    if status.state == "missing":
        return _INSTALL[type(parser.polls[0].request)] if parser is not None else "see the line above"
    reported = next((words for words in (BUSY, NOT_STARTED) if words in status.detail), cause)
    return _REMEDIES.get(reported, _REMEDIES.get(status.state, "")).format(source=status.source)


def tools_found(patient: Patient) -> tuple[Tool, ...]:
    """Return the tools of the source that were found."""
    requests = [poll.request for poll in patient.parser.polls] if patient.parser is not None else []
    folders_of = {
        line[0]: request.folders
        for request in requests
        if isinstance(request, Command)
        for line in request.alternatives
    }
    source, path, search_path = patient.status.source, patient.configured_path, os.environ.get("PATH", "")
    found = (ToolSearch(source, path, search_path, folders).find(name) for name, folders in folders_of.items())
    return tuple(tool for tool in found if tool is not None)


def absences(patient: Patient) -> dict[str, list[str]]:
    """Return the source's absent readings by reason, once for all devices. Readings that a partition does not report belong to its card."""
    absent = {
        (reading.value.value, f"{reading.metric} {reading.label}".strip())
        for device in patient.devices
        for reading in device.readings
        if reading.source == patient.status.source
        and isinstance(reading.value, Absent)
        and not (device.parent and reading.value is Absent.NOT_REPORTED)
    }
    reasons: dict[str, list[str]] = {}
    for reason, metric in sorted(absent):
        reasons.setdefault(reason, []).append(metric)
    return reasons
