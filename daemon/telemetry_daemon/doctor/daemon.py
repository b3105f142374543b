"""Examines a node's daemon: its systemd unit, its data, and differences from this command's readings."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from telemetry_daemon.config.inputs import SETTINGS_HASH_HEADER
from telemetry_daemon.doctor.cards import present_device_counts
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.processes import short_lived
from telemetry_daemon.readers.tool_path import ToolSearch
from telemetry_daemon.remote.foreign_documents import DocumentError, parse_document, to_snapshot
from telemetry_daemon.remote.http_client import Address, Client, Credentials, InvalidResponseError, NodeError
from telemetry_exporters.text import first_names
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Snapshot, SourceStatus
from telemetry_parsers.states import BUSY, UNSUCCESSFUL

UNIT = "telemetry.service"
UNIT_PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus", "NRestarts", "UnitFileState", "User"),
    *("SupplementaryGroups", "AmbientCapabilities", "MemoryMax", "TasksMax", "LimitNOFILE", "CPUQuotaPerSecUSec"),
)
SNAPSHOT_PATH, HISTORY_PATH = "/api/v1/snapshot", "/api/v1/history"
_TIMEOUT_SECONDS = 5.0
_HTTP_NOT_FOUND = 404
_HTTP_SERVER_ERROR = 500
_VERSION = re.compile(r'^telemetry_build_info\{[^}\n]*\bversion="([^"\\\n]{1,64})"', re.MULTILINE)
_UNSERVED_EXPORTER = re.compile(r'^telemetry_compat_up\{exporter="([A-Za-z0-9_-]{1,64})"\} 0(?:\.0)?$', re.MULTILINE)
_VENDOR_COUNT_TEMPLATE = r'^%s\{vendor="([a-z]{1,32})"\} ([0-9]{1,5})(?:\.0)?$'

_DAEMON = "daemon"
_UNREAD_STATES = UNSUCCESSFUL | {"missing"}
_SERVICE_REMEDY = (
    "set the service's groups and variables such as LD_LIBRARY_PATH in a drop-in (systemctl edit telemetry), because the service has "
    'no login profile and runs in a sandbox; see "A reading is in telemetry doctor, but not in the service" in docs/troubleshooting.md'
)
_USER_REMEDY = "run this command as root or as the service's user, because this user lacks a permission or setting; the service works"
_MORE_CARDS_REMEDY = "check whether a card was just lost (dmesg), and whether a variable (CUDA_VISIBLE_DEVICES) or a group hides cards from this user"
_START_REMEDY = "systemctl start telemetry; journalctl -u telemetry -n 50 shows why it stopped"
_NO_ANSWER_REMEDY = (
    "`ps ax -o pid,stat,cmd | grep telemetry` shows the daemon's state; if the state is T (stopped by a signal), kill -CONT "
    "continues the daemon; otherwise, or if the daemon has another version: systemctl restart telemetry"
)
_OTHER_CONFIG_REMEDY = (
    "run this command with --config and the service's file (systemctl cat telemetry shows it); if both already use this "
    "file: systemctl restart telemetry"
)
_OTHER_READINGS_REMEDY = (
    "if the file has changed: systemctl reload telemetry; otherwise run this command with --config and the service's "
    "file (systemctl cat telemetry shows it), and compare `telemetry config show` with the unit's environment"
)
_PORT_REMEDY = "stop the exporter that uses the port (`ss -ltnp` shows it), or set another listen_address; the daemon retries every 10 s"
_FAILED_REMEDY = "journalctl -u telemetry -n 50 shows the reason; `telemetry config check` checks the configuration"
# Maps the daemon's exit status to the remedy; see docs/troubleshooting.md.
_EXIT_REMEDIES: Mapping[str, str] = {
    "64": "correct the arguments in ExecStart= (systemctl cat telemetry); journalctl -u telemetry -n 50 names the wrong argument",
    "69": (
        "journalctl -u telemetry -n 50 names a listening address that is in use or missing on this machine: stop the process that "
        "uses the address (`ss -ltnp` shows it), or set another web.listen_address"
    ),
    "70": "this is a bug in device telemetry: send the file that `telemetry doctor --bundle FILE` writes; journalctl -u telemetry -n 50 has the traceback",
    "78": "`telemetry config check` and journalctl -u telemetry -n 50 show the errors of the configuration",
}
# Systemd restarts a daemon that exits with this status.
_RESTART_REQUEST_STATUS = "75"


@dataclass(frozen=True, slots=True)
class Unit:
    """The daemon's systemd unit, with its properties from `systemctl show`."""

    properties: Mapping[str, str]

    @property
    def active_state(self) -> str:
        """Return the unit's ActiveState, such as `active` or `failed`."""
        return self.properties.get("ActiveState", "")

    @property
    def is_enabled(self) -> bool:
        """Return whether the unit is started at boot."""
        return self.properties.get("UnitFileState") in ("enabled", "enabled-runtime")

    @property
    def user(self) -> str:
        """Return the name of the user that the daemon runs as."""
        return self.properties.get("User") or "root"

    @property
    def sees_all_processes(self) -> bool:
        """Return whether the daemon's /proc shows all processes."""
        return self.user == "root" or "cap_sys_ptrace" in self.properties.get("AmbientCapabilities", "").split()

    @property
    def group_ids(self) -> frozenset[int]:
        """Return the IDs of the daemon's groups that exist on this machine."""
        group_ids: set[int] = set()
        for name in self.properties.get("SupplementaryGroups", "").split():
            with suppress(KeyError):  # systemd creates this group when the unit starts
                group_ids.add(int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid)
        with suppress(KeyError):  # systemd creates this user when the unit starts
            group_ids |= set(os.getgrouplist(self.user, pwd.getpwnam(self.user).pw_gid))
        return frozenset(group_ids)


