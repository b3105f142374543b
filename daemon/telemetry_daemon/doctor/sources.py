"""What is said of one source, and what of it is wrong, by tables of states and reasons."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.polling.cross_check import WHERE as PCI_BUS
from telemetry_daemon.readers.tool_path import Tool, Whereabouts
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Command, Files, Health, Library, MergedDevice, SourceStatus
from telemetry_parsers.states import BUSY, NOT_STARTED, UNSUCCESSFUL

# A word and the text behind it.
Row = tuple[str, str]
_OWN = "device-telemetry "
# What to do about a state and reason; the state alone where the reason makes no difference.
_REMEDIES = {
    "disabled": "to use it, set sources.{source}.mode",
    "suspended": "nothing: suspended cards are left alone (unless sources.{source}.wake_suspended is set)",
    "not_mine": "nothing: the tool of that name is another vendor's",
    "stuck": (
        "end its process (ps -eo pid,stat,cmd shows it); one in state D cannot be ended: reset the device, or reboot "
        "the node"
    ),
    "busy": "see the line above; where it is asked again by itself there is nothing to do",
    "no_devices": "nothing, if the node has no such card",
    "not_supported": "nothing: this version or product cannot tell it",
    "timeout": "run the tool by hand; raise sources.{source}.deadline if it is only slow",
    "no_permission": (
        "see the line above; otherwise add the user to the groups that own the device files (often video and render), "
        "or run as root"
    ),
    "driver_gone": 'load the vendor\'s driver (see dmesg); if the node has no such card: sources.{source}.mode = "never"',
    "library_mismatch": "reboot after the driver upgrade, so that library and kernel module have the same version",
    "not_understood": "send what `telemetry doctor --bundle FILE` writes",
    "exit_status": "run the tool by hand and see what it says",
    "too_much_output": "run the tool by hand and see what it says",
    "killed": "look for the reason in the kernel log (out of memory?)",
    "not_started": (
        "the line above says why: the user who runs this must be allowed to run Python and read what is installed "
        "(ls -lL), and to start so many processes (ulimit -u)"
    ),
    "internal": "this is a bug of ours or of a plugin: report it",
}
_INSTALL: Mapping[type, str] = {
    Command: "",  # the line above says it
    Files: "load the vendor's driver, if the node has its cards",
    Library: "install the vendor's driver with its library",
}
# What to do about a problem of a source that answers, by where it is.
_OF_PROBLEMS = {
    PCI_BUS: "compare with `lspci`; a card that is not listed is often one that fell off the bus: dmesg, reset or reboot",
}
_SEE_DETAIL = "see the line above"
_OF_OTHER_PROBLEMS = (
    "run the tool by hand: where it says that something is wrong with a card, see to the card; what it prints wrongly is its "
    "vendor's to mend; what it prints well and we misread is ours: "
    "send what `telemetry doctor --bundle FILE` writes"
)
_SEE_ABOVE = "see the line above; docs/owners.md says what this source needs"
# Of sources that give no readings but owners: no tool and no driver is behind them.
_OF_OWNERS: Mapping[str, str] = {
    "missing": "nothing, if the node has none; docs/owners.md says where it is looked for",
    **dict.fromkeys(("timeout", "no_permission", "exit_status", "too_much_output"), _SEE_ABOVE),
}
_COUNTED: Mapping[type, tuple[str, str]] = {Command: ("run", "runs"), Files: ("file", "files"), Library: ("", "")}


@dataclass(frozen=True, slots=True)
class Patient:
    """A source, how it fared, and what its polls got; of another node's nobody here knows the parser and the captures."""

    status: SourceStatus
    devices: tuple[MergedDevice, ...]
    parser: Parser | None = None
    origin: str = _OWN
    configured_path: str = ""
    captures: Mapping[str, Capture] = field(default_factory=dict)

    @property
    def is_of_ours(self) -> bool:
        """Whether its parser is part of device telemetry."""
        return self.origin.startswith(_OWN)


def rows(patient: Patient) -> Iterator[Row]:
    """All that is said of one source, the heading first."""
    status = patient.status
    yield "", _heading(patient)
    if status.state not in ("missing", "disabled"):
        yield from _where(patient)
        for poll in status.polls:
            yield "  poll", _poll(poll, patient.captures.get(poll.poll))
    if status.state == "ok":
        yield from _unusual(patient)
    else:
        yield "  why", status.detail or "it does not say"
        yield "  to do", remedy(patient)


