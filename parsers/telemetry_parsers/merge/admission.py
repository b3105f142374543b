"""Limits the size of reports before the merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TypeVar

from telemetry_parsers import bounds
from telemetry_parsers.combining import canonical_uuid
from telemetry_parsers.dataclass import dataclass, fields, replace
from telemetry_parsers.model import Device, Event, Identity, Problem, Process, Reading, Report
from telemetry_parsers.ownership import Claim, Owner, Task

TOO_MUCH = "too much"
_Pairs = tuple[tuple[str, str], ...]
_T = TypeVar("_T")
_ClaimOrTask = TypeVar("_ClaimOrTask", Claim, Task)
_get_owner_texts = attrgetter(*(item.name for item in fields(Owner)))


@dataclass(frozen=True, slots=True)
class AdmittedReport:
    """A report within the size limits, and the number of dropped devices."""

    report: Report
    dropped_devices: int = 0


def admit(report: Report, identities: Iterable[Identity]) -> AdmittedReport:
    """Trim the report to the size limits. Add a problem for each kind of data that was trimmed."""
    if _is_within_limits(report):
        return AdmittedReport(report)
    problems: list[str] = []
    limited = _limit_devices(report, identities, problems)
    shortened = _cut_texts(_limit_items(limited, problems), problems)
    return AdmittedReport(
        replace(shortened, problems=(*shortened.problems, *(Problem(TOO_MUCH, text) for text in problems))),
        dropped_devices=len(report.devices) - len(limited.devices),
    )


def _is_within_limits(report: Report) -> bool:
    labels = {reading.label for reading in report.readings}
    names = (*labels, *report.unknown_fields, *(process.name for process in report.processes), report.index_space)
    texts = (*(event.code for event in report.events), *(text for pair in report.facts for text in pair))
    return (
        len(report.devices) <= bounds.MAX_DEVICES
        and len(report.readings) <= bounds.MAX_READINGS
        and len(labels) <= bounds.MAX_LABEL_VALUES
        and len(report.events) <= bounds.MAX_EVENTS
        and len(report.processes) <= bounds.MAX_PROCESSES
        and len(report.claims) <= bounds.MAX_CLAIMS
        and len(report.tasks) <= bounds.MAX_PROCESSES
        and all(_is_claim_within_limits(claim) for claim in report.claims)
        and all(_is_claim_within_limits(task) for task in report.tasks)
        and len(report.problems) <= bounds.MAX_PROBLEMS
        and len(report.unknown_fields) <= bounds.MAX_UNKNOWN_FIELDS
        and len(report.facts) <= bounds.MAX_FACTS
        and max(map(len, (*names, *texts))) <= bounds.MAX_NAME_LENGTH
        and all(len(problem.where) + len(problem.text) <= bounds.MAX_TEXT_LENGTH for problem in report.problems)
        and all(map(_is_device_within_limits, report.devices))
    )


def _is_claim_within_limits(item: Claim | Task) -> bool:
    texts = (*item.keys, *(() if item.owner is None else _get_owner_texts(item.owner)))
    return max(map(len, texts), default=0) <= bounds.MAX_TEXT_LENGTH and len(item.keys) <= bounds.MAX_FACTS


def _is_device_within_limits(device: Device) -> bool:
    texts = (*_printed_names(device), *(text for pair in device.facts for text in pair))
    return len(device.facts) <= bounds.MAX_FACTS and (
        len("".join(texts)) <= bounds.MAX_NAME_LENGTH or max(map(len, texts)) <= bounds.MAX_NAME_LENGTH
    )


def _printed_names(device: Device) -> tuple[str, ...]:
    texts = (device.model, device.uuid, device.bus_id, device.partition, device.serial, device.driver)
    return tuple(text for text in texts if text)


def _limit_devices(report: Report, identities: Iterable[Identity], problems: list[str]) -> Report:
    """Drop devices beyond the limit. Partitions and rarely seen devices are dropped first."""
    devices = report.devices
    if len(devices) <= bounds.MAX_DEVICES:
        return report
    polls_by_key = {name: identity.polls for identity in identities for name in _identity_keys(identity)}
    poll_counts = [max((polls_by_key.get(name, 0) for name in _identity_keys(device)), default=0) for device in devices]
    order = sorted(
        range(len(devices)), key=lambda position: (devices[position].parent is not None, -poll_counts[position])
    )
    kept = set(order[: bounds.MAX_DEVICES])
    kept = {position for position in kept if devices[position].parent is None or devices[position].parent in kept}
    problems.append(f"of {len(devices)} reported devices, only the {len(kept)} seen most often are kept")
    return reduce_to_devices(report, {old: new for new, old in enumerate(sorted(kept))})


def _identity_keys(device: Device | Identity) -> list[tuple[str, str | None, str]]:
    """Return keys that identify a device: its UUID and address or, if both are unknown, its index."""
    names = [canonical_uuid(device.uuid), device.bus_id]
    names = [name for name in names if name] or [f"#{device.index}"]
    return [(device.vendor, device.partition, name) for name in names if name]


def reduce_to_devices(report: Report, new_positions: Mapping[int, int]) -> Report:
    """Return the report with only the devices in `new_positions`, which maps old positions to new ones."""

    def is_kept(item: Reading | Event | Process) -> bool:
        return item.device is None or item.device in new_positions

    def new_position(position: int | None) -> int | None:
        return None if position is None else new_positions[position]

    return replace(
        report,
        devices=tuple(
            device if device.parent is None else replace(device, parent=new_position(device.parent))
            for position, device in enumerate(report.devices)
            if position in new_positions
        ),
        readings=tuple(replace(item, device=new_position(item.device)) for item in report.readings if is_kept(item)),
        events=tuple(replace(item, device=new_position(item.device)) for item in report.events if is_kept(item)),
        processes=tuple(replace(item, device=new_positions[item.device]) for item in report.processes if is_kept(item)),
    )


def _limit_items(report: Report, problems: list[str]) -> Report:
    def limit_count(items: tuple[_T, ...], limit: int, plural: str) -> tuple[_T, ...]:
        if len(items) > limit:
            problems.append(f"only the first {limit} of {len(items)} reported {plural} are kept")
        return items[:limit]

    def drop_oversized(items: tuple[_ClaimOrTask, ...], plural: str) -> tuple[_ClaimOrTask, ...]:
        kept = tuple(item for item in items if _is_claim_within_limits(item))
        if len(kept) < len(items):
            problems.append(
                f"{len(items) - len(kept)} {plural} were dropped: over {bounds.MAX_FACTS} keys, or a text of over {bounds.MAX_TEXT_LENGTH} characters"
            )
        return kept

    return replace(
        report,
        devices=tuple(
            replace(device, facts=limit_count(device.facts, bounds.MAX_FACTS, "facts")) for device in report.devices
        ),
        readings=limit_count(_limit_labels(report.readings, problems), bounds.MAX_READINGS, "readings"),
        events=limit_count(report.events, bounds.MAX_EVENTS, "events"),
        processes=limit_count(report.processes, bounds.MAX_PROCESSES, "processes"),
        claims=limit_count(drop_oversized(report.claims, "claims"), bounds.MAX_CLAIMS, "claims"),
        tasks=limit_count(drop_oversized(report.tasks, "processes"), bounds.MAX_PROCESSES, "processes"),
        problems=limit_count(report.problems, bounds.MAX_PROBLEMS, "problems"),
        unknown_fields=limit_count(report.unknown_fields, bounds.MAX_UNKNOWN_FIELDS, "unknown fields"),
        facts=limit_count(report.facts, bounds.MAX_FACTS, "facts"),
    )


def _limit_labels(readings: tuple[Reading, ...], problems: list[str]) -> tuple[Reading, ...]:
    label_counts: Counter[tuple[int | None, str]] = Counter()
    kept = []
    for reading in readings:
        label_counts[reading.device, reading.metric] += 1
        if label_counts[reading.device, reading.metric] <= bounds.MAX_LABEL_VALUES:
            kept.append(reading)
    if len(kept) < len(readings):
        metric = label_counts.most_common(1)[0][0][1]
        problems.append(
            f"{len(readings) - len(kept)} readings were dropped, because metrics such as {metric} have over {bounds.MAX_LABEL_VALUES} label values"
        )
    return tuple(kept)


def _cut_texts(report: Report, problems: list[str]) -> Report:
    shortened = replace(
        report,
        devices=tuple(map(_cut_device_texts, report.devices)),
        readings=tuple(replace(item, label=cut_text(item.label)) for item in report.readings),
        events=tuple(replace(item, code=cut_text(item.code)) for item in report.events),
        processes=tuple(replace(item, name=cut_text(item.name)) for item in report.processes),
        problems=tuple(map(cut_problem, report.problems)),
        unknown_fields=tuple(map(cut_text, report.unknown_fields)),
        facts=_cut_facts(report.facts),
        index_space=cut_text(report.index_space),
    )
    if shortened != report:
        problems.append(f"texts over {bounds.MAX_NAME_LENGTH} characters were cut")
    return shortened


def _cut_device_texts(device: Device) -> Device:
    return replace(
        device,
        model=device.model and cut_text(device.model),
        uuid=device.uuid and cut_text(device.uuid),
        bus_id=device.bus_id and cut_text(device.bus_id),
        partition=device.partition and cut_text(device.partition),
        serial=device.serial and cut_text(device.serial),
        driver=device.driver and cut_text(device.driver),
        facts=_cut_facts(device.facts),
    )


def _cut_facts(pairs: Iterable[tuple[str, str]]) -> _Pairs:
    return tuple((cut_text(key), cut_text(text)) for key, text in pairs)


def cut_text(text: str, max_length: int = bounds.MAX_NAME_LENGTH) -> str:
    """Return the text, cut to `max_length` characters."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def cut_problem(problem: Problem) -> Problem:
    """Return the problem with its texts cut to the maximum lengths."""
    return Problem(cut_text(problem.where), cut_text(problem.text, bounds.MAX_TEXT_LENGTH - bounds.MAX_NAME_LENGTH))