def read_unit() -> Unit | None:
    """Return the daemon's systemd unit, or None if systemd or the unit is missing."""
    output = run_program("systemctl", "show", UNIT, f"--property={','.join(UNIT_PROPERTIES)}")
    properties = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return Unit(properties) if properties.get("LoadState") == "loaded" else None


def run_program(program: str, *arguments: str) -> str:
    """Return the output of a system program, or "" if it fails."""
    tool = ToolSearch(program, "", os.environ.get("PATH", ""), ()).find(program)
    if tool is None or tool.distrust_reason:
        return ""
    try:
        result = short_lived.run_command((tool.path, *arguments), "", _TIMEOUT_SECONDS)
    except short_lived.NoAnswerError:  # the program was too slow, or its output was incomplete
        return ""
    return result.output if result.status == 0 else ""


@dataclass(frozen=True, slots=True)
class DaemonView:
    """The data of a daemon. `bus_counts` and `expected` contain each vendor's number of cards."""

    name: str
    snapshot: Snapshot
    version: str = ""
    bus_counts: Mapping[str, int] = field(default_factory=dict)
    settings_hash: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    expected: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_real(self) -> bool:
        """Return whether the daemon reads real hardware, not a recording or a simulation."""
        return self.snapshot.recorded is None and not any(device.simulated for device in self.snapshot.devices)


def request_view(address: Address, credentials: Credentials, page_path: str = "/metrics") -> DaemonView:
    """Request the data of the daemon at an address. Raise NodeError if the daemon does not answer."""
    page = ""
    with closing(Client(address, credentials, _TIMEOUT_SECONDS)) as client:
        response = client.get(SNAPSHOT_PATH)
        with suppress(NodeError):  # the version is unknown if the page has another path
            page = client.get(page_path).body.decode("utf-8", "replace")
    try:
        document = parse_document(response.body)
        snapshot = to_snapshot(document)
    except DocumentError as error:
        raise NodeError(f"the daemon's document is invalid: {error}") from error

    def card_counts(metric: str) -> Mapping[str, int]:
        return {vendor: int(count) for vendor, count in re.findall(_VENDOR_COUNT_TEMPLATE % metric, page, re.MULTILINE)}

    return DaemonView(
        address.name,
        snapshot,
        version="".join(_VERSION.findall(page)[:1]),
        bus_counts=card_counts("telemetry_pci_devices"),
        settings_hash=response.headers.get(SETTINGS_HASH_HEADER.lower(), ""),
        document=document,
        page=page,
        expected=card_counts("telemetry_devices_expected"),
    )


