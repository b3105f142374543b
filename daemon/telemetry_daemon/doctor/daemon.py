"""The daemon of a node: its unit, its reports, and how they differ from what this command sees."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from telemetry_daemon.config.inputs import READS_HEADER
from telemetry_daemon.doctor.cards import present
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.processes import short_lived
from telemetry_daemon.readers.tool_path import ToolSearch
from telemetry_daemon.remote.foreign_documents import DocumentError, document_in, snapshot_of
from telemetry_daemon.remote.http_client import Address, Client, Credentials, InvalidResponseError, NodeError
from telemetry_exporters.text import first_names
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Snapshot, SourceStatus
from telemetry_parsers.states import BUSY, UNSUCCESSFUL

UNIT = "telemetry.service"
PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus", "NRestarts", "UnitFileState", "User"),
    *("SupplementaryGroups", "AmbientCapabilities", "MemoryMax", "TasksMax", "LimitNOFILE", "CPUQuotaPerSecUSec"),
)
SNAPSHOT, HISTORY = "/api/v1/snapshot", "/api/v1/history"
_SECONDS = 5.0
_NOT_FOUND = 404
_SERVER_ERROR = 500
_VERSION = re.compile(r'^telemetry_build_info\{[^}\n]*\bversion="([^"\\\n]{1,64})"', re.MULTILINE)
_SILENT_PEER = re.compile(r'^telemetry_compat_up\{exporter="([A-Za-z0-9_-]{1,64})"\} 0(?:\.0)?$', re.MULTILINE)
_OF_VENDOR = r'^%s\{vendor="([a-z]{1,32})"\} ([0-9]{1,5})(?:\.0)?$'

_DAEMON = "daemon"
_UNREAD = UNSUCCESSFUL | {"missing"}
_SERVICE_LACKS = (
    "the service has no login profile, other groups and a sandbox: LD_LIBRARY_PATH and the like belong in a drop-in "
    '(systemctl edit telemetry), groups too; docs/troubleshooting.md, "doctor reads it and the service does not"'
)
_USER_LACKS = "nothing for the service: it has a permission or setting that this user does not have; run this as root or as its user"
_THERE_MORE = (
    "see whether a card went just now (dmesg), and whether this user may see all of them (CUDA_VISIBLE_DEVICES, groups)"
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
_READS_OTHERWISE = (
    "systemctl reload telemetry, if the file was changed since; else give this command the service's file with "
    "--config (systemctl cat telemetry shows it), and compare `telemetry config show` with the unit's environment"
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
    "70": "this is a bug of ours: send the file of `telemetry doctor --bundle FILE`; journalctl -u telemetry -n 50 has the traceback",
    "78": "`telemetry config check` says what is wrong with the configuration, and so does journalctl -u telemetry -n 50",
}
# Devices appeared after its start.
_ASKED_FOR_IT = "75"


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit's properties by name, as `systemctl show` prints them."""

    properties: Mapping[str, str]

    @property
    def active(self) -> str:
        """Return the unit's state, such as `active` or `failed`."""
        return self.properties.get("ActiveState", "")

    @property
    def is_enabled(self) -> bool:
        """Return whether the unit is started at boot."""
        return self.properties.get("UnitFileState") in ("enabled", "enabled-runtime")

    @property
    def user(self) -> str:
        """Return the daemon's user."""
        return self.properties.get("User") or "root"

    @property
    def sees_all_processes(self) -> bool:
        """Return whether the daemon's /proc shows all processes."""
        return self.user == "root" or "cap_sys_ptrace" in self.properties.get("AmbientCapabilities", "").split()

    @property
    def groups(self) -> frozenset[int]:
        """Return the groups of the unit and its user that exist on this machine."""
        numbers: set[int] = set()
        for name in self.properties.get("SupplementaryGroups", "").split():
            with suppress(KeyError):  # systemd creates this group when the unit starts
                numbers.add(int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid)
        with suppress(KeyError):  # systemd creates this user when the unit starts
            numbers |= set(os.getgrouplist(self.user, pwd.getpwnam(self.user).pw_gid))
        return frozenset(numbers)


def unit() -> Unit | None:
    """Return the unit as systemd knows it, or None without systemd or without the unit."""
    printed = ask_system("systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}")
    properties = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    return Unit(properties) if properties.get("LoadState") == "loaded" else None


