"""The checkup of a node for schedulers and monitoring."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from telemetry_exporters.judgement.overview import current_model, device_list, source_condition
from telemetry_exporters.judgement.verdict import Finding, Severity, judge, remedy_of_several
from telemetry_exporters.text import clean
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.model import MergedDevice, Snapshot, SourceStatus


class Status(enum.IntEnum):
    """The result of a check. The numbers are the exit statuses of monitoring plugins."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


# WARNING comes before UNKNOWN, because the cause of a warning is known.
_STATUSES_WORST_FIRST = (Status.CRITICAL, Status.WARNING, Status.UNKNOWN, Status.OK)
_STATUS_BY_SEVERITY = {Severity.BAD: Status.CRITICAL, Severity.WARNING: Status.WARNING}
# A quiet condition with this word has the status UNKNOWN. Other quiet conditions have the status OK.
_UNKNOWN_WORD = "unknown"
_STATUS_BY_STATE = {"stuck": Status.CRITICAL, "failed": Status.UNKNOWN}


@dataclass(frozen=True, slots=True)
class Check:
    """The status of a device, a source or a device count."""

    name: str
    status: Status
    words: str
    remedy: str = ""
    device: str = ""
    source: str = ""
    rank: int = 0


_NO_DEVICES_REPORTED = Check(
    "devices", Status.UNKNOWN, "none reported", "`telemetry doctor` shows which sources were read"
)
_NO_ACCELERATORS = Check("devices", Status.OK, "this node has no accelerators")


@dataclass(frozen=True, slots=True)
class Checkup:
    """All checks of a node, their worst status, and the devices that were checked."""

    hostname: str
    wall_time: float
    status: Status
    checks: tuple[Check, ...]
    devices: tuple[MergedDevice, ...]

    def troubles(self) -> Iterator[Check]:
        """Yield the failing checks, worst first. Devices with the same failure share a check."""
        groups: dict[tuple[Status, str, str], list[Check]] = {}
        for check in sorted(self.checks, key=lambda check: (_STATUSES_WORST_FIRST.index(check.status), check.rank)):
            if check.status is not Status.OK:
                name = "" if check.device else check.name
                groups.setdefault((check.status, check.words, name), []).append(check)
        devices = {device.id: device for device in self.devices}
        for group in groups.values():
            check = group[0]
            if len(group) > 1:
                names = clean(device_list(devices[member.device] for member in group if member.device))
                check = replace(check, name=names, remedy=remedy_of_several(check.remedy, check.device), device="")
            yield check


def examine(
    snapshot: Snapshot,
    expected: Mapping[str, int],
    device_ids: Collection[str] | None = None,
    *,
    has_accelerators: bool = True,
) -> Checkup:
    """Check a cleaned snapshot, or only its devices in `device_ids`. `expected` maps vendors to device counts."""
    verdict = judge(snapshot)
    devices = tuple(device for device in snapshot.devices if device_ids is None or device.id in device_ids)
    checks = [_device_check(device, verdict[device.id]) for device in devices]
    if device_ids is None:
        checks += [*_count_checks(snapshot.devices, expected), *_source_checks(snapshot.sources)]
        if not snapshot.devices and not expected:
            checks.append(_NO_DEVICES_REPORTED if has_accelerators else _NO_ACCELERATORS)
    status = worst_status(check.status for check in checks)
    return Checkup(snapshot.hostname, snapshot.wall_time, status, tuple(checks), devices)


def worst_status(statuses: Iterable[Status]) -> Status:
    """Return the worst status, or OK if there are no statuses."""
    return min(statuses, key=_STATUSES_WORST_FIRST.index, default=Status.OK)


def device_name(device: MergedDevice) -> str:
    """Return the name of a device in lists and messages: vendor and `device` label."""
    return clean(f"{device.vendor} {device.device}")


def _device_check(device: MergedDevice, findings: tuple[Finding, ...]) -> Check:
    status = worst_status(map(_status_of, findings))
    shown_findings = (finding for finding in findings if status is Status.OK or _status_of(finding) is not Status.OK)
    headlines = ", ".join(finding.headline for finding in shown_findings)
    remedy = next((finding.remedy for finding in findings if _status_of(finding) is status), "")
    text = f"{headlines} ({clean(current_model(device))})" if current_model(device) else headlines
    return Check(device_name(device), status, text, remedy, device=device.id, rank=findings[0].rank)


def _status_of(finding: Finding) -> Status:
    if finding.severity is Severity.QUIET and finding.word == _UNKNOWN_WORD:
        return Status.UNKNOWN
    return _STATUS_BY_SEVERITY.get(finding.severity, Status.OK)


def _count_checks(devices: Iterable[MergedDevice], expected: Mapping[str, int]) -> Iterator[Check]:
    present_counts = Counter(device.vendor for device in devices if device.parent is None and device.up)
    for vendor, count in sorted(expected.items()):
        present = present_counts[vendor]
        status = Status.OK if present == count else Status.CRITICAL if present < count else Status.WARNING
        remedy = "" if present == count else "see `dmesg` and `telemetry doctor`, or correct `expect.devices`"
        yield Check(f"{vendor} devices", status, f"{present} of {count} present", remedy)


def _source_checks(sources: Iterable[SourceStatus]) -> Iterator[Check]:
    for source in sources:
        status = _STATUS_BY_STATE.get(source.state, Status.UNKNOWN if source.up is False else Status.OK)
        condition = source_condition(source)
        state_text = condition.word if source.up is not False or source.state != "ok" else "the readings have expired"
        detail = f": {clean(source.detail)}" if source.detail and status is not Status.OK else ""
        if status is not Status.OK or source.up:
            name = f"source {clean(source.source)}"
            yield Check(name, status, state_text + detail, condition.remedy, source=source.source)
