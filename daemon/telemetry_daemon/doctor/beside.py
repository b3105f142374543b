"""What the daemon of this node sees beside what this command sees: where they differ, something keeps one of them from it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from telemetry_daemon.doctor.cards import present
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.unit import UNIT, Unit
from telemetry_daemon.doctor.view import DaemonView
from telemetry_exporters.text import named
from telemetry_parsers.model import Absent, MergedDevice, Snapshot
from telemetry_parsers.states import BUSY, UNSUCCESSFUL

_DAEMON = "daemon"
_UNREAD = UNSUCCESSFUL | {"missing"}
_SERVICE_LACKS = (
    "the service has no login profile, other groups and a sandbox: LD_LIBRARY_PATH and the like belong in a drop-in "
    '(systemctl edit telemetry), groups too; docs/troubleshooting.md, "doctor reads it and the service does not"'
)
_START = "systemctl start telemetry; journalctl -u telemetry -n 50 says what ended it"
_REVIVE = (
    "`ps ax -o pid,stat,cmd | grep telemetry` shows its state (T: somebody stopped it, and kill -CONT continues it); else "
    "systemctl restart telemetry, which ends a daemon of another version, too"
)
_RUNS_ELSEWHERE = (
    "give this command the service's own configuration with --config (systemctl cat telemetry shows it); else "
    "systemctl restart telemetry"
)
_PORT_TAKEN = "stop the exporter that has the port (`ss -ltnp` shows it), or set another listen_address; the daemon tries again every 10 s"
_FAILED = "journalctl -u telemetry -n 50 says why; `telemetry config check` finds a mistake in the configuration"
# As docs/troubleshooting.md explains the exit statuses.
_ENDED: Mapping[str, str] = {
    "64": "correct the arguments in ExecStart= (systemctl cat telemetry); journalctl -u telemetry -n 50 names the wrong one",
    "69": (
        "an address to listen on is taken or not there: `ss -ltnp` shows who has it, web.listen_address sets another; "
        "journalctl -u telemetry -n 50 names it"
    ),
    "70": "this is a bug of ours: send what `telemetry doctor --bundle FILE` writes; journalctl -u telemetry -n 50 has the traceback",
    "78": "`telemetry config check` says what is wrong with the configuration, and so does journalctl -u telemetry -n 50",
}
# Devices appeared after its start.
_ASKED_FOR_IT = "75"


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
    for exporter in view.silent_peers:
        yield Finding(_DAEMON, f"the address of compat.{exporter} cannot be served", _PORT_TAKEN)
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
    ended = f"{unit.properties.get('Result', '')}, status {unit.exit_status}"
    if unit.active == "active":
        yield Finding(_DAEMON, f"{UNIT} is active, and {beside.why_not}", _RUNS_ELSEWHERE)
    elif unit.active == "failed":
        yield Finding(_DAEMON, f"{UNIT} is failed ({ended})", _ENDED.get(unit.exit_status, _FAILED))
    elif unit.is_in_a_loop and unit.exit_status != _ASKED_FOR_IT:
        what = f"{UNIT} ends and is started again ({ended}, {unit.properties.get('NRestarts', '')} times)"
        yield Finding(_DAEMON, what, _ENDED.get(unit.exit_status, _FAILED))
    elif unit.is_enabled and unit.active == "inactive":
        yield Finding(_DAEMON, f"{UNIT} is enabled and does not run", _START)


def _of_sources(here: Snapshot, view: DaemonView) -> Iterator[Finding]:
    there = {status.source: status for status in view.snapshot.sources}
    for own in here.sources:
        other = there.get(own.source)
        if other is None or BUSY in own.detail or BUSY in other.detail:
            continue
        if own.state == "ok" and other.state in _UNREAD:
            why = f": {other.detail}" if other.detail else ""
            what = f"{own.source} is ok here and {other.state}{f' ({other.reason})' if other.reason else ''} there{why}"
            yield Finding(_DAEMON, what, _SERVICE_LACKS)
        if other.state == "ok" and own.state in _UNREAD:
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