@dataclass(frozen=True, slots=True)
class LocalDaemon:
    """This node's daemon: its data, or why it does not answer. The fields `command_…` describe this command."""

    view: DaemonView | None = None
    error: str = ""
    is_denied: bool = False
    is_broken: bool = False
    unit: Unit | None = None
    command_settings_hash: str = ""
    command_version: str = ""
    address: Address | None = None

    @property
    def is_running(self) -> bool:
        """Return whether a daemon runs on this node, even if it does not answer."""
        return self.view is not None or self.is_denied or self.is_broken


def probe(addresses: Iterable[Address], credentials: Credentials, page_path: str, daemon: LocalDaemon) -> LocalDaemon:
    """Try addresses until a daemon answers. Add the answer to `daemon`, or else the reason why there is none."""
    unanswered_daemon = None
    for address in addresses:
        daemon = _try_address(address, credentials, page_path, daemon)
        if daemon.view is not None or daemon.is_broken:
            return daemon
        unanswered_daemon = unanswered_daemon or (daemon if daemon.error else None)
    return unanswered_daemon or replace(daemon, error="no daemon answers on this node")


def _try_address(address: Address, credentials: Credentials, page_path: str, daemon: LocalDaemon) -> LocalDaemon:
    try:
        return replace(daemon, view=request_view(address, credentials, page_path), address=address)
    except NodeError as error:
        if _is_broken(error, address):
            return replace(daemon, error=str(error), is_broken=True)
        is_running = isinstance(error.__cause__, PermissionError) or error.status not in (0, _HTTP_NOT_FOUND)
        return replace(daemon, error=str(error), is_denied=_may_accept_another_user(error)) if is_running else daemon


def _may_accept_another_user(error: NodeError) -> bool:
    """Return whether the daemon may accept the same request from another user."""
    if error.status:
        return error.status < _HTTP_SERVER_ERROR
    return isinstance(error.__cause__, PermissionError) and not isinstance(error.__cause__, UnsafeError)


def _is_broken(error: NodeError, address: Address) -> bool:
    """Return whether a daemon runs at this Unix socket but does not answer."""
    if not address.unix:
        return False
    cause = error.__cause__
    if isinstance(cause, InvalidResponseError):
        return not error.status or error.status >= _HTTP_SERVER_ERROR
    return isinstance(cause, TimeoutError) or not isinstance(cause, OSError)


def findings(own_snapshot: Snapshot, daemon: LocalDaemon) -> Iterator[Finding]:
    """Yield findings about a daemon that does not answer or differs from this command."""
    return (Finding(_DAEMON, problem, remedy) for problem, remedy in _problems_and_remedies(own_snapshot, daemon))


def notes(daemon: LocalDaemon) -> Iterator[str]:
    """Yield informational lines about the daemon."""
    view = daemon.view
    if view is None:
        yield daemon.error
        return
    version = f"version {view.version}, " if view.version else ""
    devices = counted(sum(device.up is True for device in view.snapshot.devices), "device")
    states = Counter(status.state for status in view.snapshot.sources if status.state != "missing")
    yield f"{version}{devices}, sources: {', '.join(f'{count} {state}' for state, count in states.items()) or 'none'}"
    if not view.is_real:
        yield "the daemon has simulated or recorded cards, which are not compared with this node"


def working_sources(daemon: LocalDaemon) -> frozenset[str]:
    """Return the sources that the daemon of this node reads successfully."""
    view = daemon.view
    return _ok_sources(view.snapshot) if view is not None and view.is_real else frozenset()


def _problems_and_remedies(own_snapshot: Snapshot, daemon: LocalDaemon) -> Iterator[tuple[str, str]]:
    view = daemon.view
    if view is None:
        yield from _no_answer_findings(daemon)
        return
    if view.version and view.version != daemon.command_version:
        problem = f"the daemon has version {view.version}, but this command has version {daemon.command_version}"
        yield problem, "if the package was upgraded: systemctl restart telemetry"
    for exporter in _UNSERVED_EXPORTER.findall(view.page):
        yield f"the address of compat.{exporter} cannot be served", _PORT_REMEDY
    if view.is_real:
        if view.settings_hash and view.settings_hash != daemon.command_settings_hash:
            problem = "the daemon and this command have different settings for sources, paths, parsers or ranks"
            yield problem, _OTHER_READINGS_REMEDY
        yield from _source_differences(own_snapshot, view.snapshot)
        yield from _device_differences(own_snapshot, view.snapshot)


