"""The document `telemetry.doctor/1`, which also defines docs/doctor.schema.json."""

from __future__ import annotations

import errno
import platform
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from telemetry_daemon.doctor import sources
from telemetry_daemon.doctor.daemon import DaemonView, LocalDaemon, notes
from telemetry_daemon.doctor.examination import Examination
from telemetry_daemon.doctor.machine import DeviceNode
from telemetry_daemon.doctor.sources import ExaminedSource
from telemetry_daemon.version import __version__
from telemetry_exporters.documents.json_values import utc_time
from telemetry_exporters.documents.snapshot_parts import ProblemJson
from telemetry_exporters.text import clean
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import Count, NotNegative, Schema, Word
from telemetry_parsers.dataclass import dataclass

_Time = Annotated[str, Schema({"format": "date-time"})]


@dataclass(frozen=True, slots=True)
class VersionsJson:
    """The versions of the software."""

    telemetry: str | None
    python: str | None
    kernel: str | None


@dataclass(frozen=True, slots=True)
class CardJson:
    """An accelerator on the PCI bus."""

    bus_id: str
    vendor: str
    driver: str | None
    """The kernel driver that is bound to the card."""
    given_away: bool
    """Whether the card is assigned to a virtual machine."""


@dataclass(frozen=True, slots=True)
class DeviceNodeJson:
    """A device node of a driver."""

    path: str
    vendors: tuple[str, ...]
    """The vendors whose cards may have this device node."""
    owner: str
    group: str
    mode: Annotated[str, Schema({"pattern": "^[0-7]{4}$"})]
    refused: str | None
    """Why this user may not open the node: EACCES, EPERM or another code of errno(3)."""


@dataclass(frozen=True, slots=True)
class LimitsJson:
    """The limits of the command. In a container, the daemon has the same limits."""

    memory_bytes: int | None
    tasks: int | None
    """Processes and threads."""
    cpus: float | None
    open_files: int | None


@dataclass(frozen=True, slots=True)
class FolderJson:
    """One of the daemon's folders."""

    setting: str
    path: str
    trouble: str | None
    """Why the daemon cannot use the folder."""
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class UnitJson:
    """The daemon's unit, as systemd reports it."""

    active: str
    enabled: bool
    user: str


@dataclass(frozen=True, slots=True)
class DaemonSourceJson:
    """A source, as the daemon reports it."""

    source: str
    state: str
    reason: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class DaemonJson:
    """The daemon that runs on this node."""

    answers: bool
    why_not: str | None
    version: str | None
    reads_the_same: bool | None
    """Whether the daemon reads with the same settings as the command; null if the daemon does not report this."""
    unit: UnitJson | None
    sources: tuple[DaemonSourceJson, ...]
    devices: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlightJson:
    """A flight recorder file: a recording of the minutes around an alarm."""

    name: str
    """The file name in the folder `flights` of the state directory."""
    time: _Time
    cause: str
    size_bytes: Count


@dataclass(frozen=True, slots=True)
class PollJson:
    """One poll of a source."""

    poll: str
    state: str
    reason: str | None
    seconds: NotNegative


@dataclass(frozen=True, slots=True)
class SourceJson:
    """A source, as the command read it."""

    source: str
    state: str
    """As in telemetry.snapshot/1."""
    reason: str | None
    detail: str | None
    version: str | None
    tools: tuple[str, ...]
    """The tools that were found."""
    remedy: str | None
    """What to do if the source is not ok."""
    problems: tuple[ProblemJson, ...]
    absent: Mapping[str, tuple[str, ...]]
    """The readings that the source could report but did not, by reason."""
    unknown_fields: tuple[str, ...]
    polls: tuple[PollJson, ...]


@dataclass(frozen=True, slots=True)
class FindingJson:
    """A problem, and its remedy."""

    where: Word
    what: Word
    remedy: Word


@dataclass(frozen=True, slots=True)
class DoctorJson:
    """The output of `telemetry doctor --format json`. All keys are always present; unknown or inapplicable values are null. Later versions may add keys."""

    schema: Literal["telemetry.doctor/1"]
    time: _Time
    """When the node was examined, in UTC."""
    hostname: str | None
    node: str | None
    """The node given by --node. The document then contains only what that node's daemon reports."""
    versions: VersionsJson
    pci: Mapping[str, Count]
    """Accelerators on the PCI bus by vendor."""
    user: str | None
    """The user who ran the command."""
    groups: tuple[str, ...]
    """The groups of the command's process."""
    container: str | None
    """The kind of container that the command ran in."""
    cards: tuple[CardJson, ...]
    device_nodes: tuple[DeviceNodeJson, ...]
    limits: LimitsJson | None
    folders: tuple[FolderJson, ...]
    """The daemon's folders. A missing folder is listed only if the daemon cannot create it."""
    daemon: DaemonJson | None
    flights: tuple[FlightJson, ...]
    """The files of the daemon's flight recorder, newest first."""
    sources: tuple[SourceJson, ...]
    notes: tuple[str, ...]
    """Observations that are not problems."""
    findings: tuple[FindingJson, ...]
    """All problems. The command exits with 2 if there are any."""


