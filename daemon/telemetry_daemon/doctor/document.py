"""The document `telemetry.doctor/1`: all facts and findings for programs. docs/doctor.schema.json is made of its classes."""

from __future__ import annotations

import errno
import platform
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from telemetry_daemon.doctor import sources
from telemetry_daemon.doctor.daemon import Beside, DaemonView, notes
from telemetry_daemon.doctor.examination import Examined
from telemetry_daemon.doctor.machine import DeviceNode
from telemetry_daemon.doctor.sources import Patient
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
    """What runs here."""

    telemetry: str | None
    python: str | None
    kernel: str | None


@dataclass(frozen=True, slots=True)
class CardJson:
    """An accelerator on the PCI bus."""

    bus_id: str
    vendor: str
    driver: str | None
    """The kernel's driver that is bound to it."""
    given_away: bool
    """Whether it belongs to a virtual machine."""


@dataclass(frozen=True, slots=True)
class DeviceNodeJson:
    """A device node of a driver."""

    path: str
    vendors: tuple[str, ...]
    """Whose it may be."""
    owner: str
    group: str
    mode: Annotated[str, Schema({"pattern": "^[0-7]{4}$"})]
    refused: str | None
    """Why this user may not open it: EACCES, EPERM or another of errno(3)."""


@dataclass(frozen=True, slots=True)
class LimitsJson:
    """What the command itself may take, which in a container is what the daemon may."""

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
    """Why it is not used."""
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class UnitJson:
    """The daemon's unit, as systemd has it."""

    active: str
    enabled: bool
    user: str


@dataclass(frozen=True, slots=True)
class DaemonSourceJson:
    """A source, as the daemon says."""

    source: str
    state: str
    reason: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class DaemonJson:
    """The daemon of this node beside the command."""

    answers: bool
    why_not: str | None
    version: str | None
    reads_the_same: bool | None
    """Whether its settings and the command's decide the same; null where it does not say."""
    unit: UnitJson | None
    sources: tuple[DaemonSourceJson, ...]
    devices: Mapping[str, int]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlightJson:
    """A recording of what came before an event."""

    name: str
    """In the folder `flights` of the state directory."""
    time: _Time
    cause: str
    size_bytes: Count


@dataclass(frozen=True, slots=True)
class PollJson:
    """One question to a source."""

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
    """What to do where it is not ok."""
    problems: tuple[ProblemJson, ...]
    absent: Mapping[str, tuple[str, ...]]
    """The readings that it could give and did not, by reason."""
    unknown_fields: tuple[str, ...]
    polls: tuple[PollJson, ...]


@dataclass(frozen=True, slots=True)
class FindingJson:
    """Something that is wrong."""

    where: Word
    what: Word
    remedy: Word


@dataclass(frozen=True, slots=True)
class DoctorJson:
    """What `telemetry doctor --format json` prints. All keys are always present; null is what is not known or what there is none of. Further keys may come."""

    schema: Literal["telemetry.doctor/1"]
    time: _Time
    """When it was read, in UTC."""
    hostname: str | None
    node: str | None
    """The node whose daemon was asked with --node; then only what that daemon tells is known."""
    versions: VersionsJson
    pci: Mapping[str, Count]
    """Accelerators on the PCI bus by vendor."""
    user: str | None
    """Who ran the command."""
    groups: tuple[str, ...]
    """The groups that the command ran in."""
    container: str | None
    """The kind of container that the command ran in."""
    cards: tuple[CardJson, ...]
    device_nodes: tuple[DeviceNodeJson, ...]
    limits: LimitsJson | None
    folders: tuple[FolderJson, ...]
    """The daemon's folders that exist, or that it cannot make."""
    daemon: DaemonJson | None
    flights: tuple[FlightJson, ...]
    """What the daemon's flight recorder has kept, the newest first."""
    sources: tuple[SourceJson, ...]
    notes: tuple[str, ...]
    """What is as it should be and explains much."""
    findings: tuple[FindingJson, ...]
    """What is wrong; the command ends with 2 where there is any."""