def ask_system(program: str, *arguments: str) -> str:
    """Return the output of a system program, or an empty text if it is missing, fails or does not finish in time."""
    found = ToolSearch(program, "", os.environ.get("PATH", ""), ()).find(program)
    if found is None or found.distrust_reason:
        return ""
    try:
        ended = short_lived.ask((found.path, *arguments), "", _SECONDS)
    except short_lived.NoAnswerError:  # its output is unknown then
        return ""
    return ended.output if ended.status == 0 else ""


@dataclass(frozen=True, slots=True)
class DaemonView:
    """A daemon's report: its snapshot and version, the accelerators on its bus, the expected ones, and the hash of its settings (`reads`)."""

    name: str
    snapshot: Snapshot
    version: str = ""
    on_bus: Mapping[str, int] = field(default_factory=dict)
    reads: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    expected: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_real(self) -> bool:
        """Return whether the daemon reads a real node, no recording and no simulation."""
        return self.snapshot.recorded is None and not any(device.simulated for device in self.snapshot.devices)


def ask(address: Address, given: Credentials, page_path: str = "/metrics") -> DaemonView:
    """Return the report of the daemon at the address. Raises NodeError."""
    page = ""
    with closing(Client(address, given, _SECONDS)) as client:
        answer = client.get(SNAPSHOT)
        with suppress(NodeError):  # its page has another path: the version is unknown
            page = client.get(page_path).body.decode("utf-8", "replace")
    try:
        document = document_in(answer.body)
        snapshot = snapshot_of(document)
    except DocumentError as error:
        raise NodeError(f"its document cannot be understood: {error}") from error

    def counts(metric: str) -> Mapping[str, int]:
        return {vendor: int(count) for vendor, count in re.findall(_OF_VENDOR % metric, page, re.MULTILINE)}

    return DaemonView(
        address.name,
        snapshot,
        version="".join(_VERSION.findall(page)[:1]),
        on_bus=counts("telemetry_pci_devices"),
        reads=answer.headers.get(READS_HEADER.lower(), ""),
        document=document,
        page=page,
        expected=counts("telemetry_devices_expected"),
    )


@dataclass(frozen=True, slots=True)
class Beside:
    """The daemon of this node: its report and address, or why it does not answer (`is_denied`: it answers other users; `is_broken`: it runs), and its unit."""

    view: DaemonView | None = None
    why_not: str = ""
    is_denied: bool = False
    is_broken: bool = False
    unit: Unit | None = None
    reads: str = ""
    version: str = ""
    address: Address | None = None


def find(addresses: Iterable[Address], given: Credentials, page_path: str, beside: Beside) -> Beside:
    """Return the report of this node's daemon from the first address that answers. A running daemon that does not answer ends the search."""
    silent = None
    for address in addresses:
        found = _asked(address, given, page_path, beside)
        if found.view is not None or found.is_broken:
            return found
        silent = silent or (found if found.why_not else None)
    return silent or replace(beside, why_not="no daemon answers on this node")


def _asked(address: Address, given: Credentials, page_path: str, beside: Beside) -> Beside:
    try:
        return replace(beside, view=ask(address, given, page_path), address=address)
    except NodeError as error:
        if _is_broken(error, address):
            return replace(beside, why_not=str(error), is_broken=True)
        is_there = isinstance(error.__cause__, PermissionError) or error.status not in (0, _NOT_FOUND)
        return replace(beside, why_not=str(error), is_denied=_is_denied(error)) if is_there else beside


def _is_denied(error: NodeError) -> bool:
    """Return whether the daemon would answer another user, or a request with a password."""
    if error.status:
        return error.status < _SERVER_ERROR
    return isinstance(error.__cause__, PermissionError) and not isinstance(error.__cause__, UnsafeError)


def _is_broken(error: NodeError, address: Address) -> bool:
    """Return whether our daemon runs there without answering. A network address may belong to another program."""
    if not address.unix:
        return False
    cause = error.__cause__
    if isinstance(cause, InvalidResponseError):
        return not error.status or error.status >= _SERVER_ERROR
    return isinstance(cause, TimeoutError) or not isinstance(cause, OSError)


def findings(here: Snapshot, beside: Beside) -> Iterator[Finding]:
    """Yield where the daemon should answer and does not, and where its reports differ from what this command sees."""
    return (Finding(_DAEMON, what, remedy) for what, remedy in _findings(here, beside))