def document(examined: Examination) -> dict[str, Any]:
    """Return the JSON document as a dictionary."""
    remote_daemon, machine, limits = examined.remote_daemon, examined.machine, examined.limits
    is_this_node = remote_daemon is None
    full_document = DoctorJson(
        schema="telemetry.doctor/1",
        time=utc_time(examined.snapshot.wall_time),
        hostname=examined.snapshot.hostname or None,
        node=None if remote_daemon is None else remote_daemon.name,
        versions=_versions_to_json(remote_daemon),
        pci=machine.bus_counts if remote_daemon is None else remote_daemon.bus_counts,
        # The user and the limits of another node are unknown.
        user=machine.user if is_this_node else None,
        groups=tuple(machine.groups),
        container=machine.container or None,
        cards=tuple(
            CardJson(card.bus_id, card.vendor, card.driver or None, card.is_passed_through) for card in machine.cards
        ),
        device_nodes=tuple(map(_node_to_json, machine.nodes)),
        limits=LimitsJson(limits.memory_bytes, limits.tasks, limits.cpus, limits.open_files) if is_this_node else None,
        folders=tuple(
            FolderJson(folder.setting, folder.path, folder.trouble or None, folder.free_bytes)
            for folder in examined.folders
        ),
        daemon=_daemon_to_json(examined.daemon) if is_this_node and not examined.is_partial else None,
        flights=tuple(
            FlightJson(flight.name, utc_time(flight.wall_time), flight.cause, flight.size_bytes)
            for flight in examined.flights
        ),
        sources=tuple(map(_source_to_json, examined.examined_sources)),
        notes=tuple(examined.notes),
        findings=tuple(FindingJson(finding.where, finding.what, finding.remedy) for finding in examined.findings),
    )
    return {key: _clean_strings(value) for key, value in to_plain(DoctorJson, full_document).items()}


def _versions_to_json(remote_daemon: DaemonView | None) -> VersionsJson:
    if remote_daemon is not None:
        return VersionsJson(remote_daemon.version or None, None, None)
    return VersionsJson(__version__, platform.python_version(), platform.release())


def _clean_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {clean(key): _clean_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean_strings(item) for item in value]
    return clean(value) if isinstance(value, str) else value


def _node_to_json(node: DeviceNode) -> DeviceNodeJson:
    return DeviceNodeJson(
        path=node.path,
        vendors=tuple(node.vendors),
        owner=node.owner,
        group=node.group,
        mode=f"{node.mode:04o}",
        refused=errno.errorcode.get(node.refusal_errno) if node.refusal_errno else None,
    )


def _daemon_to_json(daemon: LocalDaemon) -> DaemonJson:
    view, unit = daemon.view, daemon.unit
    snapshot = None if view is None else view.snapshot
    return DaemonJson(
        answers=view is not None,
        why_not=daemon.error or None,
        version=view.version or None if view is not None else None,
        reads_the_same=view.settings_hash == daemon.command_settings_hash if view and view.settings_hash else None,
        unit=None if unit is None else UnitJson(unit.active_state, unit.is_enabled, unit.user),
        sources=tuple(
            DaemonSourceJson(status.source, status.state, status.reason, status.detail or None)
            for status in (snapshot.sources if snapshot is not None else ())
        ),
        devices=Counter(device.vendor for device in (snapshot.devices if snapshot is not None else ()) if device.up),
        notes=tuple(notes(daemon)),
    )


def _source_to_json(source: ExaminedSource) -> SourceJson:
    status = source.status
    return SourceJson(
        source=status.source,
        state=status.state,
        reason=status.reason,
        detail=status.detail or None,
        version=status.version or None,
        tools=tuple(tool.path for tool in sources.installed_tools(source)),
        remedy=sources.remedy(source) or None if status.state != "ok" else None,
        problems=tuple(ProblemJson(problem.where, problem.text) for problem in status.problems),
        absent={reason: tuple(names) for reason, names in sources.absent_metrics_by_reason(source).items()},
        unknown_fields=tuple(status.unknown_fields),
        polls=tuple(PollJson(poll.poll, poll.state, poll.reason, round(poll.seconds, 6)) for poll in status.polls),
    )