def document(examined: Examined) -> dict[str, Any]:
    """The document as plain data: all keys are always present, and what is unknown is None."""
    other, machine = examined.other, examined.machine
    is_here = other is None
    whole = DoctorJson(
        schema="telemetry.doctor/1",
        time=utc_time(examined.snapshot.wall_time),
        hostname=examined.snapshot.hostname or None,
        node=None if other is None else other.name,
        versions=_versions(other),
        pci=machine.on_bus if other is None else other.on_bus,
        # Of another node's machine nothing is known.
        user=machine.user if is_here else None,
        groups=tuple(machine.groups),
        container=machine.container or None,
        cards=tuple(CardJson(one.bus_id, one.vendor, one.driver or None, one.given_away) for one in machine.cards),
        device_nodes=tuple(map(_node, machine.nodes)),
        limits=_limits(examined) if is_here else None,
        folders=tuple(
            FolderJson(one.setting, one.path, one.trouble or None, one.free_bytes) for one in examined.folders
        ),
        daemon=_daemon(examined.daemon) if is_here and not examined.is_partial else None,
        flights=tuple(
            FlightJson(one.name, utc_time(one.wall_time), one.cause, one.size_bytes) for one in examined.flights
        ),
        sources=tuple(map(_source, examined.patients)),
        notes=tuple(examined.notes),
        findings=tuple(FindingJson(one.where, one.what, one.remedy) for one in examined.findings),
    )
    return {key: _cleaned(value) for key, value in to_plain(DoctorJson, whole).items()}


def _versions(other: DaemonView | None) -> VersionsJson:
    if other is not None:
        return VersionsJson(other.version or None, None, None)
    return VersionsJson(__version__, platform.python_version(), platform.release())


def _cleaned(plain: Any) -> Any:
    """The same with every text as it may be shown."""
    if isinstance(plain, dict):
        return {clean(key): _cleaned(value) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_cleaned(item) for item in plain]
    return clean(plain) if isinstance(plain, str) else plain


def _node(node: DeviceNode) -> DeviceNodeJson:
    return DeviceNodeJson(
        path=node.path,
        vendors=tuple(node.vendors),
        owner=node.owner,
        group=node.group,
        mode=f"{node.mode:04o}",
        refused=errno.errorcode.get(node.refusal) if node.refusal else None,
    )


def _limits(examined: Examined) -> LimitsJson:
    limits = examined.limits
    return LimitsJson(limits.memory_bytes, limits.tasks, limits.cpus, limits.open_files)


def _daemon(daemon: Beside) -> DaemonJson:
    view, unit = daemon.view, daemon.unit
    seen = None if view is None else view.snapshot
    return DaemonJson(
        answers=view is not None,
        why_not=daemon.why_not or None,
        version=view.version or None if view is not None else None,
        reads_the_same=view.reads == daemon.reads if view is not None and view.reads else None,
        unit=None if unit is None else UnitJson(unit.active, unit.is_enabled, unit.user),
        sources=tuple(
            DaemonSourceJson(one.source, one.state, one.reason, one.detail or None)
            for one in (seen.sources if seen is not None else ())
        ),
        devices=Counter(one.vendor for one in (seen.devices if seen is not None else ()) if one.up),
        notes=tuple(notes(daemon)),
    )


def _source(patient: Patient) -> SourceJson:
    status = patient.status
    return SourceJson(
        source=status.source,
        state=status.state,
        reason=status.reason,
        detail=status.detail or None,
        version=status.version or None,
        tools=tuple(tool.path for tool in sources.tools_found(patient)),
        remedy=sources.remedy(patient) or None if status.state != "ok" else None,
        problems=tuple(ProblemJson(problem.where, problem.text) for problem in status.problems),
        absent={reason: tuple(names) for reason, names in sources.absences(patient).items()},
        unknown_fields=tuple(status.unknown_fields),
        polls=tuple(PollJson(one.poll, one.state, one.reason, round(one.seconds, 6)) for one in status.polls),
    )