def notes(beside: Beside) -> Iterator[str]:
    """Return the informational lines about the daemon."""
    view = beside.view
    if view is None:
        yield beside.why_not
        return
    version = f"version {view.version}, " if view.version else ""
    devices = counted(sum(device.up is True for device in view.snapshot.devices), "device")
    states = Counter(status.state for status in view.snapshot.sources if status.state != "missing")
    yield f"{version}{devices}, sources: {', '.join(f'{count} {state}' for state, count in states.items()) or 'none'}"
    if not view.is_real:
        yield "it shows simulated cards or plays a recording: nothing of it is compared with this node"


def fine(beside: Beside) -> frozenset[str]:
    """Return the sources that the daemon of this node reads successfully."""
    view = beside.view
    return _sources_read(view.snapshot) if view is not None and view.is_real else frozenset()


def _findings(here: Snapshot, beside: Beside) -> Iterator[tuple[str, str]]:
    view = beside.view
    if view is None:
        yield from _of_silence(beside)
        return
    if view.version and view.version != beside.version:
        what = f"it runs version {view.version}, and this command is {beside.version}"
        yield what, "systemctl restart telemetry, if the package was upgraded"
    for exporter in _SILENT_PEER.findall(view.page):
        yield f"the address of compat.{exporter} cannot be served", _PORT_TAKEN
    if view.is_real:
        if view.reads and view.reads != beside.reads:
            what = "it reads by another configuration than this command: other sources, paths, parsers or ranks"
            yield what, _READS_OTHERWISE
        yield from _of_sources(here, view.snapshot)
        yield from _of_devices(here, view.snapshot)


def _of_silence(beside: Beside) -> Iterator[tuple[str, str]]:
    unit = beside.unit
    if beside.is_broken:
        yield f"it runs and does not answer: {beside.why_not}", _REVIVE
    if unit is None or beside.is_denied or beside.is_broken:
        return
    value_of = unit.properties.get
    status, result = value_of("ExecMainStatus", ""), value_of("Result", "")
    is_restarted = value_of("SubState", "").startswith("auto-restart") and result != "success"
    if unit.active == "active":
        yield f"{UNIT} is active, and {beside.why_not}", _RUNS_ELSEWHERE
    elif unit.active == "failed":
        yield f"{UNIT} is failed ({result}, status {status})", _ENDED.get(status, _FAILED)
    elif is_restarted and status != _ASKED_FOR_IT:
        times = value_of("NRestarts", "")
        what = f"{UNIT} ends and is started again ({result}, status {status}, {times} times)"
        yield what, _ENDED.get(status, _FAILED)
    elif unit.is_enabled and unit.active == "inactive":
        yield f"{UNIT} is enabled and does not run", _START


def _of_sources(here: Snapshot, there: Snapshot) -> Iterator[tuple[str, str]]:
    def state(status: SourceStatus) -> str:
        return f"{status.state}{f' ({status.reason})' if status.reason else ''}"

    by_name = {status.source: status for status in there.sources}
    for status in here.sources:
        other = by_name.get(status.source)
        if other is None or BUSY in status.detail or BUSY in other.detail:
            continue
        if status.state == "ok" and other.state in _UNREAD:
            why = f": {other.detail}" if other.detail else ""
            yield f"{status.source} is ok here and {state(other)} there{why}", _SERVICE_LACKS
        if other.state == "ok" and status.state in _UNREAD:
            yield f"{status.source} is ok there and {state(status)} here", _USER_LACKS


def _of_devices(here: Snapshot, there: Snapshot) -> Iterator[tuple[str, str]]:
    ours, theirs, read = present(here), present(there), _sources_read(there)
    for vendor in sorted({*ours, *theirs}):
        sources = {reading.source for device in here.devices if device.vendor == vendor for reading in device.readings}
        if ours[vendor] != theirs[vendor] and (sources & read or not ours[vendor]):
            what = f"it has {counted(theirs[vendor], f'{vendor} device')}, and this command {ours[vendor]}"
            yield what, _SERVICE_LACKS if ours[vendor] > theirs[vendor] else _THERE_MORE
    by_id = {device.id: device for device in there.devices}
    denied: set[str] = set()
    for device in here.devices:
        if other := by_id.get(device.id):
            readable = {reading.metric for reading in device.readings if not isinstance(reading.value, Absent)}
            denied |= {reading.metric for reading in other.readings if reading.value is Absent.NOT_PERMITTED} & readable
    if denied:
        yield f"it may not read what this command reads: {first_names(sorted(denied))}", _SERVICE_LACKS


def _sources_read(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(status.source for status in snapshot.sources if status.state == "ok")