def findings(
    patients: Sequence[Patient], fine_elsewhere: Collection[str] = (), complete: Collection[str] = ()
) -> Iterator[Finding]:
    """Sources that fail or are stuck, and the problems of those that answer.

    A tool that is only busy is well where the daemon that uses it says so: `fine_elsewhere` are the sources that it reads.
    `complete` are those that list all cards that they can, whatever the bus has.
    """
    for patient in patients:
        status = patient.status
        if status.state in UNSUCCESSFUL and not (BUSY in status.detail and status.source in fine_elsewhere):
            reason = f" ({status.reason})" if status.reason else ""
            what = f"{status.state}{reason}: {status.detail or 'it does not say why'}"
            yield Finding(status.source, what, remedy(patient) or _OF_OTHER_PROBLEMS)
        elif status.state == "ok":
            for problem in status.problems:
                if problem.where != PCI_BUS or status.source not in complete:
                    text = f"{problem.where}: {problem.text}"
                    yield Finding(status.source, text, _OF_PROBLEMS.get(problem.where, _OF_OTHER_PROBLEMS))


def _unusual(patient: Patient) -> Iterator[Row]:
    """Problems, absent readings and unknown fields of a source that answers."""
    status = patient.status
    for problem in status.problems:
        yield "  problem", f"{problem.where}: {problem.text}"
    for reason, metrics in absences(patient).items():
        yield "  absent", f"{reason}: {', '.join(metrics)}"
    if status.unknown_fields:
        yield "  unknown", f"no table knows {', '.join(status.unknown_fields)}"


def _heading(patient: Patient) -> str:
    status = patient.status
    device_count = sum(any(r.source == status.source for r in device.readings) for device in patient.devices)
    parts = [
        f"{status.source}: {status.state}",
        f"({status.reason})" if status.reason else "",
        f"version {status.version}" if status.version else "",
        f"{device_count} device{'s' if device_count != 1 else ''}" if device_count else "",
        "" if patient.is_of_ours else f"of {patient.origin}",
    ]
    state, *more = (part for part in (" ".join(filter(None, parts[:2])), *parts[2:]) if part)
    return ", ".join((state, *more))


def _where(patient: Patient) -> Iterator[Row]:
    """The path of each tool that the source asks, and whether we may run it."""
    for tool in tools_found(patient):
        mine = "" if os.access(tool.path, os.X_OK) else ", which this user may not run"
        yield "  at", tool.path + (", which is not run as root" if tool.distrusted else mine)


def tools_found(patient: Patient) -> tuple[Tool, ...]:
    """The tools that the source asks, as far as they are found."""
    if patient.parser is None:
        return ()
    search_path = os.environ.get("PATH", "")
    places = (
        (name, Whereabouts(patient.status.source, patient.configured_path, search_path, folders))
        for name, folders in _tools(patient.parser).items()
    )
    found = (place.find(name) for name, place in places)
    return tuple(tool for tool in found if tool is not None)


def _tools(parser: Parser) -> dict[str, tuple[str, ...]]:
    return {
        line[0]: poll.request.folders
        for poll in parser.polls
        if isinstance(poll.request, Command)
        for line in poll.request.alternatives
    }


def _poll(health: Health, capture: Capture | None) -> str:
    parts = [f"{health.poll} {health.state}{f' ({health.reason})' if health.reason else ''}", f"{health.seconds:.3f} s"]
    if capture is not None:
        one, many = _COUNTED[type(capture.request)]
        number = len(capture.outputs)
        parts += [f"{number} {one if number == 1 else many}"] if one and number else []
        parts += [f"{capture.cpu_seconds:.3f} s of CPU"] if capture.cpu_seconds else []
    return ", ".join(parts)


def remedy(patient: Patient) -> str:
    """What to do about a source that is not ok."""
    status = patient.status
    of_owners = (
        None if patient.parser is None or patient.parser.gives else _OF_OWNERS.get(status.reason or status.state)
    )
    if of_owners is not None:
        text = of_owners
    elif status.state == "missing":
        text = _INSTALL[type(patient.parser.polls[0].request)] if patient.parser is not None else _SEE_DETAIL
    elif BUSY in status.detail:
        text = _REMEDIES["busy"]
    elif NOT_STARTED in status.detail:
        text = _REMEDIES["not_started"]
    else:
        text = _REMEDIES.get(status.reason or status.state, _REMEDIES.get(status.state, ""))
    return text.format(source=status.source)


def absences(patient: Patient) -> dict[str, list[str]]:
    """The readings that the source could give and did not, by reason, once for all devices.

    A partition's readings that are not reported are left out: they belong to its card.
    """
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
