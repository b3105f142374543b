"""What the daemon of this node sees beside what this command sees: where they differ, something keeps one of them from it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from telemetry_daemon.doctor.cards import present
from telemetry_daemon.doctor.findings import Finding, counted, named
from telemetry_daemon.doctor.unit import UNIT, Unit
from telemetry_daemon.doctor.view import DaemonView
from telemetry_parsers.model import Absent, MergedDevice, Snapshot
from telemetry_parsers.states import BUSY

_DAEMON = "daemon"
_BAD = frozenset({"failed", "stuck", "missing"})
_SERVICE_LACKS = (
    "the service has no login profile, other groups and a sandbox: LD_LIBRARY_PATH and the like belong in a drop-in "
    '(systemctl edit telemetry), groups too; docs/troubleshooting.md, "doctor reads it and the service does not"'
)
_START = "systemctl start telemetry; journalctl -u telemetry -n 50 says what ended it"
_REVIVE = (
    "`ps ax -o pid,stat,cmd | grep telemetry` shows its state (T: somebody stopped it, and kill -CONT continues it); else "
    "systemctl restart telemetry, which ends a daemon of another version, too"
)
# A unit in these states has something to say for itself; one that is starting is given its time.
_OF_STATES: Mapping[str, str] = {
    "failed": "journalctl -u telemetry -n 50 says why; `telemetry config check` finds a mistake in the configuration",
    "active": (
        "give this command the service's own configuration with --config (systemctl cat telemetry shows it); else "
        "systemctl restart telemetry"
    ),
}


@dataclass(frozen=True, slots=True)
class Beside:
    """The daemon of this node: its view, or why it does not answer; its unit; and the word for what this command reads.

    `is_denied` says that others are told, `is_broken` that it runs and nobody is.
    """

    view: DaemonView | None = None
    why_not: str = ""
    is_denied: bool = False
    is_broken: bool = False
    unit: Unit | None = None
    reads: str = ""
    version: str = ""


def findings(here: Snapshot, beside: Beside) -> Iterator[Finding]:
    """Where the daemon should answer and does not, and where it sees something else than this command."""
    view = beside.view
    if view is None:
        yield from _silent(beside)
        return
    if view.version and view.version != beside.version:
        what = f"it runs version {view.version}, and this command is {beside.version}"
        yield Finding(_DAEMON, what, "systemctl restart telemetry, if the package was upgraded")
    if not view.is_real:
        return
    if view.reads and view.reads != beside.reads:
        what = "it reads by another configuration than this command: other sources, paths, parsers or ranks"
        remedy = (
            "systemctl reload telemetry, if the file was changed since; else give this command the service's file with "
            "--config (systemctl cat telemetry shows it), and compare `telemetry config show` with the unit's environment"
        )
        yield Finding(_DAEMON, what, remedy)
    yield from _of_sources(here, view)
    yield from _of_devices(here, view)


def notes(beside: Beside) -> Iterator[str]:
    """What is said of the daemon, whether or not something is wrong."""
    view = beside.view
    if view is None:
        yield f"it does not answer: {beside.why_not}"
        return
    version = f"version {view.version}, " if view.version else ""
    devices = counted(sum(device.up is True for device in view.snapshot.devices), "device")
    states = Counter(status.state for status in view.snapshot.sources if status.state != "missing")
    yield f"{version}{devices}, sources: {', '.join(f'{count} {state}' for state, count in states.items()) or 'none'}"
    if not view.is_real:
        yield "it shows simulated cards or plays a recording: nothing of it is compared with this node"


def fine(beside: Beside) -> frozenset[str]:
    """The sources that the daemon of this node reads."""
    view = beside.view
    if view is None or not view.is_real:
        return frozenset()
    return frozenset(status.source for status in view.snapshot.sources if status.state == "ok")


def _silent(beside: Beside) -> Iterator[Finding]:
    if beside.is_broken:
        yield Finding(_DAEMON, f"it runs and does not answer: {beside.why_not}", _REVIVE)
        return
    unit = beside.unit
    if unit is None or beside.is_denied:
        return
    if unit.active in _OF_STATES:
        result = unit.properties.get("Result", "")
        status = unit.properties.get("ExecMainStatus", "")
        why = f" ({result}, status {status})" if unit.active == "failed" else f", and {beside.why_not}"
        yield Finding(_DAEMON, f"{UNIT} is {unit.active}{why}", _OF_STATES[unit.active])
    elif unit.is_enabled and unit.active == "inactive":
        yield Finding(_DAEMON, f"{UNIT} is enabled and does not run", _START)


def _of_sources(here: Snapshot, view: DaemonView) -> Iterator[Finding]:
    there = {status.source: status for status in view.snapshot.sources}
    for own in here.sources:
        other = there.get(own.source)
        if other is None or BUSY in own.detail or BUSY in other.detail:
            continue
        if own.state == "ok" and other.state in _BAD:
            why = f": {other.detail}" if other.detail else ""
            what = f"{own.source} is ok here and {other.state}{f' ({other.reason})' if other.reason else ''} there{why}"
            yield Finding(_DAEMON, what, _SERVICE_LACKS)
        if other.state == "ok" and own.state in _BAD:
            what = f"{own.source} is ok there and {own.state}{f' ({own.reason})' if own.reason else ''} here"
            remedy = "nothing for the service: this user lacks a right or a setting that it has; run this as root or as its user"
            yield Finding(_DAEMON, what, remedy)


def _of_devices(here: Snapshot, view: DaemonView) -> Iterator[Finding]:
    ours, theirs = present(here), present(view.snapshot)
    read = {status.source for status in view.snapshot.sources if status.state == "ok"}
    for vendor in sorted({*ours, *theirs}):
        is_comparable = any(
            reading.source in read for one in here.devices if one.vendor == vendor for reading in one.readings
        )
        if ours[vendor] != theirs[vendor] and (is_comparable or not ours[vendor]):
            what = f"it has {counted(theirs[vendor], f'{vendor} device')}, and this command {ours[vendor]}"
            yield Finding(_DAEMON, what, _SERVICE_LACKS if ours[vendor] > theirs[vendor] else _THERE_MORE)
    denied = sorted(_denied_there(here.devices, view.snapshot.devices))
    if denied:
        what = f"it may not read what this command reads: {named(denied)}"
        yield Finding(_DAEMON, what, _SERVICE_LACKS)


_THERE_MORE = (
    "see whether a card went just now (dmesg), and whether this user may see all of them (CUDA_VISIBLE_DEVICES, groups)"
)


def _denied_there(here: tuple[MergedDevice, ...], there: tuple[MergedDevice, ...]) -> set[str]:
    """The metrics that this command reads of a device and the daemon is not permitted to."""
    known = {device.id: device for device in there}
    found: set[str] = set()
    for device in here:
        if device.id not in known:
            continue
        read = {reading.metric for reading in device.readings if not isinstance(reading.value, Absent)}
        found |= {one.metric for one in known[device.id].readings if one.value is Absent.NOT_PERMITTED} & read
    return found
