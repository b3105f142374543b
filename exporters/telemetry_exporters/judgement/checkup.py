"""A node judged for schedulers and monitoring: a status for each device, source and vendor, and for the node."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from telemetry_exporters.judgement.overview import device_list, model_of, source_condition
from telemetry_exporters.judgement.verdict import Finding, Severity, judge, remedy_of_several
from telemetry_exporters.text import clean
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import MergedDevice, Snapshot, SourceStatus


class Status(enum.IntEnum):
    """The result of a check: the exit statuses of monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# A known fault is worse than an unknown state.
_WORST_FIRST = (Status.CRITICAL, Status.WARNING, Status.UNKNOWN, Status.OK)
_OF_SEVERITY = {Severity.BAD: Status.CRITICAL, Severity.WARNING: Status.WARNING}
# The word of a quiet condition that makes the status unknown.
_UNKNOWN_WORD = "unknown"
_OF_SOURCE = {"stuck": Status.CRITICAL, "failed": Status.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Check:
    """The status of one device (`device` is its id), source or count, in words with a remedy. `rank` sorts checks of one status, worst first."""

    name: str
    status: Status
    words: str
    remedy: str = ""
    device: str = ""
    source: str = ""
    rank: int = 0


_UNREPORTED = Check("devices", Status.UNKNOWN, "none is reported", "`telemetry doctor` shows which sources were read")
_NO_ACCELERATORS = Check("devices", Status.OK, "this node has no accelerators")


@dataclass(frozen=True, slots=True)
class Checkup:
    """All checks, the worst status, and the devices that were judged."""

    hostname: str
    wall_time: float
    status: Status
    checks: tuple[Check, ...]
    devices: tuple[MergedDevice, ...]

    def troubles(self) -> Iterator[Check]:
        """Yield all failing checks, worst first; devices with the same words are one check: `nvidia 3, 7`."""
        groups: dict[tuple[Status, str, str], list[Check]] = {}
        for check in sorted(self.checks, key=lambda check: (_WORST_FIRST.index(check.status), check.rank)):
            if check.status is not Status.OK:
                name = "" if check.device else check.name
                groups.setdefault((check.status, check.words, name), []).append(check)
        devices = {device.id: device for device in self.devices}
        for group in groups.values():
            first = group[0]
            if len(group) > 1:
                names = clean(device_list(devices[check.device] for check in group if check.device))
                first = replace(first, name=names, remedy=remedy_of_several(first.remedy, first.device), device="")
            yield first


def examine(
    snapshot: Snapshot,
    expected: Mapping[str, int],
    wanted: Collection[str] | None = None,
    *,
    has_accelerators: bool = True,
) -> Checkup:
    """Return the checkup of a screened snapshot, or only of the devices with these ids. `expected` counts whole devices by vendor."""
    verdict = judge(snapshot)
    devices = tuple(device for device in snapshot.devices if wanted is None or device.id in wanted)
    checks = [_of_device(device, verdict[device.id]) for device in devices]
    if wanted is None:
        checks += [*_of_counts(snapshot.devices, expected), *_of_sources(snapshot.sources)]
        if not snapshot.devices and not expected:
            checks.append(_UNREPORTED if has_accelerators else _NO_ACCELERATORS)
    status = worst(check.status for check in checks)
    return Checkup(snapshot.hostname, snapshot.wall_time, status, tuple(checks), devices)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst status; OK without any."""
    return min(statuses, key=_WORST_FIRST.index, default=Status.OK)


def name_of(device: MergedDevice) -> str:
    """Return the device as its lines begin: vendor and `device` label."""
    return clean(f"{device.vendor} {device.device}")


def _of_device(device: MergedDevice, findings: tuple[Finding, ...]) -> Check:
    """Return the check of a device. Its words begin with the worst condition."""
    status = worst(map(_status, findings))
    shown = (finding for finding in findings if status is Status.OK or _status(finding) is not Status.OK)
    words = ", ".join(finding.words for finding in shown)
    remedy = next((finding.remedy for finding in findings if _status(finding) is status), "")
    about = f"{words} ({clean(model_of(device))})" if model_of(device) else words
    return Check(name_of(device), status, about, remedy, device=device.id, rank=findings[0].rank)


def _status(finding: Finding) -> Status:
    if finding.severity is Severity.QUIET and finding.word == _UNKNOWN_WORD:
        return Status.UNKNOWN
    return _OF_SEVERITY.get(finding.severity, Status.OK)


def _of_counts(devices: Iterable[MergedDevice], expected: Mapping[str, int]) -> Iterator[Check]:
    present = Counter(device.vendor for device in devices if device.parent is None and device.up)
    for vendor, count in sorted(expected.items()):
        found = present[vendor]
        status = Status.OK if found == count else Status.CRITICAL if found < count else Status.WARNING
        remedy = "" if found == count else "see `dmesg` and `telemetry doctor`, or correct `expect.devices`"
        yield Check(f"{vendor} devices", status, f"{found} of {count} present", remedy)


def _of_sources(sources: Iterable[SourceStatus]) -> Iterator[Check]:
    """Yield a check for each source that should report something. Sources that the node does not have are left out."""
    for source in sources:
        status = _OF_SOURCE.get(source.state, Status.UNKNOWN if source.up is False else Status.OK)
        condition = source_condition(source)
        words = condition.word if source.up is not False or source.state != "ok" else "its readings have expired"
        detail = f": {clean(source.detail)}" if source.detail and status is not Status.OK else ""
        if status is not Status.OK or source.up:
            yield Check(
                f"source {clean(source.source)}", status, f"{words}{detail}", condition.remedy, source=source.source
            )
