"""What `telemetry doctor` says of one source."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from telemetry_daemon.readers.tool_path import Whereabouts
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Command, Files, Health, Library, MergedDevice, SourceStatus
from telemetry_parsers.states import BUSY

_WIDTH = 120
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
    "driver_gone": "load the vendor's driver (dmesg shows why it went)",
    "library_mismatch": "reboot after the driver upgrade, so that library and kernel module have the same version",
    "not_understood": "send the output: telemetry record -o FILE",
    "exit_status": "run the tool by hand and see what it says",
    "too_much_output": "run the tool by hand and see what it says",
    "killed": "look for the reason in the kernel log (out of memory?)",
    "internal": "this is a bug of ours or of a plugin: report it",
}
_INSTALL: Mapping[type, str] = {
    Command: "",  # the line above says it
    Files: "load the vendor's driver, if the node has its cards",
    Library: "install the vendor's driver with its library",
}
_SEE_ABOVE = "see the line above; docs/owners.md says what this source needs"
# Of sources that give no readings but owners: no tool and no driver is behind them.
_OF_OWNERS: Mapping[str, str] = {
    "missing": "nothing, if the node has none; docs/owners.md says where it is looked for",
    **dict.fromkeys(("timeout", "no_permission", "exit_status", "too_much_output"), _SEE_ABOVE),
}
_COUNTED: Mapping[type, tuple[str, str]] = {Command: ("run", "runs"), Files: ("file", "files"), Library: ("", "")}


@dataclass(frozen=True, slots=True)
class Patient:
    """A source, how it fared, and what its polls got."""

    status: SourceStatus
    parser: Parser
    origin: str
    configured_path: str
    captures: Mapping[str, Capture]
    devices: tuple[MergedDevice, ...]


def lines(patient: Patient) -> Iterator[str]:
    """All lines about one source, the heading first."""
    status = patient.status
    yield _heading(patient)
    if status.state not in ("missing", "disabled"):
        yield from _where(patient)
        for poll in status.polls:
            yield from wrapped("  poll", _poll(poll, patient.captures.get(poll.poll)))
    if status.state == "ok":
        yield from _findings(patient)
    else:
        yield from wrapped("  why", status.detail or "it does not say")
        yield from wrapped("  to do", _remedy(patient))


def wrapped(word: str, text: str) -> Iterator[str]:
    """A word and the text after it, wrapped to the width."""
    start = f"{word:<10} "
    indent = " " * len(start)
    yield from textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)


def _findings(patient: Patient) -> Iterator[str]:
    """Problems, absent readings and unknown fields of a source that answers."""
    status = patient.status
    for problem in status.problems:
        yield from wrapped("  problem", f"{problem.where}: {problem.text}")
    for reason, metrics in _absences(patient).items():
        yield from wrapped("  absent", f"{reason}: {', '.join(metrics)}")
    if status.unknown_fields:
        yield from wrapped("  unknown", f"no table knows {', '.join(status.unknown_fields)}")


def _heading(patient: Patient) -> str:
    status = patient.status
    device_count = sum(any(r.source == status.source for r in device.readings) for device in patient.devices)
    parts = [
        f"{status.source}: {status.state}",
        f"({status.reason})" if status.reason else "",
        f"version {status.version}" if status.version else "",
        f"{device_count} device{'s' if device_count != 1 else ''}" if device_count else "",
        "" if patient.origin.startswith(_OWN) else f"of {patient.origin}",
    ]
    state, *more = (part for part in (" ".join(filter(None, parts[:2])), *parts[2:]) if part)
    return ", ".join((state, *more))


def _where(patient: Patient) -> Iterator[str]:
    """The path of each tool that the source asks, and whether we may run it."""
    for name, folders in _tools(patient.parser).items():
        place = Whereabouts(patient.status.source, patient.configured_path, os.environ.get("PATH", ""), folders)
        tool = place.find(name)
        if tool is not None:
            mine = "" if os.access(tool.path, os.X_OK) else ", which this user may not run"
            yield from wrapped("  at", tool.path + (", which is not run as root" if tool.distrusted else mine))


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


def _remedy(patient: Patient) -> str:
    status = patient.status
    of_owners = None if patient.parser.gives else _OF_OWNERS.get(status.reason or status.state)
    if of_owners is not None:
        text = of_owners
    elif status.state == "missing":
        text = _INSTALL[type(patient.parser.polls[0].request)]
    elif BUSY in status.detail:
        text = _REMEDIES["busy"]
    else:
        text = _REMEDIES.get(status.reason or status.state, _REMEDIES.get(status.state, ""))
    return text.format(source=status.source)


def _absences(patient: Patient) -> dict[str, list[str]]:
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