def _no_answer_findings(daemon: LocalDaemon) -> Iterator[tuple[str, str]]:
    unit = daemon.unit
    if daemon.is_broken:
        yield f"the daemon runs, but does not answer: {daemon.error}", _NO_ANSWER_REMEDY
    if unit is None or daemon.is_denied or daemon.is_broken:
        return
    get_property = unit.properties.get
    status, result = get_property("ExecMainStatus", ""), get_property("Result", "")
    is_restarted = get_property("SubState", "").startswith("auto-restart") and result != "success"
    if unit.active_state == "active":
        yield f"{UNIT} is active, but {daemon.error}", _OTHER_CONFIG_REMEDY
    elif unit.active_state == "failed":
        yield f"{UNIT} has failed ({result}, status {status})", _EXIT_REMEDIES.get(status, _FAILED_REMEDY)
    elif is_restarted and status != _RESTART_REQUEST_STATUS:
        problem = f"{UNIT} restarts repeatedly ({result}, status {status}, {get_property('NRestarts', '')} times)"
        yield problem, _EXIT_REMEDIES.get(status, _FAILED_REMEDY)
    elif unit.is_enabled and unit.active_state == "inactive":
        yield f"{UNIT} is enabled, but not running", _START_REMEDY


def _source_differences(own_snapshot: Snapshot, daemon_snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    def state_text(status: SourceStatus) -> str:
        return f"{status.state}{f' ({status.reason})' if status.reason else ''}"

    statuses_by_name = {status.source: status for status in daemon_snapshot.sources}
    for status in own_snapshot.sources:
        daemon_status = statuses_by_name.get(status.source)
        if daemon_status is None or BUSY in status.detail or BUSY in daemon_status.detail:
            continue
        if status.state == "ok" and daemon_status.state in _UNREAD_STATES:
            problem = f"{status.source} is ok in this command, but {state_text(daemon_status)} in the daemon"
            yield f"{problem}: {daemon_status.detail}" if daemon_status.detail else problem, _SERVICE_REMEDY
        if daemon_status.state == "ok" and status.state in _UNREAD_STATES:
            yield f"{status.source} is ok in the daemon, but {state_text(status)} in this command", _USER_REMEDY


def _device_differences(own_snapshot: Snapshot, daemon_snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    own_counts, daemon_counts = present_device_counts(own_snapshot), present_device_counts(daemon_snapshot)
    own_devices, daemon_sources = own_snapshot.devices, _ok_sources(daemon_snapshot)
    for vendor in sorted({*own_counts, *daemon_counts}):
        sources = {reading.source for device in own_devices if device.vendor == vendor for reading in device.readings}
        if own_counts[vendor] != daemon_counts[vendor] and (sources & daemon_sources or not own_counts[vendor]):
            problem = f"the daemon has {counted(daemon_counts[vendor], f'{vendor} device')}, but this command reads {own_counts[vendor]}"
            yield problem, _SERVICE_REMEDY if own_counts[vendor] > daemon_counts[vendor] else _MORE_CARDS_REMEDY
    own_devices_by_id = {device.id: device for device in own_devices}
    denied: set[str] = set()
    for device in daemon_snapshot.devices:
        if own_device := own_devices_by_id.get(device.id):
            readable = {reading.metric for reading in own_device.readings if not isinstance(reading.value, Absent)}
            not_permitted = {reading.metric for reading in device.readings if reading.value is Absent.NOT_PERMITTED}
            denied |= not_permitted & readable
    if denied:
        yield f"the daemon may not read {first_names(sorted(denied))}, but this command may", _SERVICE_REMEDY


def _ok_sources(snapshot: Snapshot) -> frozenset[str]:
    return frozenset(status.source for status in snapshot.sources if status.state == "ok")
